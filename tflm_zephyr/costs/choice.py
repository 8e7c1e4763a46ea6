# SPDX-License-Identifier: Apache-2.0
"""The kernels with the fewest cycles whose code is within a budget of flash.

Code is shared: layers of one shape call one function of ours, and all layers of a kernel of CMSIS-NN's call the same
functions. So the choice is one for all layers. It is exact: for each set of CMSIS-NN's kernels that may be linked, the
layers' candidates are the classes of a multiple-choice knapsack (Kellerer, Pferschy and Pisinger, Knapsack Problems,
chapter 11), which is solved layer by layer, by keeping the ways that no other one is as good as. Ways are compared
where the same functions of ours are linked, of those that a later layer may call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from tflm_zephyr.costs.prices import Price


@dataclass(frozen=True)
class Candidate:
    """A kernel for a layer. `function`: our function that layers of its shape share, None for CMSIS-NN.

    `code_bytes` are that function's, by an estimate that may be up to `unsure_bytes` off. `own_bytes` are the layer's
    alone: its call, weights, biases and requantisation.
    """

    kernel: str
    price: Price
    own_bytes: int
    scratch_bytes: int
    function: Hashable = None
    code_bytes: int = 0
    unsure_bytes: int = 0

    @property
    def cycles(self) -> int:
        """The price's, whole: sums of them are exact."""
        return round(self.price.cycles)

    @property
    def order(self) -> tuple[int, int, int]:
        """The better, the smaller: cycles; where these are the same, scratch memory, then constants."""
        return self.cycles, self.scratch_bytes, self.own_bytes


@dataclass(frozen=True)
class LayerOptions:
    """A layer's candidates, two or more. The last one is CMSIS-NN's, which a budget of flash counts against."""

    candidates: tuple[Candidate, ...]

    @property
    def library(self) -> Candidate:
        """CMSIS-NN's kernel."""
        return self.candidates[-1]

    @property
    def fastest(self) -> int:
        """The number of the best candidate, the first of equal ones."""
        return min(range(len(self.candidates)), key=lambda number: self.candidates[number].order)


@dataclass(frozen=True)
class _Way:
    """Bytes and cycles of the first layers: the candidate of the last of them, and the way of those before."""

    bytes: int
    cycles: int
    number: int = -1
    before: _Way | None = None

    def numbers(self) -> tuple[int, ...]:
        """The candidates of all layers."""
        found, way = list[int](), self
        while way.before is not None:
            found.append(way.number)
            way = way.before
        return tuple(reversed(found))


_Linked = frozenset[Hashable]


def choose(
    layers: Sequence[LayerOptions],
    library_bytes: Callable[[Collection[str]], int],
    more: int | None = None,
    *,
    spare: int = 0,
) -> tuple[int, ...]:
    """The number of each layer's candidate, for the fewest cycles.

    `library_bytes`: code of a set of CMSIS-NN's kernels. `more`: bytes of code and constants that the choice may take
    more than CMSIS-NN's kernels for all layers do (0 or more), surely; None for any number. `spare`: bytes of these
    that are left free where a layer takes ours.
    """
    if more is None:
        return tuple(layer.fastest for layer in layers)
    kernels = sorted({one.kernel for layer in layers for one in layer.candidates if one.function is None})
    used = {layer.library.kernel for layer in layers}
    others = library_bytes(used) + sum(layer.library.own_bytes for layer in layers)
    ways = [(sum(layer.library.cycles for layer in layers), others, tuple(len(one.candidates) - 1 for one in layers))]
    for linked in chain.from_iterable(combinations(kernels, count) for count in range(len(kernels) + 1)):
        code = library_bytes(linked)
        best = _best(layers, frozenset(linked), others + more - spare - code)
        if best is not None:
            ways.append((best.cycles, best.bytes + code, best.numbers()))
    return min(ways, key=lambda way: way[:2])[2]


def _best(layers: Sequence[LayerOptions], linked: frozenset[str], limit: int) -> _Way | None:
    """The fastest way within `limit` bytes where CMSIS-NN's kernels `linked` are there."""
    ways: dict[_Linked, list[_Way]] = {frozenset(): [_Way(0, 0)]}
    later = [frozenset(one.function for one in layer.candidates) for layer in layers]
    for k, layer in enumerate(layers):
        live = frozenset[Hashable]().union(*later[k + 1 :])
        grown: dict[_Linked, list[_Way]] = {}
        for number, one in enumerate(layer.candidates):
            if one.function is None and one.kernel not in linked:
                continue
            for held, some in ways.items():
                state = (held if one.function is None else held | {one.function}) & live
                grown.setdefault(state, []).extend(_grown(some, one, number, one.function in held, limit))
        ways = {state: _undominated(some) for state, some in grown.items()}
    return min((some[-1] for some in ways.values() if some), key=lambda way: (way.cycles, way.bytes), default=None)


def _grown(ways: Sequence[_Way], one: Candidate, number: int, linked: bool, limit: int) -> Iterator[_Way]:
    """The ways with a candidate for the next layer, whose function may be `linked` already."""
    more = one.own_bytes + (0 if linked else one.code_bytes + one.unsure_bytes)
    for way in ways:
        if way.bytes + more <= limit:
            yield _Way(way.bytes + more, way.cycles + one.cycles, number, way)


def _undominated(ways: Sequence[_Way]) -> list[_Way]:
    """By bytes, each with fewer cycles than those before."""
    found: list[_Way] = []
    for way in sorted(ways, key=lambda way: (way.bytes, way.cycles)):
        if not found or way.cycles < found[-1].cycles:
            found.append(way)
    return found
