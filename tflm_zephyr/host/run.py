# SPDX-License-Identifier: Apache-2.0
"""Run a model on this machine, in a child process: with TFLM itself, or with LiteRT's reference kernels."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tflm_zephyr import process
from tflm_zephyr.errors import DeviceError, ModelError, PlanError, ToolError
from tflm_zephyr.files import temporary_folder
from tflm_zephyr.host import child

NAMES = {"tflm": "TFLM on the host", "litert": "LiteRT"}
PACKAGES = {"tflm": "tflite-micro", "litert": "ai-edge-litert"}
_TOTAL = re.compile(r"Arena allocation (total|head|tail) (\d+) bytes")
_SECTION = re.compile(r"'(.+)' used (\d+) bytes with alignment overhead \(requested (\d+) bytes for (\d+) ")
_TOO_SMALL = re.compile(r"Failed to (resize buffer|allocate)|missing: \d+|arena is too small", re.I)
_NOISE = re.compile(r"index \d+ out of range \(length is \d+\)|^INFO: |^WARNING: |^Traceback |^  |^tflm-zephyr: runs ")
_MESSAGE_LINES = 6


class EngineCrashedError(DeviceError):
    """The engine's process was ended by a signal: SIGSEGV, SIGABRT."""


@dataclass(frozen=True)
class TailSection:
    """One row of TFLM's recorded allocations (tail memory, bytes)."""

    name: str
    used_bytes: int
    requested_bytes: int
    count: int


def recorded_sections(text: str) -> tuple[TailSection, ...]:
    """The sections that RecordingMicroAllocator::PrintAllocations() printed, in its order."""
    return tuple(TailSection(n, int(u), int(r), int(c)) for n, u, r, c in _SECTION.findall(text))


@dataclass(frozen=True)
class HostRun:
    """The outcome of one child process. `runs` holds each run's outputs, raw bytes in the tensors' own types.

    `tensors` holds, run by run, the other tensors that were asked for, as each run left them.
    The memory figures are TFLM's own record on this machine: the head is that of a device with the reference
    kernels, the tail is larger than on a 32-bit device, where structs are smaller. All 0 for LiteRT.
    """

    engine: str
    version: str
    runs: tuple[tuple[bytes, ...], ...]
    head_bytes: int
    tail_bytes: int
    used_bytes: int
    sections: tuple[TailSection, ...]
    arena_bytes: int
    tensors: tuple[tuple[bytes, ...], ...] = ()

    @property
    def outputs(self) -> tuple[bytes, ...]:
        """The first run's outputs."""
        return self.runs[0]


def available(engine: str) -> bool:
    """Whether the package of `engine` ("tflm" or "litert") is installed."""
    try:
        return importlib.util.find_spec(PACKAGES[engine].replace("-", "_")) is not None
    except (ImportError, ValueError):
        return False


@dataclass(frozen=True)
class HostLimits:
    """Bytes of TFLM's whole arena, by default ample, and seconds for all runs of a child process."""

    arena_bytes: int = 256 << 20
    timeout_s: float = 600.0


def _understood(data: bytes) -> tuple[bytes, bool]:
    """The model for an engine, and whether its operators share a state besides variable tensors.

    It has no plan that is unsafe here, as when outputs overlap inputs for other kernels only.
    """
    from tflm_zephyr.arena import given_plan
    from tflm_zephyr.kernels import keeps_state
    from tflm_zephyr.kernels import libraries as kernels
    from tflm_zephyr.model import parse_model, without_offline_plan

    try:
        model = parse_model(data)
    except ModelError:  # the engine reports it in its own words
        return data, False
    state = any(keeps_state(operator.name) for subgraph in model.subgraphs for operator in subgraph.operators)
    try:
        given_plan(model, kernels.host())
    except PlanError:
        return without_offline_plan(model), state
    except ModelError:
        pass
    return data, state


def run_many(
    model_bytes: bytes,
    runs: Sequence[Sequence[bytes]],
    *,
    engine: str = "tflm",
    reset: bool | Sequence[bool] = True,
    tensors: Sequence[int] = (),
    limits: HostLimits = HostLimits(),
    on_run: Callable[[int], object] | None = None,
) -> HostRun:
    """Run the model once for each of `runs` in one child; each holds one byte string per model input.

    An input's bytes are in C order, little endian, in the tensor's own type. With `reset` each run starts from the
    model's initial state, without it variable tensors carry over; a sequence says so for each run. With `tensors`,
    indices into the main subgraph, each keeps memory of its own to the run's end and is given back too; there are no
    memory figures then, and an offline plan must be taken out of the model first, as TFLM would follow it. A plan in
    the model that would corrupt memory with the kernels of this machine is left out. `on_run` gets the number of runs
    that are done, now and then. Raises ModelError when the engine refuses the model, DeviceError when the arena is too
    small, the engine crashes (EngineCrashedError) or takes longer than its limit; TFLM's own messages are in the text.
    """
    if not runs or any(len(run) != len(runs[0]) for run in runs):
        raise ValueError("every run takes the same number of inputs, and there is at least one run")
    if not available(engine):
        raise DeviceError(
            f"the package {PACKAGES[engine]} is not installed",
            where=NAMES[engine],
            hint="Install the toolkit with its host extra: pip install '.[host]' in its checkout",
        )
    arena = limits.arena_bytes
    if arena <= 0:
        raise DeviceError(f"cannot make an arena of {arena} bytes", where=NAMES[engine])
    safe, keeps_state = _understood(model_bytes)
    request = {
        "engine": engine,
        "runs": len(runs),
        "inputs": len(runs[0]),
        "arena_bytes": arena,
        "reset": [reset] * len(runs) if isinstance(reset, bool) else list(reset),
        "tensors": list(tensors),
        "keeps_state": keeps_state,
    }
    with temporary_folder() as folder:
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        (folder / "model.tflite").write_bytes(safe)
        (folder / "inputs.bin").write_bytes(b"".join(b"".join(run) for run in runs))
        done = _child(folder, engine, limits.timeout_s, on_run)
        result = _result(folder, done, engine, arena)
        return _gather(folder, result, done.output, engine, len(runs), arena)


def _child(folder: Path, engine: str, timeout_s: float, on_run: Callable[[int], object] | None) -> process.Finished:
    def on_line(line: str) -> None:
        count = line.removeprefix(child.MARK_RUNS)
        if on_run is not None and count != line and count.isdecimal():
            on_run(int(count))

    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        return process.run(
            [sys.executable, child.__file__, str(folder)],
            cwd=folder,
            env=env,
            timeout_s=timeout_s,
            on_line=on_line,
        )
    except TimeoutError:
        raise DeviceError(
            f"the run took longer than {timeout_s:g} s and was ended",
            where=NAMES[engine],
            hint="Give it more time, or fewer inputs",
        ) from None


def _result(folder: Path, done: process.Finished, engine: str, arena: int) -> dict[str, Any]:
    said = _message(done.output.split(child.MARK_MEMORY)[0])
    path = folder / "result.json"
    if done.returncode == 0 and path.is_file():
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if "error" not in result:
            return result
        raise _refusal(engine, result["stage"], result["error"], said, arena)
    if done.returncode >= 0:
        raise _refusal(engine, f"ended with exit code {done.returncode}", "", said, arena)
    error = _refusal(engine, f"crashed ({signal.Signals(-done.returncode).name})", "", said, arena)
    raise EngineCrashedError(error.what, where=error.where, hint=error.hint)


def _refusal(engine: str, stage: str, error: str, said: str, arena: int) -> ToolError:
    where = NAMES[engine]
    if _TOO_SMALL.search(said):
        return DeviceError(f"an arena of {arena} bytes is too small: {said}", where=where, hint="Give more")
    what = {"load": "refuses the model", "invoke": "failed while running the model"}.get(stage, stage)
    text = "; ".join(part for part in (said, error.rstrip(".;!")) if part)
    kind = ModelError if stage in ("load", "invoke") else DeviceError
    return kind(f"{what}: {text}" if text else what, where=where)


def _message(output: str) -> str:
    """The engine's own lines, the last few, as one."""
    lines = [" ".join(line.split()) for line in output.splitlines() if line.strip() and not _NOISE.search(line)]
    return "; ".join(line.rstrip(".;!") for line in lines[-_MESSAGE_LINES:])


def _gather(folder: Path, result: dict[str, Any], output: str, engine: str, runs: int, arena: int) -> HostRun:
    raw = (folder / "outputs.bin").read_bytes()
    sizes, kept = result["output_sizes"], result["tensor_sizes"]
    if len(raw) != runs * (sum(sizes) + sum(kept)):
        raise DeviceError("the outputs' sizes changed between runs", where=NAMES[engine])
    gathered, tensors, at = [], [], 0
    for _ in range(runs):
        chunks = []
        for size in (*sizes, *kept):
            chunks.append(raw[at : at + size])
            at += size
        gathered.append(tuple(chunks[: len(sizes)]))
        tensors.append(tuple(chunks[len(sizes) :]))
    record = output.partition(child.MARK_MEMORY)[2]
    totals = {name: int(size) for name, size in _TOTAL.findall(record)}
    if engine == "tflm" and len(totals) != 3 and not kept:
        raise DeviceError("no allocation record came from TFLM", where=NAMES[engine])
    return HostRun(
        engine=engine,
        version=result["version"],
        runs=tuple(gathered),
        head_bytes=totals.get("head", 0),
        tail_bytes=totals.get("tail", 0),
        used_bytes=totals.get("total", 0),
        sections=recorded_sections(record),
        arena_bytes=arena,
        tensors=tuple(tensors),
    )
