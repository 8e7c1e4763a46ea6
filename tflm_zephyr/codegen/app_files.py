# SPDX-License-Identifier: Apache-2.0
"""Every file of the toolkit's in a generated app: rendered ones, golden runs, held files, the app file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tflm_zephyr.codegen.app_folder import own_path, owned
from tflm_zephyr.codegen.held_files import hold, with_held
from tflm_zephyr.codegen.rendering import render
from tflm_zephyr.codegen.spec import AppSpec
from tflm_zephyr.options import AppConfig, app_file


def app_files(spec: AppSpec, golden: Mapping[str, bytes], config: AppConfig, app: Path) -> dict[str, bytes]:
    """Path below the folder `app` -> content, for the app that `spec` and its `golden` runs were made of `config` for.

    Raises AppError.
    """
    held, files = hold(config, app)
    return owned({**render(spec), **golden, **files, app_file.NAME: _app_file(config, held, app)})


def _app_file(config: AppConfig, held: AppConfig, app: Path) -> bytes:
    """The app file in the app. One that means the same is kept as it is, with its comments."""
    path = own_path(app, app_file.NAME)
    if path.is_file():
        there = app_file.load_app_file(path)
        if there == held or config in (there, with_held(there, app)):
            return path.read_bytes()
    return app_file.dump_app_file(held, own_path(app))
