# SPDX-License-Identifier: Apache-2.0
"""Golden inputs and outputs of a model: the bytes that a device must give, and the engine that gave them."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import starmap
from math import prod

from tflm_zephyr.errors import ModelError, ToolError
from tflm_zephyr.host.run import NAMES, PACKAGES, EngineCrashedError, HostRun, available, run_many
from tflm_zephyr.kernels import reads_positions
from tflm_zephyr.model import Model, Tensor, TensorType, normalised_for_litert

SPARE_SEEDS = 15
OnRun = Callable[[str, int, int], object]
"""Gets an engine's name, how many of its runs are done, and of how many."""


@dataclass(frozen=True)
class Golden:
    """One run from the initial state: raw bytes per model input and output, in the tensors' own types."""

    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]


@dataclass(frozen=True)
class Attempt:
    """Golden runs, none when no engine runs the model, with notes.

    `source` names the engine that gave the bytes and its version, or both engines with their numbers of runs.
    `engines` are those that ran the model, as `installed` names them. `notes` have reasons, and changes
    to the model in memory; `refusal` is TFLM's message when it is installed and did not run the model.
    `hopeless`: TFLM crashed, and LiteRT, which is installed, did not run the model either.
    """

    golden: tuple[Golden, ...]
    source: str
    engines: Mapping[str, str]
    notes: tuple[str, ...]
    refusal: str = ""
    hopeless: bool = False


def seeded_inputs(model: Model, seed: int = 0) -> tuple[bytes, ...]:
    """Random bytes for each input of the model's main subgraph; the same for the same seed.

    Integers of 8 and 16 bits take their full range, floats lie in [-1, 1], booleans are 0 or 1. Wider
    integers are small and not 0 (they may be divisors), or, where an operator uses them as positions,
    inside that operator's smallest dimension. Raises ModelError for a type that has no plain bytes.
    """
    rng = random.Random(seed)
    return tuple(_random_bytes(model, model.main.tensors[index], rng) for index in model.main.inputs)


def _random_bytes(model: Model, tensor: Tensor, rng: random.Random) -> bytes:
    kind, count = tensor.type, prod(tensor.shape)
    code = kind.struct_code or " "
    if kind is TensorType.BOOL:
        return bytes(rng.getrandbits(1) for _ in range(count))
    if kind is TensorType.INT4:
        return struct.pack(f"{count}b", *(rng.randint(-8, 7) for _ in range(count)))
    if code in "bBhH":
        return rng.randbytes(count * kind.size_bytes)
    if code in "efd":
        return struct.pack(f"<{count}{code}", *(rng.uniform(-1.0, 1.0) for _ in range(count)))
    if code in "iIqQ":
        limit = _position_limit(model, tensor)
        low, high = (-127, 127) if limit is None else (0, limit - 1)
        if code.isupper():
            low = max(low, 0)
        values = (rng.randint(low, high) for _ in range(count))
        whole = values if limit is not None else (value or 1 for value in values)
        return struct.pack(f"<{count}{code}", *whole)
    raise ModelError(
        f"input tensor {tensor.index} ({tensor.name}) is of type {kind.value}, for which no input can be made",
        hint="Give the input's bytes",
    )


def _position_limit(model: Model, tensor: Tensor) -> int | None:
    """The number of valid positions when an operator indexes by `tensor`, None when none does."""
    sizes: list[int] = []
    for operator in model.main.operators:
        if reads_positions(operator.key) and tensor.index in operator.inputs:
            for index in operator.inputs:
                if index >= 0 and index != tensor.index:
                    sizes.extend(model.main.tensors[index].shape)
    return max(min(sizes), 1) if sizes else None


def installed() -> dict[str, str]:
    """The versions of the engines' packages that are installed, by the package's name."""
    return {PACKAGES[engine]: _version(PACKAGES[engine]) for engine in sorted(PACKAGES) if available(engine)}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def attempt(
    model: Model, inputs: Sequence[Sequence[bytes]] | None = None, runs: int = 1, on_run: OnRun | None = None
) -> Attempt:
    """Run `inputs` (default: `runs` seeded ones) through LiteRT's reference kernels and through TFLM on the host.

    A device runs TFLM, and the two engines do not always round alike: int8 outputs of FULLY_CONNECTED sometimes differ
    by one, as LiteRT's reference kernel (2.3.0) rounds once and TFLM's twice. So, where both are installed, the seeded
    inputs are those of the first seeds on which both give the same bytes; up to SPARE_SEEDS more are tried. If these
    are too few, and for given inputs, the golden bytes of a run on which the engines differ are TFLM's, and a note
    gives LiteRT's deviation. `on_run` is called now and then, by threads. The notes name an engine that is not
    installed, refuses the model (LiteRT: custom operators) or crashes, and the changes in LiteRT's copy of the
    model. Raises ModelError only when the inputs do not fit the model.
    """
    if inputs is not None:
        candidates = [tuple(given) for given in inputs]
        runs = len(candidates)
    else:
        candidates = [seeded_inputs(model, seed) for seed in range(runs)]
    for given in candidates:
        _check_sizes(model, given)
    litert, tflm = _both(model, candidates, on_run)
    if inputs is None and litert.run and tflm.run and litert.run.runs != tflm.run.runs:
        more = [*candidates, *(seeded_inputs(model, seed) for seed in range(runs, runs + SPARE_SEEDS))]
        tried = _both(model, more, on_run)
        if tried[0].run and tried[1].run:  # an engine may fail on just one of the spare inputs
            candidates, (litert, tflm) = more, tried
    return _choose(candidates, runs, litert, tflm)


@dataclass(frozen=True)
class _Tried:
    """One engine's runs, or None; notes on them; the reason why an installed engine has none, a crash or a refusal."""

    run: HostRun | None
    notes: tuple[str, ...]
    error: str = ""
    crashed: bool = False


def _both(model: Model, candidates: Sequence[tuple[bytes, ...]], on_run: OnRun | None) -> tuple[_Tried, _Tried]:
    """LiteRT's and TFLM's runs of all candidates, the two children side by side."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        litert = pool.submit(_try, "litert", model, candidates, on_run)
        tflm = pool.submit(_try, "tflm", model, candidates, on_run)
        return litert.result(), tflm.result()


def _try(engine: str, model: Model, candidates: Sequence[tuple[bytes, ...]], on_run: OnRun | None) -> _Tried:
    def on_count(done: int) -> None:
        if on_run is not None:
            on_run(engine, done, len(candidates))

    if not available(engine):
        return _Tried(None, (f"{NAMES[engine]} ({PACKAGES[engine]}) is not installed",))
    try:
        data, changes = normalised_for_litert(model.data) if engine == "litert" else (model.data, ())
        return _Tried(run_many(data, candidates, engine=engine, on_run=on_count), changes)
    except ToolError as error:
        return _Tried(None, (), str(error), isinstance(error, EngineCrashedError))


def _choose(candidates: Sequence[tuple[bytes, ...]], runs: int, litert: _Tried, tflm: _Tried) -> Attempt:
    notes = litert.notes + ((litert.error,) if litert.error else ()) + tflm.notes
    done = [tried.run for tried in (litert, tflm) if tried.run is not None]
    engines = {PACKAGES[run.engine]: _version(PACKAGES[run.engine]) for run in done}
    if len(done) < 2:
        found = [Golden(*pair) for run in done for pair in zip(candidates[:runs], run.runs[:runs], strict=True)]
        hopeless = tflm.crashed and bool(litert.error)
        return Attempt(tuple(found), _source(done, (runs,) * len(done)), engines, notes, tflm.error, hopeless)
    one, other = done
    agree = [k for k in range(len(candidates)) if one.runs[k] == other.runs[k]][:runs]
    apart = [k for k in range(len(candidates)) if one.runs[k] != other.runs[k]][: runs - len(agree)]
    if apart:
        pairs = [pair for k in apart for pair in zip(one.runs[k], other.runs[k], strict=True)]
        notes += (
            f"LiteRT {one.version}'s reference kernels differ from TFLM's in {sum(starmap(_differing, pairs))} of "
            f"{sum(len(got) for _, got in pairs)} output bytes{_share(len(apart), runs)}; a device runs TFLM, so "
            "TFLM's are taken",
        )
    found = [Golden(candidates[k], other.runs[k]) for k in sorted(agree + apart)]
    return Attempt(tuple(found), _source(done, (len(agree), len(apart))), engines, notes)


def _source(done: Sequence[HostRun], counts: Sequence[int]) -> str:
    """The bytes' origin in words; `counts` has the number of runs by engine."""
    total = sum(counts)
    return "; ".join(
        _name(run) + (f" ({count} of {total} runs)" if count < total else "")
        for run, count in zip(done, counts, strict=True)
        if count
    )


def _share(count: int, total: int) -> str:
    return f" of {count} of {total} runs" if count < total else ""


def _name(run: HostRun) -> str:
    if run.engine == "litert":
        return f"LiteRT {run.version}, reference kernels"
    return f"TFLM on the host, tflite-micro {run.version}, reference kernels"


def _differing(one: bytes, other: bytes) -> int:
    if len(one) != len(other):
        return max(len(one), len(other))
    return sum(a != b for a, b in zip(one, other, strict=True))


def _check_sizes(model: Model, inputs: Sequence[bytes]) -> None:
    tensors = [model.main.tensors[index] for index in model.main.inputs]
    if len(inputs) != len(tensors):
        raise ModelError(f"the model has {len(tensors)} inputs, {len(inputs)} were given")
    for position, (tensor, data) in enumerate(zip(tensors, inputs, strict=True)):
        if len(data) != tensor.size_bytes:
            raise ModelError(
                f"input {position} ({tensor.name}) takes {tensor.size_bytes} bytes, {len(data)} were given"
            )
