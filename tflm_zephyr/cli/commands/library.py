# SPDX-License-Identifier: Apache-2.0
"""`library`: a model's library for a user's own app. It needs neither LiteRT nor TFLM on this machine."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tflm_zephyr.cli.commands.configuration import ARCHITECTURES, board_with, tflm_for, with_backend
from tflm_zephyr.cli.commands.outcome import Done, Say
from tflm_zephyr.codegen import (
    AppRequest,
    Generated,
    LibrarySpec,
    ModelSpec,
    check_labels,
    identifier,
    library_name,
    render_library,
)
from tflm_zephyr.errors import AppError
from tflm_zephyr.files import read_if_there, write_atomically
from tflm_zephyr.footprint import generate_within
from tflm_zephyr.options import AppConfig, ModelConfig, with_given

if TYPE_CHECKING:
    from tflm_zephyr.build import Workspace


def do_library(args: argparse.Namespace, say: Say) -> Done:
    """`library`: files whose content is the same stay untouched, so that no build compiles them again."""
    config = _config(args)
    boards = (replace(board_with(args.core, ARCHITECTURES), name="this build"),)
    made = generate_within(
        AppRequest(
            config,
            args.output,
            tflm_for(config, boards, _workspace(args)),
            boards=boards,
            golden=False,
            measured=False,
        )
    )
    (model,) = made.spec.models
    library = LibrarySpec(_labels(args.labels, model), args.arena_section or "")
    files = render_library(replace(made.spec, library=library))
    written = [path for path, data in files.items() if read_if_there(args.output / path) != data]
    for path in written:
        write_atomically(args.output / path, files[path])
    return Done(_text(made, model), {"name": model.ident, "written": written, "arena_bytes": model.arena.bytes})


def _config(args: argparse.Namespace) -> AppConfig:
    name = library_name(args.name or identifier(args.model.stem))
    config = with_given(AppConfig((ModelConfig(args.model, name=name),)), {**vars(args), "name": name})
    return with_backend(config, args)


def _workspace(args: argparse.Namespace) -> Workspace | None:
    """The modules that the build names; None without them, for the shipped tables."""
    from tflm_zephyr.build import workspace_of

    if args.zephyr_base is None and args.tflm_dir is None:
        return None
    if args.zephyr_base is None or args.tflm_dir is None:
        raise AppError("one of --zephyr-base and --tflm-dir is missing", where="library", hint="Give both or none")
    modules = {"tflite-micro": args.tflm_dir, "cmsis-nn": args.cmsis_nn_dir}
    return workspace_of(args.zephyr_base, {name: path for name, path in modules.items() if path is not None})


def _labels(path: Path | None, model: ModelSpec) -> tuple[str, ...]:
    if path is None:
        return ()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as err:
        raise AppError(f"cannot be read: {err}", where=str(path), hint="Give a text file, one label a line") from None
    return check_labels([line.strip() for line in lines if line.strip()], model, str(path))


def _text(made: Generated, model: ModelSpec) -> str:
    spec = made.spec
    first = (
        f"{model.ident}: arena {model.arena.bytes:,} bytes ({model.arena.source}: {model.arena.note}), "
        f"{spec.kernels[0]} kernels, up to {spec.main_stack_bytes:,} bytes of the calling thread's stack"
    )
    return "\n".join([first, *made.notes])
