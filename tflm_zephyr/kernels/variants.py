# SPDX-License-Identifier: Apache-2.0
"""Which tensor types CMSIS-NN computes in TFLM's kernels, and which registration serves just those.

TFLM's kernels for CMSIS-NN take several tensor types and hand the rest to the reference code; for some types they
have a registration of their own (Register_CONV_2D_INT8), whose Eval leads to that type's functions alone, so that the
linker drops the others. Init and Prepare are the same, and so is what they ask of the arena. Read in Eval, the typed
Evals and Prepare of tensorflow/lite/micro/kernels/cmsis_nn/*.cc at revision 8d404de7:

- CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED: int8 with int8 or int4 weights (int4 has its own registration, as its
  Eval unpacks them), per channel or not, and int16 with int8 weights. Float goes to the reference code.
- ADD (by its output), MUL (by its first input): int8 and int16 of equal shapes; shapes that broadcast go to the
  reference code, within the typed Eval too. Float and int32 go there as well.
- AVERAGE_POOL_2D, MAX_POOL_2D: int8, int16. SOFTMAX: int8, int16, int8 to int16. BATCH_MATMUL: int8, int16.
- MAXIMUM, MINIMUM: int8, of any shapes. TRANSPOSE_CONV: int8, while its int16 goes to the reference code.
- SVDF: int8 activations with either time weights; one Eval for both.
- UNIDIRECTIONAL_SEQUENCE_LSTM: int8 and int16 with int8 weights. Its typed Evals assert int16 weights, which its other
  Eval refuses: they serve where asserts are compiled out, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tflm_zephyr.model import Model, Operator, Subgraph

_SHAPES_MUST_MATCH = frozenset({"ADD", "MUL"})
_ASSERTS_WRONGLY = frozenset({"UNIDIRECTIONAL_SEQUENCE_LSTM"})


@dataclass(frozen=True)
class OperatorUse:
    """One operator of a model."""

    model: Model
    subgraph: Subgraph
    operator: Operator

    def type_of(self, slot: str) -> str:
        """The type in slot "i0" (an input) or "o0" (an output); "" when there is no such tensor."""
        indices = self.operator.inputs if slot[0] == "i" else self.operator.outputs
        place = int(slot[1:])
        if place >= len(indices) or indices[place] < 0:
            return ""
        return self.subgraph.tensors[indices[place]].type.value

    @property
    def types(self) -> str:
        """The types of its inputs that are no constants and of its outputs, for a message."""
        taken = [i for i in self.operator.inputs if i >= 0 and not self.subgraph.tensors[i].is_constant]
        given = [i for i in self.operator.outputs if i >= 0]
        sides = [
            " and ".join(dict.fromkeys(self.subgraph.tensors[i].type.value for i in side)) for side in (taken, given)
        ]
        return " to ".join(dict.fromkeys(filter(None, sides)))


def uses_of(model: Model, *, customs: bool = False) -> dict[str, list[OperatorUse]]:
    """Every operator of every subgraph by key, in order; custom ones only with `customs`."""
    found: dict[str, list[OperatorUse]] = {}
    for subgraph in model.subgraphs:
        for operator in subgraph.operators:
            if customs or operator.custom_code is None:
                found.setdefault(operator.key, []).append(OperatorUse(model, subgraph, operator))
    return found


def _rows(weights: int, **more: str) -> Mapping[str, str]:
    rows = {"INT8": f"i0 int8 i{weights} int8 o0 int8", "INT16": f"i0 int16 i{weights} int8 o0 int16"}
    return MappingProxyType({**rows, **more})


_WEIGHTED = _rows(1, INT4="i0 int8 i1 int4 o0 int8")
_PAIR = MappingProxyType({"INT8": "i0 int8 i1 int8 o0 int8", "INT16": "i0 int16 i1 int16 o0 int16"})
_SINGLE = MappingProxyType({"INT8": "i0 int8 o0 int8", "INT16": "i0 int16 o0 int16"})
_INT8_PAIR = MappingProxyType({"INT8": _PAIR["INT8"]})

# Operator -> end of the typed registration's name -> the types of its slots, for which CMSIS-NN computes.
_VARIANTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "ADD": _PAIR,
        "AVERAGE_POOL_2D": _SINGLE,
        "BATCH_MATMUL": _PAIR,
        "CONV_2D": _WEIGHTED,
        "DEPTHWISE_CONV_2D": _WEIGHTED,
        "FULLY_CONNECTED": _WEIGHTED,
        "MAXIMUM": _INT8_PAIR,
        "MAX_POOL_2D": _SINGLE,
        "MINIMUM": _INT8_PAIR,
        "MUL": _PAIR,
        "SOFTMAX": MappingProxyType({**_SINGLE, "INT8_INT16": "i0 int8 o0 int16"}),
        "SVDF": MappingProxyType({"INT8": "i0 int8 i1 int8 o0 int8"}),
        "TRANSPOSE_CONV": MappingProxyType({"INT8": "i2 int8 i1 int8 o0 int8"}),
        "UNIDIRECTIONAL_SEQUENCE_LSTM": _rows(2),
    }
)


def variant_of(use: OperatorUse) -> str:
    """The end of the name of the registration that serves this operator's types ("INT8"); "" for none."""
    for name, row in _VARIANTS.get(use.operator.key, {}).items():
        words = row.split()
        if all(use.type_of(slot) == kind for slot, kind in zip(words[::2], words[1::2], strict=True)):
            return name
    return ""


def typed_registration(key: str, uses: Iterable[OperatorUse], available: Iterable[str], *, asserts: bool) -> str:
    """The registration function that serves all of `uses` of the operator `key` and no other type; "" for none.

    `available`: the functions that this TFLM declares for every build. `asserts`: the build keeps TFLM's asserts.
    """
    if asserts and key in _ASSERTS_WRONGLY:
        return ""
    variants = {variant_of(use) for use in uses}
    if len(variants) != 1 or "" in variants:
        return ""
    name = f"Register_{key}_{variants.pop()}"
    return name if name in set(available) else ""


def why_reference(use: OperatorUse) -> str:
    """Why TFLM's CMSIS-NN kernel computes this operator with reference code; "" where CMSIS-NN does it."""
    if not variant_of(use):
        return f"{use.types}, which its CMSIS-NN kernel leaves to reference code"
    if use.operator.key in _SHAPES_MUST_MATCH:
        shapes = {_plain(use.subgraph.tensors[i].shape) for i in use.operator.inputs[:2]}
        if len(shapes) > 1:
            return "inputs of different shapes, which its CMSIS-NN kernel leaves to reference code"
    return ""


def miscomputed(model: Model) -> str:
    """The first operator that TFLM's CMSIS-NN kernels compute wrongly, and why; "" where there is none.

    Pools: PopulateCommonParams in cmsis_nn/pooling.cc gives CMSIS-NN a batch of 1, whatever the tensor's is.
    """
    for key in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        for use in uses_of(model).get(key, ()):
            shape = () if why_reference(use) else use.subgraph.tensors[use.operator.inputs[0]].shape
            if shape and shape[0] > 1:
                return f"TFLM's CMSIS-NN kernel of {use.operator.label} computes the first of {shape[0]} batches alone"
    return ""


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    """`shape` without the leading ones that it may have been given (ProcessBroadcastShapes)."""
    ones = next((place for place, size in enumerate(shape) if size != 1), len(shape))
    return shape[ones:]


def has_cmsis_nn(key: str) -> bool:
    """Whether TFLM has a CMSIS-NN kernel for the operator, at the revision above."""
    return key in _VARIANTS
