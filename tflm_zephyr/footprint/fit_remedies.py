# SPDX-License-Identifier: Apache-2.0
"""Remedies that make an app fit a board that it does not fit, each with its bytes. Pure.

A remedy is another app config or another board, and its bytes are the difference of two verdicts, so there is only one
way to estimate. Where no single remedy is enough, the smallest set that is enough is found. Other ways to run the
models, with other kernels or as compiled code, are in `ways`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from tflm_zephyr.arena import SEARCH_WORK, HeadPlan
from tflm_zephyr.boards import Board
from tflm_zephyr.errors import AppError, ModelError, PlanError
from tflm_zephyr.footprint.estimate import CLOSE, NO, YES, RegionEstimate, Verdict
from tflm_zephyr.memory_planner import pack
from tflm_zephyr.options import ONLINE, AppConfig

Evaluate = Callable[[AppConfig, Board], Verdict]


@dataclass(frozen=True)
class ConfigChange:
    """One change of an app: its text, its option, and a function that applies it to a config and a board."""

    what: str
    option: str
    apply: Callable[[AppConfig, Board], tuple[AppConfig, Board]]


@dataclass(frozen=True)
class Remedy:
    """Changes, and the verdict with them. Gains are bytes: fewer used, or more available; negative for a loss."""

    changes: tuple[ConfigChange, ...]
    flash_gain_bytes: int
    ram_gain_bytes: int
    after: Verdict

    @property
    def suffices(self) -> bool:
        """Whether the app surely fits then."""
        return self.after.fits == YES

    @property
    def what(self) -> str:
        """All changes in words."""
        return " and ".join(change.what for change in self.changes)

    @property
    def option(self) -> str:
        """The options for all of them."""
        return " ".join(change.option for change in self.changes)


@dataclass(frozen=True)
class OwnBuffer:
    """An input or output; without it in the arena, the head would be `saved_bytes` smaller."""

    model: str
    name: str
    size_bytes: int
    saved_bytes: int


@dataclass(frozen=True)
class BoardFit:
    """A board's verdict, with remedies where it is not a plain yes.

    `flash_note` says why the board cannot have more flash, where flash is too small.
    """

    verdict: Verdict
    remedies: tuple[Remedy, ...] = ()
    own_buffers: tuple[OwnBuffer, ...] = ()
    flash_note: str = ""


def remedies(
    verdict: Verdict, config: AppConfig, board: Board, known: Iterable[Board], evaluate: Evaluate
) -> tuple[Remedy, ...]:
    """Every single change that gains bytes in a memory that is too small, sufficient ones first; then, if none is
    sufficient, the smallest set that is. Empty when the app fits, or where nothing is known.

    known: the described boards. evaluate: the verdict of an app config on a board.
    """
    lacking = _lacking(verdict)
    if not lacking:
        return ()

    def tried(changes: Sequence[ConfigChange]) -> Remedy:
        config_then, board_then = config, board
        for change in changes:
            config_then, board_then = change.apply(config_then, board_then)
        after = evaluate(config_then, board_then)
        return Remedy(tuple(changes), _gain(verdict.flash, after.flash), _gain(verdict.ram, after.ram), after)

    singles = []
    for change in _changes(config, board, known):
        try:
            singles.append(tried([change]))
        except (AppError, ModelError, PlanError):  # not every model can be compiled
            continue
    useful = [remedy for remedy in singles if any(_gained(remedy, memory) > 0 for memory in lacking)]
    useful.sort(key=lambda remedy: (not remedy.suffices, -sum(_gained(remedy, memory) for memory in lacking)))
    if any(remedy.suffices for remedy in useful):
        return tuple(useful)
    single = [remedy.changes[0] for remedy in useful]
    for count in range(2, len(single) + 1):
        together = [tried(changes) for changes in combinations(single, count)]
        enough = [remedy for remedy in together if remedy.suffices]
        if enough:
            return (*useful, max(enough, key=lambda remedy: sum(_gained(remedy, memory) for memory in lacking)))
    return tuple(useful)


def own_buffer(name: str, head: HeadPlan) -> OwnBuffer | None:
    """The largest input or output of the model `name`, and the bytes that the head would be smaller without it.

    This lowers an app's RAM only where the app has such a buffer anyway. None for a model without one in the head.
    """
    main = head.graph.model.main
    places = {(tensor.subgraph, tensor.tensor): place for place, tensor in enumerate(head.graph.tensors)}
    ends = sorted({places[0, index] for index in (*main.inputs, *main.outputs) if (0, index) in places})
    if not ends or head.variables_planned:
        return None
    buffers = head.problem.buffers
    largest = max(ends, key=lambda place: buffers[place].size)
    rest = [place for place in range(len(buffers)) if place != largest]
    left = pack(head.problem.only(rest), work=SEARCH_WORK).size_bytes
    kind = "input" if head.graph.tensors[largest].tensor in main.inputs else "output"
    found = main.tensors[head.graph.tensors[largest].tensor]
    return OwnBuffer(name, f"{kind} {found.label}", buffers[largest].size, max(0, head.head_bytes - left))


def _lacking(verdict: Verdict) -> tuple[str, ...]:
    """The memories that are or may be too small."""
    uses = (("flash", verdict.flash), ("ram", verdict.ram))
    return tuple(name for name, use in uses if use is not None and use.fits in (NO, CLOSE))


def _gain(before: RegionEstimate | None, after: RegionEstimate | None) -> int:
    if before is None or after is None:
        return 0
    return (before.used_bytes - after.used_bytes) + (after.available_bytes - before.available_bytes)


def _gained(remedy: Remedy, memory: str) -> int:
    return remedy.flash_gain_bytes if memory == "flash" else remedy.ram_gain_bytes


def _changes(config: AppConfig, board: Board, known: Iterable[Board]) -> list[ConfigChange]:
    """Changes that are possible for this app on this board."""
    found = [_other_board(other) for other in known if _same_chip(other, board)]
    if config.tflm != "selected":
        found.append(_otherwise("only the TFLM sources that the models need", "--tflm selected", tflm="selected"))
    if config.debug:
        found.append(_otherwise("no debug build", "without --debug", debug=False))
    if any(model.runs > 1 for model in config.models):
        found.append(_models("one self-test run for each model", "--runs 1", runs=1))
    if any(model.plan == ONLINE for model in config.models):
        found.append(_models("the arena planned offline", "--plan packed", plan="packed"))
    if not all(model.in_place for model in config.models):
        found.append(_models("in-place operators where the kernels allow it", "without --no-in-place", in_place=True))
    if any(model.order != "auto" for model in config.models):
        found.append(_models("operators in the order that needs the least memory", "--order auto", order="auto"))
    if any(model.arena is not None for model in config.models):
        found.append(_models("an arena of the estimated size", "without --arena", arena=None))
    return found


def _other_board(other: Board) -> ConfigChange:
    what = f"{other.name} ({other.flash_kib} KiB flash, {other.ram_kib} KiB RAM)"

    def apply(config: AppConfig, board: Board) -> tuple[AppConfig, Board]:
        names = tuple(other.name if name == board.name else name for name in config.boards)
        return replace(config, boards=tuple(dict.fromkeys(names))), other

    return ConfigChange(what, f"--board {other.name}", apply)


def _otherwise(what: str, option: str, **values: object) -> ConfigChange:
    return ConfigChange(what, option, lambda config, board: (replace(config, **values), board))  # type: ignore[arg-type]


def _models(what: str, option: str, **values: object) -> ConfigChange:
    def apply(config: AppConfig, board: Board) -> tuple[AppConfig, Board]:
        models = tuple(replace(model, **values) for model in config.models)  # type: ignore[arg-type]
        return replace(config, models=models), board

    return ConfigChange(what, option, apply)


def _same_chip(other: Board, board: Board) -> bool:
    """Whether the two targets are one board and chip in other variants: nrf9160dk/nrf9160 and nrf9160dk/nrf9160/ns."""
    mine, its = (re.sub(r"@[^/]*", "", item.name).split("/") for item in (board, other))
    return mine != its and len(mine) > 1 and mine[:2] == its[:2]
