# SPDX-License-Identifier: Apache-2.0
"""`generate`: write an app, or with --check tell whether it is stale."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflm_zephyr import app_files, appfile
from tflm_zephyr.app import AppSpec, identifier, render, render_workflow
from tflm_zephyr.appfile import AppConfig, ModelConfig
from tflm_zephyr.board import Board, load_board
from tflm_zephyr.commands.done import Done, Say
from tflm_zephyr.errors import AppError, BoardError
from tflm_zephyr.report import text

if TYPE_CHECKING:
    from tflm_zephyr.generate import Tflm
    from tflm_zephyr.workspace import Workspace


def do_generate(args: argparse.Namespace, say: Say) -> Done:
    """`generate`: write an app, or with --check compare it."""
    from tflm_zephyr.generate import generate
    from tflm_zephyr.workspace import find_workspace_if_any

    config, app = _config_and_folder(args)
    workspace = find_workspace_if_any(args.workspace, app=app)
    boards = _boards(config, workspace)
    made = generate(config, app, _tflm(config, boards, workspace), boards=boards)
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
    return Done(
        text.generated(app, made, change, workflow),
        {**text.change_json(app, change), **text.app_json(made), "workflow": workflow and str(workflow)},
    )


def _config_and_folder(args: argparse.Namespace) -> tuple[AppConfig, Path]:
    """The app's config from flags or app file, and its folder."""
    if args.app is None and not args.model and args.output is not None and (args.output / appfile.NAME).is_file():
        args.app = args.output / appfile.NAME
    if args.app is not None:
        if args.model:
            raise AppError("models come from the app file", where=str(args.app), hint="Give MODEL or --app, not both")
        config = appfile.load(args.app)
        folder = args.output or (args.app.parent if (args.app.parent / app_files.MANIFEST).is_file() else None)
        if folder is None:
            raise AppError("no folder for the app", where=str(args.app), hint="Name one with -o APP")
    else:
        if not args.model:
            raise AppError("no model", where="generate", hint="Name a .tflite file, or an app file with --app")
        if args.output is None:
            raise AppError("no folder for the app", where="generate", hint="Name one with -o APP")
        config, folder = (
            AppConfig(models=tuple(ModelConfig(_absolute(path)) for path in args.model)),
            args.output,
        )
    given: dict[str, Any] = {"name": args.name, "kernels": args.kernels, "tflm": args.tflm, "debug": args.debug}
    given["model_data"] = args.model_data
    given["boards"] = tuple(args.board) if args.board else None
    per_model: dict[str, Any] = {"arena": args.arena, "plan": args.plan, "runs": args.runs}
    per_model["inputs"] = _absolute(args.inputs) if args.inputs else None
    models = tuple(replace(model, **_set(per_model)) for model in config.models)
    config = replace(config, models=models, **_set(given))
    return replace(config, name=config.name or identifier(folder.resolve().name)), folder


def _set(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


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


def _absolute(path: Path) -> Path:
    """`path` with its folder's links followed, so that `..` means the same wherever it is read again."""
    return path.parent.resolve() / path.name


def _boards(config: AppConfig, workspace: Workspace | None) -> tuple[Board, ...]:
    """The boards that are named, with what the workspace knows of those not described here."""
    boards = tuple(load_board(name) for name in dict.fromkeys(config.boards))
    if workspace is None:
        return boards
    for board in boards:
        if not board.known and not workspace.knows_board(board.name):
            raise BoardError(
                f"unknown board; Zephyr {workspace.zephyr_version} has none of that name",
                where=board.name,
                hint="`west boards` lists Zephyr's, `tflm-zephyr boards` those described here",
            )
    return tuple(board if board.known else replace(board, arch=workspace.arch_of(board.name)) for board in boards)


def _tflm(config: AppConfig, boards: tuple[Board, ...], workspace: Workspace | None) -> Tflm:
    """TFLM of the workspace that is named or around, read for the kernels in question; without one, the shipped."""
    from tflm_zephyr.generate import tflm_of
    from tflm_zephyr.kernel_choice import choose

    if workspace is None:
        return tflm_of(None)
    there = ("reference",) if workspace.cmsis_nn_dir is None else ("cmsis_nn", "reference")
    names = choose(config.kernels, boards, there).names
    return tflm_of(workspace.tflm_dir, workspace.tflm_revision, names, workspace.cmsis_nn_dir)
