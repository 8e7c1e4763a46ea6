# SPDX-License-Identifier: Apache-2.0
"""Random networks of operators that run row by row: windows, sums, residuals, padding, an average at the end."""

from __future__ import annotations

from tests.helpers.networks import Network, finished

_UNARY = ("HARD_SWISH", "LEAKY_RELU", "RELU", "RELU6", "LOGISTIC", "TANH", "QUANTIZE")


class RowNetwork(Network):
    """Layers on one image."""

    def grow(self, tensors: list[int]) -> int:
        """One more layer, on one of the last two tensors."""
        rng = self.rng
        source = tensors[-1] if rng.random() < 0.75 else rng.choice(tensors[-2:])
        alike = [t for t in tensors[-4:] if t != source and self.shape(t) == self.shape(source)]
        choice = rng.random()
        if alike and choice < 0.4:
            other = rng.choice(alike)
            return self.add(source, other) if rng.random() < 0.6 else self.pair(source, other)
        if choice < 0.5 and max(self.shape(source)[1:3]) < 24:
            return self.pad(source)
        if choice < 0.62 and self.kind == "int8":
            return self.bend(source)
        return self.window(source)

    def averaged(self) -> dict[str, float]:
        """The quantisation of averages."""
        return {} if self.kind == "float32" else {"scale": 0.01, "zero_point": -3 if self.kind == "int8" else 0}

    def pair(self, one: int, other: int) -> int:
        """An element-wise operator on two tensors."""
        result = self.tensor(self.shape(one))
        key = self.rng.choice(("MAXIMUM", "MINIMUM", "SUB", "MUL"))
        self.main.op(key, [one, other], [result], options={})
        return result

    def bend(self, source: int) -> int:
        """An element-wise operator on one tensor, and back to the scale of the others, as pools change none."""
        key = self.rng.choice(_UNARY)
        scale, zero = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}.get(key, (0.07, 3))
        bent = self.main.tensor(self.shape(source), self.kind, scale=scale, zero_point=zero)
        self.main.op(key, [source], [bent], options={"alpha": 0.3} if key == "LEAKY_RELU" else None)
        result = self.tensor(self.shape(source))
        self.main.op("QUANTIZE", [bent], [result])
        return result

    def constants(self, shape: tuple[int, ...], filters: int, dimension: int) -> list[int]:
        """Weights and a bias; that of int16 layers is int64, as TFLM's direct functions want."""
        weights, bias = super().constants(shape, filters, dimension)
        if self.kind == "int16":
            bias = self.main.tensor((filters,), "int64", scale=[1e-4] * filters, data=bytes(8 * filters))
        return [weights, bias]

    def average(self, source: int) -> int:
        """All pixels as one, by either operator."""
        _, rows, columns, depth = self.shape(source)
        if self.rng.random() < 0.5:
            result = self.main.tensor((1, depth), self.kind, **self.averaged())
            self.main.op("MEAN", [source, self.integers(1, 2)], [result], options={"keep_dims": False})
            return result
        result = self.tensor((1, 1, 1, depth))
        options = {"padding": 1, "stride_h": rows, "stride_w": columns, "fused_activation_function": 0}
        options |= {"filter_height": rows, "filter_width": columns}
        self.main.op("AVERAGE_POOL_2D", [source], [result], options=options)
        return result


def row_network(seed: int, layers: int = 8, kind: str = "int8") -> bytes:
    """A network of `layers` layers; the same seed gives the same bytes. Every fourth one is one row or pixel wide."""
    net = RowNetwork(seed, kind)
    rng = net.rng
    sides = [rng.randrange(5, 22), rng.randrange(3, 14)]
    if seed % 4 == 3:
        sides = rng.choice(([1, rng.randrange(8, 40)], [rng.randrange(8, 40), 1]))
    tensors = [net.tensor((1, *sides, rng.choice((1, 3, 4, 8))), "x")]
    net.main.inputs = tensors[:]
    for _ in range(layers):
        tensors.append(net.grow(tensors))
    if rng.random() < 0.5 and net.shape(tensors[-1])[1] * net.shape(tensors[-1])[2] > 1:
        tensors.append(net.average(tensors[-1]))
    return finished(net, tensors)
