# SPDX-License-Identifier: Apache-2.0
"""`fit`: estimates whether an app fits its boards, before it is generated or built, with remedies if it does not."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tflm_zephyr.boards import Board, known_boards, load_board
from tflm_zephyr.cli.commands.configuration import boards_of, compiler_for, config_of, tflm_for, typed
from tflm_zephyr.cli.commands.outcome import Done, Say
from tflm_zephyr.cli.report import fit as report
from tflm_zephyr.codegen import AppRequest, AppSpec, SharedWork, app_folder, identifier, with_held
from tflm_zephyr.footprint import (
    CLOSE,
    NO,
    SPEED,
    BoardFit,
    Runs,
    Verdict,
    Way,
    all_ways,
    generate_within,
    own_buffer,
    recommended,
    remedies,
    verdict,
    way_of,
)
from tflm_zephyr.host import golden_outputs
from tflm_zephyr.options import COMPILED, AppConfig, options_of

if TYPE_CHECKING:
    from tflm_zephyr.build import Workspace
    from tflm_zephyr.codegen import Generated


@dataclass(frozen=True)
class Fitting:
    """The app that `fit` was asked about, and all ways to run its models.

    `source` and `limits`: words for `generate` to make it, see report.Ways.
    """

    request: AppRequest
    made: Generated
    ways: tuple[Way, ...]
    workspace: Workspace | None
    source: tuple[str, ...]
    limits: tuple[str, ...]


def do_fit(args: argparse.Namespace, say: Say) -> Done:
    """`fit`: writes nothing, builds nothing, runs nothing. Exit code 1 when the app does not fit every board."""
    if args.into is not None:
        from tflm_zephyr.cli.commands.fit_into import do_into

        return do_into(args)
    return fit_done(fitting(args, say))


def fitting(args: argparse.Namespace, say: Say) -> Fitting:
    """The app that `args` name, made but for its golden runs."""
    from tflm_zephyr.build import find_workspace_if_any

    config = config_of(args)
    folder = Path()
    if args.app is not None:
        inside = app_folder.app_around(args.app)
        folder = inside or args.app.parent
        config = config if inside is None else with_held(config, inside)
    config = replace(config, name=config.name or identifier(config.models[0].label))
    workspace = find_workspace_if_any(args.workspace, app=folder)
    boards = boards_of(config, workspace, say)
    tflm, compiler = tflm_for(config, boards, workspace), compiler_for(folder)
    request = AppRequest(
        config, folder, tflm, boards=boards, golden=False, compiler=compiler, shared=SharedWork()
    )  # fmt: skip
    return Fitting(request, generate_within(request), all_ways(request), workspace, *_words(args, config.name))


def fit_done(found: Fitting) -> Done:
    """The verdicts for the boards and the ways."""
    made, config = found.made, found.request.config
    runs = Runs(tuple(model.runs for model in config.models), _sure(made))
    fits = board_fits(found.request.app, made, found.workspace, runs)
    held = found.source[0] == "-o" and bool(config.fast_kernels or config.rows or config.optimize)
    taken = way_of(found.ways, made)
    best = recommended(found.ways, config.optimize or SPEED, taken)
    ways = report.Ways(found.ways, taken, best, found.source, found.limits, held)
    fails = any(fit.verdict.fits == NO for fit in fits)
    plain = {
        "app": made.spec.name,
        "boards": report.fits_json(fits),
        "ways": report.ways_json(ways),
        "notes": list(made.notes),
    }
    return Done(
        report.table(fits, ways, made.notes),
        plain,
        1 if fails else 0,
        terminal=lambda width: report.table_on_terminal(plain, fits, ways, made.notes),
    )


def _words(args: argparse.Namespace, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Words for `generate` that make the app of `args`, and those for compiled code; a way's options are in neither."""
    inside = None if args.app is None else app_folder.app_around(args.app)
    if inside is not None:
        return ("-o", os.path.relpath(inside)), ()
    both = [row for row in options_of("generate") if row in options_of("fit")]
    kept = [row for row in both if row.name not in ("backend", "optimize", "fast_kernels", "rows")]
    own, limits = (
        typed(args, [row for row in kept if (row.option.backend == COMPILED) == late]) for late in (False, True)
    )
    file = () if args.app is None else ("--app", str(args.app))
    return (*map(str, args.model), *file, *own, "-o", name), tuple(limits)


def board_fits(folder: Path, made: Generated, workspace: Workspace | None, runs: Runs) -> tuple[BoardFit, ...]:
    """The verdict for each board of the app, with remedies unless it fits.

    runs: the self-test runs of each model. A remedy may ask for fewer, never for more.
    """
    given, config = {board.name: board for board in made.spec.boards}, made.config

    @cache
    def app_of(then: AppConfig) -> AppSpec:
        boards = tuple(given.get(name) or load_board(name) for name in dict.fromkeys(then.boards))
        return _made(then, folder, boards, workspace, made.shared).spec

    def evaluate(then: AppConfig, board: Board) -> Verdict:
        return verdict(app_of(then), board, runs.at_most(then.models))

    found = []
    verdicts = [verdict(made.spec, board, runs) for board in made.spec.boards]
    for board, first in zip(made.spec.boards, verdicts, strict=True):
        if first.fits not in (NO, CLOSE):
            found.append(BoardFit(first))
            continue
        others = [load_board(name) for name in known_boards()]
        ram_lacks = first.ram is not None and first.ram.fits in (NO, CLOSE)
        flash_lacks = first.flash is not None and first.flash.fits in (NO, CLOSE)
        owned = [own_buffer(item.config.label, item.head) for item in made.prepared] if ram_lacks else []
        found.append(
            BoardFit(
                first,
                remedies(first, config, board, others, evaluate),
                tuple(own for own in owned if own is not None and own.saved_bytes),
                board.flash_note if flash_lacks else "",
            )
        )
    return tuple(found)


def _made(
    config: AppConfig, folder: Path, boards: tuple[Board, ...], workspace: Workspace | None, shared: SharedWork
) -> Generated:
    """The app without golden runs, as those need an engine that runs the model; whatever its budgets."""
    from tflm_zephyr.codegen import generate

    tflm, compiler = tflm_for(config, boards, workspace), compiler_for(folder)
    return generate(
        AppRequest(config, folder, tflm, boards=boards, golden=False, compiler=compiler, shared=shared)
    )  # fmt: skip


def _sure(made: Generated) -> tuple[bool, ...]:
    """Whether `generate` will find an engine that runs each model; there may be none for custom operators."""
    return tuple(
        bool(golden_outputs.installed())
        and not any(operator.custom_code for subgraph in item.model.subgraphs for operator in subgraph.operators)
        for item in made.prepared
    )
