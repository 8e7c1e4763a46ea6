# SPDX-License-Identifier: Apache-2.0
"""Model + kernel libraries -> CompiledModel: each operator as a layer, one plan for all memory, and its proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from tflm_zephyr.compiler.framed import ALIGNMENT, Registrations, framed_layer
from tflm_zephyr.compiler.layer_builder import Constants, LayerBuilder, NotDirectError
from tflm_zephyr.compiler.memory_plan import SLOWER, MemoryPlan, plan_memory
from tflm_zephyr.compiler.operators import activation, arithmetic, convolution, dense, layout, pooling
from tflm_zephyr.compiler.plan_proof import prove
from tflm_zephyr.compiler.program import CompiledModel, Layer, Place
from tflm_zephyr.errors import ModelError
from tflm_zephyr.kernels import KernelLibrary, Node
from tflm_zephyr.memory_planner import align_up
from tflm_zephyr.model import Model
from tflm_zephyr.tflm import cortex_m_sizes

_POINTER_BYTES = 4

EMITTERS: Mapping[str, Callable[[LayerBuilder], None]] = dict(
    chain.from_iterable(
        family.EMITTERS.items() for family in (activation, arithmetic, convolution, dense, layout, pooling)
    )
)


def compile_model(
    model: Model,
    libraries: Sequence[KernelLibrary],
    *,
    registrations: Registrations | None = None,
    slower: float = SLOWER,
) -> CompiledModel:
    """`model`, its operators in the order in which they are to run, as calls of the kernels of `libraries`.

    The libraries are of one name, one for each kind of core that the code is compiled for; the code is right on all.
    An operator without direct code keeps TFLM's own kernel, which `registrations` name; ModelError, naming the
    operator, where they do not. `slower`: the share of the model's work that a smaller plan may cost.
    """
    _check(model)
    constants = Constants()
    nodes = [Node(model, model.main, operator) for operator in model.main.operators]
    layers = [_layer(node, libraries, constants, registrations or {}) for node in nodes]
    memory = plan_memory(model, layers, libraries, slower=slower)
    state, prepare = _state_bytes(layers), _prepare_bytes(layers, libraries)
    used = {name for layer in memory.layers for call in layer.calls for name in call.arguments}
    used |= {value for layer in memory.layers for item in layer.values for _, value in item.fields}
    text = "\n".join(sorted(used))
    compiled = CompiledModel(
        model=model,
        layers=memory.layers,
        constants=tuple(constants.arrays.values()),
        shared=tuple(value for value in constants.shared.values() if value.name in text),
        offsets=dict(memory.offsets),
        scratch=dict(memory.scratch),
        arena_bytes=align_up(max(memory.plan.size_bytes, prepare), ALIGNMENT) + state,
        plan=memory.plan,
        places=_places(memory),
        state_bytes=state,
        prepare_bytes=prepare,
    )
    prove(compiled, libraries)
    return compiled


def why_not(model: Model, libraries: Sequence[KernelLibrary]) -> dict[int, str]:
    """By operator of the main subgraph, why it has no direct code; empty where all have."""
    found = {}
    for operator in model.main.operators:
        try:
            _build(Node(model, model.main, operator), libraries, Constants())
        except NotDirectError as reason:
            found[operator.index] = str(reason)
    return found


def _check(model: Model) -> None:
    if len(model.subgraphs) > 1:
        raise _refusal(model, f"it has {len(model.subgraphs)} subgraphs")
    main = model.main
    constant = [main.tensors[i] for i in main.outputs if main.tensors[i].is_constant]
    if constant:
        raise _refusal(model, f"its output {constant[0].label} is a constant")
    written = {i for operator in main.operators for i in operator.outputs} | set(main.inputs)
    for i in (*main.outputs, *(i for operator in main.operators for i in operator.inputs if i >= 0)):
        tensor = main.tensors[i]
        if i not in written and not tensor.is_constant and not tensor.is_variable and tensor.elements:
            raise _refusal(model, f"nothing writes {tensor.label}")


def _refusal(model: Model, what: str) -> ModelError:
    return ModelError(
        f"{what}, for which there is no compiled code yet", where=model.where, hint="Use the backend interpreter"
    )


def _layer(
    node: Node, libraries: Sequence[KernelLibrary], constants: Constants, registrations: Registrations
) -> Layer:
    arrays, shared = dict(constants.arrays), dict(constants.shared)
    try:
        return _build(node, libraries, constants)
    except NotDirectError as reason:
        constants.arrays, constants.shared = arrays, shared  # without those of the attempt
        try:
            return framed_layer(node, libraries, constants, registrations)
        except NotDirectError as other:
            why = other if registrations else reason
            raise node.fail(f"{why}, so it cannot be compiled yet", "Use the backend interpreter") from None


def _state_bytes(layers: Sequence[Layer]) -> int:
    """A pointer for each of TFLM's own kernels, and all that they allocate."""
    framed = [layer.framed for layer in layers if layer.framed is not None]
    return align_up(_POINTER_BYTES * len(framed), ALIGNMENT) + sum(one.persistent_bytes for one in framed)


def _prepare_bytes(layers: Sequence[Layer], libraries: Sequence[KernelLibrary]) -> int:
    """The most TfLiteTensors that a kernel can look at while it prepares."""
    size, _ = cortex_m_sizes(libraries[0].core.revision, static_memory=True).of("TfLiteTensor")
    most = max((len(layer.framed.tensors) for layer in layers if layer.framed is not None), default=0)
    return align_up(size * most, ALIGNMENT)


def _build(node: Node, libraries: Sequence[KernelLibrary], constants: Constants) -> Layer:
    emit = EMITTERS.get(node.operator.key)
    builder = LayerBuilder(node, node.operator.index, libraries, constants)
    if emit is None or node.operator.custom_code is not None:
        raise NotDirectError("has no direct code")
    emit(builder)
    return builder.build()


def _places(memory: MemoryPlan) -> tuple[Place, ...]:
    """The buffer map, by first byte, then by step."""
    found = [
        Place(buffer.id, offset, offset + buffer.size, buffer.lower, buffer.upper)
        for buffer, offset in zip(memory.plan.problem.buffers, memory.plan.offsets, strict=True)
    ]
    return tuple(sorted(found, key=lambda place: (place.first, place.born, place.end)))
