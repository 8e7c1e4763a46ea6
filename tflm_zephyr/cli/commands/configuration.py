# SPDX-License-Identifier: Apache-2.0
"""Config, boards and TFLM from the flags of `generate` and `fit`, an app file and a workspace."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tflm_zephyr.boards import Board, known_boards, load_board
from tflm_zephyr.build import in_workspace
from tflm_zephyr.cli.commands.outcome import Say
from tflm_zephyr.errors import AppError
from tflm_zephyr.options import (
    COMPILED,
    INTERPRETER,
    AppConfig,
    ModelConfig,
    Row,
    app_file,
    foreign_options,
    implied_backend,
    listed,
    refuse_exclusions,
    refuse_foreign,
    with_given,
)
from tflm_zephyr.plain_values import did_you_mean, shown

if TYPE_CHECKING:
    from tflm_zephyr.build import Workspace
    from tflm_zephyr.tflm import TflmRevision


ARCHITECTURES = ("arc", "arm", "arm64", "mips", "nios2", "openrisc", "posix", "riscv", "rx", "sparc", "x86", "xtensa")
"""Zephyr's names of architectures; tflm_model() has one of them for a core that is no Cortex-M."""


def config_of(args: argparse.Namespace, own: Path | None = None) -> AppConfig:
    """The config of the app file or of the models named, with the other flags applied. Paths are absolute.

    `own` is the app's own file, which is read without --app; MODEL is then a new model of that app.
    """
    file = args.app or own
    if file is not None:
        if args.model and args.app is not None:
            raise AppError(
                "the app file already names the models", where=str(file), hint="Give MODEL or --app, not both"
            )
        config = app_file.load_app_file(file)
    else:
        if not args.model:
            hint = "Name a .tflite file, or an app file with --app"
            raise AppError("no model", where=args.tflm_command, hint=hint)
        config = AppConfig(models=tuple(ModelConfig(absolute(path)) for path in args.model))
    return with_backend(with_given(config, vars(args)), args, file)


def with_backend(config: AppConfig, args: argparse.Namespace, file: Path | None = None) -> AppConfig:
    """`config` with the backend that its options imply where neither --backend nor the app file `file` names one.

    Raises AppError for options that the backend does not have.
    """
    config = replace(config, backend=implied_backend(config))
    where = str(file or args.tflm_command)
    refuse_exclusions(config, where)
    if config.backend == INTERPRETER:
        refuse_foreign([config], INTERPRETER, where)
    return config


def backend_notes(config: AppConfig, args: argparse.Namespace, file: Path | None) -> tuple[str, ...]:
    """A note where options of the command line imply compiled code; `file` is the app file that was read."""
    if file is not None or args.backend is not None or config.backend != COMPILED:
        return ()
    names = [row.flag for row in foreign_options(config, INTERPRETER)]
    return (f"backend compiled, as {listed(names)} {'is' if len(names) == 1 else 'are'} for compiled code",)


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


def board_with(core: str, others: Collection[str] = ()) -> Board:
    """A board with this core, which is one of kernels.CORES or of `others`, and no other facts. Raises AppError."""
    from tflm_zephyr.kernels import CORES

    if core not in CORES and core not in others:
        asked = did_you_mean(core, CORES)
        hint = f"Known are {', '.join(sorted((*CORES, *others)))}"
        raise AppError(f"no core {shown(core)}{f'; {asked}' if asked else ''}", where="--core", hint=hint)
    return Board(core, core=core)


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


def typed(args: argparse.Namespace, rows: Iterable[Row]) -> Iterator[str]:
    """The options `rows` that were given, as words of a command line."""
    for row in rows:
        value = getattr(args, row.dest, None)
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                yield from [row.flag] if row.kind is bool else [row.flag, str(one)]


def absolute(path: Path) -> Path:
    """`path` with its folder's links followed, so that `..` means the same wherever it is read again."""
    return path.parent.resolve() / path.name
