# SPDX-License-Identifier: Apache-2.0
"""Apps derived from a user's AppSpec for one board and one purpose, in folders of their own that nobody edits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tflm_zephyr.boards import Board
from tflm_zephyr.codegen.app_folder import owned
from tflm_zephyr.codegen.rendering import render, render_starters
from tflm_zephyr.codegen.spec import AppSpec, ArenaSpec, ProgramSpec
from tflm_zephyr.files import write_atomically


def moved(spec: AppSpec, board: Board, app: Path, folder: Path) -> AppSpec:
    """`spec`, which is for the folder `app`, as a self-test for one board and with paths relative to `folder`."""

    def path(text: str) -> str:
        return Path(os.path.relpath((app / text).resolve(), folder.resolve())).as_posix()

    custom = replace(
        spec.custom,
        sources=tuple(map(path, spec.custom.sources)),
        include_dirs=tuple(map(path, spec.custom.include_dirs)),
    )
    return replace(spec, boards=(board,), program=ProgramSpec(), custom=custom)


def with_arenas(spec: AppSpec, arenas: Sequence[ArenaSpec]) -> AppSpec:
    """`spec` with other arenas, one for each model."""
    models = (replace(model, arena=arena) for model, arena in zip(spec.models, arenas, strict=True))
    return replace(spec, models=tuple(models))


def write_copy(folder: Path, spec: AppSpec) -> None:
    """Write the app's changed files. The folder belongs to the toolkit, so that no user's edit is lost."""
    for path, data in {**owned(render(spec)), **render_starters(spec)}.items():
        write_atomically(folder / path, data)
