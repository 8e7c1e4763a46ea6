# SPDX-License-Identifier: Apache-2.0
"""Writes a generated app, and keeps in its manifest the flash that was estimated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tflm_zephyr.codegen import AppManifest, FileChange, Generated, app_files, app_folder, render_starters
from tflm_zephyr.footprint import BoardFit
from tflm_zephyr.options import AppConfig


def manifest_of(made: Generated, fits: Sequence[BoardFit]) -> AppManifest:
    """The manifest of the app, with the estimated flash of each board where it is known."""
    flash = {fit.verdict.board: fit.verdict.flash.used_bytes for fit in fits if fit.verdict.flash is not None}
    return replace(made.manifest, flash=flash)


def write_app(
    app: Path, made: Generated, config: AppConfig, fits: Sequence[BoardFit], *, force: bool = False
) -> FileChange:
    """Write the app, made of `config`, to the folder `app`. Raises AppError: see app_folder.write_files."""
    files = app_files(made.spec, made.golden_files, config, app)
    return app_folder.write_files(app, files, manifest_of(made, fits), render_starters(made.spec), force=force)
