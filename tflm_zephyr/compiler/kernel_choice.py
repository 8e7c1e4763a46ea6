# SPDX-License-Identifier: Apache-2.0
"""Each int8 layer's kernel, ours or CMSIS-NN's, by the tables of costs: the fewest cycles within flash and RAM."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tflm_zephyr.compiler.ir.kernels import Kernel
from tflm_zephyr.compiler.ir.layers import Layer, members_of
from tflm_zephyr.compiler.kernel_shapes import shape_of
from tflm_zephyr.compiler.layer_builder import CMSIS_NN, PADDING, Constants
from tflm_zephyr.compiler.memory_plan import MemoryPlan
from tflm_zephyr.costs import Candidate, Costs, LayerOptions, choose, costs_of, has_rivals
from tflm_zephyr.kernels import CORES, KernelLibrary, Node

Maker = Callable[[Constants], Layer | None]
"""Makes a layer of an operator; None where its kernel does not take it."""
FASTER = "with CMSIS-NN's kernel, which is estimated to be faster"
MORE_FLASH = "with CMSIS-NN's kernel, as --flash allows no more"
UNKNOWN_FLASH = "with CMSIS-NN's kernel, as --flash limits flash and that of ours was not measured"
LESS_RAM = "with CMSIS-NN's kernel, for less RAM"
_MOST_TURNS = 8
_WORTH_SAYING = 0.0005  # the least share of the work
_SPARE_BYTES = 512  # the error of the layers' own code and of CMSIS-NN's, of which the table has the mean


@dataclass(frozen=True)
class Choice:
    """The kernels of a model's layers.

    `options` has the candidates by operator, where both kernels take it and were measured; `own` are the operators
    that take ours. `why` says for the others what speaks against it. `cores` are those that estimates are means of.
    `other_arena_bytes`: all RAM of the model without our kernels, where that was asked for.
    `candidates_taken`: by operator, the number of the fastest one among several kernels of ours.
    """

    cores: tuple[str, ...]
    options: Mapping[int, LayerOptions]
    own: frozenset[int]
    why: Mapping[int, str]
    costs: Costs
    other_arena_bytes: int | None = None
    candidates_taken: Mapping[int, int] = field(default_factory=dict)

    @property
    def cycles(self) -> int:
        """Estimated cycles of all layers with candidates."""
        return sum(one.work.cycles for one in self._taken())

    @property
    def other_cycles(self) -> int:
        """The same with CMSIS-NN's kernels."""
        return sum(option.other.work.cycles for option in self.options.values())

    @property
    def flash_bytes(self) -> int:
        """Estimated bytes of these layers' code and constants, and of the kernels that they call."""
        return self._flash_bytes(self._taken())

    @property
    def more_flash_bytes(self) -> int:
        """The same, less what CMSIS-NN's kernels would take; negative where ours take less."""
        return self.flash_bytes - self._flash_bytes([option.other for option in self.options.values()])

    def functions(self, layers: Sequence[Layer]) -> dict[Kernel, tuple[int, int]]:
        """Our functions that the planned `layers` call: estimated bytes of code, and by how much that may differ."""
        every = (one for layer in layers for one in members_of(layer))
        return {
            layer.calls[0].kernel: (option.own.code_bytes, option.own.unsure_bytes)
            for layer in every
            if layer.fast and layer.calls and (option := self.options.get(layer.operator)) is not None
        }

    @property
    def call_bytes(self) -> int:
        """Bytes of the layers' functions that call them."""
        return sum(self.costs.call_bytes(one.kernel) for one in self._taken() if one.function is not None)

    @property
    def complete(self) -> bool:
        """Whether all layers with our kernels were measured."""
        return self.own <= self.options.keys()

    def candidates(self, operator: int) -> tuple[Candidate, Candidate] | None:
        """The kernel of an operator and the runner-up; None where it has no two."""
        option = self.options.get(operator)
        if option is None:
            return None
        return (option.own, option.other) if operator in self.own else (option.other, option.own)

    def without(self, operators: Collection[int], why: str) -> Choice:
        """The same with CMSIS-NN's kernels for some operators."""
        gone = self.own & frozenset(operators) & self.options.keys()
        whys = {**self.why, **dict.fromkeys(gone, why)}
        return replace(self, own=self.own - gone, why=whys)

    def remark(self, arena_bytes: int, slower: float) -> str:
        """The costs in words, and the RAM where it is more than without our kernels; `arena_bytes` is that of all.

        `slower`: the share of the work that smaller buffers add.
        """
        if not self.options:
            return ""
        more = self.more_flash_bytes
        added = f" ({100 * slower:.1f} % more than with larger buffers)" if slower >= _WORTH_SAYING else ""
        cycles = _millions(self.cycles * (1 + slower))
        where = " and ".join(self.cores)
        if self.costs.stands_in:
            where += f" with CMSIS-NN {self.costs.stands_in[:12]}, as the workspace's was not measured"
        found = (
            f", chosen by estimates for {where}: {cycles} million cycles{added} and "
            f"{_millions(self.other_cycles)} with CMSIS-NN's kernels, {abs(more):,} bytes of flash "
            f"{'more' if more >= 0 else 'less'}"
        )
        other = self.other_arena_bytes
        if other is not None and arena_bytes > other:
            found += f"; RAM is {arena_bytes:,} bytes and {other:,} with CMSIS-NN's, --ram limits it"
        return found

    def report(self) -> dict[str, Any]:
        """The numbers of `generate --json`."""
        return {
            "cores": list(self.cores),
            "estimated_cycles": self.cycles,
            "cmsis_nn_cycles": self.other_cycles,
            "flash_bytes": self.flash_bytes,
            "more_flash_bytes": self.more_flash_bytes,
            "cmsis_nn_arena_bytes": self.other_arena_bytes,
        }

    def layer_report(self, operator: int) -> dict[str, Any]:
        """The kernel of a layer and the runner-up, with their estimates; nothing where there is no choice."""
        found = self.candidates(operator)
        return {} if found is None else {**_plain(found[0]), "runner_up": _plain(found[1])}

    def _taken(self) -> list[Candidate]:
        return [option.own if operator in self.own else option.other for operator, option in self.options.items()]

    def _flash_bytes(self, taken: Sequence[Candidate]) -> int:
        functions = {one.function: one.code_bytes for one in taken if one.function}
        library = self.costs.library_bytes({one.kernel for one in taken if not one.function})
        return sum(functions.values()) + library + sum(one.own_bytes for one in taken)


def _plain(one: Candidate) -> dict[str, Any]:
    return {
        "kernel": one.kernel,
        "estimated_instructions": one.work.instructions,
        "estimated_cycles": one.work.cycles,
        "code_bytes": one.code_bytes,
        "own_bytes": one.own_bytes,
        "scratch_bytes": one.scratch_bytes,
    }


def choice_of(
    nodes: Sequence[Node],
    own: Callable[[Node], Sequence[Maker]],
    other: Callable[[Node], Maker],
    libraries: Sequence[KernelLibrary],
    larger: int | None,
) -> Choice | None:
    """The choice with the fewest cycles; None where no kernel was measured for these libraries and cores.

    `own` are an operator's candidates among our kernels, of which the fastest one competes with CMSIS-NN's, `other`.
    `larger`: bytes of flash that it may take more than CMSIS-NN's kernels; None for any. Operators that our kernels
    take, and whose costs are not known, have ours, and CMSIS-NN's where `larger` limits the flash.
    """
    cores = _measured(libraries)
    costs = costs_of(cores, next((library.commit for library in libraries), ""))
    if not costs.cores:
        return None
    found = {node.operator.index: best for node in nodes if (best := _fastest(node, own(node), costs)) is not None}
    fast = {operator: made for operator, (_, made) in found.items()}
    others = {
        node.operator.index: made
        for node in nodes
        if node.operator.index in fast and (made := _made(other(node))) is not None
    }
    first, second = _shares(fast), _shares(others)
    options = {}
    for node in nodes:
        number = node.operator.index
        if number in others:
            one = _candidate(node, fast[number].layer, first[number], costs)
            two = _candidate(node, others[number].layer, second[number], costs)
            if one is not None and two is not None:
                options[number] = LayerOptions(one, two)
    taken = choose(tuple(options.values()), costs.library_bytes, larger, spare=_SPARE_BYTES)
    picked = frozenset(operator for operator, takes in zip(options, taken, strict=True) if takes)
    unknown = fast.keys() - options.keys()
    why = {operator: _why(option) for operator, option in options.items() if operator not in picked}
    if larger is not None:
        why |= dict.fromkeys(unknown & others.keys(), UNKNOWN_FLASH)
    numbers = {operator: number for operator, (number, _) in found.items()}
    return Choice(cores, options, (picked | unknown) - why.keys(), why, costs, candidates_taken=numbers)


def _millions(cycles: float) -> str:
    return f"{cycles / 1e6:.2f}" if cycles >= 1e5 else f"{cycles / 1e6:.4f}"


def _why(option: LayerOptions) -> str:
    return MORE_FLASH if option.own_is_better else FASTER


def _measured(libraries: Sequence[KernelLibrary]) -> tuple[str, ...]:
    """The measured cores of the libraries: the boards' own, else all of their kind.

    None where a kind was not measured, or the kernels are no rivals of ours.
    """
    if any(library.name != CMSIS_NN for library in libraries):
        return ()
    found: list[str] = []
    for library in libraries:
        kind = (library.core.dsp, library.core.mve)
        names = [name for name in CORES if has_rivals(name) and (CORES[name].dsp, CORES[name].mve) == kind]
        if not names:
            return ()
        found += [name for name in names if name in library.cores] or names
    return tuple(sorted(set(found)))


@dataclass(frozen=True)
class _Made:
    """A layer, and the bytes of its constant arrays by content, but for padding, which the whole model shares."""

    layer: Layer
    arrays: Mapping[tuple[str, bytes], int]


def _made(maker: Maker) -> _Made | None:
    constants = Constants()
    layer = maker(constants)
    if layer is None:
        return None
    return _Made(layer, {key: len(array.data) for key, array in constants.arrays.items() if key[0] != PADDING})


def _fastest(node: Node, makers: Sequence[Maker], costs: Costs) -> tuple[int, _Made] | None:
    """The candidate with the fewest cycles and its number; those that were not measured come last, in their order."""

    def cost(one: tuple[int, _Made]) -> tuple[float, int, int]:
        number, made = one
        shape = shape_of(node, made.layer)
        work = None if shape is None else costs.work(shape)
        return math.inf if work is None else work.cycles, made.layer.scratch_bytes, number

    taking = [(number, made) for number, maker in enumerate(makers) if (made := _made(maker)) is not None]
    return min(taking, key=cost) if len(taking) > 1 else next(iter(taking), None)


def _shares(layers: Mapping[int, _Made]) -> dict[int, int]:
    """Bytes of constants by operator; layers share equal arrays, so that each has its part."""
    uses = Counter(key for made in layers.values() for key in made.arrays)
    return {
        operator: round(sum(size / uses[key] for key, size in made.arrays.items())) for operator, made in layers.items()
    }


def _candidate(node: Node, layer: Layer, own_bytes: int, costs: Costs) -> Candidate | None:
    shape = shape_of(node, layer)
    work = None if shape is None else costs.work(shape)
    if shape is None or work is None:
        return None
    own_bytes += costs.call_bytes(shape.kernel)
    if not shape.own.form:
        return Candidate(shape.kernel, work, own_bytes, layer.scratch_bytes)
    code = costs.code_bytes(shape)
    if code is None:
        return None
    unsure = round(code * costs.code_error(shape.kernel))
    return Candidate(shape.kernel, work, own_bytes, layer.scratch_bytes, layer.calls[0].kernel, code, unsure)


def smaller_choices(choice: Choice, plan: Callable[[Choice], MemoryPlan]) -> Iterator[tuple[Choice, MemoryPlan]]:
    """Choices with less and less RAM: at each turn CMSIS-NN's kernels for some layers where the plan is largest."""
    memory = plan(choice)
    for _ in range(_MOST_TURNS):
        gone = frozenset(_largest(choice, memory))
        if not gone:
            return
        choice = choice.without(gone, LESS_RAM)
        memory = plan(choice)
        yield choice, memory


def restored(choice: Choice, fits: Callable[[Choice], bool]) -> None:
    """Ask of choices with more and more of our kernels whether they fit, from none to nearly all of `choice`.

    The layers that gain most come first; a group that does not fit is halved.
    """
    gains = {k: one.other.work.cycles - one.own.work.cycles for k, one in choice.options.items() if k in choice.own}
    ours = sorted(gains, key=lambda k: (-gains[k], k))
    kept = choice.without(ours, LESS_RAM)
    groups = [ours[len(ours) // 2 :], ours[: len(ours) // 2]] if fits(kept) else []
    for _ in range(2 * _MOST_TURNS):
        group = groups.pop() if groups else []
        more = choice.without(set(ours) - kept.own - set(group), LESS_RAM)
        if group and fits(more):
            kept = more
        elif len(group) > 1:
            groups += [group[len(group) // 2 :], group[: len(group) // 2]]


def _largest(choice: Choice, memory: MemoryPlan) -> Iterator[int]:
    """The operators that run while a buffer reaches to the plan's end; of a segment those with the most scratch."""
    plan = memory.plan
    buffers = zip(plan.problem.buffers, plan.offsets, strict=True)
    steps = {
        step
        for buffer, offset in buffers
        if offset + buffer.size == plan.size_bytes
        for step in range(buffer.lower, buffer.upper)
    }
    ours = choice.own & choice.options.keys()
    for k, layer in enumerate(memory.layers):
        if k + 1 in steps:
            found = [one.operator for one in members_of(layer) if one.operator in ours]
            most = max((choice.options[one].own.scratch_bytes for one in found), default=0)
            yield from (one for one in found if choice.options[one].own.scratch_bytes == most)
