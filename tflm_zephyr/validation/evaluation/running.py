# SPDX-License-Identifier: Apache-2.0
"""Runs a whole data set through a pool of sessions and keeps the results in a file."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tflm_zephyr.device.session import Hello
from tflm_zephyr.errors import ToolError
from tflm_zephyr.validation.evaluation import state
from tflm_zephyr.validation.evaluation.pool import Pool, SampleDone
from tflm_zephyr.validation.evaluation.state import SampleResult

_SAVE_EVERY_S = 2.0
_PERCENTILE = 0.99


@dataclass(frozen=True)
class TickStatistics:
    """Ticks of all runs: their mean, and the 99th percentile (nearest rank)."""

    mean: float
    p99: int
    largest: int


def tick_statistics(ticks: Sequence[int]) -> TickStatistics:
    """The statistics of at least one run."""
    ordered = sorted(ticks)
    return TickStatistics(sum(ordered) / len(ordered), ordered[math.ceil(_PERCENTILE * len(ordered)) - 1], ordered[-1])


def _nothing(*_: object) -> None:
    pass


@dataclass(frozen=True)
class RunEvents:
    """Calls during a run over a data set.

    `start` gets the number of samples that are not run again, `lost` the error of a session that ended while others
    continue, `interrupt` a text on how to continue after Ctrl-C; `sample` follows each sample.
    """

    start: Callable[[int], object] = _nothing
    sample: Callable[[], object] = _nothing
    lost: Callable[[ToolError], object] = _nothing
    interrupt: Callable[[str], object] = _nothing


def run_all(
    pool: Pool,
    hello: Hello,
    inputs: Sequence[Sequence[bytes]],
    kept: Path | None,
    *,
    build: str = "",
    events: RunEvents | None = None,
) -> tuple[SampleResult, ...]:
    """The results of all `inputs`, in their order. Samples whose results the file `kept` has are not run again.

    `build` is a digest of the files that run, as in key_of. `kept` is written every few seconds and at the end, also
    after an error. Raises ToolError.
    """
    events = events or RunEvents()
    key, count, size = state.key_of(hello, inputs, build), len(inputs), hello.outputs[0].bytes
    results = state.load_state(kept, key, count, size) if kept is not None else {}
    events.start(len(results))
    left = [(index, given) for index, given in enumerate(inputs) if index not in results]
    saved = time.monotonic()
    try:
        for event in pool.run(left):
            if isinstance(event, SampleDone):
                results[event.index] = event.result
                events.sample()
            else:
                events.lost(event.error)
            if kept is not None and time.monotonic() - saved > _SAVE_EVERY_S:
                state.save_state(kept, key, count, results)
                saved = time.monotonic()
    except ToolError as error:
        hint = _so_far(len(results), count, kept)
        raise type(error)(
            error.what, where=error.where, hint=f"{error.hint}. {hint}" if error.hint else hint
        ) from error
    except KeyboardInterrupt:
        events.interrupt(_so_far(len(results), count, kept))
        raise
    finally:
        if kept is not None and results:
            state.save_state(kept, key, count, results)
    return tuple(results[index] for index in range(count))


def _so_far(done: int, count: int, kept: Path | None) -> str:
    where = f"{done} of {count} samples are done"
    if kept is None:
        return f"{where}; with --resume FILE they are kept for the next time"
    return f"{where}: run it again with --resume {kept} to go on"
