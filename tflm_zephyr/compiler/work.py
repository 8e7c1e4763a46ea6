# SPDX-License-Identifier: Apache-2.0
"""A model's estimated work by the tables of costs, through the interpreter or as compiled code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from tflm_zephyr.compiler.hop_work import hop_work
from tflm_zephyr.compiler.ir.layers import ControlLayer, FallbackLayer, Layer, members_of, more_work
from tflm_zephyr.compiler.kernel_shapes import shape_of
from tflm_zephyr.compiler.operator_shapes import operator_shape
from tflm_zephyr.compiler.program import CompiledModel
from tflm_zephyr.costs import INVOKE, Costs, Price, Shape
from tflm_zephyr.kernels import Node
from tflm_zephyr.model import Model, Operator


@dataclass(frozen=True)
class OperatorWork:
    """An operator of the main subgraph, by its index in the running order.

    `kernel`: the functions that compute it, or operator and types where a library chooses by itself. `ask` prices its
    `shape`, and others of the same kernel.
    """

    operator: int
    key: str
    kernel: str
    shape: Shape
    ask: Callable[[Shape], Price]

    @cached_property
    def price(self) -> Price:
        """The price of the shape that it has."""
        return self.ask(self.shape)

    def gain(self, other: Shape) -> float:
        """Cycles fewer with another shape."""
        return self.price.cycles - self.ask(other).cycles


@dataclass(frozen=True)
class ModelWork:
    """The prices of a model's operators, and of an inference beside them.

    `unknown` are operators whose work no table can tell: those that run subgraphs, and custom ones. They have no price.
    """

    operators: tuple[OperatorWork, ...]
    beside: Price
    unknown: tuple[int, ...] = ()

    @property
    def instructions(self) -> int:
        """Estimated instructions of an inference."""
        return round(self.beside.instructions + sum(one.price.instructions for one in self.operators))

    @property
    def cycles(self) -> int:
        """Estimated cycles of an inference, without wait states."""
        return round(self.beside.cycles + sum(one.price.cycles for one in self.operators))

    @property
    def stand_ins(self) -> dict[int, str]:
        """Stand-ins for operators that were not measured, by operator."""
        return {one.operator: one.price.why for one in self.operators if one.price.why}


def interpreter_work(model: Model, costs: Costs) -> ModelWork:
    """The work of the model's main subgraph through TFLM's interpreter."""
    known = (operator for operator in model.main.operators if not _is_unknown(operator))
    shapes = ((one, operator_shape(Node(model, model.main, one))) for one in known)
    operators = tuple(
        OperatorWork(one.index, one.key, costs.function_of(shape) or shape.kernel, shape, costs.operator)
        for one, shape in shapes
    )
    unknown = tuple(operator.index for operator in model.main.operators if _is_unknown(operator))
    return ModelWork(operators, costs.operator(INVOKE), unknown)


def _is_unknown(operator: Operator) -> bool:
    return bool(operator.subgraphs) or operator.custom_code is not None


def compiled_work(program: CompiledModel, costs: Costs) -> ModelWork:
    """The work of the compiled model's layers; segments and runs of pixels cost the share more that was planned.

    Where windows overlap it is that of a hop, which costs a share less.
    """
    operators, more = tuple(_layers(program, costs)), more_work(program.main_layers)
    if program.hop is not None:
        hop = hop_work(program, costs)
        more = hop.cycles / hop.whole_cycles - 1.0 if hop.whole_cycles else 0.0
    instructions = sum(one.price.instructions for one in operators)
    cycles = sum(one.price.cycles for one in operators)
    unknown = tuple(layer.operator for layer in program.main_layers if _has_unknown(program, layer))
    return ModelWork(operators, Price(more * instructions, more * cycles, 0.0), unknown)


def _has_unknown(program: CompiledModel, layer: Layer) -> bool:
    return isinstance(layer, ControlLayer) or _is_unknown(program.model.main.operators[layer.operator])


def _layers(program: CompiledModel, costs: Costs) -> Iterator[OperatorWork]:
    for layer, shape in called_shapes(program):
        if not _has_unknown(program, layer):
            fallback = isinstance(layer, FallbackLayer)
            names = ", ".join(dict.fromkeys(one.qualified_name for one in layer.kernels))
            kernel, ask = (f"TFLM's own {layer.key}", costs.operator) if fallback else (names, costs.call)
            yield OperatorWork(layer.operator, layer.key, kernel, shape, ask)


def called_shapes(program: CompiledModel) -> Iterator[tuple[Layer, Shape]]:
    """The main subgraph's layers that have code, members of segments among them, with the shapes of their calls."""
    model = program.model
    for layer in program.main_layers:
        for one in members_of(layer):
            if one.calls:
                node = Node(model, model.main, model.main.operators[one.operator])
                shape = None if isinstance(one, FallbackLayer) else shape_of(node, one)
                yield one, operator_shape(node) if shape is None else shape
