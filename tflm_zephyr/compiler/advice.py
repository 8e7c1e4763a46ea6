# SPDX-License-Identifier: Apache-2.0
"""The layers that cost most on a core, and changes of the network that would cost less: for who trains the model.

All cycles are estimates of tflm_zephyr.costs. A change is priced by the same kernels with the sizes that it would give.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tflm_zephyr.compiler.work import ModelWork, OperatorWork
from tflm_zephyr.costs import Costs, Shape
from tflm_zephyr.model import Model, Operator, TensorType

LEAST_SHARE = 0.02
"""The share of the model's cycles, or of its arena, from which on a change is worth a line."""
_DEAR = 1.2
"""Times what as many channels of a group of four take, from which on a rest is dear."""
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
_POOLS = {"MAX_POOL_2D": "MaxPooling2D", "AVERAGE_POOL_2D": "AveragePooling2D"}
_NEW_CHANNELS = ("CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
_ACTIVATIONS = {*"RELU RELU6 RELU_N1_TO_1 LEAKY_RELU PRELU LOGISTIC TANH HARD_SWISH ELU GELU".split()}


@dataclass(frozen=True)
class LayerCost:
    """An operator of the main subgraph, by its index in the model's file.

    `kernel` is the function that computes it, or operator and type where a library chooses by itself; "" for a layer
    without code, which takes no cycles. `error`: the share by which the estimate may be off. `stands_in` says what was
    measured instead, "" where the very kernel was.
    """

    operator: int
    name: str
    kernel: str
    cycles: int
    error: float
    stands_in: str


@dataclass(frozen=True)
class Change:
    """A change of the network: estimated `cycles` fewer, bytes that a tensor of the app's takes less, with their shares
    of the model's cycles and arena.

    `kind`: channels, float, padding, stride or activation; `operators` by their index in the file.
    """

    kind: str
    operators: tuple[int, ...]
    what: str
    cycles: int
    cycles_share: float
    ram_bytes: int = 0
    ram_share: float = 0.0


@dataclass(frozen=True)
class LayerCosts:
    """A model on its boards' cores: the estimated cycles of an inference, those of each layer in running order, and
    changes, the most gain first. `unknown` operators are in no table, and have no cycles."""

    core: str
    cycles: int
    unknown: int
    layers: tuple[LayerCost, ...]
    changes: tuple[Change, ...]


def layer_costs(
    model: Model, work: ModelWork, costs: Costs, order: Sequence[int] | None, arena_bytes: int
) -> LayerCosts:
    """The costs of `model`, which has its operators in running order, by its `work` at these `costs`.

    `order`: the operators' indices in the file.
    """
    numbers = range(len(model.main.operators)) if order is None else order
    known = {one.operator: one for one in work.operators}
    layers = tuple(
        LayerCost(number, op.key, one.kernel, round(one.price.cycles), round(one.price.error, 4), one.price.why)
        if (one := known.get(op.index))
        else LayerCost(number, op.key, "", 0, 0.0, "")
        for op, number in zip(model.main.operators, numbers, strict=True)
    )
    changes = []
    for change in _Network(model, known).changes():
        cycles, ram = (
            round(a / b, 5) if b else 0.0 for a, b in ((change.cycles, work.cycles), (change.ram_bytes, arena_bytes))
        )
        if max(cycles, ram) >= LEAST_SHARE:
            which = tuple(numbers[k] for k in change.operators)
            changes.append(replace(change, operators=which, cycles_share=cycles, ram_share=ram))
    changes.sort(key=lambda one: (-max(one.cycles_share, one.ram_share), one.operators))
    return LayerCosts(", ".join(costs.cores), work.cycles, len(work.unknown), layers, tuple(changes))


class _Network:
    """The model's operators with the tensors between them."""

    def __init__(self, model: Model, works: Mapping[int, OperatorWork]) -> None:
        self._works, self._tensors, self._operators = works, model.main.tensors, model.main.operators
        self._inputs, self._outputs = model.main.inputs, model.main.outputs
        self._readers = defaultdict[int, list[Operator]](list)
        for op in self._operators:
            for index in set(op.inputs):
                self._readers[index].append(op)

    def changes(self) -> Iterator[Change]:
        """All changes, whatever they gain."""
        for kind in (self._floats, self._paddings, self._strides, self._activations, self._channels):
            yield from kind()

    def _cycles(self, ops: Iterable[Operator]) -> float:
        return sum(self._works[op.index].price.cycles for op in ops if op.index in self._works)

    def _left_out(self, kind: str, ops: Sequence[Operator], what: str, ram_bytes: int = 0) -> Change:
        """A change that leaves out the operators."""
        return Change(kind, tuple(op.index for op in ops), what, round(self._cycles(ops)), 0.0, ram_bytes)

    def _only_reader(self, operator: Operator) -> Operator | None:
        """The one operator that reads the output, which is none of the model's."""
        readers = self._readers[operator.outputs[0]]
        return readers[0] if len(readers) == 1 and operator.outputs[0] not in self._outputs else None

    def _floats(self) -> Iterator[Change]:
        """Inputs and outputs that the app gives and takes as floats, where the model inside has integers."""
        for op in self._operators:
            ends = {"QUANTIZE": (*op.inputs, *op.outputs), "DEQUANTIZE": (*op.outputs, *op.inputs)}.get(op.key)
            role, bound = ("input", self._inputs) if op.key == "QUANTIZE" else ("output", self._outputs)
            if ends is None or ends[0] not in bound or self._tensors[ends[0]].type is not TensorType.FLOAT32:
                continue
            real, other = self._tensors[ends[0]], self._tensors[ends[1]]
            what = (
                f"convert with inference_{role}_type = tf.{other.type.value}, or generate with --io int8: the {role} "
                f"takes {other.size_bytes:,} bytes instead of {real.size_bytes:,}, and no {op.key} is left"
            )
            yield self._left_out("float", [op], what, real.size_bytes - other.size_bytes)

    def _paddings(self) -> Iterator[Change]:
        """PADs before a convolution that could pad by itself."""
        alone = {"the result is the same": list[Operator](), "the windows then start elsewhere": list[Operator]()}
        for op in self._operators:
            reader = self._only_reader(op) if op.key in ("PAD", "PADV2") else None
            if reader is not None and reader.key in _CONVOLUTIONS and reader.option("padding") != 0:
                alone[list(alone)[not self._same(op, reader)]].append(op)
        for then, ops in alone.items():
            what = f"padding='same' in the convolution instead of a ZeroPadding2D before it: {then}"
            yield self._left_out("padding", ops, what)

    def _same(self, pad: Operator, reader: Operator) -> bool:
        """Whether the PAD pads as TensorFlow's SAME would do in `reader`."""
        source, amounts = self._tensors[pad.inputs[0]], self._tensors[pad.inputs[1]]
        if amounts.data is None or len(source.shape) != 4:
            return False
        want = [0, 0]
        steps = reader.option("stride_h"), reader.option("stride_w")
        for size, high, step in zip(source.shape[1:3], self._tensors[reader.inputs[1]].shape[1:3], steps, strict=True):
            total = max((-(-size // step) - 1) * step + high - size, 0)
            want += [total // 2, total - total // 2]
        return memoryview(amounts.data).cast("q" if amounts.type is TensorType.INT64 else "i").tolist() == [*want, 0, 0]

    def _strides(self) -> Iterator[Change]:
        """Convolutions whose outputs a pooling layer thins out; a mean of all pixels does not."""
        for op in self._operators:
            pool, work = self._only_reader(op) if op.outputs else None, self._works.get(op.index)
            if op.key not in _CONVOLUTIONS or work is None or pool is None or pool.key not in _POOLS:
                continue
            steps = pool.option("stride_h"), pool.option("stride_w")
            height, width = self._tensors[pool.outputs[0]].shape[1:3]
            if (op.option("stride_h"), op.option("stride_w")) == (1, 1) and max(steps) > 1 and height * width > 1:
                thin = replace(work.shape, out_height=height, out_width=width, down=steps[0], across=steps[1])
                what = f"strides={steps} in the convolution instead of the {_POOLS[pool.key]} behind it"
                gain = work.gain(thin) + self._cycles([pool])
                yield Change("stride", (op.index, pool.index), what, round(gain), 0.0)

    def _activations(self) -> Iterator[Change]:
        """Activations that are layers of their own, by kind."""
        for key in sorted({op.key for op in self._operators} & _ACTIVATIONS):
            what = (
                f"ReLU or ReLU6 right behind a layer costs nothing, as its kernel clamps; {key} is a layer of its own"
            )
            if key in ("RELU", "RELU6"):
                what = f"{key} right behind a Conv2D, a Dense or an Add costs nothing; here something stands between"
            yield self._left_out("activation", [op for op in self._operators if op.key == key], what)

    def _channels(self) -> Iterator[Change]:
        """Channels that are no multiple of four: more of them where that is faster, fewer where the rest is dear."""
        for size, tensors in self._channel_groups():
            ends = {
                k: ({*op.inputs[:1]} & tensors, {*op.outputs[:1]} & tensors) for k, op in enumerate(self._operators)
            }
            works = {k: self._works[k] for k, sides in ends.items() if any(sides) and k in self._works}
            rest = size % 4
            down, up = (
                sum(work.gain(_resized(work.shape, size, other, *ends[k])) for k, work in works.items())
                for other in (size - rest, size - rest + 4)
            )
            if up > 0:
                what = f"{size - rest + 4} channels instead of {size}: more to learn with in less time"
                yield Change("channels", tuple(works), what, round(up), 0.0)
            elif down > _DEAR * (down - up) * rest / 4:
                what = (
                    f"{size - rest} channels instead of {size}, or {size - rest + 4}: the last {rest} take "
                    f"{down / (down - up):.0%} of the cycles that four together would take"
                )
                yield Change("channels", tuple(works), what, round(down), 0.0)

    def _channel_groups(self) -> Iterator[tuple[int, frozenset[int]]]:
        """Tensors that have their channels in common, with the number of channels, where that is free to be another."""
        group = {t.index: frozenset({t.index}) for t in self._tensors if not t.is_constant and t.shape}
        fixed = {*self._outputs, *group.keys() - {index for op in self._operators for index in op.outputs}}
        for op in self._operators:
            sides = [i for i in (*op.inputs, *op.outputs) if i in group]
            if op.key in _NEW_CHANNELS:
                continue
            if len({self._tensors[i].shape[-1] for i in sides}) > 1:
                fixed |= set(sides)
                continue
            joined = frozenset().union(*(group[i] for i in sides))
            group |= dict.fromkeys(joined, joined)
        for tensors in dict.fromkeys(group.values()):
            size = self._tensors[min(tensors)].shape[-1]
            if size > 4 and size % 4 and not tensors & fixed:
                yield size, tensors


def _resized(shape: Shape, size: int, other: int, source: Set[int], made: Set[int]) -> Shape:
    """The shape with `other` channels instead of `size` on the sides that are given."""
    depth, channels = (
        value * other // size if side else value for value, side in ((shape.depth, source), (shape.channels, made))
    )
    return replace(shape, depth=depth, channels=channels)
