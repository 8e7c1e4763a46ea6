# SPDX-License-Identifier: Apache-2.0
"""The order of the main subgraph's operators in which the fewest bytes are alive at once.

TFLM runs operators in the file's order (MicroInterpreterGraph::InvokeSubgraph, micro_interpreter_graph.cc, revision
8d404de7). Where branches leave a choice, a file in another order is as valid. A reader of a tensor stays behind its
writer. Operators with side effects (resource variables, variable tensors, called subgraphs, unknown operators) keep
their order among each other.

An operator that all others come before or after cuts the graph; between cuts the orders are independent. The tensors
that a set of operators leaves alive do not depend on the order within the set. Hence in each section one order of each
set is kept, from small sets to large ones. When there are too many sets, only the best are kept, and the order may not
be the best.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tflm_zephyr.arena.schedule_costs import Costs
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels import KernelLibrary, keeps_state
from tflm_zephyr.model import Graph, Model, in_operator_order

_CONTROL_EDGES = "model_control_dependencies"  # metadata that names operators by index
_SETS = 20_000  # sets to look at in a section, for each number of operators, but
_LEAST_WIDTH, _MOST_WIDTH = 2, 2_000


@dataclass(frozen=True)
class Order:
    """Operators of the main subgraph by their index in the file, and the most bytes alive at once.

    `model_bytes`: the same with the file's order.
    """

    operators: tuple[int, ...]
    peak_bytes: int
    model_bytes: int

    @property
    def differs(self) -> bool:
        """Whether it is another order than the file's."""
        return list(self.operators) != sorted(self.operators)


def _best_order(graph: Graph, library: KernelLibrary, before: Sequence[Collection[int]], in_place: bool) -> Order:
    """The order found that needs the fewest bytes at once; the file's order where none needs fewer.

    Tensors and scratch buffers count. in_place: an output shares bytes with an input that dies with its operator, as
    far as the kernels of `library` allow.
    """
    sections = _sections(before)
    costs = Costs(graph, library, in_place)
    peaks = [max(costs.in_file_order[k] for k in section) for section in sections]
    orders: list[Sequence[int]] = list(sections)
    whole = max(peaks, default=0)
    floor = 0 if _CONTROL_EDGES not in graph.model.metadata else whole
    # The section that needs most comes first: a section that needs less than that one's best stays as it is.
    for at in sorted(range(len(sections)), key=lambda k: -peaks[k]):
        if peaks[at] <= floor:
            break
        found = _Section(sections[at], costs, before).search(peaks[at])
        if found is not None:
            peaks[at], orders[at] = found
        floor = max(floor, peaks[at])
    return Order(tuple(operator for section in orders for operator in section), max(peaks, default=0), whole)


def reordered(model: Model, library: KernelLibrary, order: Sequence[int] | None) -> Model:
    """The model with its main subgraph's operators in `order`; `model` itself for None.

    PlanError as in_operator_order raises it, and for an operator that would run before one that it depends on.
    """
    if order is None:
        return model
    before, done = _dependencies(model, library), set[int]()
    for operator in order:
        for other in sorted(before[operator] - done) if 0 <= operator < len(before) else ():
            one, two = (model.main.operators[k].label for k in (operator, other))
            what = f"{one} would run before {two}, which it depends on"
            raise PlanError(what, where=model.where, hint="Keep the model's order, or plan the model again")
        done.add(operator)
    return in_operator_order(model, order)


def better_order(graph: Graph, library: KernelLibrary, *, in_place: bool = False) -> tuple[Model, Order] | None:
    """The model with the best order, and that order; None where its own is as good, or no other order is possible."""
    before = _dependencies(graph.model, library)
    if all(len(section) == 1 for section in _sections(before)):
        return None
    order = _best_order(graph, library, before, in_place)
    try:
        return (in_operator_order(graph.model, order.operators), order) if order.differs else None
    except PlanError:
        return None


def _dependencies(model: Model, library: KernelLibrary) -> list[set[int]]:
    """The direct predecessors of each operator: the operators that have to run before it."""
    tensors = model.main.tensors
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    before: list[set[int]] = []
    effect = -1
    for operator in model.main.operators:
        needs = {writer[i] for i in operator.inputs if i in writer}
        changed = [*operator.outputs, *(i for i in operator.inputs if i >= 0 and tensors[i].is_variable)]
        for i in changed:
            needs.update(readers.get(i, ()), [writer[i]] if i in writer else ())
        known = library.knows(operator.key) and not keeps_state(operator.key, library.core.revision)
        if operator.subgraphs or not known:
            needs.update([effect] if effect >= 0 else ())
            effect = operator.index
        for i in operator.inputs:
            readers.setdefault(i, []).append(operator.index)
        for i in changed:
            writer[i], readers[i] = operator.index, []
        before.append(needs - {operator.index})
    return before


def _sections(before: Sequence[Collection[int]]) -> list[range]:
    """The file's order in sections: each cutting operator is one, and the operators between two cuts are one."""
    total = len(before)
    first_after = [total] * total
    for operator, others in enumerate(before):
        for other in others:
            first_after[other] = min(first_after[other], operator)
    reaches = [-1] * (total + 1)  # by operator: the last operator that it, or one before it, waits for
    for k in range(total):
        reaches[k + 1] = max(reaches[k], first_after[k])
    starts = [total] * (total + 1)  # by operator: the smallest last predecessor of it and of those behind it
    for k in range(total - 1, -1, -1):
        starts[k] = min(starts[k + 1], max(before[k], default=-1))
    found: list[range] = []
    begin = 0
    for k in range(total):
        if reaches[k] <= k <= starts[k + 1]:
            found += [piece for piece in (range(begin, k), range(k, k + 1)) if piece]
            begin = k + 1
    return [*found, range(begin, total)] if begin < total else found


class _State:
    """Operators that have run, as bits; bytes alive then, the most so far, and what can run next."""

    __slots__ = ("alive", "done", "last", "parent", "peak", "ready")

    def __init__(
        self, done: int, alive: int, peak: int, ready: tuple[int, ...], parent: _State | None, last: int
    ) -> None:
        self.done, self.alive, self.peak, self.ready, self.parent, self.last = done, alive, peak, ready, parent, last


class _Section:
    """One section of the file's order, searched for a better one."""

    def __init__(self, section: range, costs: Costs, before: Sequence[Collection[int]]) -> None:
        self.section, self.costs, begin = section, costs, section.start
        self.needs = {k: sum(1 << (other - begin) for other in before[k] if other >= begin) for k in section}
        self.after: dict[int, list[int]] = {k: [] for k in section}
        for k in section:
            for other in before[k]:
                if other >= begin:
                    self.after[other].append(k)
        tensors = {i for k in section for i in (*costs.reads[k], *costs.writes[k])}
        # The operators of this section that use a tensor, as bits; 0 where it is needed later on.
        self.users = {
            i: 0
            if i in costs.kept or costs.users[i][-1] >= section.stop
            else sum(1 << (k - begin) for k in costs.users[i] if k >= begin)
            for i in tensors
        }
        self.makers: Mapping[int, int] = self._makers()

    def _makers(self) -> dict[int, int]:
        """The operators that write a tensor, as bits, for each tensor that this section writes."""
        begin = self.section.start
        found: dict[int, int] = {}
        older = {i for i in self.users if self.costs.users[i][0] < begin}
        for k in self.section:
            for i in self.costs.writes[k]:
                if i not in older:
                    found[i] = found.get(i, 0) | 1 << (k - begin)
        return found

    def search(self, limit: int) -> tuple[int, list[int]] | None:
        """The smallest peak below `limit` that was found, and its order; None when there is none."""
        width = max(_LEAST_WIDTH, min(_MOST_WIDTH, _SETS // len(self.section)))
        ready = tuple(k for k in self.section if not self.needs[k])
        states = [_State(0, self.costs.alive[self.section.start], 0, ready, None, -1)]
        for _ in self.section:
            following: dict[int, _State] = {}
            for state in states:
                for after in self._next(state):
                    known = following.get(after.done)
                    if after.peak < limit and (known is None or after.peak < known.peak):
                        following[after.done] = after
            states = sorted(following.values(), key=lambda state: (state.peak, state.alive, state.done))[:width]
            if not states:
                return None
        order: list[int] = []
        best: _State | None = states[0]
        while best is not None and best.parent is not None:
            order.append(best.last)
            best = best.parent
        return states[0].peak, order[::-1]

    def _next(self, state: _State) -> list[_State]:
        """A state for each operator that can run; only one state when an operator costs nothing and can run at once."""
        found = []
        for operator in state.ready:
            after = self._run(state, operator)
            if after.alive <= state.alive and after.peak == state.peak:
                return [after]
            found.append(after)
        return found

    def _run(self, state: _State, operator: int) -> _State:
        costs, begin = self.costs, self.section.start
        done = state.done | 1 << (operator - begin)
        new = sum(costs.bytes[i] for i in costs.writes[operator] if not self.makers.get(i, -1) & state.done)
        dying = {
            i
            for i in (*costs.reads[operator], *costs.writes[operator])
            if self.users[i] and self.users[i] & done == self.users[i]
        }
        cost = state.alive + new + costs.extra[operator] - costs.saved(operator, dying)
        alive = state.alive + new - sum(costs.bytes[i] for i in dying)
        ready = tuple(k for k in state.ready if k != operator)
        ready += tuple(k for k in self.after[operator] if self.needs[k] & done == self.needs[k])
        return _State(done, alive, max(state.peak, cost), tuple(sorted(ready)), state, operator)
