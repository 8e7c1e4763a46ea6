# SPDX-License-Identifier: Apache-2.0
"""Random operators for tests of overlap: the model's operator and the shapes that its loops run over."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tests.helpers.operator_models import Case, Spec
from tests.helpers.overlap_trace import Shapes

_ELEMENTS = {"int8": 1, "int16": 2, "float32": 4}


def _axis(rng: random.Random, largest: int, dilate: bool) -> tuple[int, int, int, int]:
    """Size, window, stride and dilation, often with a window that is larger than the data."""
    size = rng.randrange(1, largest + 1)
    window = rng.choice((1, 1, 2, 3, 3, 4, 5))
    return size, window, rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2, 3)) if dilate else 1


def _outputs(axis: tuple[int, int, int, int], same: bool) -> tuple[int, int]:
    """How many windows, and the padding before the data (ComputeOutSize, ComputePaddingWithOffset)."""
    size, window, stride, dilation = axis
    reach = (window - 1) * dilation + 1
    count = -(-size // stride) if same else (size - reach) // stride + 1
    return count, max(0, (count - 1) * stride + reach - size) // 2


def random_shapes(
    rng: random.Random, kind: str, key: str, *, largest: int = 6, depths: int = 4, one_by_one: bool = False
) -> tuple[Shapes, bool]:
    """Shapes of a CONV_2D, DEPTHWISE_CONV_2D or pooling operator, and whether its padding is SAME."""
    dilate = key in ("CONV_2D", "DEPTHWISE_CONV_2D") and not one_by_one
    while True:
        same = rng.random() < 0.6
        axes = [_axis(rng, largest, dilate) for _ in range(2)]
        if one_by_one:
            axes = [(size, 1, stride, 1) for size, _, stride, _ in axes]
        counts = [_outputs(axis, same) for axis in axes]
        if min(count for count, _ in counts) > 0:
            break
    groups = rng.choice((1, 1, 1, 2, 3)) if key == "CONV_2D" and not one_by_one else 1
    depth = groups * rng.randrange(1, depths + 1)
    out_depth = depth
    if key == "CONV_2D":
        out_depth = groups * rng.randrange(1, depths + 1)
    elif key == "DEPTHWISE_CONV_2D":
        out_depth = depth * rng.choice((1, 1, 2, 3, 4))
    size, window, stride, dilation = (tuple(axis[i] for axis in axes) for i in range(4))
    shapes = Shapes(
        batch=rng.choice((1, 1, 2, 3)),
        size=(size[0], size[1]),
        depth=depth,
        out_size=(counts[0][0], counts[1][0]),
        out_depth=out_depth,
        window=(window[0], window[1]),
        stride=(stride[0], stride[1]),
        dilation=(dilation[0], dilation[1]),
        padding=(counts[0][1], counts[1][1]),
        element=_ELEMENTS[kind],
        groups=groups,
    )
    return shapes, same


def window_case(key: str, shapes: Shapes, same: bool, kind: str, weights: str | None = None) -> Case:
    """The operator of those shapes, quantised so that values spread over the whole range."""
    options = {"padding": 0 if same else 1, "stride_h": shapes.stride[0], "stride_w": shapes.stride[1]}
    source = Spec((shapes.batch, *shapes.size, shapes.depth), kind, scale=None if kind == "float32" else 0.5)
    result = Spec((shapes.batch, *shapes.out_size, shapes.out_depth), kind, scale=source.scale)
    if key not in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        options |= {"filter_height": shapes.window[0], "filter_width": shapes.window[1]}
        return Case(key, (source,), (result,), options)
    options |= {"dilation_h_factor": shapes.dilation[0], "dilation_w_factor": shapes.dilation[1]}
    shape, dimension = (shapes.out_depth, *shapes.window, shapes.depth // shapes.groups), 0
    if key == "DEPTHWISE_CONV_2D":
        options["depth_multiplier"] = shapes.multiplier
        shape, dimension = (1, *shapes.window, shapes.out_depth), 3
    quantised = kind != "float32"
    scales = [0.25] * shapes.out_depth if quantised else None
    values = [1, -1, 2, 3, -2] if quantised else [0.5, -1, 2, 0.25, -3]
    filters = Spec(shape, weights or ("int8" if quantised else kind), values, scale=scales, dimension=dimension)
    bias = Spec(
        (shapes.out_depth,),
        {"int8": "int32", "int16": "int64", "float32": "float32"}[kind],
        [0],
        scale=[0.125] * shapes.out_depth if quantised else None,
    )
    return Case(key, (source, filters, bias), (result,), options)


def cases(
    key: str, seed: int, count: int, kinds: tuple[str, ...] = ("int8", "int16", "float32"), **how: int
) -> Iterator[tuple[Shapes, Case]]:
    """`count` random operators, the same for the same seed."""
    rng = random.Random(f"{key} {seed}")
    for _ in range(count):
        kind = rng.choice(kinds)
        shapes, same = random_shapes(rng, kind, key, **how)
        yield shapes, window_case(key, shapes, same, kind)


def strided_slice(rng: random.Random, shape: Sequence[int], kind: str) -> tuple[Case, list[int], list[int], list[int]]:
    """A STRIDED_SLICE, with masks where they fit; each axis's first element, stride and number of elements."""
    firsts, strides, counts, begins, ends, kept = [], [], [], [], [], []
    masks = {"begin_mask": 0, "end_mask": 0, "shrink_axis_mask": 0}
    for axis, size in enumerate(shape):
        stride, first = rng.choice((1, 1, 2, 3, -1, -2)), rng.randrange(size)
        most = len(range(first, size if stride > 0 else -1, stride))
        count = rng.randint(1, most)
        end = first + stride * count
        begins.append(first - size if rng.random() < 0.3 else first)
        ends.append(end if end >= 0 else -1 - size)
        if first == (0 if stride > 0 else size - 1) and rng.random() < 0.5:
            masks["begin_mask"] |= 1 << axis
            begins[-1] = rng.randrange(size)
        if count == 1 and stride > 0 and rng.random() < 0.3:
            masks["shrink_axis_mask"] |= 1 << axis
        else:
            kept.append(count)
            if count == most and rng.random() < 0.5:
                masks["end_mask"] |= 1 << axis
                ends[-1] = rng.randrange(size)
        for numbers, number in ((firsts, first), (strides, stride), (counts, count)):
            numbers.append(number)
    inputs = (Spec(tuple(shape), kind), *(Spec((len(shape),), "int32", each) for each in (begins, ends, strides)))
    return Case("STRIDED_SLICE", inputs, (Spec(tuple(kept), kind),), masks), firsts, strides, counts
