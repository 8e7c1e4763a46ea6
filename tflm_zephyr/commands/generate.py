# SPDX-License-Identifier: Apache-2.0
"""`generate`: write an app, or with --check tell whether it is stale."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

from tflm_zephyr import app_files, appfile
from tflm_zephyr.app import AppSpec, render, render_workflow
from tflm_zephyr.appfile import AppConfig
from tflm_zephyr.commands.asked import boards_of, compiler_for, config_of, tflm_for
from tflm_zephyr.commands.done import Done, Say
from tflm_zephyr.commands.fit import board_fits
from tflm_zephyr.errors import AppError
from tflm_zephyr.identifiers import identifier
from tflm_zephyr.report import fit as report_fit
from tflm_zephyr.report import text
from tflm_zephyr.verdict import Runs


def do_generate(args: argparse.Namespace, say: Say) -> Done:
    """`generate`: write an app, or with --check compare it."""
    from tflm_zephyr.generate import generate
    from tflm_zephyr.workspace import find_workspace_if_any

    config, app = _config_and_folder(args)
    workspace = find_workspace_if_any(args.workspace, app=app)
    boards = boards_of(config, workspace)
    made = generate(config, app, tflm_for(config, boards, workspace), boards=boards, compiler=compiler_for(app))
    files = render(made.spec)
    files[appfile.NAME] = _app_file(args, config, app)
    files.update(made.golden_files)
    files = dict(sorted(files.items()))
    workflow = _workflow_path(made.spec, app) if args.ci else None
    steps = b"" if workflow is None else render_workflow(made.spec, _folder_in(workflow, app))
    if args.check:
        app_files.load_manifest(app)
        change = app_files.compare(app, files)
        if workflow is not None:
            change = app_files.compare_one(change, workflow, steps)
        return Done(text.check(app, change), text.change_json(app, change), 1 if change.stale else 0)
    if workflow is not None:
        app_files.check_new(workflow, steps, force=args.force)
    change = app_files.write(app, files, made.manifest, force=args.force)
    if workflow is not None:
        app_files.write_new(workflow, steps, force=args.force)
    fits = board_fits(config, app, made, workspace, Runs(tuple(len(model.golden) for model in made.spec.models)))
    return Done(
        text.generated(app, made, change, workflow, report_fit.lines(fits)),
        {
            **text.change_json(app, change),
            **text.app_json(made),
            "fit": report_fit.fits_json(fits),
            "workflow": workflow and str(workflow),
        },
    )


def _config_and_folder(args: argparse.Namespace) -> tuple[AppConfig, Path]:
    """The app's config from flags or app file, and its folder."""
    if args.app is None and not args.model and args.output is not None and (args.output / appfile.NAME).is_file():
        args.app = args.output / appfile.NAME
    config, folder = config_of(args), args.output
    if folder is None and args.app is not None and (args.app.parent / app_files.MANIFEST).is_file():
        folder = args.app.parent
    if folder is None:
        where = "generate" if args.app is None else str(args.app)
        raise AppError("no folder for the app", where=where, hint="Name one with -o APP")
    return replace(config, name=config.name or identifier(folder.resolve().name)), folder


def _workflow_path(spec: AppSpec, app: Path) -> Path:
    """At the top of the git checkout that the app is in, or else in the app itself."""
    top = next((path for path in app.resolve().parents if (path / ".git").exists()), app.resolve())
    return top / ".github" / "workflows" / f"{spec.name}.yml"


def _folder_in(workflow: Path, app: Path) -> str:
    """The app's folder in the repository of `workflow`."""
    return Path(os.path.relpath(app.resolve(), workflow.parents[2])).as_posix()


def _app_file(args: argparse.Namespace, config: AppConfig, app: Path) -> bytes:
    """The app file beside the app; one there that says the same stays as it is, comments and all."""
    path = app / appfile.NAME
    if args.app is not None and args.app.resolve() == path.resolve() and appfile.load(path) == config:
        return path.read_bytes()
    return appfile.dump(config, app)
