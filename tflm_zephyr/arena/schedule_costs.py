# SPDX-License-Identifier: Apache-2.0
"""Bytes that the operators of a main subgraph need, to compare orders of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tflm_zephyr.errors import ModelError
from tflm_zephyr.kernels import KernelLibrary, in_place_tensors, untried
from tflm_zephyr.memory_planner import align_up, most_saved
from tflm_zephyr.model import Graph, Model
from tflm_zephyr.tflm import ALIGNMENT

Pair = tuple[int, int, int]
"""Input, output, bytes that they can share."""


class Costs:
    """Bytes that the main subgraph's tensors and operators need, aligned as TFLM does; 0 for tensors outside the head.

    `users` are the operators that read or write a tensor, `extra` the bytes of an operator's scratch buffers and of
    the subgraphs that it calls, `pairs` the in-place pairs. `alive` has the bytes alive before each operator in the
    file's order, `in_file_order` the bytes alive while it runs.
    """

    def __init__(self, graph: Graph, library: KernelLibrary, in_place: bool) -> None:
        main = graph.model.main
        self.bytes = [0] * len(main.tensors)
        for planned in graph.tensors:
            if planned.subgraph == 0:
                self.bytes[planned.tensor] = align_up(planned.size_bytes, ALIGNMENT)
        self.extra = _extra(graph)
        self.reads = [self._planned(operator.inputs) for operator in main.operators]
        self.writes = [self._planned(operator.outputs) for operator in main.operators]
        self.kept = frozenset(main.outputs)
        self.users: dict[int, list[int]] = {}
        for k in range(len(main.operators)):
            for tensor in {*self.reads[k], *self.writes[k]}:
                self.users.setdefault(tensor, []).append(k)
        self.pairs = (
            self._pairs(graph.model, library) if in_place and not untried(library) else [() for _ in main.operators]
        )
        self.alive, self.in_file_order = self._in_file_order(self._planned(main.inputs))

    def _planned(self, tensors: Iterable[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(i for i in tensors if i >= 0 and self.bytes[i]))

    def _in_file_order(self, inputs: Sequence[int]) -> tuple[list[int], list[int]]:
        made = {i for i in inputs if i in self.users or i in self.kept}
        now, alive, costs = sum(self.bytes[i] for i in made), [], []
        for k in range(len(self.reads)):
            alive.append(now)
            new = [i for i in self.writes[k] if i not in made]
            made.update(new)
            used = {*self.reads[k], *self.writes[k]} & made
            dying = {i for i in used if self.users[i][-1] == k and i not in self.kept}
            now += sum(self.bytes[i] for i in new)
            costs.append(now + self.extra[k] - self.saved(k, dying))
            now -= sum(self.bytes[i] for i in dying)
        return alive, costs

    def saved(self, operator: int, dying: Collection[int]) -> int:
        """Bytes that the operator's outputs can share with inputs that die with it."""
        pairs = [pair for pair in self.pairs[operator] if pair[0] in dying]
        return most_saved(pairs, self.bytes) if pairs else 0

    def _pairs(self, model: Model, library: KernelLibrary) -> list[tuple[Pair, ...]]:
        found = []
        for operator in model.main.operators:
            try:
                allowed = in_place_tensors(library, model, model.main, operator)
            except ModelError:  # an operator that TFLM refuses
                allowed = ()
            pairs = []
            for one in allowed:
                sizes = self.bytes[one.input], self.bytes[one.output]
                lead = 0 if one.allows(0, 0) else align_up(max(0, one.distance_bytes or 0), ALIGNMENT)
                pairs.append((one.input, one.output, min(sizes[0], max(0, sizes[1] - lead))))
            found.append(tuple(pairs))
        return found


def _extra(graph: Graph) -> list[int]:
    """By operator of the main subgraph: the most bytes of scratch and of called subgraphs in one of its scopes."""
    owner, last = [], -1
    for scope in graph.scopes:
        last = scope[1] if scope is not None and scope[0] == 0 else last
        owner.append(last)
    change = [0] * (len(owner) + 1)
    inner = [(t.size_bytes, t.lifespan) for t in graph.tensors if t.subgraph]
    for size, lifespan in [*inner, *((s.size_bytes, s.lifespan) for s in graph.scratch)]:
        if lifespan.first >= 0:
            change[lifespan.first] += align_up(size, ALIGNMENT)
            change[lifespan.last + 1] -= align_up(size, ALIGNMENT)
    found, now = [0] * len(graph.model.main.operators), 0
    for k, more in zip(owner, change, strict=False):
        now += more
        if k >= 0:
            found[k] = max(found[k], now)
    return found
