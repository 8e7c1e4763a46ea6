# SPDX-License-Identifier: Apache-2.0
"""Each int8 layer's kernel, ours or CMSIS-NN's, by the tables of costs: the fewest cycles within flash and RAM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tflm_zephyr.compiler.ir.kernels import Kernel
from tflm_zephyr.compiler.ir.layers import Layer, members_of
from tflm_zephyr.compiler.kernel_shapes import shape_of
from tflm_zephyr.compiler.layer_builder import CMSIS_NN, PADDING, Constants
from tflm_zephyr.compiler.memory_plan import MemoryPlan
from tflm_zephyr.costs import Candidate, Costs, LayerOptions, Prices, choose, has_rivals, millions
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

    `options` has the candidates by operator, where one of ours and CMSIS-NN's take it and were measured; `taken` is the
    number of the candidate that it has. `unknown`: operators that take a kernel of ours which was not measured. `why`
    says for others what speaks against ours. `numbers`: by operator, each of our candidates as a number of the
    operator's own kernels. `other_arena_bytes`: all RAM of the model without our kernels, where that was asked for.
    """

    options: Mapping[int, LayerOptions]
    taken: Mapping[int, int]
    unknown: frozenset[int]
    why: Mapping[int, str]
    numbers: Mapping[int, tuple[int, ...]]
    costs: Costs
    other_arena_bytes: int | None = None

    @property
    def own(self) -> frozenset[int]:
        """The operators that take a kernel of ours."""
        return self.unknown | {one for one, candidate in self._candidates() if candidate.function is not None}

    @property
    def key(self) -> Hashable:
        """Equal for choices of the same kernels for the same reasons."""
        return self.unknown, tuple(sorted(self.taken.items())), tuple(sorted(self.why.items()))

    def number(self, operator: int) -> int | None:
        """Which of the operator's own kernels it takes; None where it takes none, or the choice does not know it."""
        at = self.taken.get(operator, 0)
        numbers = self.numbers.get(operator, ())
        return numbers[at] if at < len(numbers) else None

    def gain(self, operator: int) -> int:
        """Cycles that the operator's kernel takes less than CMSIS-NN's."""
        option = self.options[operator]
        return option.library.cycles - option.candidates[self.taken[operator]].cycles

    @property
    def cycles(self) -> int:
        """Estimated cycles of all layers with candidates."""
        return sum(one.cycles for _, one in self._candidates())

    @property
    def other_cycles(self) -> int:
        """The same with CMSIS-NN's kernels."""
        return sum(option.library.cycles for option in self.options.values())

    @property
    def flash_bytes(self) -> int:
        """Estimated bytes of these layers' code and constants, and of the kernels that they call."""
        return self._flash_bytes([one for _, one in self._candidates()])

    @property
    def more_flash_bytes(self) -> int:
        """The same, less what CMSIS-NN's kernels would take; negative where ours take less."""
        return self.flash_bytes - self._flash_bytes([option.library for option in self.options.values()])

    def functions(self, layers: Sequence[Layer]) -> dict[Kernel, tuple[int, int]]:
        """Our functions that the planned `layers` call: estimated bytes of code, and by how much that may differ."""
        every = (one for layer in layers for one in members_of(layer))
        taken = dict(self._candidates())
        return {
            layer.calls[0].kernel: (found.code_bytes, found.unsure_bytes)
            for layer in every
            if layer.fast and layer.calls and (found := taken.get(layer.operator)) is not None
        }

    @property
    def call_bytes(self) -> int:
        """Bytes of the layers' functions that call them."""
        return sum(self.costs.call_bytes(one.kernel) for _, one in self._candidates() if one.function is not None)

    @property
    def complete(self) -> bool:
        """Whether all layers with our kernels were measured."""
        return not self.unknown

    def candidates(self, operator: int) -> tuple[Candidate, Candidate] | None:
        """The kernel of an operator and the runner-up; None where it has no two."""
        option = self.options.get(operator)
        if option is None:
            return None
        at = self.taken[operator]
        others = (*option.candidates[:at], *option.candidates[at + 1 :])
        return option.candidates[at], min(others, key=lambda one: one.order)

    def without(self, operators: Collection[int], why: str) -> Choice:
        """The same with CMSIS-NN's kernels for some operators."""
        gone = self.own & frozenset(operators) & self.options.keys()
        taken = {one: len(self.options[one].candidates) - 1 if one in gone else at for one, at in self.taken.items()}
        return replace(self, taken=taken, why={**self.why, **dict.fromkeys(gone, why)})

    def remark(self, arena_bytes: int, slower: float) -> str:
        """The costs in words, and the RAM where it is more than without our kernels; `arena_bytes` is that of all.

        `slower`: the share of the work that smaller buffers add.
        """
        if not self.options:
            return ""
        more = self.more_flash_bytes
        added = f" ({100 * slower:.1f} % more than with larger buffers)" if slower >= _WORTH_SAYING else ""
        cycles = millions(self.cycles * (1 + slower))
        where = " and ".join(self.costs.cores)
        if self.costs.stands_in:
            where += f" with CMSIS-NN {self.costs.stands_in[:12]}, as the workspace's was not measured"
        found = (
            f", chosen by estimates for {where}: {cycles} million cycles{added} and "
            f"{millions(self.other_cycles)} with CMSIS-NN's kernels, {abs(more):,} bytes of flash "
            f"{'more' if more >= 0 else 'less'}"
        )
        other = self.other_arena_bytes
        if other is not None and arena_bytes > other:
            found += f"; RAM is {arena_bytes:,} bytes and {other:,} with CMSIS-NN's, --ram limits it"
        return found

    def report(self) -> dict[str, Any]:
        """The numbers of `generate --json`."""
        return {
            "cores": list(self.costs.cores),
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

    def _candidates(self) -> Iterator[tuple[int, Candidate]]:
        """By operator, the candidate that it has."""
        for operator, option in self.options.items():
            yield operator, option.candidates[self.taken[operator]]

    def _flash_bytes(self, taken: Sequence[Candidate]) -> int:
        functions = {one.function: one.code_bytes for one in taken if one.function}
        library = self.costs.library_bytes({one.kernel for one in taken if not one.function})
        return sum(functions.values()) + library + sum(one.own_bytes for one in taken)


def _plain(one: Candidate) -> dict[str, Any]:
    return {
        "kernel": one.kernel,
        "estimated_instructions": round(one.price.instructions),
        "estimated_cycles": one.cycles,
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

    `own` are an operator's candidates among our kernels, which compete with CMSIS-NN's, `other`. `larger`: bytes of
    flash that it may take more than CMSIS-NN's kernels; None for any. Operators that our kernels take, and whose costs
    are not known, have ours, and CMSIS-NN's where `larger` limits the flash.
    """
    cores = _measured(libraries)
    if not cores:
        return None
    commit = next((library.commit for library in libraries), "")
    costs = Costs(tuple(Prices(core, CMSIS_NN, commit) for core in cores))
    ours = {node.operator.index: every for node in nodes if (every := _all_made(own(node)))}
    others = {
        node.operator.index: made
        for node in nodes
        if node.operator.index in ours and (made := _made(other(node))) is not None
    }
    options, numbers = _options(nodes, ours, others, costs.of_measured)
    picked = choose(tuple(options.values()), costs.library_bytes, larger, spare=_SPARE_BYTES)
    taken = dict(zip(options, picked, strict=True))
    unknown = frozenset(ours.keys() - options.keys())
    kept = {one for one, at in taken.items() if options[one].candidates[at].function is None}
    why = {operator: _why(options[operator]) for operator in sorted(kept)}
    if larger is not None:
        why |= dict.fromkeys(unknown & others.keys(), UNKNOWN_FLASH)
    return Choice(options, taken, unknown.difference(why), why, numbers, costs)


def _options(
    nodes: Sequence[Node],
    ours: Mapping[int, Mapping[int, _Made]],
    others: Mapping[int, _Made],
    costs: Costs,
) -> tuple[dict[int, LayerOptions], dict[int, tuple[int, ...]]]:
    """The candidates by operator, and the numbers of ours; for those that were not measured the first number."""
    options, numbers = {}, {}
    shares = _shares({operator: tuple(made.values()) for operator, made in ours.items()})
    library_shares = _shares({operator: (made,) for operator, made in others.items()})
    for node in nodes:
        operator = node.operator.index
        found = {
            number: candidate
            for number, made in ours.get(operator, {}).items()
            if (candidate := _candidate(node, made, shares[operator], costs)) is not None
        }
        if operator in ours:
            numbers[operator] = tuple(found or ours[operator])
        library = None
        if found and operator in others:
            library = _candidate(node, others[operator], library_shares[operator], costs)
        if library is not None:
            options[operator] = LayerOptions((*found.values(), library))
    return options, numbers


def _why(option: LayerOptions) -> str:
    return FASTER if option.candidates[option.fastest].function is None else MORE_FLASH


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


def _all_made(makers: Sequence[Maker]) -> dict[int, _Made]:
    """The layers of the candidates that take an operator, by number."""
    return {number: made for number, maker in enumerate(makers) if (made := _made(maker)) is not None}


_Array = tuple[str, bytes]


def _shares(layers: Mapping[int, Sequence[_Made]]) -> dict[int, dict[_Array, float]]:
    """Bytes of each constant array by operator; operators share equal arrays, so that each has its part."""
    arrays = {
        operator: {key: size for one in made for key, size in one.arrays.items()} for operator, made in layers.items()
    }
    uses = Counter(key for found in arrays.values() for key in found)
    return {operator: {key: size / uses[key] for key, size in found.items()} for operator, found in arrays.items()}


def _candidate(node: Node, made: _Made, shares: Mapping[_Array, float], costs: Costs) -> Candidate | None:
    """A layer's kernel with its costs; None where it was not measured."""
    layer, shape = made.layer, shape_of(node, made.layer)
    price = None if shape is None else costs.call(shape)
    if shape is None or price is None or not price.measured:
        return None
    own_bytes = round(sum(shares[key] for key in made.arrays)) + costs.call_bytes(shape.kernel)
    if not shape.own.form:
        return Candidate(shape.kernel, price, own_bytes, layer.scratch_bytes)
    code = costs.function_bytes(shape)
    if code is None:
        return None
    return Candidate(shape.kernel, price, own_bytes, layer.scratch_bytes, layer.calls[0].kernel, *code)


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
    ours = sorted(choice.own & choice.options.keys(), key=lambda k: (-choice.gain(k), k))
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
    taken = {one: pair[0] for one in choice.own if (pair := choice.candidates(one)) is not None}
    for k, layer in enumerate(memory.layers):
        if k + 1 in steps:
            found = [one.operator for one in members_of(layer) if one.operator in taken]
            sizes = {one: taken[one].scratch_bytes for one in found}
            yield from (one for one in found if sizes[one] == max(sizes.values()))
