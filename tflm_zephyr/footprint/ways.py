# SPDX-License-Identifier: Apache-2.0
"""The ways to run an app's models, side by side: RAM, flash and time of the interpreter and of compiled code.

Each way is another config of the same app, so there is one estimate of bytes for all of them, and one of cycles. Where
a model's cycles are not known, as it runs subgraphs or custom operators, ways differ in the work that they add alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from tflm_zephyr.boards import AUTO, REFERENCE
from tflm_zephyr.codegen import (
    AppRequest,
    EstimatedWork,
    Generated,
    SharedWork,
    estimated_work,
    generate,
    more_flash_bytes,
)
from tflm_zephyr.costs import millions
from tflm_zephyr.errors import AppError, BuildError, ModelError, PlanError, ToolError
from tflm_zephyr.footprint.built_app import Bytes
from tflm_zephyr.footprint.estimate import NO, RegionEstimate, Runs, Verdict, added_flash, verdict
from tflm_zephyr.model import load_model
from tflm_zephyr.options import COMPILED, INTERPRETER, AppConfig
from tflm_zephyr.plain_values import MOST_PERCENT

SPEED, RAM, FLASH = "speed", "ram", "flash"
BESIDE_ARENA_BYTES = 448
"""RAM beside the arenas that a model takes in a build with tflm_model(): as was seen of TFLM and the model's state."""
ALIKE = 1.02  # so near to the best, another measure decides
_LESS_AT_MOST = 4096
"""Bytes that fast kernels take less flash than CMSIS-NN's at most where they are chosen for that: 1,016 were seen."""
_SEARCHED = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"})
_FEW = 4
_THAN_BUDGET = "more than the budget"
_MORE_RAM = "RAM, where rows would take less"


@dataclass(frozen=True)
class Way:
    """A way to run an app's models.

    `option` takes it. `ram_bytes` are the arenas of all models; `flash_bytes` is the estimate of what they add to an
    application, on the board where that is most, None where it is not known; it may be `unsure_bytes` more.
    `verdicts` has each board's for the generated app. `work` is estimated, None where the way cannot be made. `faults`
    are the budgets that it exceeds and the boards that it does not fit, or why it cannot be made, which is `refusal`.
    """

    name: str
    option: str
    gives_up: str
    config: AppConfig
    ram_bytes: int = 0
    flash_bytes: int | None = None
    unsure_bytes: int | None = 0
    verdicts: tuple[Verdict, ...] = ()
    work: EstimatedWork | None = None
    faults: tuple[str, ...] = ()
    refusal: ToolError | None = None

    @property
    def cycles(self) -> int | None:
        """Estimated cycles; None where they are not known."""
        return None if self.work is None else self.work.cycles

    def measure(self, objective: str) -> tuple[float, ...]:
        """The smaller, the better: the objective first, then time, RAM and flash in this order; then fewer options.

        Time is the cycles, and where they are not known the work that the way adds to the model's.
        """
        flash = inf if self.flash_bytes is None else self.flash_bytes
        time = (inf if self.cycles is None else self.cycles, 0.0 if self.work is None else self.work.slower)
        ram, options = float(self.ram_bytes), self.config.fast_kernels + self.config.rows
        order = {SPEED: (*time, ram, flash), RAM: (ram, *time, flash), FLASH: (flash, *time, ram)}[objective]
        return (*order, options)


def optimized(request: AppRequest, objective: str) -> tuple[Generated, Way]:
    """The app by the way that is recommended() within the budgets of its config, and that way.

    Raises AppError where no way is within them, which says for each what is short by how much, and what every way
    refuses alike as it is.
    """
    request = replace(request, shared=request.shared or SharedWork())
    ways = _tried(request, objective)
    if ways[0].refusal is not None and _alike(ways):
        raise ways[0].refusal
    best = recommended(ways, objective)
    if best is None:
        faults = "; ".join(f"{way.name}: {' and '.join(way.faults)}" for way in ways)
        where = ", ".join(model.label for model in request.config.models)
        raise AppError(faults, where=where, hint="Allow more, or take a smaller model")
    made = generate(replace(request, config=best.config))
    reasons = _reasons(best, [way for way in ways if way is not best], objective)
    return replace(made, notes=(*made.notes, *reasons)), best


def recommended(ways: Sequence[Way], objective: str, taken: Way | None = None) -> Way | None:
    """The best way by `objective`; None where each exceeds a budget or a board.

    Of ways within ALIKE of the best one it is the fastest, and where speed is the objective the smallest; of ways that
    are the same in all figures the one that is `taken`.
    """
    able = [way for way in ways if not way.faults]
    first_of_all = min((way.measure(objective)[0] for way in able), default=0.0)
    alike = [way for way in able if way.measure(objective)[0] <= ALIKE * first_of_all]
    by = RAM if objective == SPEED and alike and alike[0].cycles is not None else SPEED
    return min(alike, key=lambda way: (*way.measure(by)[:-1], way is not taken, way.measure(by)[-1]), default=None)


def way_of(ways: Sequence[Way], made: Generated) -> Way | None:
    """The way that the app takes; None where it is none of `ways`, as with reference kernels."""
    mine = replace(made.config, backend=made.spec.backend)
    return next((way for way in ways if _words(way.config) == _words(mine)), None)


def _words(config: AppConfig) -> tuple[str, str, bool, bool]:
    return config.backend, config.kernels, config.fast_kernels, config.rows


def quick_ways(request: AppRequest) -> tuple[Way, ...]:
    """All ways that the config leaves open of models with few convolutions; of others those that need no search.

    A convolution takes about 0.04 s to search its kernels and rows, mostly the proof of its fast requantisation.
    """
    config, shared = request.config, request.shared or SharedWork()
    models = [shared.once("load", item.model, partial(load_model, item.model)) for item in config.models]
    keys = [operator.key for model in models for graph in model.subgraphs for operator in graph.operators]
    if sum(key in _SEARCHED for key in keys) <= _FEW:
        return open_ways(request)
    return tuple(_priced(request, way) for way in _ways(config, SPEED) if not way.config.fast_kernels | way.config.rows)


def all_ways(request: AppRequest) -> tuple[Way, ...]:
    """open_ways() by the config's other options, whatever backend, kernels of ours or rows it names."""
    config = request.config
    every = replace(config, backend=AUTO, fast_kernels=False, rows=config.stream_input)
    return open_ways(replace(request, config=every))


def open_ways(request: AppRequest) -> tuple[Way, ...]:
    """All ways that the config leaves open, the fastest first; those that exceed a budget or a board come last."""
    request = replace(request, shared=request.shared or SharedWork())
    ways = _tried(request, request.config.optimize or SPEED)
    return tuple(sorted(ways, key=lambda way: (bool(way.faults), way.measure(SPEED))))


def ways_into(request: AppRequest, room: Bytes) -> tuple[Way, ...]:
    """All ways, the fastest first, against the bytes that an application leaves; those that take more come last.

    Where none is within them, also the ways that a budget of RAM makes possible, at any cost in time. Raises what every
    way refuses alike.
    """
    request = replace(request, shared=request.shared or SharedWork())
    inside = replace(request, config=replace(request.config, flash=room.flash))
    ways = [_roomy(way, room) for way in open_ways(inside)]
    if ways[0].refusal is not None and _alike(ways):
        raise ways[0].refusal
    if all(way.faults for way in ways) and room.ram > BESIDE_ARENA_BYTES and request.config.ram is None:
        ram = room.ram - BESIDE_ARENA_BYTES
        tight = open_ways(replace(inside, config=replace(inside.config, ram=ram)))
        ways += [replace(way, option=f"{way.option} --ram {ram}") for way in tight if way.config.ram and not way.faults]
    return tuple(sorted(ways, key=lambda way: (bool(way.faults), way.measure(SPEED))))


def added_bytes(request: AppRequest) -> Bytes:
    """The estimate of what the models of an app add to it, as it was generated."""
    made = generate_within(request)
    flash = _flash(made)
    ram = sum(model.arena.bytes for model in made.spec.models) + BESIDE_ARENA_BYTES
    return Bytes(0 if flash is None else flash.used_bytes, ram)


def _roomy(way: Way, room: Bytes) -> Way:
    """The way with the option that lets it be in `room`, or with the RAM that is short there."""
    if way.config.larger is not None and not way.faults:
        way = replace(way, option=f"{way.option} --flash {room.flash}")
    over = way.ram_bytes + BESIDE_ARENA_BYTES - room.ram
    faults = tuple(fault.replace(_THAN_BUDGET, "more than are left") for fault in way.faults)
    short = () if over <= 0 or way.refusal is not None else (f"{over:,} bytes of RAM more than are left",)
    return replace(way, faults=(*faults, *short))


def generate_within(request: AppRequest) -> Generated:
    """The app by the way that its config asks for: the best by its objective, the fastest within a budget of flash.

    Without either it is the app of codegen.generate; where no backend is named and the interpreter does not fit a
    board, the first way that fits all of them. Raises AppError where no way is within the budgets.
    """
    request = replace(request, shared=request.shared or SharedWork())
    config = request.config
    objective = config.optimize or (SPEED if config.flash is not None else "")
    if objective:
        return optimized(request, objective)[0]
    made = generate(request)
    if config.backend != AUTO or request.backend or not (misfits := _misfits(made)):
        return made
    for way in _ways(replace(config, backend=COMPILED), SPEED):
        priced = _priced(request, way)
        if not priced.faults:
            found = generate(replace(request, config=priced.config))
            note = f"{way.name} ({way.option}), as the interpreter's app takes {' and '.join(misfits)}"
            return replace(found, notes=(*found.notes, note))
    return made


def _tried(request: AppRequest, objective: str) -> list[Way]:
    """The ways with their bytes, time and faults; the last resorts among them where nothing else is possible."""
    kinds = _ways(request.config, objective)
    ways = [_priced(request, way) for way in kinds]
    if all(way.faults for way in ways) and not _alike(ways):
        ways += [_priced(request, way) for way in _last_resorts(request.config, kinds)]
    return ways


def _alike(ways: Sequence[Way]) -> bool:
    """Whether every way refuses the models, and for the same reason."""
    return ways[0].refusal is not None and all(str(way.refusal) == str(ways[0].refusal) for way in ways)


def _ways(config: AppConfig, objective: str) -> tuple[Way, ...]:
    """The ways that the config leaves open, not priced yet: what it names is kept."""
    plain = replace(config, optimize=None, flash=None)
    # Fast kernels where they take no more flash than CMSIS-NN's, if flash is the objective.
    larger = 0 if objective == FLASH else config.larger
    compiled = replace(plain, backend=COMPILED, fast_kernels=False, rows=False, larger=larger)
    rows = replace(compiled, rows=True, slower=_slower(config, objective))
    interpreted = replace(compiled, backend=INTERPRETER, ram=None, slower=None)
    fast = "--optimize flash --backend compiled" if objective == FLASH else "--fast-kernels"
    every = (
        Way("fast kernels", fast, _MORE_RAM, replace(compiled, fast_kernels=True)),
        Way("fast kernels by rows", f"{fast} --rows", "some speed", replace(rows, fast_kernels=True)),
        Way("compiled", "--backend compiled", "the speed of fast kernels", compiled),
        Way("compiled by rows", "--backend compiled --rows", "the speed of fast kernels", rows),
        Way("interpreter", "--backend interpreter", "RAM and flash", interpreted),
    )
    return tuple(way for way in every if config.backend in (AUTO, way.config.backend) and _keeps(config, way))


def _last_resorts(config: AppConfig, ways: Sequence[Way]) -> Iterator[Way]:
    """The same ways with TFLM's reference kernels, many times slower, for where nothing else is within the budgets."""
    for way in ways if config.kernels == AUTO else ():
        if not way.config.fast_kernels:
            slow = replace(way.config, kernels=REFERENCE)
            option = f"{way.option} --kernels reference"
            yield replace(way, name=f"{way.name}, reference kernels", option=option, config=slow)


def _keeps(config: AppConfig, way: Way) -> bool:
    """Whether a way has the options of compiled code that the config names; with a budget of RAM rows come with it."""
    asked = config.fast_kernels <= way.config.fast_kernels and config.rows <= way.config.rows
    named = config.stream_input or config.fast_kernels or config.rows or config.hop is not None
    able = way.config.backend == COMPILED or not named
    by_itself = config.ram is not None or config.hop is not None  # it runs layers row by row where that is better
    return asked and able and not (by_itself and way.config.rows)


def _slower(config: AppConfig, objective: str) -> float | None:
    """Percent of more work for less RAM: what is allowed, and where RAM is the objective any by default."""
    if config.slower is not None or objective != RAM:
        return config.slower
    return MOST_PERCENT


def _priced(request: AppRequest, way: Way) -> Way:
    """The way with its bytes and its time, or with why it cannot be made."""
    try:
        made = generate(replace(request, config=way.config, golden=False))
        allowed = _less_code(made, request.config.flash)
        if allowed is not None:
            way = replace(way, config=replace(way.config, larger=allowed))
            made = generate(replace(request, config=way.config, golden=False))
    except (AppError, BuildError, ModelError, PlanError) as error:
        return replace(way, faults=(error.what,), refusal=error)
    ram, flash = sum(model.arena.bytes for model in made.spec.models), _flash(made)
    if flash is not None:
        way = replace(way, flash_bytes=flash.used_bytes, unsure_bytes=flash.above_bytes)
    priced = replace(way, ram_bytes=ram, verdicts=_verdicts(made), work=estimated_work(made.spec))
    return replace(priced, faults=tuple(_faults(priced, request.config, made)))


def _less_code(made: Generated, limit: int | None) -> int | None:
    """Bytes of flash that each model's fast kernels may take more than CMSIS-NN's, so that the app is within `limit`.

    None where it is, or where no choice of fast kernels brings it there.
    """
    use, more = _flash(made), more_flash_bytes(made.spec)
    if limit is None or use is None or more is None:
        return None
    over = use.used_bytes - limit
    return None if not 0 < over <= max(0, more) + _LESS_AT_MOST else max(0, more - over) // len(made.spec.models)


def _faults(way: Way, config: AppConfig, made: Generated) -> Iterator[str]:
    """The budgets that a way exceeds, and the boards that it does not fit."""
    for model in made.spec.models:
        if config.ram is not None and model.arena.bytes > config.ram:
            more = model.arena.bytes - config.ram
            yield f"{model.ident} takes {model.arena.bytes:,} bytes of RAM, {more:,} {_THAN_BUDGET}"
    if config.flash is not None and way.flash_bytes is None:
        yield f"its flash cannot be estimated, as nothing was measured for the core of {way.verdicts[0].board}"
    if config.flash is not None and way.flash_bytes is not None and way.flash_bytes > config.flash:
        more = way.flash_bytes - config.flash
        yield f"{way.flash_bytes:,} bytes of flash (estimated), {more:,} {_THAN_BUDGET}"
    yield from _misfits(made)


def _misfits(made: Generated) -> tuple[str, ...]:
    """The boards that an app does not fit, with the bytes that are short."""
    found = []
    for one in _verdicts(made):
        if one.fits == NO and one.flash is not None and one.ram is not None:
            over = ((one.flash.over_bytes, "flash"), (one.ram.over_bytes, "RAM"))
            short = " and ".join(f"{size:,} bytes of {name}" for size, name in over if size)
            found.append(f"{short} more than {one.board} has")
    return tuple(found)


def _verdicts(made: Generated) -> tuple[Verdict, ...]:
    runs = Runs(tuple(model.runs for model in made.config.models))
    return tuple(verdict(made.spec, board, runs) for board in made.spec.boards)


def _flash(made: Generated) -> RegionEstimate | None:
    """Flash that the models add on the board where that is most; None where it is not known of one."""
    uses = [added_flash(made.spec, board) for board in made.spec.boards]
    known = [use for use in uses if use is not None]
    return max(known, key=lambda use: use.used_bytes) if known and len(known) == len(uses) else None


_WORDS = {SPEED: "fewest estimated cycles", RAM: "least RAM", FLASH: "least flash"}


def _reasons(best: Way, others: Sequence[Way], objective: str) -> tuple[str, ...]:
    """The way that is taken and what it gives up, then a line for each other way, the next best first."""
    able = sorted((way for way in others if not way.faults), key=lambda way: way.measure(objective))
    words = "least work, as no cycles are known," if objective == SPEED and best.cycles is None else _WORDS[objective]
    why = f"the {words} of {1 + len(able)} ways" if able else "the only way that is possible"
    if able and able[0].measure(objective)[0] < best.measure(objective)[0]:
        why = f"within {100 * (ALIKE - 1):.0f} % of {why}, and {'smaller' if objective == SPEED else 'faster'}"
    lines = [
        f"optimize {objective}: {best.name} ({best.option}), {why}",
        f"it takes {sizes(best)}; it gives up {best.gives_up}",
        *(f"or {way.name} ({way.option}): {sizes(way)}" for way in able),
        *(f"not {way.name}: {' and '.join(way.faults)}" for way in others if way.faults),
    ]
    return tuple(lines)


def sizes(way: Way) -> str:
    """RAM, flash and time of a way in words."""
    flash = "flash not known" if way.flash_bytes is None else f"{way.flash_bytes:,} bytes of flash (estimated)"
    time = "" if way.cycles is None else f", {millions(way.cycles)} million cycles (estimated)"
    return f"{way.ram_bytes:,} bytes of RAM, {flash}{time}"
