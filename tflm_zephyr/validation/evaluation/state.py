# SPDX-License-Identifier: Apache-2.0
"""An evaluation's results so far, in a file, so that it can continue after an interruption.

JSON: {version, key, count, results: {"<sample>": ["<first output in hex>", ticks]}}. The key is a digest of
the model, the app's build, its target and all inputs: a file with another key is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from tflm_zephyr.device.session import Hello
from tflm_zephyr.errors import ToolError
from tflm_zephyr.files import write_atomically
from tflm_zephyr.plain_values import Limits, load_json, plain_values, read_values

_VERSION = 1


@dataclass(frozen=True)
class SampleResult:
    """The first output of one sample, in its tensor's own type, and the run's ticks."""

    output: bytes
    ticks: int


@dataclass(frozen=True)
class _StateFile:
    """The file's keys; `results` has each sample's output and ticks by its index."""

    version: int
    key: str
    count: int
    results: Mapping[int, tuple[bytes, Annotated[int, Limits(0, (1 << 64) - 1)]]]


def key_of(hello: Hello, inputs: Sequence[Sequence[bytes]], build: str = "") -> str:
    """A digest of all that results depend on: the device's hello without the link's name, every input, `build`.

    `build` is a digest of the files that run (device.transport.digest_of); two builds of an app have the same hello.
    """
    digest = hashlib.sha256()
    for text in (build, repr(replace(hello, link=""))):
        digest.update(f"{len(text)}:{text}".encode())
    for sample in inputs:
        for data in sample:
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
    return digest.hexdigest()


def load_state(path: Path, key: str, count: int, output_bytes: int) -> dict[int, SampleResult]:
    """The results in `path`, none when there is no such file. Raises ToolError when the key or the sizes differ."""
    try:
        kept = read_values(_StateFile, load_json(path))
    except FileNotFoundError:
        return {}
    except OSError as err:
        raise ToolError(f"cannot be read ({err.strerror or err})", where=str(path), hint="Name another file") from None
    except ValueError as err:
        raise ToolError(f"holds no results to go on from ({err})", where=str(path), hint="Name another file") from None
    if (kept.version, kept.key, kept.count) != (_VERSION, key, count):
        raise ToolError(
            "holds results of another model, build, board or data set",
            where=str(path),
            hint="Name another file, or remove it",
        )
    found = {index: SampleResult(*pair) for index, pair in kept.results.items()}
    if any(not 0 <= index < count or len(result.output) != output_bytes for index, result in found.items()):
        raise ToolError("holds results that do not fit the model", where=str(path), hint="Remove it")
    return found


def save_state(path: Path, key: str, count: int, results: Mapping[int, SampleResult]) -> None:
    """Write all `results` to `path` atomically; the bytes do not depend on the results' order."""
    pairs = {index: (results[index].output, results[index].ticks) for index in sorted(results)}
    raw = plain_values(_StateFile(_VERSION, key, count, pairs))
    try:
        write_atomically(path, f"{json.dumps(raw)}\n".encode())
    except OSError as err:
        raise ToolError(f"cannot be written ({err.strerror or err})", where=str(path)) from None
