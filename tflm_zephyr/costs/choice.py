# SPDX-License-Identifier: Apache-2.0
"""The kernels with the fewest cycles whose code is within a budget of flash.

Code is shared: layers of one shape call one function of ours, and all layers of a kernel of CMSIS-NN's call the same
functions. So the choice is one for all layers. It is exact: for each set of CMSIS-NN's kernels that may be linked, the
functions of ours are the items of a knapsack, which is solved by keeping the ways that no other one is as good as.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from tflm_zephyr.costs.layer_costs import Work


@dataclass(frozen=True)
class Candidate:
    """A kernel for a layer. `function`: our function that layers of its shape share, None for CMSIS-NN.

    `code_bytes` are that function's, by an estimate that may be up to `unsure_bytes` off. `own_bytes` are the layer's
    alone: its call, weights, biases and requantisation.
    """

    kernel: str
    work: Work
    own_bytes: int
    scratch_bytes: int
    function: Hashable = None
    code_bytes: int = 0
    unsure_bytes: int = 0


@dataclass(frozen=True)
class LayerOptions:
    """A layer's candidates: our kernel and CMSIS-NN's."""

    own: Candidate
    other: Candidate

    @property
    def own_is_better(self) -> bool:
        """Whether ours takes fewer cycles; if both take the same, less scratch memory, then fewer constants."""

        def key(one: Candidate) -> tuple[int, int, int]:
            return one.work.cycles, one.scratch_bytes, one.own_bytes

        return key(self.own) <= key(self.other)


@dataclass(frozen=True)
class _Way:
    """Bytes and cycles of some groups, and the layers with kernels of ours."""

    bytes: int
    cycles: int
    own: frozenset[int]


def choose(
    layers: Sequence[LayerOptions],
    library_bytes: Callable[[Collection[str]], int],
    more: int | None = None,
    *,
    spare: int = 0,
) -> tuple[bool, ...]:
    """For each layer, whether it takes our kernel, for the fewest cycles.

    `library_bytes`: code of a set of CMSIS-NN's kernels. `more`: bytes of code and constants that the choice may take
    more than CMSIS-NN's kernels for all layers do (0 or more), surely; None for any number. `spare`: bytes of these
    that are left free where a layer takes ours.
    """
    if more is None:
        return tuple(layer.own_is_better for layer in layers)
    groups: dict[Hashable, list[int]] = {}
    for k, layer in enumerate(layers):
        groups.setdefault(layer.own.function, []).append(k)
    kernels = sorted({layer.other.kernel for layer in layers})
    others = library_bytes(kernels) + sum(layer.other.own_bytes for layer in layers)
    limit = others + more - spare
    ways = [
        _Way(others, sum(layer.other.work.cycles for layer in layers), frozenset()),
        *(
            best
            for linked in _subsets(kernels)
            if (best := _best(layers, list(groups.values()), frozenset(linked), limit - library_bytes(linked)))
        ),
    ]
    best = min(ways, key=lambda way: (way.cycles, way.bytes))
    return tuple(k in best.own for k in range(len(layers)))


def _subsets(kernels: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for count in range(len(kernels) + 1):
        yield from combinations(kernels, count)


def _best(
    layers: Sequence[LayerOptions], groups: Sequence[Sequence[int]], linked: frozenset[str], limit: int
) -> _Way | None:
    """The fastest way within `limit` bytes where CMSIS-NN's kernels `linked` are there."""
    ways = [_Way(0, 0, frozenset())]
    for group in groups:
        ways = _undominated(way for way in _joined(ways, _options(layers, group, linked)) if way.bytes <= limit)
    return ways[-1] if ways else None


def _options(layers: Sequence[LayerOptions], group: Sequence[int], linked: frozenset[str]) -> list[_Way]:
    """Ways to run the layers of a function of ours: with it, where each may keep CMSIS-NN's kernel, and without it."""
    others = [_other(layers[k]) if layers[k].other.kernel in linked else None for k in group]
    without = [_Way(0, 0, frozenset())]
    first = layers[group[0]].own
    found = [_Way(first.code_bytes + first.unsure_bytes, 0, frozenset())]
    for k, other in zip(group, others, strict=True):
        own = layers[k].own
        ours = _Way(own.own_bytes, own.work.cycles, frozenset({k}))
        found = _undominated(_joined(found, [ours] if other is None else [ours, other]))
        without = [] if other is None else list(_joined(without, [other]))
    return [*without, *found]


def _other(layer: LayerOptions) -> _Way:
    return _Way(layer.other.own_bytes, layer.other.work.cycles, frozenset())


def _joined(ways: Sequence[_Way], others: Sequence[_Way]) -> Iterator[_Way]:
    for one in ways:
        for other in others:
            yield _Way(one.bytes + other.bytes, one.cycles + other.cycles, one.own | other.own)


def _undominated(ways: Iterator[_Way]) -> list[_Way]:
    found: list[_Way] = []
    for way in sorted(ways, key=lambda way: (way.bytes, way.cycles)):
        if not found or way.cycles < found[-1].cycles:
            found.append(way)
    return found
