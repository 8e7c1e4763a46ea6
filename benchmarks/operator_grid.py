# SPDX-License-Identifier: Apache-2.0
"""Models of independent layers of every operator that small networks have, for benchmarks/operator_costs.py.

Each layer goes from an input of its own to an output of its own. Sizes are small, as the reference kernels take about a
hundred instructions a product.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.helpers.model_builder import ModelBuilder, SubgraphBuilder  # noqa: E402

INT8, INT16, FLOAT = "int8", "int16", "float32"
_ZERO, _SCALE = 3, 0.05
_PARTS = 24


@dataclass(frozen=True)
class OperatorLayer:
    """An operator of one or two inputs of the same type.

    `given`: shapes of its inputs, `taken` that of its output. `weights`: the shape of constant weights, for operators
    with products. `more`: an int32 constant besides, such as axes. `scale`: the output's, where the operator wants one.
    """

    key: str
    given: tuple[tuple[int, ...], ...]
    taken: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    type: str = INT8
    out_type: str = ""
    weights: tuple[int, ...] = ()
    more: tuple[int, ...] = ()
    more_shape: tuple[int, ...] = ()
    scale: float = _SCALE
    zero: int = _ZERO

    def add(self, main: SubgraphBuilder) -> None:
        """Add the layer with its tensors to `main`."""
        sources = [
            self._tensor(main, shape, self.type, _SCALE, 0 if self.type == INT16 else _ZERO) for shape in self.given
        ]
        inputs = list(sources)
        if self.weights:
            inputs += self._products(main)
        if self.more:
            data = struct.pack(f"<{len(self.more)}i", *self.more)
            inputs.append(main.tensor(self.more_shape or (len(self.more),), "int32", data=data))
        kind = self.out_type or self.type
        output = self._tensor(main, self.taken, kind, self.scale, 0 if kind == INT16 else self.zero)
        main.op(self.key, inputs, [output], options=self.options or None)
        main.inputs += sources
        main.outputs.append(output)

    def _tensor(self, main: SubgraphBuilder, shape: Sequence[int], kind: str, scale: float, zero: int) -> int:
        if kind == FLOAT:
            return main.tensor(shape, kind)
        return main.tensor(shape, kind, scale=scale, zero_point=zero)

    def _products(self, main: SubgraphBuilder) -> list[int]:
        count, depthwise = math.prod(self.weights), self.key == "DEPTHWISE_CONV_2D"
        channels = self.weights[-1] if depthwise else self.weights[0]
        if self.type == FLOAT:
            values = [main.rng.uniform(-0.1, 0.1) for _ in range(count)]
            return [
                main.tensor(self.weights, FLOAT, data=struct.pack(f"<{count}f", *values)),
                main.tensor((channels,), FLOAT, data=struct.pack(f"<{channels}f", *values[:1] * channels)),
            ]
        taps = count // channels
        real = [0.3 / (74 * taps**0.5) * 2.0 ** (-0.2 * (k % 3)) for k in range(channels)]
        scales = real[:1] if self.key == "FULLY_CONNECTED" else real
        data = bytes(main.rng.randint(-127, 127) & 255 for _ in range(count))
        bias = struct.pack(f"<{channels}i", *(main.rng.randint(-9999, 9999) for _ in range(channels)))
        wide = self.type == INT16
        if wide:
            bias = struct.pack(f"<{channels}q", *(main.rng.randint(-9999, 9999) for _ in range(channels)))
        return [
            main.tensor(self.weights, INT8, scale=scales, dimension=3 if depthwise else 0, data=data),
            main.tensor((channels,), "int64" if wide else "int32", scale=_SCALE * scales[0], data=bias),
        ]


def grid_models(families: Sequence[str] = ()) -> dict[str, bytes]:
    """The models of these families, or of all, by name, none larger than the memory of the smallest machine."""
    found = {}
    for name, layers in grid().items():
        if families and name not in families:
            continue
        for first in range(0, len(layers), _PARTS):
            found[f"{name}{first // _PARTS}"] = _model(layers[first : first + _PARTS])
    return found


def _model(layers: Sequence[OperatorLayer]) -> bytes:
    model = ModelBuilder(seed=5)
    main = model.subgraph("main")
    for layer in layers:
        layer.add(main)
    return model.finish()


def grid() -> dict[str, list[OperatorLayer]]:
    """The layers by family."""
    return {
        "products": [*_convolutions(INT8), *_depthwise(INT8), *_dense(INT8)],
        "pools": list(_pools(INT8)),
        "elements": [*_elementwise(INT8), *_activations(INT8)],
        "moves": [*_moves(), *_reductions(INT8)],
        "floats": [*_convolutions(FLOAT, 4), *_depthwise(FLOAT, 4), *_dense(FLOAT, 5)],
        "float_elements": [*_pools(FLOAT, 5), *_elementwise(FLOAT, 3), *_activations(FLOAT, 3), *_reductions(FLOAT)],
        "int16": [*_convolutions(INT16, 4), *_depthwise(INT16, 4), *_dense(INT16, 4), *_pools(INT16, 2)],
    }


def _out(sizes: Sequence[int], window: Sequence[int], stride: int, same: bool) -> tuple[int, ...]:
    return tuple(
        -(-size // stride) if same else (size - one) // stride + 1 for size, one in zip(sizes, window, strict=True)
    )


def _window_options(stride: int, same: bool) -> dict[str, int]:
    return {"padding": 0 if same else 1, "stride_h": stride, "stride_w": stride}


def _convolutions(kind: str, count: int = 99) -> Iterator[OperatorLayer]:
    sizes: list[tuple[int, int, int, int, tuple[int, int], int, bool]] = [
        (5, 5, 8, 8, (3, 3), 1, True), (6, 6, 16, 12, (1, 1), 1, True), (9, 9, 3, 8, (3, 3), 2, True),
        (4, 4, 32, 16, (1, 1), 1, True), (7, 5, 6, 5, (2, 3), 1, False), (6, 6, 8, 10, (1, 1), 2, True),
        (12, 6, 1, 8, (10, 4), 2, True), (3, 3, 16, 16, (3, 3), 1, True), (2, 2, 64, 20, (1, 1), 1, True),
        (1, 16, 4, 6, (1, 5), 1, True), (8, 8, 2, 3, (5, 5), 1, True),
    ]  # fmt: skip
    for h, w, d, c, window, stride, same in sizes[:count]:
        out = _out((h, w), window, stride, same)
        options = {**_window_options(stride, same), "dilation_h_factor": 1, "dilation_w_factor": 1}
        options["fused_activation_function"] = 1
        yield OperatorLayer("CONV_2D", ((1, h, w, d),), (1, *out, c), options, kind, weights=(c, *window, d))


def _depthwise(kind: str, count: int = 99) -> Iterator[OperatorLayer]:
    sizes: list[tuple[int, int, int, int, tuple[int, int], int, bool]] = [
        (6, 6, 16, 16, (3, 3), 1, True), (7, 7, 8, 8, (3, 3), 2, True), (9, 5, 4, 8, (2, 3), 1, False),
        (6, 6, 10, 10, (5, 5), 1, True), (12, 9, 1, 8, (10, 8), 2, True), (3, 3, 40, 40, (3, 3), 1, True),
        (5, 8, 24, 24, (3, 3), 1, False), (1, 20, 16, 16, (1, 5), 1, True),
    ]  # fmt: skip
    for h, w, d, c, window, stride, same in sizes[:count]:
        out = _out((h, w), window, stride, same)
        options = {**_window_options(stride, same), "dilation_h_factor": 1, "dilation_w_factor": 1}
        options |= {"fused_activation_function": 3, "depth_multiplier": c // d}
        yield OperatorLayer("DEPTHWISE_CONV_2D", ((1, h, w, d),), (1, *out, c), options, kind, weights=(1, *window, c))


def _dense(kind: str, count: int = 99) -> Iterator[OperatorLayer]:
    sizes = [
        (1, 64, 12), (1, 16, 16), (1, 300, 4), (1, 1, 16), (4, 20, 9), (1, 128, 33), (1, 33, 10), (2, 50, 7),
        (1, 16, 1), (1, 4, 8), (1, 128, 128), (1, 7, 3), (1, 200, 64),
    ]  # fmt: skip
    for rows, depth, channels in sizes[:count]:
        yield OperatorLayer(
            "FULLY_CONNECTED", ((rows, depth),), (rows, channels), {"fused_activation_function": 0}, kind,
            weights=(channels, depth),
        )  # fmt: skip


def _pools(kind: str, count: int = 99) -> Iterator[OperatorLayer]:
    sizes: list[tuple[int, int, int, tuple[int, int], int, bool]] = [
        (8, 8, 16, (2, 2), 2, False), (6, 6, 32, (6, 6), 6, False), (9, 7, 10, (3, 3), 2, True),
        (5, 5, 64, (5, 5), 5, False), (12, 12, 3, (2, 2), 2, True), (7, 7, 9, (3, 3), 1, True),
        (25, 5, 12, (25, 5), 25, False), (4, 4, 7, (2, 1), 1, False), (3, 3, 128, (3, 3), 3, False),
    ]  # fmt: skip
    for key in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        for h, w, d, window, stride, same in sizes[:count]:
            out = _out((h, w), window, stride, same)
            options = {**_window_options(stride, same), "filter_height": window[0], "filter_width": window[1]}
            yield OperatorLayer(key, ((1, h, w, d),), (1, *out, d), options, kind)


_SIZES: tuple[tuple[int, ...], ...] = ((1, 16), (1, 6, 6, 16), (1, 333), (1, 5, 9, 7))


def _elementwise(kind: str, count: int = 99) -> Iterator[OperatorLayer]:
    for key in ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"):
        for shape in _SIZES[:count]:
            options = {"fused_activation_function": 0} if key in ("ADD", "SUB", "MUL") else {}
            yield OperatorLayer(key, (shape, shape), shape, options, kind, scale=_same(key))
        if key in ("ADD", "SUB", "MUL") and kind == INT8:
            for shape in ((1, 6, 6, 16), (1, 3, 4, 12), (1, 5, 2, 9)):
                options = {"fused_activation_function": 0}
                yield OperatorLayer(key, (shape, (1, 1, 1, shape[3])), shape, options, kind, scale=_same(key))


def _same(key: str) -> float:
    return _SCALE if key in ("MAXIMUM", "MINIMUM") else 0.11


def _activations(kind: str, count: int = 99) -> Iterator[OperatorLayer]:
    ends = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}
    for key in ("LOGISTIC", "TANH", "HARD_SWISH", "RELU", "RELU6", "LEAKY_RELU"):
        scale, zero = ends.get(key, (0.06, -5))
        for shape in _SIZES[:count]:
            options = {"alpha": 0.1} if key == "LEAKY_RELU" else {}
            yield OperatorLayer(key, (shape,), shape, options, kind, scale=scale, zero=zero)
    for shape in ((1, 2), (1, 10), (1, 40), (6, 12), (20, 3))[: count + 1]:
        yield OperatorLayer("SOFTMAX", (shape,), shape, {"beta": 1.0}, kind, scale=1 / 256, zero=-128)


def _reductions(kind: str) -> Iterator[OperatorLayer]:
    sizes = [((1, 6, 6, 16), (1, 2)), ((1, 4, 9, 5), (1, 2)), ((1, 3, 3, 40), (1, 2)), ((1, 8, 30), (2,))]
    for key in ("MEAN",) if kind == FLOAT else ("MEAN", "SUM", "REDUCE_MAX"):
        for shape, axes in sizes:
            taken = tuple(size for k, size in enumerate(shape) if k not in axes)
            scale = _SCALE if key == "REDUCE_MAX" else 0.11
            yield OperatorLayer(key, (shape,), taken, {"keep_dims": False}, kind, more=axes, scale=scale)


def _moves() -> Iterator[OperatorLayer]:
    for shape in _SIZES:
        flat = (1, math.prod(shape))
        yield OperatorLayer("RESHAPE", (shape,), flat, {"new_shape": flat}, more=flat)
        yield OperatorLayer("QUANTIZE", (shape,), shape, scale=0.09)
        yield OperatorLayer("QUANTIZE", (shape,), shape, type=FLOAT, out_type=INT8)
        yield OperatorLayer("DEQUANTIZE", (shape,), shape, out_type=FLOAT)
    for h, w, d, around in ((6, 6, 8, 1), (9, 5, 3, 2), (4, 4, 40, 1), (5, 7, 12, 2), (3, 3, 4, 1)):
        pads = (0, 0, around, around, around, around, 0, 0)
        taken = (1, h + 2 * around, w + 2 * around, d)
        yield OperatorLayer("PAD", ((1, h, w, d),), taken, more=pads, more_shape=(4, 2), scale=_SCALE)
    for h, d, e, axis in ((6, 8, 8, 3), (9, 5, 3, 3), (40, 10, 10, 1), (12, 30, 10, 3)):
        first, second = (1, h, 1, d), (1, h, 1, e)
        taken = (1, h, 1, d + e) if axis == 3 else (1, 2 * h, 1, d)
        yield OperatorLayer("CONCATENATION", (first, second), taken, {"axis": axis, "fused_activation_function": 0})
    orders: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((1, 6, 5, 8), (0, 3, 1, 2)), ((1, 12, 10), (0, 2, 1)), ((1, 9, 4, 3), (0, 2, 1, 3)), ((1, 30), (1, 0)),
    ]  # fmt: skip
    for shape, order in orders:
        yield OperatorLayer("TRANSPOSE", (shape,), tuple(shape[k] for k in order), more=order)
    for h, w, d in ((4, 4, 8), (3, 5, 12), (6, 2, 4), (2, 2, 24)):
        shape, taken = (1, h, w, d), (1, 2 * h, 2 * w, d)
        yield OperatorLayer("RESIZE_NEAREST_NEIGHBOR", (shape,), taken, more=(2 * h, 2 * w))
    for shape in ((1, 10), (1, 40), (3, 12)):
        yield OperatorLayer("ARG_MAX", (shape,), shape[:1], {"output_type": 2}, out_type="int32", more=(1,))
