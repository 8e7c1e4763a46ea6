# SPDX-License-Identifier: Apache-2.0
"""Models of one operator each, in any type, for tests that ask TFLM itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy

from tests.helpers.model_builder import ModelBuilder, SubgraphBuilder

# A "real" tensor takes the type under test; the others keep theirs.
REAL = "real"
_QUANTISED = ("int8", "uint8", "int16")


@dataclass(frozen=True)
class Spec:
    """A tensor: constant when it has values, which are repeated to fill it."""

    shape: tuple[int, ...] = (1, 4)
    type: str = REAL
    values: Sequence[float] | None = None
    variable: bool = False
    scale: float | Sequence[float] | None = None
    zero_point: int = 0
    dimension: int = 0

    def add_to(self, main: SubgraphBuilder) -> int:
        """The index of a tensor added to the subgraph."""
        data = None
        if self.values is not None:
            count = int(numpy.prod(self.shape)) if self.shape else 1
            if self.type == "int4":
                halves = [value & 15 for value in numpy.resize(self.values, count + count % 2)]
                data = bytes(low | high << 4 for low, high in zip(halves[::2], halves[1::2], strict=True))
            else:
                data = numpy.resize(self.values, count).astype(self.type).tobytes()
        return main.tensor(
            self.shape,
            self.type,
            data=data,
            variable=self.variable,
            scale=self.scale,
            zero_point=self.zero_point,
            dimension=self.dimension,
        )


@dataclass(frozen=True)
class Case:
    """An operator with its tensors (None: absent) and options."""

    key: str
    inputs: tuple[Spec | None, ...]
    outputs: tuple[Spec, ...]
    options: Mapping[str, Any] | None = None

    def typed(self, kind: str) -> Case:
        """The case with every real tensor of type `kind`, quantised as converters do it."""

        def set_type(spec: Spec | None) -> Spec | None:
            if spec is None:
                return None
            typed = replace(spec, type=kind) if spec.type == REAL else spec
            scale = 2.0**-4 if typed.scale is None and typed.type in _QUANTISED else typed.scale
            return replace(typed, scale=scale)

        outputs = tuple(spec for spec in map(set_type, self.outputs) if spec is not None)
        fixed = _OUTPUTS.get((self.key, kind))
        if fixed:
            outputs = (replace(outputs[0], scale=fixed[0], zero_point=fixed[1]), *outputs[1:])
        inputs = tuple(map(set_type, self.inputs))
        if self.key in ("LOGISTIC", "TANH") and kind == "int16":
            inputs = tuple(spec and replace(spec, scale=2.0**-12) for spec in inputs)
        return replace(self, inputs=inputs, outputs=outputs)

    def build(self) -> bytes:
        """The model's bytes."""
        return together([self])

    def add_to(self, main: SubgraphBuilder) -> None:
        """Add the operator with tensors of its own."""
        inputs = [-1 if spec is None else spec.add_to(main) for spec in self.inputs]
        outputs = [spec.add_to(main) for spec in self.outputs]
        main.op(self.key, inputs, outputs, options=self.options)
        main.inputs += [
            index
            for index, spec in zip(inputs, self.inputs, strict=True)
            if spec is not None and spec.values is None and not spec.variable
        ]
        main.outputs += outputs


def together(cases: Iterable[Case]) -> bytes:
    """One model with the operators side by side."""
    model = ModelBuilder()
    main = model.subgraph()
    for case in cases:
        case.add_to(main)
    return model.finish()


_OUTPUTS: Mapping[tuple[str, str], tuple[float, int]] = {
    ("LOGISTIC", "int8"): (2.0**-8, -128),
    ("LOGISTIC", "int16"): (2.0**-15, 0),
    ("LOG_SOFTMAX", "int8"): (2.0**-4, 127),
    ("SOFTMAX", "int8"): (2.0**-8, -128),
    ("SOFTMAX", "int16"): (2.0**-15, 0),
    ("TANH", "int16"): (2.0**-15, 0),
}


def _real(*shape: int) -> Spec:
    return Spec(shape)


def _ints(shape: tuple[int, ...], *values: int) -> Spec:
    return Spec(shape, "int32", values)


_X = _real(1, 4)
_IMAGE = _real(1, 4, 4, 2)
_POOL = {"padding": 0, "stride_w": 1, "stride_h": 1, "filter_width": 2, "filter_height": 2}
_CONV = {"padding": 0, "stride_w": 1, "stride_h": 1, "dilation_w_factor": 1, "dilation_h_factor": 1}


def _cases() -> Iterator[Case]:
    for key in (
        "ABS CAST CEIL COS ELU EXP FLOOR HARD_SWISH LOG LOG_SOFTMAX LOGISTIC NEG RELU RELU6 ROUND RSQRT SIN SQRT "
        "SQUARE TANH ZEROS_LIKE"
    ).split():
        yield Case(key, (_X,), (_X,))
    yield Case("LEAKY_RELU", (_X,), (_X,), {"alpha": 0.5})
    yield Case("SOFTMAX", (_X,), (_X,), {"beta": 1.0})
    yield Case("L2_NORMALIZATION", (_X,), (_X,), {})
    yield Case("SQUEEZE", (_X,), (_real(4),), {"squeeze_dims": [0]})
    yield Case("DEQUANTIZE", (_X,), (Spec(type="float32"),))
    yield Case("QUANTIZE", (_X,), (Spec(type="int8", scale=0.5),))
    for key in "ADD MAXIMUM MINIMUM MUL SQUARED_DIFFERENCE SUB".split():
        yield Case(key, (_X, _X), (_X,), {})
    yield Case("PRELU", (_real(1, 2, 2, 2), Spec((1, 1, 2), values=[1])), (_real(1, 2, 2, 2),))
    for key in "EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL NOT_EQUAL".split():
        yield Case(key, (_X, _X), (Spec(type="bool"),))
    yield Case("ADD_N", (_X, _X, _X), (_X,), {})
    for key in ("ARG_MAX", "ARG_MIN"):
        yield Case(key, (_X, _ints((1,), 1)), (Spec((1,), "int32"),), {"output_type": 2})
    for key in ("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"):
        yield Case(key, (_IMAGE,), (_IMAGE,), _POOL)
    yield Case("BATCH_MATMUL", (_real(1, 2, 4), _real(1, 4, 8)), (_real(1, 2, 8),), {})
    yield Case("BATCH_MATMUL", (_real(1, 4, 2), _real(1, 8, 4)), (_real(1, 2, 8),), {"adj_x": True, "adj_y": True})
    block, pads = _ints((2,), 2), _ints((2, 2), 0)
    yield Case("BATCH_TO_SPACE_ND", (_real(4, 1, 1, 1), block, pads), (_real(1, 2, 2, 1),), {})
    yield Case("SPACE_TO_BATCH_ND", (_real(1, 2, 2, 1), block, pads), (_real(4, 1, 1, 1),), {})
    yield Case("CONCATENATION", (_X, _X), (_real(1, 8),), {"axis": 1})
    yield Case("CUMSUM", (_X, _ints((1,), 1)), (_X,), {})
    yield Case("DEPTH_TO_SPACE", (_real(1, 1, 1, 4),), (_real(1, 2, 2, 1),), {"block_size": 2})
    yield Case("SPACE_TO_DEPTH", (_real(1, 2, 2, 1),), (_real(1, 1, 1, 4),), {"block_size": 2})
    yield Case("EMBEDDING_LOOKUP", (_ints((2,), 0, 1), Spec((3, 4), values=[1])), (_real(2, 4),))
    yield Case("EXPAND_DIMS", (_real(4), _ints((1,), 0)), (_X,), {})
    yield Case("FILL", (_ints((2,), 2, 3), _real()), (_real(2, 3),), {})
    yield Case("GATHER", (_real(4, 2), _ints((2,), 0, 1)), (_real(2, 2),), {"axis": 0})
    yield Case("GATHER_ND", (_real(4, 2), _ints((2, 1), 0, 1)), (_real(2, 2),), {})
    for key in ("MEAN", "REDUCE_MAX", "SUM"):
        yield Case(key, (_IMAGE, _ints((2,), 1, 2)), (_real(1, 2),), {"keep_dims": False})
    yield Case("MIRROR_PAD", (_real(2, 3), _ints((2, 2), 1)), (_real(4, 5),), {"mode": 0})
    yield Case("PACK", (_real(4), _real(4)), (_real(2, 4),), {"axis": 0, "values_count": 2})
    around = _ints((4, 2), 0, 0, 1, 1, 1, 1, 0, 0)
    yield Case("PAD", (_real(1, 2, 2, 1), around), (_real(1, 4, 4, 1),), {})
    yield Case("PADV2", (_real(1, 2, 2, 1), around, Spec((1,), values=[0])), (_real(1, 4, 4, 1),), {})
    yield Case("RESHAPE", (_X, _ints((2,), 2, 2)), (_real(2, 2),), {"new_shape": [2, 2]})
    for key in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
        yield Case(key, (_real(1, 2, 2, 1), _ints((2,), 4, 4)), (_real(1, 4, 4, 1),), {})
    yield Case("SELECT_V2", (Spec(type="bool"), _X, _X), (_X,), {})
    yield Case("SLICE", (_real(2, 4), _ints((2,), 0, 1), _ints((2,), 2, 2)), (_real(2, 2),), {})
    yield Case("SPLIT", (_ints((), 1), _X), (_real(1, 2), _real(1, 2)), {"num_splits": 2})
    yield Case("SPLIT_V", (_X, _ints((2,), 1, 3), _ints((), 1)), (_real(1, 1), _real(1, 3)), {"num_splits": 2})
    ends = (_ints((2,), 0, 1), _ints((2,), 2, 3), _ints((2,), 1, 1))
    yield Case("STRIDED_SLICE", (_real(2, 4), *ends), (_real(2, 2),), {})
    yield Case("TRANSPOSE", (_real(2, 4), _ints((2,), 1, 0)), (_real(4, 2),), {})
    yield Case("UNPACK", (_real(2, 4),), (_real(4), _real(4)), {"axis": 0, "num": 2})


CASES = tuple(_cases())


def weighted() -> Iterator[Case]:
    """Convolutions and dense layers with each mixture of types, per tensor and per channel."""
    shapes = {
        "CONV_2D": (_IMAGE, (3, 2, 2, 2), _real(1, 4, 4, 3), _CONV, 0),
        "DEPTHWISE_CONV_2D": (_IMAGE, (1, 2, 2, 2), _IMAGE, {**_CONV, "depth_multiplier": 1}, 3),
        "FULLY_CONNECTED": (_X, (8, 4), _real(1, 8), {}, 0),
        "TRANSPOSE_CONV": (_IMAGE, (3, 2, 2, 2), _real(1, 4, 4, 3), _CONV_TRANSPOSED, 0),
    }
    for key, (source, filters, output, options, channels) in shapes.items():
        for kind in ("float32", "int8", "int16", "uint8"):
            for weights in ("float32", "int8", "int4", "uint8", "int16"):
                for bias in (*_BIASES.get(kind, ("int32",)), None):
                    for scale in (0.5, [0.5] * filters[channels]):
                        if weights == "float32" and scale != 0.5:
                            continue
                        constant = Spec(filters, weights, [1], scale=scale, dimension=channels)
                        extra = Spec(
                            (filters[channels],),
                            bias or "",
                            [0],
                            scale=0.25 if bias in ("int32", "int64") else None,
                        )
                        typed = replace(source, type=kind, scale=0.5)
                        tensors: tuple[Spec | None, ...] = (typed, constant, extra if bias else None)
                        if key == "TRANSPOSE_CONV":
                            tensors = (_ints((4,), 1, 4, 4, 3), constant, typed, extra if bias else None)
                        if bias is None:
                            tensors = tensors[:-1]
                        yield Case(key, tensors, (replace(output, type=kind, scale=1.0),), options)


_BIASES = {"float32": ("float32", "int32"), "int8": ("int32", "int64"), "int16": ("int64", "int32")}
_CONV_TRANSPOSED = {"padding": 0, "stride_w": 1, "stride_h": 1}
