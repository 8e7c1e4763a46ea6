# SPDX-License-Identifier: Apache-2.0
"""Layers -> a place in one arena for each tensor, view and scratch buffer, and the runs of the 1x1 convolutions.

The planner and its in-place pairs are those of the interpreter's arena; the compiler adds views (tensors
in the bytes of others), and 1x1 convolutions in place by runs of pixels, of which it takes those whose cost is small.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

from tflm_zephyr.compiler.flattening import FlatModel
from tflm_zephyr.compiler.ir.calls import SCRATCH, KernelCall
from tflm_zephyr.compiler.ir.layers import InsideLayer, KernelLayer, Layer, SegmentLayer, cycles_of, more_work
from tflm_zephyr.compiler.pixel_runs import PixelLayer, Runs
from tflm_zephyr.compiler.views import Placement, with_views
from tflm_zephyr.errors import ModelError
from tflm_zephyr.fast_kernels import least_distance, least_distance_above
from tflm_zephyr.kernels import InPlaceTensors, KernelLibrary, in_place_tensors, untried
from tflm_zephyr.memory_planner import Buffer, InPlacePair, Plan, Problem, align_up, pack
from tflm_zephyr.model import NEVER, Model, Operator, Subgraph, analyse
from tflm_zephyr.tflm import ALIGNMENT

SLOWER = 0.03
"""The share of a model's estimated cycles that calls in runs, segments and leaner layers may cost."""
_WORK = 2_000_000
_LEAN = 1 + 1 / 32  # layers need not be as lean as they can, where the plan is larger by less than this factor
_LEANER = (0.0, 0.25, 0.5, 0.75, 1.0)  # steps back to a plan without leaner layers, where these cost too much
_WORK_EACH = 2_000  # so much for each pair of buffers, as pack() tries all orders of few
_MOST_CANDIDATES = 40


@dataclass(frozen=True)
class Storage:
    """Bytes of the arena that tensors share as views of each other; `tensors[0]` is all of it.

    Needed at each step t with lower <= t < upper; step 0 holds the inputs, step k + 1 is layer k.
    """

    tensors: tuple[int, ...]
    size: int
    lower: int
    upper: int


@dataclass(frozen=True)
class RunChoice:
    """A layer that can be in place by runs: the pair's buffers, and (distance, calls) of each way, cheapest first.

    `below` are the ways with the output below the input, `above` those with the output above it.
    """

    layer: int
    source: int
    result: int
    pixels: PixelLayer
    below: tuple[tuple[int, int], ...]
    above: tuple[tuple[int, int], ...]
    run_cycles: float

    def cost(self, calls: int) -> float:
        """Cycles that `calls` calls add: each sums the weights again."""
        return (calls - 1) * self.run_cycles


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets by tensor and the scratch's by layer; `layers` have their runs set.

    `owners` gives each of the plan's buffers its tensor, the largest where several share it, or SCRATCH and its layer.
    The last buffer is that of the rows that a segment keeps from one window to the next, where one does.
    """

    layers: tuple[Layer, ...]
    offsets: Mapping[int, int]
    scratch: Mapping[int, int]
    plan: Plan
    owners: tuple[tuple[int, int], ...]


def plan_memory(
    model: Model, layers: Sequence[Layer], libraries: Sequence[KernelLibrary], *, slower: float = SLOWER
) -> MemoryPlan:
    """The smallest plan whose runs and leaner layers cost no more than `slower` of the model's work.

    Parts of tensors are views where that takes no more memory than copies, whose tensors can be in place. Layers are
    leaner than given only where the plan is then smaller.
    """
    plan = _with_or_without_views(model, layers, libraries, slower)
    lean = [layer.leaner[-1] if layer.leaner else layer for layer in layers]
    if lean == list(layers):
        return plan
    least = _with_or_without_views(model, lean, libraries, slower)
    if least.plan.size_bytes >= plan.plan.size_bytes:
        return plan
    size = min(plan.plan.size_bytes - 1, int(least.plan.size_bytes * _LEAN))
    cycles = cycles_of(layers)
    for share in _LEANER:
        more = size + int(share * (plan.plan.size_bytes - 1 - size))
        fitting = _fitting(model, layers, more)
        if (extra := _extra(fitting)) <= slower * cycles:
            mixed = _with_or_without_views(model, fitting, libraries, slower - (extra / cycles if cycles else 0.0))
            if mixed.plan.size_bytes <= more:
                return mixed
    return least if more_work(least.layers) <= slower else plan


def _extra(layers: Iterable[Layer]) -> float:
    return sum(layer.extra_cycles for layer in layers if isinstance(layer, KernelLayer))


def _fitting(model: Model, layers: Sequence[Layer], size: int) -> list[Layer]:
    """The layers, each as little leaner as its own needs allow for a plan of `size` bytes."""
    placed, placement = with_views(model.main, layers, parts=False)
    storages = _storages(model.main, placed, placement)
    alive = [
        sum(align_up(s.size, ALIGNMENT) for s in storages if s.lower <= step < s.upper)
        for step in range(len(layers) + 2)
    ]
    found = []
    for k, layer in enumerate(layers):
        ways = (layer, *layer.leaner)
        found.append(next((way for way in ways if alive[k + 1] + _added(model.main, way) <= size), ways[-1]))
    return found


def _added(subgraph: Subgraph, layer: Layer) -> int:
    """Scratch bytes of the layer less those that its output can share with its input."""
    return align_up(layer.scratch_bytes, ALIGNMENT) - shared_bytes(subgraph, layer)


def shared_bytes(subgraph: Subgraph, layer: Layer) -> int:
    """Bytes that the output of one of our kernels can share with its input, at most; 0 for other layers."""
    (call,) = layer.calls if len(layer.calls) == 1 else (None,)
    if call is None or not call.blocks:
        return 0
    one, other = (subgraph.tensors[access.tensor].size_bytes for access in (call.reads[0], call.writes[0]))
    saved = min(one, other - least_distance(call.blocks))
    if call.reverse is not None:
        saved = max(saved, min(other, one - least_distance_above(call.reverse.blocks)))
    return max(0, saved)


def _with_or_without_views(
    model: Model, layers: Sequence[Layer], libraries: Sequence[KernelLibrary], slower: float
) -> MemoryPlan:
    whole, _ = with_views(model.main, layers, parts=False)
    every, _ = with_views(model.main, layers, parts=True)
    plans = [_plan(model, layers, libraries, slower, parts=True)]
    if every != whole:
        plans.append(_plan(model, layers, libraries, slower, parts=False))
    return min(plans, key=lambda memory: memory.plan.size_bytes)


def _plan(
    model: Model, layers: Sequence[Layer], libraries: Sequence[KernelLibrary], slower: float, *, parts: bool
) -> MemoryPlan:
    subgraph = model.main
    layers, placement = with_views(subgraph, layers, parts=parts)
    storages = _storages(subgraph, layers, placement)
    place = {tensor: k for k, storage in enumerate(storages) for tensor in storage.tensors}
    buffers = [Buffer(_label(subgraph, s), s.lower, s.upper, s.size) for s in storages]
    scratch = {}
    for k, layer in enumerate(layers):
        if layer.scratch_bytes:
            scratch[layer.operator] = len(buffers)
            buffers.append(Buffer(_scratch_label(layer), k + 1, k + 2, layer.scratch_bytes))
    hops = [layer for layer in layers if isinstance(layer, SegmentLayer) and layer.segment.hop is not None]
    for layer in hops:
        buffers.append(_kept_rows(layer, len(layers)))
    pairs = tuple(_pairs(model, layers, libraries, storages, place))
    problem = Problem(tuple(buffers), ALIGNMENT, model.where, pairs)
    choices = tuple(_choices(subgraph, layers, storages, place))
    plan = _cheapest(problem, choices, slower * cycles_of(layers))
    offsets = {tensor: plan.offsets[k] + placement.of(tensor)[1] for tensor, k in place.items()}
    scratches = {layer: plan.offsets[k] for layer, k in scratch.items()}
    owners = _owners([storage.tensors[0] for storage in storages], [*scratch, *(layer.operator for layer in hops)])
    ready = tuple(_with_direction(layer, offsets) for layer in _with_runs(layers, choices, plan))
    return MemoryPlan(ready, offsets, scratches, plan, owners)


def _kept_rows(layer: SegmentLayer, layers: int) -> Buffer:
    """The rows that a segment keeps from one window to the next, of `layers` in all."""
    hop = layer.segment.hop
    assert hop is not None
    label = f"rows of layers {layer.members[0].operator} to {layer.operator} kept for the next window"
    return Buffer(label, 0, layers + 2, hop.kept_bytes)


def _owners(tensors: Iterable[int], layers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """MemoryPlan.owners of buffers for `tensors`, then of scratch buffers for `layers`."""
    return (*((tensor, 0) for tensor in tensors), *((SCRATCH, layer) for layer in layers))


def plan_scopes(original: Model, flat: FlatModel, layers: Sequence[Layer]) -> tuple[MemoryPlan, int]:
    """The plan of a flattened model, and the number of its steps: lifespans as TFLM's planner has them, no views.

    Lifespans of TFLM hold as its kernels copy tensors into subgraphs and out of them, which the layers do as well.
    """
    scratches = {flat.origins[layer.operator]: layer.scratch_bytes for layer in layers if layer.scratch_bytes}

    def asked(_model: Model, subgraph: Subgraph, operator: Operator) -> tuple[int, ...]:
        size = scratches.get((subgraph.index, operator.index))
        return () if size is None else (size,)

    graph = analyse(original, asked)
    steps, numbers, tensors = len(graph.scopes) - 1, flat.tensor_numbers, flat.model.main.tensors
    owners, buffers = [], []
    for planned in graph.tensors:
        number = numbers[planned.subgraph, planned.tensor]
        if planned.lifespan.first != NEVER:
            upper = steps + 2 if number in flat.model.main.outputs else planned.lifespan.last + 1
            owners.append(number)
            buffers.append(Buffer(tensors[number].label, planned.lifespan.first, upper, planned.size_bytes))
    for tensor in tensors:
        if tensor.is_variable:
            owners.append(tensor.index)
            buffers.append(Buffer(tensor.label, 0, steps + 2, tensor.size_bytes))
    by_origin = {origin: operator for operator, origin in enumerate(flat.origins)}
    for one in graph.scratch:
        operator = by_origin[one.subgraph, one.operator]
        upper = one.lifespan.last + 1
        buffers.append(Buffer(f"scratch of layer {operator}", one.lifespan.first, upper, one.size_bytes))
    plan = pack(Problem(tuple(buffers), ALIGNMENT, original.where), work=_WORK)
    placed = plan.offsets
    offsets = dict(zip(owners, placed, strict=False))
    behind = placed[len(owners) :]
    scratch = {by_origin[one.subgraph, one.operator]: at for one, at in zip(graph.scratch, behind, strict=True)}
    return MemoryPlan(tuple(layers), offsets, scratch, plan, _owners(owners, scratch)), steps


def _label(subgraph: Subgraph, storage: Storage) -> str:
    return subgraph.tensors[storage.tensors[0]].label


def _scratch_label(layer: Layer) -> str:
    if not isinstance(layer, SegmentLayer):
        return f"scratch of layer {layer.operator}"
    return f"rows and scratch of layers {layer.members[0].operator} to {layer.operator}"


def tensors_of(subgraph: Subgraph, layer: Layer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tensors that a layer reads and writes: those of its operator, or those that its segment has whole."""
    if isinstance(layer, SegmentLayer):
        return layer.segment.inputs, layer.segment.outputs
    operator = subgraph.operators[layer.operator]
    return ((), ()) if isinstance(layer, InsideLayer) else (operator.inputs, operator.outputs)


def _storages(subgraph: Subgraph, layers: Sequence[Layer], placement: Placement) -> tuple[Storage, ...]:
    tiled = {k: layer for k, layer in enumerate(layers) if isinstance(layer, SegmentLayer)}
    streams = {k: layer.segment.stream for k, layer in tiled.items() if layer.segment.stream is not None}
    streamed = {subgraph.inputs[stream.input] for stream in streams.values()}
    born: dict[int, int] = {tensor: 0 for tensor in subgraph.inputs if tensor not in streamed}
    # Other inputs may be written while rows come.
    dead: dict[int, int] = {tensor: k + 1 for k in streams for tensor in born}
    for k, layer in enumerate(layers):
        given, taken = tensors_of(subgraph, layer)
        for tensor in given:
            dead[tensor] = k + 1
        for tensor in taken:
            born.setdefault(tensor, k + 1)
    dead.update(dict.fromkeys(subgraph.outputs, len(layers) + 1))
    used = {access.tensor for layer in layers for call in layer.calls for access in (*call.reads, *call.writes)}
    for variable in (tensor.index for tensor in subgraph.tensors if tensor.is_variable):
        if variable in used:
            born[variable], dead[variable] = 0, len(layers) + 1
    for hop in (layer.segment for layer in tiled.values() if layer.segment.hop is not None):
        for tensor in hop.outputs:
            born[tensor], dead[tensor] = 0, len(layers) + 1
    roots = dict.fromkeys(placement.of(tensor)[0] for tensor in born if not subgraph.tensors[tensor].is_constant)
    found = []
    for root in roots:
        members = [tensor for tensor in placement.members(root) if tensor in born]
        lower = min(born[tensor] for tensor in members)
        upper = 1 + max(dead.get(tensor, born[tensor]) for tensor in members)
        found.append(Storage(tuple(members), placement.size(root), lower, upper))
    return tuple(found)


# In-place pairs


def _pairs(
    model: Model,
    layers: Sequence[Layer],
    libraries: Sequence[KernelLibrary],
    storages: Sequence[Storage],
    place: Mapping[int, int],
) -> Iterator[InPlacePair]:
    """The in-place pairs of segments, and the kernels' own where all libraries allow them."""
    subgraph, tried = model.main, not any(map(untried, libraries))
    for k, layer in enumerate(layers):
        if isinstance(layer, SegmentLayer):
            for (one, other), distance in layer.segment.distances.items():
                if _meet(subgraph, layer, storages, place, (one, other), k):
                    yield InPlacePair(place[one], place[other], distance)
        if len(layer.calls) == 1 and (blocks := layer.calls[0].blocks):
            one, other = layer.calls[0].reads[0].tensor, layer.calls[0].writes[0].tensor
            if _meet(subgraph, layer, storages, place, (one, other), k):
                yield InPlacePair(place[one], place[other], least_distance(blocks))
                if layer.calls[0].reverse is not None:
                    yield InPlacePair(place[other], place[one], least_distance_above(layer.calls[0].reverse.blocks))
            continue
        if not tried or len(layer.calls) != 1 or layer.calls[0].copies or layer.calls[0].runs is not None:
            continue
        operator = subgraph.operators[layer.operator]
        try:
            found = [
                {(o.input, o.output): o for o in in_place_tensors(lib, model, subgraph, operator)} for lib in libraries
            ]
        except ModelError:
            continue
        for pair in found[0]:
            if all(pair in one for one in found) and _meet(subgraph, layer, storages, place, pair, k):
                yield _pair(tuple(place[tensor] for tensor in pair), [one[pair] for one in found])


def _pair(buffers: Sequence[int], allowed: Sequence[InPlaceTensors]) -> InPlacePair:
    distances = [one.distance_bytes for one in allowed]
    known = [distance for distance in distances if distance is not None]
    distance = max(known) if len(known) == len(distances) else None
    return InPlacePair(buffers[0], buffers[1], distance, all(one.allows(0, 0) for one in allowed))


def _meet(
    subgraph: Subgraph,
    layer: Layer,
    storages: Sequence[Storage],
    place: Mapping[int, int],
    pair: tuple[int, int],
    number: int,
) -> bool:
    """Whether the layer is the last to use the first tensor's storage, and the first to use the second's.

    Both tensors are all of their storages, and the layer reads no other tensor of the first one.
    """
    one, other = (storages[place[tensor]] for tensor in pair)
    sizes = [subgraph.tensors[tensor].size_bytes for tensor in pair]
    if sizes != [one.size, other.size] or set(tensors_of(subgraph, layer)[0]) & set(one.tensors) != {pair[0]}:
        return False
    step = number + 1
    return one is not other and one.lower < step == one.upper - 1 == other.lower


def _choices(
    subgraph: Subgraph, layers: Sequence[Layer], storages: Sequence[Storage], place: Mapping[int, int]
) -> Iterator[RunChoice]:
    for k, layer in enumerate(layers):
        call = layer.calls[0] if len(layer.calls) == 1 else None
        if call is None or call.runs is None:
            continue
        pair = call.reads[0].tensor, call.writes[0].tensor
        if (
            not _meet(subgraph, layer, storages, place, pair, k)
            or subgraph.operators[layer.operator].inputs.count(pair[0]) != 1
        ):
            continue
        pixels = PixelLayer(sum(call.runs.counts), call.runs.in_bytes, call.runs.out_bytes)
        if pixels.pixels < 2:
            continue
        below, above = (pixels.distances(ALIGNMENT, backwards=backwards) for backwards in (False, True))
        assert isinstance(layer, KernelLayer)
        yield RunChoice(k, place[pair[0]], place[pair[1]], pixels, below, above, layer.run_cycles)


@dataclass(frozen=True)
class _Way:
    """A way to run a layer: the bytes that are then alive at its step, its calls, and the pair that allows it."""

    need: int
    calls: int
    pair: InPlacePair | None = None


def _cheapest(problem: Problem, choices: Sequence[RunChoice], budget: float) -> Plan:
    """The smallest plan within the budget, of several of that size the cheapest.

    For each size that layers can come to, each layer's cheapest distance is tried.
    """
    work = min(_WORK, _WORK_EACH * len(problem.buffers) ** 2)
    best, least = _packed(problem, None, work), 0.0
    alive = _alive(problem)
    ways = [_ways(problem, choice, alive) for choice in choices]
    costs = [_Costs.of(choice, each) for choice, each in zip(choices, ways, strict=True)]
    least_size = max((each.needs[0] for each in costs), default=0)  # below it a layer has no way
    sizes = sorted({way.need for each in ways for way in each if least_size <= way.need < best.size_bytes})
    tried = 0
    for size in sizes:
        if size > best.size_bytes or tried == _MOST_CANDIDATES:
            break
        if sum(each.within(size) for each in costs) > budget:
            continue
        tried += 1
        fitting = [[way for way in each if way.need <= size] for each in ways]
        pairs = tuple(pair for choice, each in zip(choices, fitting, strict=True) for pair in _cheap_pairs(each))
        plan = _packed(replace(problem, pairs=(*problem.pairs, *pairs)), size, work)
        cost = _cost(choices, plan)
        if (plan.size_bytes, cost) < (best.size_bytes, least) and cost <= budget:
            best, least = plan, cost
    return best


@lru_cache(maxsize=32)
def _packed(problem: Problem, capacity: int | None, work: int) -> Plan:
    """pack(), once for a problem: budgets and ways of a front share many of them."""
    return pack(problem, capacity=capacity, work=work)


@dataclass(frozen=True)
class _Costs:
    """The least cost of a layer's ways by the bytes that they need, which grow."""

    needs: tuple[int, ...]
    least: tuple[float, ...]

    @classmethod
    def of(cls, choice: RunChoice, ways: Sequence[_Way]) -> _Costs:
        """The costs of the ways of a choice."""
        pairs = sorted((way.need, way.calls) for way in ways)
        calls = accumulate((calls for _, calls in pairs), min)
        return cls(tuple(need for need, _ in pairs), tuple(map(choice.cost, calls)))

    def within(self, size: int) -> float:
        """The least cost of a way that needs at most `size` bytes, of which there is one."""
        return self.least[bisect_right(self.needs, size) - 1]


def _cheap_pairs(ways: Sequence[_Way]) -> Iterator[InPlacePair]:
    """The pairs of the ways with the fewest calls, one for each direction; none where a single call is possible."""
    found: dict[tuple[int, int], _Way] = {}
    if min(way.calls for way in ways) > 1:
        for way in ways:
            if way.pair is not None:
                key = way.pair.input, way.pair.output
                if key not in found or way.calls < found[key].calls:
                    found[key] = way
    for way in found.values():
        assert way.pair is not None
        yield way.pair


def _alive(problem: Problem) -> dict[int, int]:
    """Bytes alive at each step."""
    found: dict[int, int] = {}
    for buffer, size in zip(problem.buffers, problem.sizes, strict=True):
        for step in range(buffer.lower, buffer.upper):
            found[step] = found.get(step, 0) + size
    return found


def _ways(problem: Problem, choice: RunChoice, alive: Mapping[int, int]) -> list[_Way]:
    whole = alive[choice.layer + 1]
    found = [_Way(whole, 1)]
    for one, other, distances in (
        (choice.source, choice.result, choice.below),
        (choice.result, choice.source, choice.above),
    ):
        for distance, calls in distances:
            saved = min(problem.sizes[one], problem.sizes[other] - align_up(distance, ALIGNMENT))
            found.append(_Way(whole - saved, calls, InPlacePair(one, other, distance)))
    return found


def _cost(choices: Sequence[RunChoice], plan: Plan) -> float:
    """Cycles that the runs at the plan's offsets add."""
    total = 0.0
    for choice in choices:
        runs = choice.pixels.runs(plan.offsets[choice.source] - plan.offsets[choice.result])
        assert runs is not None, "the plan keeps each pair's distance"
        total += choice.cost(len(runs.counts))
    return total


def _with_runs(layers: Sequence[Layer], choices: Sequence[RunChoice], plan: Plan) -> Iterator[Layer]:
    by_layer = {choice.layer: choice for choice in choices}
    for k, layer in enumerate(layers):
        choice = by_layer.get(k)
        if choice is not None:
            runs = choice.pixels.runs(plan.offsets[choice.source] - plan.offsets[choice.result])
            assert runs is not None
            layer = replace(layer, calls=(_cut(layer.calls[0], runs),))
        yield layer


def _with_direction(layer: Layer, offsets: Mapping[int, int]) -> Layer:
    """The layer with its call backwards where the output lies over its input too near below it, or above."""
    call = layer.calls[0] if len(layer.calls) == 1 else None
    if call is None or call.reverse is None:
        return layer
    (read,), (write,) = call.reads, call.writes
    given, taken = offsets[read.tensor], offsets[write.tensor]
    apart = given + read.end <= taken or taken + write.end <= given
    if apart or given - taken >= least_distance(call.blocks):
        return layer
    return replace(layer, calls=(call.reverse,))


def _cut(call: KernelCall, runs: Runs) -> KernelCall:
    assert call.runs is not None
    return replace(call, runs=replace(call.runs, counts=runs.counts, backwards=runs.backwards))
