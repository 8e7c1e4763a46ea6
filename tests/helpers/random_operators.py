# SPDX-License-Identifier: Apache-2.0
"""Single operators in random shapes, axes, scales and options that TFLM takes at every known revision."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tests.helpers.operator_models import Case, Spec

Shape = tuple[int, ...]
Draw = Callable[["Operators"], Case]


class Operators:
    """Cases with tensors of one type, int8, int16 or float32; the same seed gives the same cases."""

    def __init__(self, seed: int, kind: str) -> None:
        self.rng, self.kind = random.Random(f"{seed} {kind}"), kind

    def shape(self, least: int = 1, most: int = 4) -> Shape:
        return tuple(self.rng.choice((1, 2, 3, 3, 5, 6)) for _ in range(self.rng.randint(least, most)))

    def real(self, shape: Shape, like: Spec | None = None) -> Spec:
        """A tensor to be written, with a random scale, or with that of `like`."""
        if self.kind == "float32":
            return Spec(shape, "float32")
        if like is not None:
            return Spec(shape, self.kind, scale=like.scale, zero_point=like.zero_point)
        zero = 0 if self.kind == "int16" else self.rng.randint(-90, 90) + 128 * (self.kind == "uint8")
        fine = 2.0**-8 if self.kind == "int16" else 1.0
        return Spec(shape, self.kind, scale=fine * self.rng.uniform(0.01, 0.2), zero_point=zero)

    def weights(self, shape: Shape, channels: int, dimension: int, kind: str, *, each: bool = True) -> Spec:
        """Constant weights, with a scale for all or, where `each`, for every channel."""
        if self.kind == "float32":
            return Spec(shape, "float32", [self.rng.uniform(-1, 1) for _ in range(math.prod(shape))])
        if self.kind == "uint8":
            values = [self.rng.randrange(256) for _ in range(math.prod(shape))]
            return Spec(shape, "uint8", values, scale=self.rng.uniform(0.001, 0.02), zero_point=self.rng.randrange(256))
        least, most = (-8, 7) if kind == "int4" else (-127, 127)
        values = [self.rng.randint(least, most) for _ in range(math.prod(shape))]
        scale = [self.rng.uniform(0.001, 0.02) for _ in range(channels)] if each else self.rng.uniform(0.001, 0.02)
        return Spec(shape, kind, values, scale=scale, dimension=dimension)

    def bias(self, channels: int, source: Spec, weights: Spec) -> Spec:
        """The bias of integer sums: int64 for int16 activations, else int32; its scales are the products'."""
        if self.kind == "float32":
            return Spec((channels,), "float32", [self.rng.uniform(-1, 1) for _ in range(channels)])
        values = [self.rng.randint(-2000, 2000) for _ in range(channels)]
        assert isinstance(source.scale, float)
        given = weights.scale
        scale = source.scale * given if isinstance(given, float) else [source.scale * one for one in given or ()]
        return Spec((channels,), "int64" if self.kind == "int16" else "int32", values, scale=scale)

    def integers(self, values: Sequence[int]) -> Spec:
        return Spec((len(values),), "int32", tuple(values))

    def broadcast(self) -> tuple[Shape, Shape, Shape]:
        """Shapes of two inputs and of their output; often the same."""
        whole = self.shape()
        choice = self.rng.random()
        if choice < 0.4:
            return whole, whole, whole
        if choice < 0.6:
            return whole, (1,), whole
        ones = tuple(1 if self.rng.random() < 0.5 else n for n in whole)
        return (whole, ones, whole) if choice < 0.8 else (ones, whole, whole)

    def axis(self, rank: int) -> int:
        return self.rng.randrange(-rank, rank)

    def flag(self) -> bool:
        return self.rng.random() < 0.5


def _binary(key: str) -> Draw:
    def draw(ops: Operators) -> Case:
        one, other, output = ops.broadcast()
        first = ops.real(one)
        same = first if key in ("MAXIMUM", "MINIMUM") else None
        options = {} if same else {"fused_activation_function": ops.rng.choice((0, 0, 1, 3))}
        return Case(key, (first, ops.real(other, same)), (ops.real(output, same),), options)

    return draw


def _unary(key: str, **options: float) -> Draw:
    def draw(ops: Operators) -> Case:
        source = ops.real(ops.shape())
        output = source if key == "RELU6" else ops.real(source.shape)
        if key == "HARD_SWISH" and ops.kind != "float32":  # TFLM wants an output scale that is not much smaller
            source = Spec(source.shape, ops.kind, scale=ops.rng.uniform(0.02, 0.1), zero_point=source.zero_point)
            output = Spec(source.shape, ops.kind, scale=ops.rng.uniform(0.02, 0.1), zero_point=output.zero_point)
        return Case(key, (source,), (output,), options or None)

    return draw


def _reduction(key: str) -> Draw:
    def draw(ops: Operators) -> Case:
        shape, keep = ops.shape(2, 4), ops.flag()
        first = ops.rng.randrange(len(shape))
        axes = [first] if ops.flag() else sorted({first, min(first + 1, len(shape) - 1)})
        output = tuple(1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes)
        source = ops.real(shape)
        if ops.flag():
            axes = [axis - len(shape) for axis in axes]
        same = source if key.startswith("REDUCE") else None
        return Case(key, (source, ops.integers(axes)), (ops.real(output, same),), {"keep_dims": keep})

    return draw


def _argument(key: str) -> Draw:
    def draw(ops: Operators) -> Case:
        shape = ops.shape(2, 4)
        axis = ops.axis(len(shape))
        output = tuple(n for i, n in enumerate(shape) if i != axis % len(shape))
        return Case(key, (ops.real(shape), ops.integers([axis])), (Spec(output, "int32"),), {"output_type": 2})

    return draw


def slice_(ops: Operators) -> Case:
    source = ops.real(ops.shape())
    begins = [ops.rng.randrange(n) for n in source.shape]
    sizes = [ops.rng.randint(1, n - begin) for n, begin in zip(source.shape, begins, strict=True)]
    inputs = (source, ops.integers(begins), ops.integers(sizes))
    return Case("SLICE", inputs, (ops.real(tuple(sizes), source),), {})


def strided_slice(ops: Operators) -> Case:
    source = ops.real(ops.shape())
    begins, ends, strides, output = [], [], [], []
    masks = {"begin_mask": 0, "end_mask": 0, "shrink_axis_mask": 0}
    for axis, size in enumerate(source.shape):
        stride = ops.rng.choice((1, 1, 2, -1))
        begin = ops.rng.randrange(size)
        end = ops.rng.randint(begin + 1, size + 2) if stride > 0 else -size - 1
        if ops.rng.random() < 0.2:
            masks["shrink_axis_mask"] |= 1 << axis
            stride = 1
        else:
            for name in ("begin_mask", "end_mask"):
                masks[name] |= (ops.rng.random() < 0.2) << axis
            from_start = masks["begin_mask"] >> axis & 1
            start = (0 if stride > 0 else size - 1) if from_start else begin
            stop = (size if stride > 0 else -1) if masks["end_mask"] >> axis & 1 else min(end, size)
            output.append(len(range(start, max(stop, -1), stride)))
        begins.append(begin - size if ops.flag() else begin)
        ends.append(end)
        strides.append(stride)
    inputs = (source, *map(ops.integers, (begins, ends, strides)))
    return Case("STRIDED_SLICE", inputs, (ops.real(tuple(output), source),), masks)


def split(ops: Operators) -> Case:
    shape, parts = ops.shape(), ops.rng.randint(1, 3)
    axis = ops.axis(len(shape))
    whole = tuple(n * parts if i == axis % len(shape) else n for i, n in enumerate(shape))
    source = ops.real(whole)
    outputs = tuple(ops.real(shape, source) for _ in range(parts))
    return Case("SPLIT", (Spec((), "int32", (axis,)), source), outputs, {"num_splits": parts})


def split_v(ops: Operators) -> Case:
    shape, sizes = ops.shape(), [ops.rng.randint(1, 4) for _ in range(ops.rng.randint(1, 3))]
    axis = ops.axis(len(shape))
    place = axis % len(shape)
    shapes = [tuple(size if i == place else n for i, n in enumerate(shape)) for size in sizes]
    source = ops.real(tuple(sum(sizes) if i == place else n for i, n in enumerate(shape)))
    inputs = (source, ops.integers(sizes), Spec((), "int32", (axis,)))
    return Case("SPLIT_V", inputs, tuple(ops.real(one, source) for one in shapes), {"num_splits": len(sizes)})


def concatenation(ops: Operators) -> Case:
    shape = ops.shape()
    axis = ops.axis(len(shape))
    sizes = [ops.rng.randint(1, 4) for _ in range(ops.rng.randint(1, 3))]
    place = axis % len(shape)
    shapes = [tuple(size if i == place else n for i, n in enumerate(shape)) for size in sizes]
    output = ops.real(tuple(sum(sizes) if i == place else n for i, n in enumerate(shape)))
    return Case("CONCATENATION", tuple(ops.real(one, output) for one in shapes), (output,), {"axis": axis})


def pack(ops: Operators) -> Case:
    shape, parts = ops.shape(1, 3), ops.rng.randint(1, 3)
    axis = ops.axis(len(shape) + 1)
    place = axis % (len(shape) + 1)
    output = ops.real((*shape[:place], parts, *shape[place:]))
    inputs = tuple(ops.real(shape, output) for _ in range(parts))
    return Case("PACK", inputs, (output,), {"axis": axis, "values_count": parts})


def unpack(ops: Operators) -> Case:
    shape, parts = ops.shape(1, 3), ops.rng.randint(1, 3)
    axis = ops.axis(len(shape) + 1)
    place = axis % (len(shape) + 1)
    source = ops.real((*shape[:place], parts, *shape[place:]))
    outputs = tuple(ops.real(shape, source) for _ in range(parts))
    return Case("UNPACK", (source,), outputs, {"axis": axis, "num": parts})


def transpose(ops: Operators) -> Case:
    shape = ops.shape(2, 4)
    order = ops.rng.sample(range(len(shape)), len(shape))
    while order == sorted(order):  # CMSIS-NN's kernel of Zephyr 4.4 gets this one wrong
        order = ops.rng.sample(range(len(shape)), len(shape))
    source = ops.real(shape)
    return Case("TRANSPOSE", (source, ops.integers(order)), (ops.real(tuple(shape[i] for i in order), source),), {})


def _resize(key: str) -> Draw:
    def draw(ops: Operators) -> Case:
        batch, rows, columns, depth = ops.shape(4, 4)
        size = [ops.rng.randint(1, 8), ops.rng.randint(1, 8)]
        source = ops.real((batch, rows, columns, depth))
        options = {"align_corners": ops.flag()}
        if key == "RESIZE_BILINEAR":
            options["half_pixel_centers"] = not options["align_corners"] and ops.flag()
        return Case(key, (source, ops.integers(size)), (ops.real((batch, *size, depth), source),), options)

    return draw


def padv2(ops: Operators) -> Case:
    source = ops.real(ops.shape(4, 4))
    widths = [ops.rng.randrange(3) for _ in range(8)]
    shape = tuple(n + sum(widths[2 * i : 2 * i + 2]) for i, n in enumerate(source.shape))
    filler = Spec((1,), ops.kind, (3,), scale=source.scale, zero_point=source.zero_point)
    inputs = (source, Spec((4, 2), "int32", tuple(widths)), filler)
    return Case("PADV2", inputs, (ops.real(shape, source),), {})


def _window(ops: Operators, shape: Shape) -> tuple[Shape, Shape, dict[str, int]]:
    """Taps, output size and options of a random window over an image."""
    rng, (_, rows, columns, _) = ops.rng, shape
    taps = [min(n, rng.choice((1, 2, 3))) for n in (rows, columns)]
    stride = [rng.choice((1, 1, 2)) for _ in range(2)]
    same = ops.flag()
    out = [-(-n // s) if same else (n - k) // s + 1 for n, k, s in zip((rows, columns), taps, stride, strict=True)]
    options = {"padding": 0 if same else 1, "stride_h": stride[0], "stride_w": stride[1]}
    return tuple(taps), tuple(out), options


def _convolution(kind: str = "int8") -> Draw:
    def draw(ops: Operators) -> Case:
        shape = ops.shape(4, 4)
        taps, size, options = _window(ops, shape)
        source, channels = ops.real(shape), ops.rng.choice((1, 3, 4, 6))
        weights = ops.weights((channels, *taps, shape[3]), channels, 0, kind)
        options |= {"dilation_h_factor": 1, "dilation_w_factor": 1, "fused_activation_function": ops.rng.choice((0, 1))}
        inputs = (source, weights, ops.bias(channels, source, weights))
        return Case("CONV_2D", inputs, (ops.real((shape[0], *size, channels)),), options)

    return draw


def _depthwise(kind: str = "int8") -> Draw:
    def draw(ops: Operators) -> Case:
        shape = ops.shape(4, 4)
        taps, size, options = _window(ops, shape)
        source, times = ops.real(shape), ops.rng.choice((1, 1, 2))
        channels = shape[3] * times
        weights = ops.weights((1, *taps, channels), channels, 3, kind)
        options |= {"dilation_h_factor": 1, "dilation_w_factor": 1, "depth_multiplier": times}
        inputs = (source, weights, ops.bias(channels, source, weights))
        return Case("DEPTHWISE_CONV_2D", inputs, (ops.real((shape[0], *size, channels)),), options)

    return draw


def _dense(kind: str = "int8") -> Draw:
    def draw(ops: Operators) -> Case:
        batch, depth, outputs = (ops.rng.choice((1, 2, 3, 8, 9)) for _ in range(3))
        source = ops.real((batch, depth))
        weights = ops.weights((outputs, depth), outputs, 0, kind, each=False)
        inputs = (source, weights, ops.bias(outputs, source, weights))
        return Case("FULLY_CONNECTED", inputs, (ops.real((batch, outputs)),), {})

    return draw


def transpose_conv(ops: Operators) -> Case:
    shape = ops.shape(4, 4)
    taps, channels = [ops.rng.choice((1, 2, 3)) for _ in range(2)], ops.rng.choice((1, 3, 4))
    stride, same = [ops.rng.choice((1, 2)) for _ in range(2)], ops.flag()
    size = [n * s if same else (n - 1) * s + max(k, s) for n, k, s in zip(shape[1:3], taps, stride, strict=True)]
    source = ops.real(shape)
    weights = ops.weights((channels, *taps, shape[3]), channels, 0, "int8")
    output = (shape[0], *size, channels)
    inputs = (ops.integers(output), weights, source, ops.bias(channels, source, weights))
    options = {"padding": 0 if same else 1, "stride_h": stride[0], "stride_w": stride[1]}
    return Case("TRANSPOSE_CONV", inputs, (ops.real(output),), options)


def batch_matmul(ops: Operators) -> Case:
    one, other, batch = ops.flag(), ops.flag(), ops.shape(0, 2)
    rows, depth, columns = (ops.rng.choice((1, 2, 3, 5)) for _ in range(3))
    left = (*batch, *((depth, rows) if one else (rows, depth)))
    right = (*batch, *((columns, depth) if other else (depth, columns)))
    source = ops.real(right)
    if ops.flag() and ops.kind != "float32":
        source = replace(source, values=[ops.rng.randint(-128, 127) for _ in range(math.prod(right))])
    options = {"adj_x": one, "adj_y": other}
    return Case("BATCH_MATMUL", (ops.real(left), source), (ops.real((*batch, rows, columns)),), options)


def _table(key: str) -> Draw:
    """SOFTMAX, LOGISTIC and TANH, whose int16 outputs have one scale."""

    def draw(ops: Operators) -> Case:
        shape = ops.shape()
        if key == "SOFTMAX" and shape[-1] == 1:  # which CMSIS-NN's kernel computes wrongly
            shape = (*shape[:-1], 2)
        scale = ops.rng.choice((2.0**-12, ops.rng.uniform(1e-4, 8e-4)))
        source = Spec(shape, "int16", scale=scale)
        return Case(
            key, (source,), (Spec(shape, "int16", scale=2.0**-15),), {"beta": 0.8} if key == "SOFTMAX" else None
        )

    return draw


def requantised(ops: Operators) -> Case:
    """QUANTIZE between two integer types."""
    pairs = (("int16", "int32"), ("int8", "uint8"), ("uint8", "int8"), ("int32", "int16"), ("int8", "int32"))
    kinds = ops.rng.choice(pairs)
    shape = ops.shape()
    source, output = (Spec(shape, kind, scale=ops.rng.uniform(0.01, 0.5), zero_point=0) for kind in kinds)
    return Case("QUANTIZE", (source,), (output,), {})


def softmax_to_int16(ops: Operators) -> Case:
    source = ops.real(ops.shape())
    return Case("SOFTMAX", (source,), (Spec(source.shape, "int16", scale=2.0**-16, zero_point=-32768),), {"beta": 1.0})


def cast(ops: Operators) -> Case:
    shape = ops.shape()
    kind = ops.rng.choice(("int8", "int16", "int32", "float32"))
    source = ops.real(shape)
    return Case("CAST", (source,), (Spec(shape, kind if ops.kind != "float32" else "float32"),))


def _whole(key: str) -> Draw:
    """Arithmetic of int32."""

    def draw(ops: Operators) -> Case:
        one, other, output = ops.broadcast()
        shapes = [Spec(shape, "int32") for shape in (one, other, output)]
        return Case(key, tuple(shapes[:2]), tuple(shapes[2:]), {})

    return draw


def svdf(ops: Operators) -> Case:
    """SVDF with an int16 state, as converters make it."""
    depth, units, rank, memory = (ops.rng.choice((1, 2, 3, 5)) for _ in range(4))
    filters = units * rank
    source = ops.real((1, depth))
    features = ops.weights((filters, depth), filters, 0, "int8", each=False)
    state = Spec((1, memory * filters), "int16", variable=True, scale=ops.rng.uniform(0.0005, 0.002))
    values = [ops.rng.randint(-3000, 3000) for _ in range(filters * memory)]
    times = Spec((filters, memory), "int16", values, scale=ops.rng.uniform(0.0001, 0.0005))
    assert isinstance(state.scale, float)
    assert isinstance(times.scale, float)
    bias = Spec(
        (units,), "int32", [ops.rng.randint(-9000, 9000) for _ in range(units)], scale=state.scale * times.scale
    )
    inputs = (source, features, times, bias, state)
    return Case("SVDF", inputs, (ops.real((1, units)),), {"rank": rank})


def lstm(ops: Operators) -> Case:
    """UNIDIRECTIONAL_SEQUENCE_LSTM as converters make it: a state of the output's quantisation, and a cell of int16."""
    steps, depth, units = (ops.rng.choice((1, 2, 3, 5)) for _ in range(3))
    major, batch = ops.flag(), ops.rng.choice((1, 1, 2))
    front = (steps, batch) if major else (batch, steps)
    source = Spec((*front, depth), "int8", scale=ops.rng.uniform(0.004, 0.02), zero_point=ops.rng.randint(-90, 90))
    state = Spec(
        (batch, units), "int8", scale=ops.rng.uniform(0.005, 0.01), zero_point=ops.rng.randint(-40, 40), variable=True
    )
    cell = Spec((batch, units), "int16", scale=2.0 ** ops.rng.randint(-13, -11), variable=True)
    weights = [ops.weights((units, n), units, 0, "int8", each=False) for n in (depth, units) for _ in range(4)]
    biases = [ops.bias(units, source, one) for one in weights[:4]]
    output = replace(state, shape=(*front, units), variable=False)
    inputs = (source, *weights, *(None,) * 3, *biases, None, None, state, cell, *(None,) * 4)
    options = {"fused_activation_function": 4, "cell_clip": ops.rng.choice((0.0, 6.0)), "time_major": major}
    return Case("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (output,), options)


def _pool(key: str) -> Draw:
    """Pools of one batch: TFLM's CMSIS-NN kernels compute the first one alone."""

    def draw(ops: Operators) -> Case:
        shape = (1, *ops.shape(4, 4)[1:])
        taps, size, options = _window(ops, shape)
        source = ops.real(shape)
        options |= {"filter_height": taps[0], "filter_width": taps[1], "fused_activation_function": 0}
        return Case(key, (source,), (ops.real((shape[0], *size, shape[3]), source),), options)

    return draw


def pad(ops: Operators) -> Case:
    source = ops.real(ops.shape(1, 4))
    widths = [ops.rng.randrange(3) for _ in range(2 * len(source.shape))]
    shape = tuple(n + sum(widths[2 * i : 2 * i + 2]) for i, n in enumerate(source.shape))
    return Case("PAD", (source, Spec((len(shape), 2), "int32", tuple(widths))), (ops.real(shape, source),))


def reshape(ops: Operators) -> Case:
    source = ops.real(ops.shape())
    shape = tuple(reversed(source.shape))
    return Case("RESHAPE", (source, ops.integers(shape)), (ops.real(shape, source),), {"new_shape": list(shape)})


def expand_dims(ops: Operators) -> Case:
    source = ops.real(ops.shape(1, 3))
    axis = ops.rng.randrange(len(source.shape) + 1)
    shape = (*source.shape[:axis], 1, *source.shape[axis:])
    return Case("EXPAND_DIMS", (source, ops.integers([axis])), (ops.real(shape, source),))


def squeeze(ops: Operators) -> Case:
    shape = (1, *ops.shape(1, 3))
    source = ops.real(shape)
    return Case("SQUEEZE", (source,), (ops.real(shape[1:], source),), {"squeeze_dims": [0]})


def _to_bytes(key: str) -> Draw:
    """SOFTMAX, LOGISTIC and TANH of int8 and float."""

    def draw(ops: Operators) -> Case:
        source = ops.real(ops.shape())
        output = ops.real(source.shape)
        if ops.kind != "float32":
            scale, zero = (2.0**-7, 0) if key == "TANH" else (2.0**-8, -128)
            output = Spec(source.shape, ops.kind, scale=scale, zero_point=zero)
        return Case(key, (source,), (output,), {"beta": 0.9} if key == "SOFTMAX" else None)

    return draw


def rescaled(ops: Operators) -> Case:
    """QUANTIZE from the real type, or from float, to int8."""
    source = ops.real(ops.shape())
    return Case("QUANTIZE", (source,), (Spec(source.shape, "int8", scale=ops.rng.uniform(0.02, 0.1), zero_point=5),))


def dequantized(ops: Operators) -> Case:
    source = ops.real(ops.shape())
    return Case("DEQUANTIZE", (source,), (Spec(source.shape, "float32"),))


_ALL = ("int8", "int16", "float32")
_BYTES = ("int8", "float32")
DRAWS: Mapping[str, tuple[Draw, Sequence[str]]] = {
    **{key: (_binary(key), _ALL) for key in ("ADD", "MAXIMUM", "MINIMUM", "MUL", "SUB")},
    **{key: (_unary(key), _BYTES) for key in ("HARD_SWISH", "RELU")},
    "LEAKY_RELU": (_unary("LEAKY_RELU", alpha=0.3), _ALL),
    "RELU6": (_unary("RELU6"), _ALL),
    **{key: (_reduction(key), _ALL) for key in ("MEAN", "SUM")},
    "REDUCE_MAX": (_reduction("REDUCE_MAX"), _BYTES),
    **{key: (_argument(key), _BYTES) for key in ("ARG_MAX", "ARG_MIN")},
    "CONCATENATION": (concatenation, _ALL),
    "PACK": (pack, _BYTES),
    "PADV2": (padv2, _ALL),
    "RESIZE_BILINEAR": (_resize("RESIZE_BILINEAR"), _BYTES),
    "RESIZE_NEAREST_NEIGHBOR": (_resize("RESIZE_NEAREST_NEIGHBOR"), _ALL),
    "SLICE": (slice_, _ALL),
    "SPLIT": (split, _ALL),
    "SPLIT_V": (split_v, _ALL),
    "STRIDED_SLICE": (strided_slice, _ALL),
    "TRANSPOSE": (transpose, _BYTES),
    "UNPACK": (unpack, _BYTES),
    **{key: (_table(key), ("int16",)) for key in ("LOGISTIC", "SOFTMAX", "TANH")},
    "QUANTIZE of integers": (requantised, ("int8",)),
    "SOFTMAX to int16": (softmax_to_int16, ("int8",)),
    "CAST": (cast, _ALL),
    **{f"{key} of int32": (_whole(key), ("int8",)) for key in ("ADD", "MUL")},
    "SVDF": (svdf, ("int8",)),
    "BATCH_MATMUL": (batch_matmul, _ALL),
    "CONV_2D": (_convolution(), _ALL),
    "CONV_2D with int4": (_convolution("int4"), ("int8",)),
    "DEPTHWISE_CONV_2D": (_depthwise(), _ALL),
    "DEPTHWISE_CONV_2D with int4": (_depthwise("int4"), ("int8",)),
    "FULLY_CONNECTED": (_dense(), _ALL),
    "FULLY_CONNECTED with int4": (_dense("int4"), ("int8",)),
    "TRANSPOSE_CONV": (transpose_conv, _ALL),
    "AVERAGE_POOL_2D": (_pool("AVERAGE_POOL_2D"), _ALL),
    "MAX_POOL_2D": (_pool("MAX_POOL_2D"), _ALL),
    "PAD": (pad, _ALL),
    "RESHAPE": (reshape, _ALL),
    "EXPAND_DIMS": (expand_dims, _BYTES),
    "SQUEEZE": (squeeze, _ALL),
    **{f"{key} of bytes": (_to_bytes(key), _BYTES) for key in ("LOGISTIC", "SOFTMAX", "TANH")},
    "QUANTIZE": (rescaled, _ALL),
    "DEQUANTIZE": (dequantized, ("int8", "int16")),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (lstm, ("int8",)),
}
"""By operator, the function that draws a case, and the types of its real tensors."""


def tile(ops: Operators) -> Case:
    source, axis = ops.real(ops.shape()), ops.rng.randrange(4)
    repeats = [ops.rng.randint(1, 3) if place in (axis, axis + 1) else 1 for place in range(len(source.shape))]
    shape = tuple(size * count for size, count in zip(source.shape, repeats, strict=True))
    return Case("TILE", (source, ops.integers(repeats)), (ops.real(shape, source),), {})


def reverse(ops: Operators) -> Case:
    source = ops.real(ops.shape())
    first = ops.rng.randrange(len(source.shape))
    axes = range(first, min(len(source.shape), first + ops.rng.randint(1, 2)))  # LiteRT wants them to be neighbours
    return Case("REVERSE_V2", (source, ops.integers(axes)), (source,), {})


def select(ops: Operators) -> Case:
    shape = ops.shape()
    source = ops.real(shape)
    condition = Spec(shape[:1] if ops.flag() else shape, "bool")
    return Case("SELECT", (condition, source, source), (source,), {})


def select_v2(ops: Operators) -> Case:
    first, second, whole = ops.broadcast()
    source, condition = ops.real(first), Spec(whole if ops.flag() else first, "bool")
    if math.prod(first) < math.prod(whole) > math.prod(second):
        condition = replace(condition, shape=whole)
    return Case("SELECT_V2", (condition, source, ops.real(second, source)), (ops.real(whole, source),), {})


BEYOND_TFLM: Mapping[str, tuple[Draw, Sequence[str]]] = {
    "REDUCE_MIN": (_reduction("REDUCE_MIN"), _BYTES),
    "SELECT": (select, _ALL),
    "SELECT_V2": (select_v2, _ALL),
    "REVERSE_V2": (reverse, _ALL),
    "TILE": (tile, _ALL),
}
"""The same of operators that LiteRT has and TFLM lacks."""


def add_alike(ops: Operators) -> Case:
    shape = ops.shape()
    return Case(ops.rng.choice(("ADD", "MUL")), (ops.real(shape), ops.real(shape)), (ops.real(shape),), {})


def softmax_of_bytes(ops: Operators) -> Case:
    source = ops.real(ops.shape())
    return Case("SOFTMAX", (source,), (Spec(source.shape, "uint8", scale=2.0**-8),), {"beta": 1.0})


def to_bytes(ops: Operators) -> Case:
    shape = ops.shape()
    source = ops.real(shape) if ops.flag() else Spec(shape, "float32")
    return Case("QUANTIZE", (source,), (ops.real(shape),), {})


_LEGACY_KEYS = (
    "AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D EXPAND_DIMS FULLY_CONNECTED MAX_POOL_2D PACK PAD PADV2 "
    "RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR SLICE SPLIT SPLIT_V SQUEEZE STRIDED_SLICE TRANSPOSE UNPACK"
).split()
LEGACY: Mapping[str, tuple[Draw, Sequence[str]]] = {
    **{key: (DRAWS[key][0], ("uint8",)) for key in _LEGACY_KEYS},
    "ADD and MUL": (add_alike, ("uint8",)),
    "SOFTMAX": (softmax_of_bytes, ("uint8",)),
    "QUANTIZE": (to_bytes, ("uint8",)),
    "DEQUANTIZE": (dequantized, ("uint8",)),
}
"""The same with tensors of uint8, which LiteRT takes and TFLM does not."""


def random_operators(
    seed: int, each: int = 2, draws: Mapping[str, tuple[Draw, Sequence[str]]] = DRAWS
) -> Iterator[Case]:
    """`each` cases of every operator and type."""
    for kind in (*_ALL, "uint8"):
        ops = Operators(seed, kind)
        for draw, kinds in draws.values():
            if kind in kinds:
                yield from (draw(ops) for _ in range(each))
