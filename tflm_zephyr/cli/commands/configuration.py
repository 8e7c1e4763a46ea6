# SPDX-License-Identifier: Apache-2.0
"""Config, boards and TFLM from the flags of `generate` and `fit`, an app file and a workspace."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflm_zephyr.boards import Board, known_boards, load_board
from tflm_zephyr.build import in_workspace
from tflm_zephyr.cli.commands.outcome import Say
from tflm_zephyr.codegen import AppConfig, ModelConfig, app_file
from tflm_zephyr.errors import AppError
from tflm_zephyr.plain_values import did_you_mean

if TYPE_CHECKING:
    from tflm_zephyr.build import Workspace
    from tflm_zephyr.tflm import TflmRevision


_OF_APP = (
    *("name", "kernels", "tflm", "debug", "model_data", "planner", "host_link"),
    *("backend", "rows", "stream_input", "ram", "flash", "slower", "fast_kernels"),
)


def config_of(args: argparse.Namespace) -> AppConfig:
    """The config of the app file or of the given models, with the other flags applied. Paths are absolute."""
    if args.app is not None:
        if args.model:
            raise AppError(
                "the app file already names the models", where=str(args.app), hint="Give MODEL or --app, not both"
            )
        config = app_file.load_app_file(args.app)
    else:
        if not args.model:
            hint = "Name a .tflite file, or an app file with --app"
            raise AppError("no model", where=args.tflm_command, hint=hint)
        config = AppConfig(models=tuple(ModelConfig(_absolute(path)) for path in args.model))
    given = {name: getattr(args, name, None) for name in _OF_APP}
    given["boards"] = tuple(args.board) if args.board else None
    per_model = {name: getattr(args, name, None) for name in ("arena", "plan", "overlap", "order", "runs")}
    inputs = getattr(args, "inputs", None)
    per_model["inputs"] = _absolute(inputs) if inputs else None
    own = getattr(args, "plan_file", None)
    per_model["plan_file"] = _absolute(own) if own else None
    models = tuple(replace(model, **_set(per_model)) for model in config.models)
    config = replace(config, models=models, **_set(given))
    return with_backend(config, args, args.app)


def with_backend(config: AppConfig, args: argparse.Namespace, file: Path | None = None) -> AppConfig:
    """`config` with the backend that its options imply where neither --backend nor the app file `file` names one.

    Raises AppError for options that the backend does not have.
    """
    if file is None and args.backend is None:
        config = replace(config, backend=_implied_backend(config))
    if config.rows and config.ram is not None:
        what = "rows and ram exclude each other: ram runs layers row by row by itself where the model fits only so"
        raise AppError(what, where=str(file or args.tflm_command), hint="Drop rows; for the least RAM, drop ram")
    if config.backend == "interpreter" and config.wants_compiled_code:
        typed = args.backend is not None
        what = f"{_named(config, args)} for compiled code, and {'--backend' if typed else 'the backend'} is interpreter"
        hint = "Take --backend compiled" if file is None or typed else "Set backend: compiled, or drop the option"
        raise AppError(what, where=str(file or args.tflm_command), hint=hint)
    return config


def backend_notes(config: AppConfig, args: argparse.Namespace) -> tuple[str, ...]:
    """A note where options of the command line imply compiled code."""
    if args.app is not None or args.backend is not None or config.backend != "compiled":
        return ()
    return (f"backend compiled, as {_named(config, args)} for compiled code",)


def _implied_backend(config: AppConfig) -> str:
    """The backend of an app whose flags name none: one that can have what they ask for."""
    if config.flash is not None:
        return "auto"
    return "compiled" if config.wants_compiled_code else config.backend


def _named(config: AppConfig, args: argparse.Namespace) -> str:
    """The options that only compiled code has and that are given, as typed or as in the app file, with their verb."""
    given = [("rows", config.rows), ("stream_input", config.stream_input)]
    given += [("ram", config.ram is not None), ("slower", config.slower is not None)]
    given += [("fast_kernels", config.fast_kernels)]
    words = [name for name, is_given in given if is_given]
    names = [f"--{name.replace('_', '-')}" if getattr(args, name, None) is not None else f"{name}:" for name in words]
    *most, last = names
    return f"{', '.join(most)}{' and ' if most else ''}{last} {'is' if not most else 'are'}"


def boards_of(config: AppConfig, workspace: Workspace | None, say: Say | None = None) -> tuple[Board, ...]:
    """The boards of the config; facts of boards not described here come from the workspace.

    `say` gets a warning of each board that is not described here where no workspace can tell whether there is one.
    """
    boards = tuple(load_board(name) for name in dict.fromkeys(config.boards))
    for board in boards:
        if workspace is None and say is not None and not board.known:
            asked = did_you_mean(board.name, known_boards())
            say(
                f"warning: {board.name}: not described here, and no workspace can tell whether Zephyr has it"
                f"{f'; {asked}' if asked else ''}"
            )
    return boards if workspace is None else tuple(in_workspace(board, workspace) for board in boards)


def tflm_for(config: AppConfig, boards: tuple[Board, ...], workspace: Workspace | None) -> TflmRevision:
    """The workspace's TFLM, read for the kernel libraries in question; without a workspace, the shipped tables."""
    from tflm_zephyr.boards import AUTO, REFERENCE, choose
    from tflm_zephyr.tflm import tflm_of

    if workspace is None:
        return tflm_of(None)
    there = ("reference",) if workspace.cmsis_nn_dir is None else ("cmsis_nn", "reference")
    names = choose(config.kernels, boards, there).names
    if config.kernels == AUTO:  # a model may have too little work for CMSIS-NN
        names = tuple(sorted({*names, REFERENCE}))
    return tflm_of(
        workspace.tflm_dir,
        workspace.tflm_revision,
        names,
        workspace.cmsis_nn_dir,
        workspace.cmsis_nn_revision,
        workspace.zephyr,
    )


def compiler_for(app: Path) -> str:
    """The compiler on this machine, if the app has measurements to compare it with; else ""."""
    from tflm_zephyr.build import compiler_here
    from tflm_zephyr.codegen import measurements_path

    return compiler_here() if measurements_path(app).is_file() else ""


def _absolute(path: Path) -> Path:
    """`path` with its folder's links followed, so that `..` means the same wherever it is read again."""
    return path.parent.resolve() / path.name


def _set(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
