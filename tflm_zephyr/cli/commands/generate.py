# SPDX-License-Identifier: Apache-2.0
"""`generate`: write an app or bring one up to date, or with --check report whether it is stale."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tflm_zephyr.cli.commands.app_writing import write_app
from tflm_zephyr.cli.commands.configuration import backend_notes, boards_of, compiler_for, config_of, tflm_for
from tflm_zephyr.cli.commands.fit import board_fits
from tflm_zephyr.cli.commands.outcome import Done, Say, refuse_flags
from tflm_zephyr.cli.commands.retraining import previous_app, update_of, with_new_models
from tflm_zephyr.cli.progress import reference_runs
from tflm_zephyr.cli.report import fit as report_fit
from tflm_zephyr.cli.report import text
from tflm_zephyr.cli.report import update as report_update
from tflm_zephyr.codegen import (
    AppRequest,
    AppSpec,
    SharedWork,
    app_files,
    app_folder,
    identifier,
    own_path,
    render_workflow,
    with_held,
    workflow_path,
)
from tflm_zephyr.device.transport import DeviceTarget, default_board
from tflm_zephyr.errors import AppError
from tflm_zephyr.files import check_new, write_new
from tflm_zephyr.footprint import NO, BoardFit, Runs, generate_within, quick_ways, way_of
from tflm_zephyr.options import AppConfig, app_file


def do_generate(args: argparse.Namespace, say: Say) -> Done:
    """`generate`: write an app, or bring one up to date, or with --check compare it. Exit code 1 if no board fits."""
    from tflm_zephyr.build import find_workspace_if_any

    if args.check:
        refuse_flags(args, ["force"], "replaces files, and --check writes none", "Give one of them")
    config, app, file = _config_and_folder(args)
    workspace = find_workspace_if_any(args.workspace, app=app)
    boards = boards_of(config, workspace, say)
    tflm, compiler = tflm_for(config, boards, workspace), compiler_for(app)
    with reference_runs("references", quiet=args.quiet) as on_run:
        request = AppRequest(
            config, app, tflm, boards=boards, compiler=compiler, on_run=on_run, shared=SharedWork()
        )  # fmt: skip
        made = generate_within(request)
    made = replace(made, notes=(*backend_notes(config, args, file), *made.notes))
    workflow = _repository(app) / workflow_path(made.spec, args.ci) if args.ci else None
    steps = b"" if workflow is None else render_workflow(made.spec, _folder_in_repository(app), args.ci)
    if args.check:
        change = app_folder.compare_files(app, app_files(made.spec, made.golden_files, config, app))
        change = app_folder.compare_manifest(change, app, made.manifest)
        if workflow is not None:
            change = app_folder.compare_one(change, workflow, steps)
        return Done(text.check(app, change), text.change_json(app, change), 1 if change.stale else 0, "check")
    if workflow is not None:
        check_new(workflow, steps, force=args.force)
    fits = board_fits(app, made, workspace, Runs(tuple(len(model.golden) for model in made.spec.models)))
    plain = config.optimize is None and config.flash is None  # else the notes have the ways
    quick = quick_ways(replace(request, golden=False)) if plain else ()
    ways = report_fit.Ways(quick, way_of(quick, made))
    before = previous_app(app)
    change = write_app(app, made, config, fits, force=args.force)
    if workflow is not None:
        write_new(workflow, steps, force=args.force)
    update = None if before is None else update_of(before, made, fits, config)
    return Done(
        code=1 if all(fit.verdict.fits == NO for fit in fits) else 0,
        text=text.generated(
            app,
            made,
            change,
            workflow,
            _next(app, made.spec, fits, workspace is not None),
            [*report_fit.lines(fits, ways), *report_fit.ways_table(ways), *report_fit.ways_to_come(ways)],
            [] if update is None else report_update.lines(update),
        ),
        json={
            **text.change_json(app, change),
            **text.app_json(made),
            "fit": report_fit.fits_json(fits),
            "ways": report_fit.ways_json(ways),
            "update": None if update is None else report_update.plain(update),
            "workflow": workflow and str(workflow),
        },
    )


def _next(app: Path, spec: AppSpec, fits: Sequence[BoardFit], workspace: bool) -> text.NextStep:
    """The default board of those that the app fits and that exist, as far as is known."""
    fitting = [board for board, fit in zip(spec.boards, fits, strict=True) if fit.verdict.fits != NO]
    there = [board for board in fitting if board.known or workspace]
    return text.NextStep(
        default_board(DeviceTarget(app=app), there).name if there else "",
        workspace,
        fitting[0].name if fitting and not there else "",
    )


def _config_and_folder(args: argparse.Namespace) -> tuple[AppConfig, Path, Path | None]:
    """The app's config, its folder, and the app file that was read. An app that is there remembers its options."""
    folder: Path | None = args.output
    if folder is None and args.app is not None:
        app_folder.refuse_old_layout(args.app.parent)
        folder = app_folder.app_around(args.app)
    if folder is not None:
        app_folder.refuse_old_layout(folder)
    own = None if folder is None else own_path(folder, app_file.NAME)
    file = args.app or (own if own is not None and own.is_file() else None)
    config = config_of(args, file)
    if folder is None:
        where = "generate" if file is None else str(file)
        raise AppError("no folder for the app", where=where, hint="Name one with -o APP")
    if file is not None and own is not None and file.resolve() == own.resolve():
        config = with_new_models(with_held(config, folder), args.model, folder)
    return replace(config, name=config.name or identifier(folder.resolve().name)), folder, file


def _repository(app: Path) -> Path:
    """The top of the git checkout around the app, or else the app itself."""
    return next((path for path in app.resolve().parents if (path / ".git").exists()), app.resolve())


def _folder_in_repository(app: Path) -> str:
    return Path(os.path.relpath(app.resolve(), _repository(app))).as_posix()
