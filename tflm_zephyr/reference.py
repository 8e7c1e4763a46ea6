# SPDX-License-Identifier: Apache-2.0
"""Golden inputs and outputs of a model: what a device must give, byte for byte, and where that comes from."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tflm_zephyr.errors import ModelError, ToolError
from tflm_zephyr.host import NAMES, PACKAGES, HostRun, available, run_host, run_many
from tflm_zephyr.model import Model, Tensor
from tflm_zephyr.model_write import normalised_for_litert

__all__ = ["Attempt", "Golden", "HostRun", "attempt", "golden", "run_host", "run_many", "seeded_inputs"]

SEEDS = 16
_FLOATS = {"float16": "e", "float32": "f", "float64": "d"}
_WHOLE_RANGE = {"int8": 1, "uint8": 1, "int16": 2, "uint16": 2}
_SMALL = {"int32": "i", "int64": "q", "uint32": "I", "uint64": "Q"}
# Operators that take an integer input as a position in another tensor, which must then lie inside it.
_INDEXING = frozenset({"GATHER", "GATHER_ND", "EMBEDDING_LOOKUP", "SLICE", "STRIDED_SLICE"})


@dataclass(frozen=True)
class Golden:
    """One run from the initial state: raw bytes per model input and output, in the tensors' own types.

    `source` names the engine and its version; `notes` say what was done to the model in memory to get here.
    """

    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]
    source: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Attempt:
    """A golden run, or None and the reasons why there is none."""

    golden: Golden | None
    notes: tuple[str, ...]


def seeded_inputs(model: Model, seed: int = 0) -> tuple[bytes, ...]:
    """Random bytes for each input of the model's main subgraph; the same for the same seed.

    Integers of 8 and 16 bits take their full range, floats lie in [-1, 1], booleans are 0 or 1. Wider
    integers are small and not 0 (they may be divisors), or, where an operator uses them as positions,
    inside that operator's smallest dimension. Raises ModelError for a type that has no plain bytes.
    """
    rng = random.Random(seed)
    return tuple(_random_bytes(model, model.main.tensors[index], rng) for index in model.main.inputs)


def _random_bytes(model: Model, tensor: Tensor, rng: random.Random) -> bytes:
    kind, count = tensor.type.value, prod(tensor.shape)
    if kind in _WHOLE_RANGE:
        return rng.randbytes(count * _WHOLE_RANGE[kind])
    if kind == "bool":
        return bytes(rng.getrandbits(1) for _ in range(count))
    if kind == "int4":
        return struct.pack(f"{count}b", *(rng.randint(-8, 7) for _ in range(count)))
    if kind in _FLOATS:
        return struct.pack(f"<{count}{_FLOATS[kind]}", *(rng.uniform(-1.0, 1.0) for _ in range(count)))
    if kind in _SMALL:
        limit = _position_limit(model, tensor)
        low, high = (-127, 127) if limit is None else (0, limit - 1)
        if kind.startswith("u"):
            low = max(low, 0)
        values = (rng.randint(low, high) for _ in range(count))
        whole = values if limit is not None else (value or 1 for value in values)
        return struct.pack(f"<{count}{_SMALL[kind]}", *whole)
    raise ModelError(
        f"input tensor {tensor.index} ({tensor.name}) is of type {kind}, for which no input can be made",
        hint="Give the input's bytes",
    )


def _position_limit(model: Model, tensor: Tensor) -> int | None:
    """The number of valid positions when an operator indexes by `tensor`, None when none does."""
    sizes: list[int] = []
    for operator in model.main.operators:
        if operator.name in _INDEXING and tensor.index in operator.inputs:
            for index in operator.inputs:
                if index >= 0 and index != tensor.index:
                    sizes.extend(model.main.tensors[index].shape)
    return max(min(sizes), 1) if sizes else None


def golden(model: Model, inputs: Sequence[bytes] | None = None) -> Golden | None:
    """`attempt` without its reasons: None when no installed engine runs the model."""
    return attempt(model, inputs).golden


def attempt(model: Model, inputs: Sequence[bytes] | None = None) -> Attempt:
    """Run `inputs` (default: seeded ones) through LiteRT's reference kernels and through TFLM on the host.

    A device runs TFLM, and the two engines do not round alike everywhere: FULLY_CONNECTED on int8 was seen to
    differ by one in 0.3 to 1.7 % of its outputs (five real models, LiteRT 2.3.0), as LiteRT's reference kernel
    rounds once and TFLM's twice. So, where both are installed, seeded inputs are those of the first of
    SEEDS seeds on which both give the same bytes. Where they never do, or the inputs are given, TFLM's
    bytes are the golden ones and a note says how far LiteRT's are off. An engine that is not installed,
    refuses the model (LiteRT: custom operators) or crashes is named in the notes, as is what was changed in
    the copy that LiteRT got. Raises ModelError only when the inputs do not suit the model.
    """
    given = seeded_inputs(model) if inputs is None else tuple(inputs)
    _check_sizes(model, given)
    candidates = [given]
    litert, tflm = _both(model, candidates)
    if litert.run and tflm.run and litert.run.runs != tflm.run.runs and inputs is None:
        candidates = [seeded_inputs(model, seed) for seed in range(SEEDS)]
        litert, tflm = _both(model, candidates)
    return _choose(candidates, litert, tflm)


@dataclass(frozen=True)
class _Tried:
    """One engine's runs, or None; and what there is to say about them."""

    run: HostRun | None
    notes: tuple[str, ...]


def _both(model: Model, candidates: Sequence[tuple[bytes, ...]]) -> tuple[_Tried, _Tried]:
    """LiteRT's and TFLM's runs of all candidates, the two children side by side."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        litert = pool.submit(_try, "litert", model, candidates)
        tflm = pool.submit(_try, "tflm", model, candidates)
        return litert.result(), tflm.result()


def _try(engine: str, model: Model, candidates: Sequence[tuple[bytes, ...]]) -> _Tried:
    if not available(engine):
        return _Tried(None, (f"{NAMES[engine]} ({PACKAGES[engine]}) is not installed",))
    try:
        data, changes = normalised_for_litert(model.data) if engine == "litert" else (model.data, ())
        return _Tried(run_many(data, candidates, engine=engine), changes)
    except ToolError as error:
        return _Tried(None, (str(error),))


def _choose(candidates: Sequence[tuple[bytes, ...]], litert: _Tried, tflm: _Tried) -> Attempt:
    notes = litert.notes + tflm.notes
    if litert.run is None and tflm.run is None:
        return Attempt(None, notes)
    if litert.run is None or tflm.run is None:
        only = litert.run or tflm.run
        assert only is not None
        return Attempt(Golden(candidates[0], only.outputs, _source(only), notes), notes)
    for inputs, one, other in zip(candidates, litert.run.runs, tflm.run.runs, strict=True):
        if one == other:
            return Attempt(Golden(inputs, one, _source(litert.run), notes), notes)
    counts = [_differing(one, other) for one, other in zip(litert.run.outputs, tflm.run.outputs, strict=True)]
    notes += (
        f"LiteRT {litert.run.version}'s reference kernels differ from TFLM's in {sum(counts)} of "
        f"{sum(map(len, tflm.run.outputs))} output bytes; a device runs TFLM, so TFLM's are taken",
    )
    return Attempt(Golden(candidates[0], tflm.run.outputs, _source(tflm.run), notes), notes)


def _source(run: HostRun) -> str:
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
