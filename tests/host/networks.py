# SPDX-License-Identifier: Apache-2.0
"""Random convolutional networks in int8 and float that TFLM runs: windows of all kinds, branches, moves of data."""

from __future__ import annotations

import random

from tests.helpers.model_builder import ModelBuilder, SubgraphBuilder

_SCALE = 0.05


class Network:
    """Layers are added to tensors of NHWC shape; weights are random, and scales keep values in their range."""

    def __init__(self, seed: int, kind: str) -> None:
        self.rng, self.kind = random.Random(seed), kind
        self.builder = ModelBuilder(seed=seed)
        self.main: SubgraphBuilder = self.builder.subgraph()

    def tensor(self, shape: tuple[int, ...], name: str | None = None) -> int:
        scale = None if self.kind == "float32" else _SCALE
        return self.main.tensor(shape, self.kind, name, scale=scale)

    def shape(self, tensor: int) -> tuple[int, ...]:
        found = self.main.tensors[tensor].shape
        assert found is not None
        return found

    def window(self, source: int) -> int:
        """A convolution or a pool of random size, stride, dilation and padding."""
        rng, (batch, rows, columns, depth) = self.rng, self.shape(source)
        code = rng.choice(("CONV_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D"))
        pool = code.endswith("POOL_2D")
        kernel = [min(n, rng.choice((1, 1, 2, 3, 5))) for n in (rows, columns)]
        stride = [rng.choice((1, 1, 2)) for _ in range(2)]
        dilation = [1 if pool or max(stride) > 1 else rng.choice((1, 1, 2)) for _ in range(2)]
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        same = rng.random() < 0.6 or reach[0] > rows or reach[1] > columns
        out = [-(-n // s) if same else (n - r) // s + 1 for n, r, s in zip((rows, columns), reach, stride, strict=True)]
        options = {"padding": 0 if same else 1, "stride_h": stride[0], "stride_w": stride[1]}
        options["fused_activation_function"] = rng.choice((0, 1))
        if pool:
            result = self.tensor((batch, *out, depth))
            self.main.op(code, [source], [result],
                         options={**options, "filter_height": kernel[0], "filter_width": kernel[1]})  # fmt: skip
            return result
        depthwise = code == "DEPTHWISE_CONV_2D"
        filters = depth * rng.choice((1, 1, 2)) if depthwise else rng.choice((1, 4, 7, 8, 16))
        weights = (1, *kernel, filters) if depthwise else (filters, *kernel, depth)
        result = self.tensor((batch, *out, filters))
        inputs = [source, *self.constants(weights, filters, 3 if depthwise else 0)]
        options |= {"dilation_h_factor": dilation[0], "dilation_w_factor": dilation[1]}
        self.main.op(code, inputs, [result],
                     options=options | ({"depth_multiplier": filters // depth} if depthwise else {}))  # fmt: skip
        return result

    def constants(self, shape: tuple[int, ...], filters: int, dimension: int) -> list[int]:
        if self.kind == "float32":
            import numpy

            values = numpy.random.default_rng(self.rng.randrange(1 << 30)).normal(size=shape).astype("float32")
            bias = self.main.tensor((filters,), "float32", data=bytes(4 * filters))
            return [self.main.tensor(shape, "float32", data=values), bias]
        scales = [0.004] * filters
        bias = self.main.tensor((filters,), "int32", scale=[s * _SCALE for s in scales], data=bytes(4 * filters))
        return [self.main.tensor(shape, "int8", data="random", scale=scales, dimension=dimension), bias]

    def add(self, one: int, other: int) -> int:
        result = self.tensor(self.shape(one))
        self.main.op("ADD", [one, other], [result], options={"fused_activation_function": 0})
        return result

    def join(self, one: int, other: int) -> int:
        shape = self.shape(one)
        result = self.tensor((*shape[:3], shape[3] + self.shape(other)[3]))
        self.main.op("CONCATENATION", [one, other], [result], options={"axis": 3})
        return result

    def pad(self, source: int) -> int:
        batch, rows, columns, depth = self.shape(source)
        widths = [self.rng.randrange(3) for _ in range(4)]
        data = b"".join(n.to_bytes(4, "little") for n in (0, 0, *widths, 0, 0))
        result = self.tensor((batch, rows + widths[0] + widths[1], columns + widths[2] + widths[3], depth))
        self.main.op("PAD", [source, self.main.tensor((4, 2), "int32", data=data)], [result])
        return result

    def unary(self, source: int) -> int:
        """An element-wise operator on one tensor."""
        key = self.rng.choice(("HARD_SWISH", "LEAKY_RELU", "RELU", "RELU6"))
        result = self.tensor(self.shape(source))
        self.main.op(key, [source], [result], options={"alpha": 0.3} if key == "LEAKY_RELU" else None)
        return result

    def binary(self, one: int, other: int) -> int:
        """An element-wise operator on two tensors of one shape."""
        result = self.tensor(self.shape(one))
        self.main.op(self.rng.choice(("MAXIMUM", "MINIMUM", "SUB")), [one, other], [result], options={})
        return result

    def transpose(self, source: int) -> int:
        """Rows and columns swapped."""
        batch, rows, columns, depth = self.shape(source)
        order = b"".join(n.to_bytes(4, "little") for n in (0, 2, 1, 3))
        result = self.tensor((batch, columns, rows, depth))
        self.main.op("TRANSPOSE", [source, self.main.tensor((4,), "int32", data=order)], [result])
        return result

    def reshape(self, source: int) -> int:
        batch, rows, columns, depth = self.shape(source)
        shape = (batch, columns, rows, depth)
        data = b"".join(n.to_bytes(4, "little") for n in shape)
        result = self.tensor(shape)
        self.main.op("RESHAPE", [source, self.main.tensor((4,), "int32", data=data)], [result],
                     options={"new_shape": list(shape)})  # fmt: skip
        return result


def network(seed: int, kind: str = "int8", layers: int = 9) -> bytes:
    """A network of `layers` layers; the same seed gives the same bytes."""
    net = Network(seed, kind)
    rng = net.rng
    tensors = [
        net.tensor((rng.choice((1, 1, 2)), rng.randrange(4, 14), rng.randrange(4, 14), rng.choice((1, 3, 8))), "x")
    ]
    net.main.inputs = tensors[:]
    for _ in range(layers):
        source = rng.choice(tensors[-2:])
        alike = [t for t in tensors[-4:] if t != source and net.shape(t) == net.shape(source)]
        joinable = [t for t in tensors[-4:] if t != source and net.shape(t)[:3] == net.shape(source)[:3]]
        choice = rng.random()
        if alike and choice < 0.35:
            tensors.append(net.add(source, rng.choice(alike)))
        elif joinable and choice < 0.5:
            tensors.append(net.join(source, rng.choice(joinable)))
        elif choice < 0.58:
            tensors.append(net.reshape(source))
        elif choice < 0.66 and net.shape(source)[1] < 16:
            tensors.append(net.pad(source))
        else:
            tensors.append(net.window(source))
    return finished(net, tensors)


def mixed_network(seed: int, kind: str = "int8", layers: int = 12) -> bytes:
    """A network of windows and of operators that only move, compare or bend elements."""
    net = Network(seed, kind)
    rng = net.rng
    tensors = [net.tensor((1, rng.randrange(4, 12), rng.randrange(4, 12), rng.choice((3, 8))), "x")]
    net.main.inputs = tensors[:]
    for _ in range(layers):
        source = rng.choice(tensors[-2:])
        alike = [t for t in tensors[-4:] if t != source and net.shape(t) == net.shape(source)]
        choice = rng.random()
        if alike and choice < 0.4:
            tensors.append(net.binary(source, rng.choice(alike)))
        elif choice < 0.6:
            tensors.append(net.unary(source))
        elif choice < 0.7:
            tensors.append(net.transpose(source))
        else:
            tensors.append(net.window(source))
    return finished(net, tensors)


def finished(net: Network, tensors: list[int]) -> bytes:
    """The model, whose outputs are the tensors that nothing reads."""
    read = {i for operator in net.main.operators for i in operator.inputs}
    net.main.outputs = [t for t in tensors if t not in read]
    return net.builder.finish()
