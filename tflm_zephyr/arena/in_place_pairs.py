# SPDX-License-Identifier: Apache-2.0
"""In-place pairs: outputs that may overlap an input, and how far, with every kernel library that will run the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from tflm_zephyr.errors import ModelError
from tflm_zephyr.kernels import InPlaceTensors, KernelLibrary, in_place_tensors, untried
from tflm_zephyr.memory_planner import InPlacePair
from tflm_zephyr.model import Graph, Lifespan, Operator, Subgraph

_Pair = tuple[int, int]


def in_place_pairs(
    graph: Graph,
    libraries: Sequence[KernelLibrary],
    places: Mapping[tuple[int, int], int],
    lifespans: Sequence[Lifespan],
    kept: Collection[int] = (),
) -> tuple[InPlacePair, ...]:
    """The in-place pairs of a problem's buffers; none without libraries or with one whose rules are untried.

    An operator's output may lie over its input where all libraries allow it and the input is dead afterwards: the
    operator is the last to use the input, which is neither an output of its subgraph nor `kept` (of the main one). A
    subgraph that is called again gets its inputs anew, so that this holds in called subgraphs, too; but operators
    that run in several scopes are left out. `places` has each planned tensor's buffer, `lifespans` the required
    lifespans by buffer.
    """
    found: list[InPlacePair] = []
    times = Counter(scope for scope in graph.scopes if scope is not None)
    for scope, opener in enumerate(graph.scopes):
        if opener is None or times[opener] != 1 or not libraries or any(map(untried, libraries)):
            continue
        subgraph = graph.model.subgraphs[opener[0]]
        operator = subgraph.operators[opener[1]]
        allowed = [_allowed(library, graph, subgraph, operator) for library in libraries]
        for (source, result), distance in _by_all(allowed).items():
            ends = places.get((subgraph.index, source)), places.get((subgraph.index, result))
            if ends[0] is None or ends[1] is None or source in subgraph.outputs or source in operator.outputs:
                continue
            if (subgraph.index == 0 and source in kept) or result in subgraph.inputs:
                continue
            if lifespans[ends[0]].first < lifespans[ends[0]].last == scope == lifespans[ends[1]].first:
                found.append(InPlacePair(ends[0], ends[1], *distance))
    return tuple(found)


def _allowed(
    library: KernelLibrary, graph: Graph, subgraph: Subgraph, operator: Operator
) -> dict[_Pair, InPlaceTensors]:
    try:
        found = in_place_tensors(library, graph.model, subgraph, operator)
    except ModelError:  # an operator that TFLM refuses; nothing is known of it
        return {}
    return {(one.input, one.output): one for one in found}


def _by_all(allowed: Sequence[Mapping[_Pair, InPlaceTensors]]) -> dict[_Pair, tuple[int | None, bool]]:
    """The distance and the in-place flag that all of them allow."""
    found: dict[_Pair, tuple[int | None, bool]] = {}
    for pair in allowed[0]:
        if all(pair in one for one in allowed):
            distances = [one[pair].distance_bytes for one in allowed]
            known = [distance for distance in distances if distance is not None]
            distance = max(known) if len(known) == len(distances) else None
            in_place = all(one[pair].allows(0, 0) for one in allowed)
            if distance is not None or in_place:
                found[pair] = distance, in_place
    return found
