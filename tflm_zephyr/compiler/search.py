# SPDX-License-Identifier: Apache-2.0
"""The search for the way to run a model in compiled code: its kernels, runs of pixels and segments.

Everything that ways share is made once: the layers with a choice of kernels, dry runs of segments, and the front of
cuts. Plans are packed exactly only where their estimates can still win.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tflm_zephyr.compiler.compilation import LayerSource, UnplacedModel
from tflm_zephyr.compiler.fallback import Registrations
from tflm_zephyr.compiler.hop_plan import HopPlanning
from tflm_zephyr.compiler.ir.layers import more_work
from tflm_zephyr.compiler.kernel_choice import LESS_RAM, Choice, restored, smaller_choices
from tflm_zephyr.compiler.memory_plan import SLOWER, MemoryPlan, plan_scopes
from tflm_zephyr.compiler.program import CompiledModel
from tflm_zephyr.compiler.row_plan import RowPlanning
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels import KernelLibrary
from tflm_zephyr.model import Model
from tflm_zephyr.row_planner import DryRuns

_MUCH_SLOWER, _MUCH_LESS = 0.1, 0.75  # a quarter less RAM is worth a tenth more time
_LITTLE = 0.01  # more work for less RAM than that: no other kernels are looked at


@dataclass(frozen=True)
class CompilerOptions:
    """A wish for a way to run a model.

    `slower`: the share of the model's work that a smaller plan may cost; None for SLOWER, or with `ram` for any.
    `rows`: segments of layers may run row by row, where the model is then smaller. `ram`: bytes that the model is to
    fit in, by rows or not, at the least cost. `stream`: the input comes row by row, and is never there as a whole.
    `hop`: it does, and a window follows the one before by so many rows; new rows alone are computed.
    `fast`: operators that have one of our own kernels call that; with `pick` only those that are estimated to be faster
    so, with code and constants that take at most `more_flash` bytes more than CMSIS-NN's, or any number where that is
    None.
    """

    slower: float | None = None
    rows: bool = False
    ram: int | None = None
    stream: bool = False
    hop: int | None = None
    fast: bool = False
    pick: bool = False
    more_flash: int | None = None


@dataclass(frozen=True)
class FrontPoint:
    """A way to run a model, and the estimated share of its work that this costs more than whole layers do."""

    compiled: CompiledModel
    slower: float


_Planned = tuple[Choice, UnplacedModel, tuple[MemoryPlan, int]]


class Search:
    """The ways to run `model`, its operators in the order in which they are to run, by the kernels of `libraries`.

    The libraries are of one name, one for each kind of core that the code is compiled for; the code is right on all.
    An operator without direct code keeps TFLM's own kernel, which `registrations` name; ModelError, naming the
    operator, where they do not.
    """

    def __init__(
        self, model: Model, libraries: Sequence[KernelLibrary], registrations: Registrations | None = None
    ) -> None:
        self._source = LayerSource(model, tuple(libraries), registrations or {})
        self._runs = DryRuns()
        self._choices: dict[int | None, Choice | None] = {}
        self._made: dict[object, UnplacedModel] = {}
        self._plannings: dict[object, RowPlanning] = {}
        self._best: dict[CompilerOptions, CompiledModel] = {}
        self._hops: dict[CompilerOptions, tuple[CompiledModel, ...]] = {}

    def best(self, options: CompilerOptions) -> CompiledModel:
        """The way that `options` asks for, proven.

        PlanError where no plan fits, ModelError, naming a layer, where the input cannot come row by row.
        """
        if options not in self._best:
            self._best[options] = self._searched(options)
        return self._best[options]

    def front(self, options: CompilerOptions) -> tuple[FrontPoint, ...]:
        """Ways to run the model, the smallest first, none of which is both no smaller and no faster than another one.

        `options` names kernels and stream, as for best(), which has these ways.
        """
        choice = self._choice(None) if options.fast and options.pick else None
        parts = self._parts(options.fast if choice is None else choice)
        if parts.flat is not None:
            return (FrontPoint(parts.compiled(*self._memory(parts, options), choice), 0.0),)
        plans = self._planning(parts, options).front()
        return tuple(FrontPoint(parts.compiled(one.memory, len(parts.layers), choice), one.slower) for one in plans)

    def _searched(self, options: CompilerOptions) -> CompiledModel:
        choice = self._choice(options.more_flash) if options.fast and options.pick else None
        if options.hop is not None:
            return self._hopped(self.hops(options), options)
        if choice is None:
            parts = self._parts(options.fast)
            return parts.compiled(*self._memory(parts, options))
        parts = self._parts(choice)
        if options.ram is not None and parts.flat is None:
            choice, parts, memory = self._within(choice, options)
            return parts.compiled(*memory, choice)
        other = self._without_ours(options) if choice.own else None
        if options.rows and parts.flat is None:
            choice, parts, memory = self._by_rows(choice, options)
        else:
            memory = self._memory(parts, options)
        return parts.compiled(*memory, replace(choice, other_arena_bytes=other))

    def hops(self, options: CompilerOptions) -> tuple[CompiledModel, ...]:
        """The ways to run a model whose window moves by `options.hop` rows, the smallest first, the fastest last.

        ModelError, naming the layer or the operator, where none of its rows stay, or it keeps a state itself.
        """
        if options not in self._hops:
            self._hops[options] = self._moved(options)
        return self._hops[options]

    def _moved(self, options: CompilerOptions) -> tuple[CompiledModel, ...]:
        assert options.hop is not None
        choice = self._choice(options.more_flash) if options.fast and options.pick else None
        parts = self._parts(options.fast if choice is None else choice)
        parts.check_stateless()
        planning = HopPlanning(
            parts.running, parts.layers, parts.libraries, parts.stream(hop=True), parts.costs, options.hop
        )
        return tuple(parts.compiled(way.memory, len(parts.layers), choice) for way in planning.ways())

    def _hopped(self, ways: Sequence[CompiledModel], options: CompilerOptions) -> CompiledModel:
        """The smallest way within `options.slower` of the fastest; with `options.ram` the fastest that fits."""
        cycles = {id(way): way.hop.cycles for way in ways if way.hop is not None}
        if options.ram is not None:
            ways = [way for way in ways if way.arena_bytes <= options.ram] or [ways[0]]
            if ways[0].arena_bytes > options.ram:
                what = f"--hop {options.hop} takes {ways[0].arena_bytes:,} bytes of RAM, {options.ram:,} are given"
                raise PlanError(what, where=self._source.model.where, hint="Give more --ram, or leave out --hop")
        slower = (0.0 if options.ram is not None else SLOWER) if options.slower is None else options.slower
        most = min(cycles[id(way)] for way in ways) * (1 + slower)
        return next(way for way in ways if cycles[id(way)] <= most)

    def _by_rows(self, choice: Choice, options: CompilerOptions) -> _Planned:
        """The smallest way by rows within `options.slower`.

        Where that is not given: within SLOWER, or within _MUCH_SLOWER where this takes less than _MUCH_LESS of the RAM.
        """
        if options.slower is not None:
            return self._smallest(choice, options, options.slower)
        little, more = (self._smallest(choice, options, slower) for slower in (SLOWER, _MUCH_SLOWER))
        sizes = [parts.arena_bytes(memory[0]) for _, parts, memory in (little, more)]
        return more if sizes[1] <= _MUCH_LESS * sizes[0] else little

    def _smallest(self, choice: Choice, options: CompilerOptions, slower: float) -> _Planned:
        """The smallest way by rows that takes at most the share `slower` of cycles more than the fastest kernels do.

        Layers whose kernel of ours takes no rows, and layers with the most scratch where the plan is largest, may have
        CMSIS-NN's kernel; the cycles that this costs count as more work.
        """
        most = self._parts(choice).cycles * (1 + slower)
        fitting: list[tuple[int, float, _Planned]] = []

        def plan(one: Choice) -> MemoryPlan:
            parts = self._parts(one)
            memory = self._memory(parts, replace(options, slower=max(0.0, most / parts.cycles - 1)))
            cycles = parts.cycles * (1 + more_work(memory[0].layers))
            if cycles <= most or not fitting:
                fitting.append((parts.arena_bytes(memory[0]), cycles, (one, parts, memory)))
            return memory[0]

        whole = {layer.operator for layer in self._parts(choice).layers if layer.fast and layer.rows is None}
        for start in (choice, choice.without(whole, LESS_RAM)) if whole else (choice,):
            for smaller, _ in smaller_choices(start, plan):
                if self._parts(smaller).cycles > most:
                    break
        return min(fitting, key=lambda each: each[:2])[2]

    def _choice(self, more_flash: int | None) -> Choice | None:
        if more_flash not in self._choices:
            self._choices[more_flash] = self._source.choice(more_flash)
        return self._choices[more_flash]

    def _parts(self, fast: bool | Choice) -> UnplacedModel:
        """The model but for its memory, once for each choice of kernels."""
        key = fast.key if isinstance(fast, Choice) else fast
        if key not in self._made:
            self._made[key] = self._source.parts(fast)
        return self._made[key]

    def _planning(self, parts: UnplacedModel, options: CompilerOptions) -> RowPlanning:
        """The plans of these layers, made once. ModelError where the input cannot come row by row."""
        key = (id(parts), options.stream)  # _made keeps the parts
        if key not in self._plannings:
            stream = parts.stream() if options.stream else None
            self._plannings[key] = RowPlanning(
                parts.running, parts.layers, parts.libraries, stream, parts.costs, self._runs
            )
        return self._plannings[key]

    def _memory(self, parts: UnplacedModel, options: CompilerOptions) -> tuple[MemoryPlan, int]:
        """The plan, and its number of steps. PlanError and ModelError as best()."""
        if options.stream:
            parts.stream()  # refuses a model with subgraphs
        if parts.flat is not None:
            return plan_scopes(parts.original, parts.flat, parts.layers)
        planning, steps = self._planning(parts, options), len(parts.layers)
        if options.ram is not None:
            return planning.cheapest(options.ram, parts.arena_bytes, options.slower), steps
        slower = SLOWER if options.slower is None else options.slower
        by_rows = options.stream or options.rows
        return planning.smallest(slower) if by_rows else planning.whole(slower), steps

    def _within(self, choice: Choice, options: CompilerOptions) -> _Planned:
        """The way within `options.ram` with the fewest cycles: our kernels as chosen, or fewer of them.

        PlanError where none fits.
        """
        fitting: list[tuple[float, _Planned]] = []
        refusals: list[PlanError] = []

        def fits(one: Choice) -> bool:
            parts = self._parts(one)
            try:
                memory = self._memory(parts, options)
            except PlanError as refusal:
                refusals.append(refusal)
                return False
            fitting.append((parts.cycles * (1 + more_work(memory[0].layers)), (one, parts, memory)))
            return True

        if fits(choice) and fitting[0][0] <= self._parts(choice).cycles * (1 + _LITTLE):
            return fitting[0][1]
        for smaller in self._smaller(choice, options):
            fits(smaller)
        if not fitting:
            restored(choice, fits)
        if not fitting:
            raise refusals[-1]
        return min(fitting, key=lambda each: each[0])[1]

    def _smaller(self, choice: Choice, options: CompilerOptions) -> Iterator[Choice]:
        """The first choices that fit with CMSIS-NN's kernels where the plan is largest: by whole tensors, by rows.

        A kind of plan is left out where CMSIS-NN's kernels alone do not fit by it.
        """
        assert options.ram is not None
        least = choice.without(choice.own, LESS_RAM)
        slower = SLOWER if options.slower is None else options.slower

        def whole(one: Choice) -> MemoryPlan:
            return self._planning(self._parts(one), options).whole(options.slower or 0.0)

        def by_rows(one: Choice) -> MemoryPlan:
            return self._planning(self._parts(one), options).smallest(slower)

        for plan in (by_rows,) if options.stream else (whole, by_rows):
            if self._parts(least).arena_bytes(plan(least)) > options.ram:
                continue
            for smaller, memory in smaller_choices(choice, plan):
                if self._parts(smaller).arena_bytes(memory) <= options.ram:
                    yield smaller
                    break

    def _without_ours(self, options: CompilerOptions) -> int | None:
        """All RAM of the same model without our kernels; None where that cannot be planned within the same limits."""
        parts = self._parts(False)
        try:
            memory, _ = self._memory(parts, options)
        except PlanError:
            return None
        return parts.arena_bytes(memory)


def compile_model(
    model: Model,
    libraries: Sequence[KernelLibrary],
    options: CompilerOptions | None = None,
    *,
    registrations: Registrations | None = None,
) -> CompiledModel:
    """The one way that `options` asks for; see Search, which shares the work of several."""
    return Search(model, libraries, registrations).best(options or CompilerOptions())
