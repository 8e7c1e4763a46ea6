# SPDX-License-Identifier: Apache-2.0
"""Model + kernel libraries -> layers, each by the kernels that it may have; with a memory plan a proven model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from tflm_zephyr.compiler.control import control_layer, is_control
from tflm_zephyr.compiler.fallback import Registrations, fallback_layer
from tflm_zephyr.compiler.fast_rounding import NotFastError
from tflm_zephyr.compiler.flattening import FlatModel, flatten, needs_flattening
from tflm_zephyr.compiler.ir.layers import FallbackLayer, KernelLayer, Layer, SegmentLayer, cycles_of
from tflm_zephyr.compiler.ir.operands import Dims, Shape
from tflm_zephyr.compiler.kernel_choice import Choice, Maker, choice_of
from tflm_zephyr.compiler.layer_builder import Constants, LayerBuilder, NotDirectError
from tflm_zephyr.compiler.layer_cycles import LayerCycles
from tflm_zephyr.compiler.lowering import OwnKernel
from tflm_zephyr.compiler.memory_plan import MemoryPlan
from tflm_zephyr.compiler.plan_proof import prove
from tflm_zephyr.compiler.program import BufferMap, CompiledModel, Place
from tflm_zephyr.compiler.registry import OPERATORS, runs_legacy
from tflm_zephyr.compiler.row_forms import NotByRowsError
from tflm_zephyr.compiler.row_stream import Stream, stream_of
from tflm_zephyr.costs import costs_of
from tflm_zephyr.errors import ModelError
from tflm_zephyr.kernels import HINTS, KernelLibrary, Node
from tflm_zephyr.memory_planner import align_up
from tflm_zephyr.model import Model
from tflm_zephyr.tflm import ALIGNMENT, cortex_m_sizes

_POINTER_BYTES = 4
_REBUILD = "TFLM has no kernel of it either: export the model without it, or in constant shapes"


@dataclass(frozen=True)
class LayerSource:
    """A model, and the kernels that it may have."""

    model: Model
    libraries: Sequence[KernelLibrary]
    registrations: Registrations

    def parts(self, fast: bool | Choice) -> UnplacedModel:
        """All but memory: with our kernels in every layer that one takes, in none, or as chosen."""
        flat, running, bodies, nodes = self._flattened
        _check(running, set() if flat is None else {i for inputs in flat.inputs for i in inputs})
        choice = fast if isinstance(fast, Choice) else None
        factory = _LayerFactory(self.libraries, Constants(), self.registrations, flat, fast is not False, choice)
        layers = tuple(self._cycles.priced(node, factory.layer(node)) for node in nodes)
        return UnplacedModel(self.model, running, factory, bodies, layers, self._cycles)

    @cached_property
    def _cycles(self) -> LayerCycles:
        """The cycles with these libraries, which all choices share."""
        return LayerCycles(costs_of(self.libraries))

    def choice(self, more_flash: int | None) -> Choice | None:
        """The fastest kernels by the tables; None where these libraries' were not measured."""
        _, _, _, nodes = self._flattened

        def own(node: Node) -> Sequence[Maker]:
            return [partial(_own_layer, node, k, self.libraries) for k in range(len(_own_kernels(node)))]

        def other(node: Node) -> Maker:
            def library_layer(constants: Constants) -> Layer | None:
                try:
                    return _build(node, self.libraries, constants)
                except (NotDirectError, ModelError):
                    return None

            return library_layer

        return choice_of(nodes, own, other, self.libraries, more_flash)

    @cached_property
    def _flattened(self) -> tuple[FlatModel | None, Model, dict[int, tuple[int, ...]], list[Node]]:
        """The flat form of a model with subgraphs, what runs, the operators of its subgraphs, and all of them."""
        flat = flatten(self.model) if needs_flattening(self.model) else None
        running = self.model if flat is None else flat.model
        bodies = {} if flat is None else _bodies(flat)
        nodes = [Node(running, running.main, operator) for operator in running.main.operators]
        if flat is not None:
            nodes = [nodes[operator] for body in bodies.values() for operator in body]
        return flat, running, bodies, nodes


def _own_kernels(node: Node) -> tuple[OwnKernel, ...]:
    """The operator's candidates among our own kernels."""
    lowering = None if node.operator.custom_code is not None else OPERATORS.get(node.operator.key)
    return () if lowering is None else lowering.own


def _own_layer(node: Node, number: int, libraries: Sequence[KernelLibrary], constants: Constants) -> KernelLayer | None:
    """The operator by its candidate `number`; None where that does not take it."""
    try:
        return _own(node, number, libraries, constants)
    except NotFastError:
        return None


def _own(node: Node, number: int, libraries: Sequence[KernelLibrary], constants: Constants) -> KernelLayer:
    """The operator by its candidate `number` of our own kernels. NotFastError where that does not take it."""
    if misfit(node):
        raise NotFastError("")
    if runs_legacy(node):
        raise NotFastError("is of uint8")
    kernels = _own_kernels(node)
    if not kernels:
        raise NotFastError("is of a kind that has none of our kernels")
    try:
        return kernels[number](LayerBuilder(node, node.operator.index, libraries, constants))
    except (NotDirectError, ArithmeticError):
        raise NotFastError("has parameters that are left to TFLM's kernel") from None


def misfit(node: Node) -> str:
    """Why the operator's tensors do not fit each other; "" where they do, and for operators without a rule."""
    lowering = OPERATORS.get(node.operator.key)
    return "" if lowering is None or lowering.misfit is None else lowering.misfit(node)


def why_not(model: Model, libraries: Sequence[KernelLibrary]) -> dict[int, str]:
    """By operator of the main subgraph, why it has no direct code; empty where all have."""
    found = {}
    for operator in model.main.operators:
        try:
            _build(Node(model, model.main, operator), libraries, Constants())
        except NotDirectError as reason:
            found[operator.index] = str(reason)
    return found


def _bodies(flat: FlatModel) -> dict[int, tuple[int, ...]]:
    """The operators of the main subgraph and of those that it runs, by subgraph."""
    found: dict[int, tuple[int, ...]] = {}
    todo = [0]
    while todo:
        subgraph = todo.pop()
        if subgraph not in found:
            found[subgraph] = flat.operators[subgraph]
            todo += [i for operator in found[subgraph] for i in flat.model.main.operators[operator].subgraphs]
    return dict(sorted(found.items()))


def _check(model: Model, inputs: Collection[int]) -> None:
    main = model.main
    constant = [main.tensors[i] for i in main.outputs if main.tensors[i].is_constant]
    if constant:
        raise _refusal(model, f"its output {constant[0].label} is a constant")
    for operator in main.operators:
        for i in operator.outputs:
            if i >= 0 and main.tensors[i].is_constant:
                raise _refusal(model, f"{operator.label} writes {main.tensors[i].label}, a constant")
    written = {i for operator in main.operators for i in operator.outputs} | {*main.inputs, *inputs}
    for i in (*main.outputs, *(i for operator in main.operators for i in operator.inputs if i >= 0)):
        tensor = main.tensors[i]
        if i not in written and not tensor.is_constant and not tensor.is_variable and tensor.elements:
            raise _refusal(model, f"nothing writes {tensor.label}")


def _refusal(model: Model, what: str) -> ModelError:
    return ModelError(
        f"{what}, for which there is no compiled code yet", where=model.where, hint="Use the backend interpreter"
    )


@dataclass(frozen=True)
class _LayerFactory:
    """The parts that all layers of a model are made with."""

    libraries: Sequence[KernelLibrary]
    constants: Constants
    registrations: Registrations
    flat: FlatModel | None
    fast: bool
    choice: Choice | None = None

    def layer(self, node: Node) -> Layer:
        """The operator by direct code, or else as TFLM's own kernel. ModelError where neither takes it."""
        try:
            if self.flat is not None and is_control(node):
                return control_layer(node, self.flat, self.constants)
            return self._direct_or_fallback(node)
        except NotDirectError as reason:
            known = (node.operator.custom_code is not None, node.operator.key) in self.registrations
            known = known or self.libraries[0].knows(node.operator.key)
            hint = HINTS["uint8"] if runs_legacy(node) else "Use the backend interpreter" if known else _REBUILD
            raise node.fail(f"{reason}, so it cannot be compiled yet", hint) from None

    def _direct_or_fallback(self, node: Node) -> Layer:
        constants, before = self.constants, self.constants.copy()
        why = "" if self.choice is None else self.choice.why.get(node.operator.index, "")
        if self.fast and not why:
            taken = None if self.choice is None else self.choice.number(node.operator.index)
            numbers = range(len(_own_kernels(node)) or 1) if taken is None else (taken,)
            for number in numbers:
                try:
                    return _own(node, number, self.libraries, constants)
                except NotFastError as reason:
                    why = str(reason)
                constants.become(before.copy())  # without those of the attempt
        try:
            return replace(_build(node, self.libraries, constants), not_fast=why)
        except NotDirectError:
            constants.become(before)
            if not self.registrations or runs_legacy(node):
                raise
        return replace(fallback_layer(node, self.libraries, constants, self.registrations), not_fast=why)


@dataclass(frozen=True)
class UnplacedModel:
    """All of a compiled model but its memory. `running` is the `original`, or its flat form."""

    original: Model
    running: Model
    factory: _LayerFactory
    bodies: Mapping[int, tuple[int, ...]]
    layers: tuple[Layer, ...]
    costs: LayerCycles

    @property
    def cycles(self) -> float:
        """Estimated cycles of the layers on whole tensors."""
        return cycles_of(self.layers)

    @property
    def flat(self) -> FlatModel | None:
        """The flat form of a model with subgraphs."""
        return self.factory.flat

    @property
    def libraries(self) -> Sequence[KernelLibrary]:
        """The kernel libraries, one for each kind of core."""
        return self.factory.libraries

    def check_stateless(self) -> None:
        """ModelError, naming an operator, where the model carries a state from one run to the next."""
        main = self.original.main
        for operator in main.operators:
            carries = any(i >= 0 and main.tensors[i].is_variable for i in operator.inputs)
            if carries or operator.key in ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"):
                what = f"{operator.label} carries a state from one run to the next: the model is to run once a frame"
                raise ModelError(what, where=self.original.where, hint="Leave out --hop, which would change nothing")

    def stream(self, *, hop: bool = False) -> Stream:
        """The input that comes row by row. ModelError where none can. `hop`: layers behind the first need not."""
        if self.factory.flat is not None:
            raise _refusal(
                self.running, "it has subgraphs or resource variables, and rows of its input come one by one"
            )
        return stream_of(self.running, self.layers, hop=hop)

    def arena_bytes(self, memory: MemoryPlan) -> int:
        """All RAM of the model: the plan, or what Prepare takes in its place, and the kernels' state."""
        prepare = _prepare_bytes(self.layers, self.factory.libraries)
        return align_up(max(memory.plan.size_bytes, prepare), ALIGNMENT) + _state_bytes(self.layers)

    def compiled(self, memory: MemoryPlan, steps: int, choice: Choice | None = None) -> CompiledModel:
        """The model with this memory, proven."""
        constants = self.factory.constants
        state, prepare = _state_bytes(self.layers), _prepare_bytes(self.layers, self.factory.libraries)
        used = _shared_operands(memory.layers)
        compiled = CompiledModel(
            model=self.running,
            layers=memory.layers,
            constants=tuple(constants.arrays.values()),
            shared=tuple(operand for operand in constants.shared if operand in used),
            offsets=dict(memory.offsets),
            scratch=dict(memory.scratch),
            arena_bytes=self.arena_bytes(memory),
            plan=memory.plan,
            buffer_map=BufferMap(_places(memory), steps),
            state_bytes=state,
            prepare_bytes=prepare,
            flat=self.factory.flat,
            bodies=self.bodies,
            owners=memory.owners,
            choice=choice,
        )
        prove(compiled, self.factory.libraries)
        return compiled


def _shared_operands(layers: Sequence[Layer]) -> set[Dims | Shape]:
    """The operands of all calls that the file has once."""
    calls = [call for layer in layers for call in layer.calls]
    tiled = (layer.segment for layer in layers if isinstance(layer, SegmentLayer))
    calls += [call for segment in tiled for form in segment.forms.values() for call in form.calls]
    return {operand for call in calls for operand in call.shared()}


def _state_bytes(layers: Sequence[Layer]) -> int:
    """A pointer for each of TFLM's own kernels, copies of options, and all that they allocate."""
    kernels = [layer.kernel for layer in layers if isinstance(layer, FallbackLayer)]
    own = sum(one.options_copy_bytes + one.persistent_bytes for one in kernels)
    return align_up(_POINTER_BYTES * len(kernels), ALIGNMENT) + own


def _prepare_bytes(layers: Sequence[Layer], libraries: Sequence[KernelLibrary]) -> int:
    """The most TfLiteTensors that a kernel can look at while it prepares."""
    size, _ = cortex_m_sizes(libraries[0].core.revision, static_memory=True).of("TfLiteTensor")
    most = max((len(layer.kernel.tensors) for layer in layers if isinstance(layer, FallbackLayer)), default=0)
    return align_up(size * most, ALIGNMENT)


def _build(node: Node, libraries: Sequence[KernelLibrary], constants: Constants) -> KernelLayer:
    lowering = OPERATORS.get(node.operator.key)
    builder = LayerBuilder(node, node.operator.index, libraries, constants)
    if lowering is None or node.operator.custom_code is not None:
        raise NotDirectError("has no direct code")
    why = misfit(node)
    if why:
        raise node.fail(why)
    try:
        lowering.calls(builder)
    except ArithmeticError:  # parameters that TFLM's Prepare leaves undefined
        raise NotDirectError("has a scale, a stride or another parameter that is zero, missing or no number") from None
    layer = builder.build()
    try:
        if lowering.rows is None:
            raise NotByRowsError("is of a kind that does not run row by row")
        return replace(layer, rows=lowering.rows(builder, layer))
    except NotByRowsError as reason:
        return replace(layer, no_rows=str(reason))


def _places(memory: MemoryPlan) -> tuple[Place, ...]:
    """The buffer map, by first byte, then by step."""
    found = [
        Place(buffer.id, offset, offset + buffer.size, buffer.lower, buffer.upper)
        for buffer, offset in zip(memory.plan.problem.buffers, memory.plan.offsets, strict=True)
    ]
    return tuple(sorted(found, key=lambda place: (place.first, place.born, place.end)))
