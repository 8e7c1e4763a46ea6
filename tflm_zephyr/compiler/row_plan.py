# SPDX-License-Identifier: Apache-2.0
"""Layers -> the same with segments of them that run row by row, where that makes the model's memory smaller.

The planner of segments (row_planner) offers cuts of the model, with estimates of their bytes and costs; those that may
be the best are planned exactly, as a model without segments is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from tflm_zephyr.compiler.ir.layers import InsideLayer, KernelLayer, Layer, SegmentLayer, cycles_of, more_work
from tflm_zephyr.compiler.layer_cycles import LayerCycles
from tflm_zephyr.compiler.memory_plan import MemoryPlan, plan_memory, shared_bytes
from tflm_zephyr.compiler.pixel_runs import PixelLayer
from tflm_zephyr.compiler.row_forms import is_image, sides
from tflm_zephyr.compiler.row_program import RowBuffer, RowSegment, StreamedInput
from tflm_zephyr.compiler.row_stream import Stream
from tflm_zephyr.compiler.views import Placement, with_views
from tflm_zephyr.errors import ModelError, PlanError
from tflm_zephyr.kernels import KernelLibrary, Node, in_place_tensors, untried
from tflm_zephyr.memory_planner import align_up
from tflm_zephyr.model import Model, Subgraph
from tflm_zephyr.row_planner import (
    Chain,
    Cut,
    DryRuns,
    Operation,
    RowTensor,
    Schedule,
    Segment,
    Way,
    folded,
    front,
)
from tflm_zephyr.tflm import ALIGNMENT

_MOST_CUTS = 5
"""Cuts that are planned: the one with the fewest estimated bytes may be packed into more than the third one is."""
_FRONT_CUTS = 24
_MOST_SLOWER, _MOST_WHOLE = 0.2, 16  # of plans without segments
_MOST_OF_CUT = 4  # plans with the same segments
_ROUGHLY, _LITTLE = 1.2, 0.01
_LOW = 1.25  # by so much at most packing makes less of a cut than its estimated bytes
_ANY = 1e9  # a share of the work that no plan costs


@dataclass(frozen=True)
class RowPlan:
    """A way to run the model, and the estimated share of the model's work that it costs more than whole layers do."""

    memory: MemoryPlan
    slower: float


@dataclass(frozen=True)
class RowPlanning:
    """The plans of `model` with these layers, some of which may run row by row.

    With a `stream` each plan takes in its rows. `costs` are those of its calls, `runs` dry runs that plans with other
    kernels share.
    """

    model: Model
    layers: tuple[Layer, ...]
    libraries: Sequence[KernelLibrary]
    stream: Stream | None
    costs: LayerCycles
    runs: DryRuns = field(default_factory=DryRuns)

    @cached_property
    def chain(self) -> Chain:
        """The layers as the planner of segments sees them."""
        return chain_of(self.model, self.layers, self.libraries, self.stream, self.costs)

    @cached_property
    def cuts(self) -> tuple[Cut, ...]:
        """Cuts of the model into segments, the smallest first, none of which is no smaller and no cheaper."""
        return front(self.chain, self.work, runs=self.runs)

    @cached_property
    def work(self) -> float:
        """The cycles of whole layers, of which costs are a share."""
        return cycles_of(self.layers)

    def whole(self, slower: float) -> MemoryPlan:
        """The smallest plan without segments that costs no more than `slower` of the model's work."""
        return plan_memory(self.model, self.layers, self.libraries, slower=slower)

    def smallest(self, slower: float) -> MemoryPlan:
        """The smallest plan found, with or without segments, that costs no more than `slower` of the model's work.

        PlanError where all plans that take in the rows of a stream cost more.
        """
        fitting = [cut for cut in self.cuts if cut.cost <= slower * self.work]
        if self.stream is not None and not fitting:
            raise self._too_slow(min(cut.cost for cut in self.cuts) / self.work if self.work else 0.0, slower)
        best = None if self.stream is not None else self.whole(slower)
        for cut in fitting[:_MOST_CUTS]:
            if best is not None and cut.bytes >= best.plan.size_bytes:
                break
            plan = self._by_rows(cut, slower * self.work)
            best = plan if best is None else min(best, plan, key=_size_and_work)
        assert best is not None
        return best

    def front(self) -> tuple[RowPlan, ...]:
        """Plans, the smallest first, none of which is both no smaller and no cheaper than another one."""
        cuts = self.cuts
        if len(cuts) > _FRONT_CUTS:
            cuts = tuple(cuts[k * len(cuts) // _FRONT_CUTS] for k in range(_FRONT_CUTS))
        costed = [*self._wholes, *(plan for cut in cuts for plan in self._roughly(cut))]
        best: list[RowPlan] = []
        for plan in sorted(costed, key=lambda plan: (plan.memory.plan.size_bytes, plan.slower)):
            if not best or plan.slower < best[-1].slower:
                best.append(plan)
        return tuple(best)

    def cheapest(self, ram: int, size: Callable[[MemoryPlan], int], slower: float | None = None) -> MemoryPlan:
        """The cheapest plan whose arena, of `size` bytes in all, is at most `ram`, and whose cost at most `slower`.

        Plans are packed from the one that is estimated to be the cheapest on, until one fits that no other can beat.
        PlanError where there is none, with the bytes or the work that are short.
        """
        best: RowPlan | None = None
        for least, plans in self._by_cost(ram):
            if best is not None and best.slower <= least:
                break
            for plan in plans():
                if size(plan.memory) <= ram and (best is None or plan.slower < best.slower):
                    best = plan
        if best is not None and (slower is None or best.slower <= slower):
            return best.memory
        smallest = self.smallest(_ANY if slower is None else slower)
        if size(smallest) <= ram:
            return smallest
        raise self._too_large(ram, size(smallest), slower, best)

    def _by_cost(self, ram: int) -> Iterator[tuple[float, Callable[[], Sequence[RowPlan]]]]:
        """Plans that may fit, with a share of the work that they cost at least about, the cheapest first."""
        work = self.work or 1
        plans = [(plan.slower, partial(tuple[RowPlan], [plan])) for plan in self._wholes]
        plans += [(cut.cost / work, partial(self._roughly, cut)) for cut in self.cuts if cut.bytes <= _LOW * ram]
        return iter(sorted(plans, key=lambda plan: plan[0]))

    @cached_property
    def _wholes(self) -> tuple[RowPlan, ...]:
        """Plans without segments, each cheaper than the one before, to one that costs nothing; none for a stream."""
        if self.stream is not None:
            return ()
        found = [RowPlan(self.whole(0.0), 0.0)]
        slower = _MOST_SLOWER
        while len(found) < _MOST_WHOLE:
            memory = self.whole(slower)
            slower = more_work(memory.layers)
            if slower <= 0.0:
                break
            found.append(RowPlan(memory, slower))
            slower *= 1 - _LITTLE
        return tuple(found)

    def _roughly(self, cut: Cut) -> tuple[RowPlan, ...]:
        """The cut's plans, each cheaper than the one before: runs of pixels cost about what the cut says, or less."""
        budget, found = _ROUGHLY * cut.cost + _LITTLE * self.work, list[RowPlan]()
        for _ in range(_MOST_OF_CUT):
            memory = self._by_rows(cut, budget)
            plan = RowPlan(memory, more_work(memory.layers))
            if found and plan.slower >= found[-1].slower:
                break
            found.append(plan)
            budget = plan.slower * self.work * (1 - _LITTLE)
            if budget <= _spent(cut):
                break
        return tuple(found)

    def _by_rows(self, cut: Cut, budget: float) -> MemoryPlan:
        """The cut's plan, where runs of pixels may cost what segments leave of the budget."""
        left = (budget - _spent(cut)) / self.work if self.work else 0.0
        segments = with_segments(self.chain, self.layers, cut, self.stream)
        return plan_memory(self.model, segments, self.libraries, slower=max(0.0, left))

    def _too_slow(self, least: float, slower: float) -> PlanError:
        """The error where streamed input costs more than is allowed."""
        return PlanError(
            f"streamed input makes {100 * least:.1f} % more work at least, and {100 * slower:g} % is allowed",
            where=self.model.where,
            hint=f"Allow it: --slower {math.ceil(100 * least)}",
        )

    def _too_large(self, ram: int, least: int, slower: float | None, fitting: RowPlan | None) -> PlanError:
        """The error where nothing fits but `least` bytes, or only `fitting`, which costs too much."""
        limit = "" if slower is None else f" with at most {100 * slower:g} % more work"
        what = f"the model takes at least {least:,} bytes of RAM{limit}, {least - ram:,} more than there are"
        if fitting is not None:
            what += f"; {ram:,} bytes are enough for an estimated {100 * fitting.slower:.2f} % more work"
        hint = f"Allow {least:,} bytes, or {'more work' if fitting is not None else 'take a smaller model'}"
        return PlanError(what, where=self.model.where, hint=hint)


def _spent(cut: Cut) -> float:
    """The cost of the cut's segments."""
    return sum(segment.cost for segment in cut.segments if segment.pace is not None)


def _size_and_work(memory: MemoryPlan) -> tuple[int, float]:
    return memory.plan.size_bytes, more_work(memory.layers)


def chain_of(
    model: Model,
    layers: Sequence[Layer],
    libraries: Sequence[KernelLibrary],
    stream: Stream | None,
    costs: LayerCycles,
) -> Chain:
    """The layers as the planner of segments sees them; tensor numbers are the model's.

    With a `stream` the first operation supplies its rows, in the place of the layers that it skips.
    """
    subgraph = model.main
    viewed, placement = with_views(subgraph, layers, parts=True)
    tensors = tuple(_tensor(subgraph, placement, k) for k in range(len(subgraph.tensors)))
    operations = tuple(_operation(model, layer, libraries, costs) for layer in viewed)
    ends = tuple(subgraph.inputs), tuple(subgraph.outputs)
    chain = Chain(tensors, operations, *ends, ALIGNMENT, costs.moved_byte)
    return chain if stream is None else _with_supply(chain, layers, stream, costs.step)


def _with_supply(chain: Chain, layers: Sequence[Layer], stream: Stream, step: float) -> Chain:
    """The chain with the stream's rows from outside: a push of rows, and each of its rows, cost as a `step`.

    Readers of another input stay out of segments: that input may be written until the last row has come.
    """
    form = layers[stream.skipped].rows
    assert form is not None
    given = next(given for given in form.inputs if given.tensor == stream.tensor)
    tensors = list(chain.tensors)
    tensors[stream.tensor] = RowTensor(given.rows, given.row_bytes, stream.tensor)
    supply = Operation((), (stream.tensor,), step_costs=(step,), row_cost=step, supplied=True)
    inputs = tuple(tensor for place, tensor in enumerate(chain.inputs) if place != stream.input)
    others = chain.operations[stream.skipped :]
    operations = (supply, *(_on_whole_tensors(one) if set(one.reads) & set(inputs) else one for one in others))
    return replace(chain, tensors=tuple(tensors), operations=operations, inputs=inputs)


def _on_whole_tensors(operation: Operation) -> Operation:
    return Operation(operation.reads, operation.writes, scratch=operation.scratch, ways=operation.ways)


def _tensor(subgraph: Subgraph, placement: Placement, k: int) -> RowTensor:
    tensor, (root, _) = subgraph.tensors[k], placement.of(k)
    rows = sides(tensor)[0] if is_image(tensor) else 1
    ends = k in subgraph.inputs or k in subgraph.outputs
    whole = ends or tensor.is_constant or tensor.is_variable or len(placement.members(root)) > 1
    # A part of another tensor is as large as that one to the planner, which knows no offsets.
    size = tensor.size_bytes if root == k else 0
    return RowTensor(rows, -(-size // rows), root, whole)


def _operation(model: Model, layer: Layer, libraries: Sequence[KernelLibrary], costs: LayerCycles) -> Operation:
    subgraph, form = model.main, layer.rows
    operator = subgraph.operators[layer.operator]
    reads = tuple(dict.fromkeys(i for i in operator.inputs if i >= 0 and not subgraph.tensors[i].is_constant))
    writes = tuple(operator.outputs)
    ways = tuple(_ways(model, layer, libraries))
    if form is None or not layer.calls or {given.tensor for given in form.inputs} != set(reads):
        return Operation(reads, writes, scratch=layer.scratch_bytes, ways=ways)
    calls = costs.of_rows(Node(model, subgraph, operator), layer)
    return Operation(
        reads,
        writes,
        tuple(given.window for given in form.inputs),
        gathers=form.gathering is not None,
        scratch=layer.scratch_bytes,
        kept=0 if form.gathering is None else 4 * form.gathering.sums,
        step_costs=tuple(costs.step + call for call in calls),
        row_cost=form.row_work * layer.cycles / form.steps,
        ways=ways,
    )


def _ways(model: Model, layer: Layer, libraries: Sequence[KernelLibrary]) -> Iterator[Way]:
    """How the layer on whole tensors can have its output over an input: by its kernel's own order, or by runs."""
    call = layer.calls[0] if len(layer.calls) == 1 else None
    sizes = [tensor.size_bytes for tensor in model.main.tensors]
    if call is not None and call.blocks:
        yield Way(align_up(shared_bytes(model.main, layer), ALIGNMENT), 0.0)
        return
    if call is None or call.copies:
        return
    if call.runs is not None:
        assert isinstance(layer, KernelLayer)
        one, other = call.reads[0].tensor, call.writes[0].tensor
        pixels = PixelLayer(sum(call.runs.counts), call.runs.in_bytes, call.runs.out_bytes)
        if pixels.pixels > 1 and one not in model.main.outputs:
            for backwards in (False, True):
                first, second = (other, one) if backwards else (one, other)
                for distance, calls in pixels.distances(ALIGNMENT, backwards=backwards):
                    saved = min(align_up(sizes[first], ALIGNMENT), align_up(sizes[second], ALIGNMENT) - distance)
                    yield Way(max(0, saved), (calls - 1) * layer.run_cycles)
        return
    if any(map(untried, libraries)):
        return
    try:
        each = [in_place_tensors(lib, model, model.main, model.main.operators[layer.operator]) for lib in libraries]
    except ModelError:
        return
    for pair in each[0] if each else ():
        found = [next((o for o in one if (o.input, o.output) == (pair.input, pair.output)), None) for one in each]
        distances = [0 if o.allows(0, 0) else o.distance_bytes for o in found if o is not None]
        known = [distance for distance in distances if distance is not None]
        if len(known) == len(each):
            saved = min(sizes[pair.input], sizes[pair.output] - max(0, *known, 0))
            yield Way(align_up(max(0, saved), ALIGNMENT), 0.0)


def with_segments(chain: Chain, layers: Sequence[Layer], cut: Cut, stream: Stream | None = None) -> tuple[Layer, ...]:
    """The layers with those of a segment in the place of its last one."""
    found = list(layers)
    ahead = 0 if stream is None else 1 - stream.skipped  # operations of the chain before the first layer
    for segment in cut.segments:
        if segment.pace is not None:
            own = stream if chain.operations[segment.first].supplied else None
            first, last = segment.first - ahead, segment.last - ahead
            for k in range(first if own is None else 0, last):
                found[k] = without_code(layers[k])
            members = tuple(layers[first if own is None else own.skipped : last])
            found[last - 1] = _segment_layer(chain, members, segment, own)
    return tuple(found)


def without_code(layer: Layer) -> InsideLayer:
    """A layer whose code a segment has."""
    assert isinstance(layer, KernelLayer)
    return InsideLayer(
        operator=layer.operator,
        key=layer.key,
        title=layer.title,
        scratch_bytes=layer.scratch_bytes,
        cycles=layer.cycles,
        not_fast=layer.not_fast,
        member=layer,
    )


def _segment_layer(
    chain: Chain, members: Sequence[Layer], segment: Segment, stream: Stream | None = None
) -> SegmentLayer:
    assert segment.run is not None
    schedule = segment.run.schedule
    forms = {layer.operator: layer.rows for layer in members if layer.rows is not None}
    places, at = segment.run.places, segment.run.buffer_bytes
    buffers: dict[int, RowBuffer] = {}
    for form in forms.values():
        for rows in (*form.inputs, form.output):
            tensor = rows.tensor
            if tensor in buffers:
                continue
            capacity = schedule.capacities.get(tensor)
            if capacity is None:
                ready = rows.rows if chain.makers.get(tensor, -1) < segment.first else 0
                buffers[tensor] = RowBuffer(tensor, rows.row_bytes, rows.rows, ready, None)
            else:
                buffers[tensor] = RowBuffer(tensor, rows.row_bytes, capacity, 0, places[tensor])
    sums = {}
    for operator, form in forms.items():
        if form.gathering is not None:
            sums[operator] = at
            at = align_up(at + 4 * form.gathering.sums, ALIGNMENT)
    streamed = None if stream is None else _streamed(chain, schedule, stream, tuple(buffers.values()), at)
    at += 0 if streamed is None else align_up(streamed.state_bytes, ALIGNMENT)
    # Behind the members' numbers is that of the step that waits for rows of the input.
    order = range(segment.first, segment.last)
    numbers = {k: number for number, k in enumerate((*order[1:], order[0]) if stream is not None else order)}
    steps = [(numbers[k], count) for k, count in schedule.steps]
    whole = [buffer for buffer in buffers.values() if buffer.at is None]
    done = RowSegment(
        forms=forms,
        buffers=tuple(buffers.values()),
        loops=folded(steps),
        inputs=tuple(buffer.tensor for buffer in whole if buffer.ready),
        outputs=tuple(buffer.tensor for buffer in whole if not buffer.ready),
        sums=sums,
        scratch=at,
        distances=_distances(chain, schedule.distances),
        cost=segment.cost,
        stream=streamed,
    )
    last = members[-1]
    return SegmentLayer(
        operator=last.operator,
        key=last.key,
        title=last.title,
        scratch_bytes=at + max(layer.scratch_bytes for layer in members),
        cycles=last.cycles,
        not_fast=last.not_fast,
        segment=done,
        members=tuple(with_used_parameters(layer) for layer in members),
    )


def _streamed(
    chain: Chain, schedule: Schedule, stream: Stream, buffers: Sequence[RowBuffer], state: int
) -> StreamedInput:
    tensor = chain.tensors[stream.tensor]
    most = max(chain.tensors[buffer.tensor].rows for buffer in buffers)
    read = sum(count for k, count in schedule.steps if chain.operations[k].supplied)
    mark_bytes = 2 if most < 1 << 16 else 4
    return StreamedInput(
        stream.input, stream.tensor, tensor.rows, tensor.row_bytes, read, state, len(buffers), mark_bytes
    )


def with_used_parameters(layer: Layer) -> KernelLayer:
    """Without the constants that the layer's call for rows does not name."""
    assert isinstance(layer, KernelLayer) and layer.rows is not None
    used = set(layer.rows.parameters())
    return replace(layer, parameters=tuple(one for one in layer.parameters if one in used))


def _distances(chain: Chain, found: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    return {pair: distance for pair, distance in found.items() if chain.can_share(*pair)}
