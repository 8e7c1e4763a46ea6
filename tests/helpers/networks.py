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

    def unary(self, source: int, key: str = "") -> int:
        """An element-wise operator on one tensor."""
        key = key or self.rng.choice(("ELU", "HARD_SWISH", "LEAKY_RELU", "RELU", "RELU6"))
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

    def integers(self, *values: int) -> int:
        data = b"".join(n.to_bytes(4, "little", signed=True) for n in values)
        return self.main.tensor((len(values),), "int32", data=data)

    def crop(self, source: int) -> int:
        """Some of the rows, by SLICE or STRIDED_SLICE."""
        batch, rows, columns, depth = self.shape(source)
        first = self.rng.randrange(rows)
        count = self.rng.randint(1, rows - first)
        result = self.tensor((batch, count, columns, depth))
        begin = self.integers(0, first, 0, 0)
        if self.rng.random() < 0.5:
            self.main.op("SLICE", [source, begin, self.integers(batch, count, columns, depth)], [result])
        else:
            inputs = [source, begin, self.integers(batch, first + count, columns, depth), self.integers(1, 1, 1, 1)]
            self.main.op("STRIDED_SLICE", inputs, [result], options={"begin_mask": 0})
        return result

    def halves(self, source: int) -> list[int]:
        """SPLIT along rows, columns or channels, where one is even."""
        shape = self.shape(source)
        even = [axis for axis in (1, 2, 3) if shape[axis] % 2 == 0]
        if not even:
            return []
        axis = self.rng.choice(even)
        results = [self.tensor(tuple(n // 2 if i == axis else n for i, n in enumerate(shape))) for _ in range(2)]
        place = self.main.tensor((), "int32", data=axis.to_bytes(4, "little"))
        self.main.op("SPLIT", [place, source], results, options={"num_splits": 2})
        return results

    def stack(self, tensors: list[int]) -> int:
        """CONCATENATION of images of one width and depth, one below the other."""
        batch, _, columns, depth = self.shape(tensors[0])
        result = self.tensor((batch, sum(self.shape(t)[1] for t in tensors), columns, depth))
        self.main.op("CONCATENATION", tensors, [result], options={"axis": 1})
        return result

    def resize(self, source: int) -> int:
        batch, rows, columns, depth = self.shape(source)
        size = self.rng.randint(1, rows + 2), self.rng.randint(1, columns + 2)
        result = self.tensor((batch, *size, depth))
        key = self.rng.choice(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"))
        self.main.op(key, [source, self.integers(*size)], [result], options={"align_corners": False})
        return result

    def gate(self, source: int) -> int:
        """Each channel multiplied by its own mean."""
        batch, *_, depth = self.shape(source)
        mean, result = self.tensor((batch, 1, 1, depth)), self.tensor(self.shape(source))
        self.main.op("MEAN", [source, self.integers(1, 2)], [mean], options={"keep_dims": True})
        self.main.op("MUL", [source, mean], [result], options={})
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
    """A network of windows and of operators that move, compare, bend, gather or reduce elements."""
    net = Network(seed, kind)
    rng = net.rng
    tensors = [net.tensor((1, rng.randrange(4, 12), rng.randrange(4, 12), rng.choice((3, 8))), "x")]
    net.main.inputs = tensors[:]
    tensors.append(net.unary(tensors[0], "ELU"))  # TFLM's own kernel in compiled code
    for _ in range(layers):
        source = rng.choice(tensors[-2:])
        others = [t for t in tensors[-4:] if t != source]
        alike = [t for t in others if net.shape(t) == net.shape(source)]
        stackable = [t for t in others if net.shape(t)[2:] == net.shape(source)[2:] and net.shape(t)[1] < 16]
        moves = [net.transpose, net.crop, net.resize, net.gate]
        choice = rng.random()
        if alike and choice < 0.3:
            tensors.append(net.binary(source, rng.choice(alike)))
        elif stackable and choice < 0.45:
            tensors.append(net.stack([source, *stackable[: rng.randint(1, 2)]]))
        elif choice < 0.55:
            tensors.append(net.unary(source))
        elif choice < 0.75:
            tensors.append(rng.choice(moves)(source))
        elif choice < 0.82:
            tensors += net.halves(source)
        else:
            tensors.append(net.window(source))
    return finished(net, tensors)


def finished(net: Network, tensors: list[int]) -> bytes:
    """The model, whose outputs are the tensors that nothing reads."""
    read = {i for operator in net.main.operators for i in operator.inputs}
    net.main.outputs = [t for t in tensors if t not in read]
    return net.builder.finish()
