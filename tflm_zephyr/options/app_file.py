# SPDX-License-Identifier: Apache-2.0
"""The app file (YAML): the request to `generate`. It can stand in for the flags; an app has its own, `tflm/app.yaml`.

Its keys are the fields of AppConfig. docs/app-file.md has a commented example.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tflm_zephyr.errors import AppError
from tflm_zephyr.files import reading
from tflm_zephyr.options.option import rows_of
from tflm_zephyr.options.table import RENAMED, AppConfig
from tflm_zephyr.plain_values import Check, Rules, load_yaml, plain_values, read_values

NAME = "app.yaml"
_TEXT = Check(lambda text: not re.search(r"[\x00-\x1f\x7f-\x9f]", text), "a text without control characters")


def load_app_file(path: Path) -> AppConfig:
    """Read an app file. Raises AppError naming the file, the key, and its accepted values."""
    rules = Rules(null_is_default=True, text=_TEXT, folder=path.resolve().parent, renamed=RENAMED)
    with reading(path, AppError, missing="Give the app file's path", hint="Fix the app file"):
        raw = load_yaml(path)
        config = read_values(AppConfig, raw, rules, name="the app file")
    for name, row in rows_of(AppConfig).items():
        implied = row.option.implies
        if implied and row.given(config) and raw.get(implied) is False:
            what = f"{name}: true implies {implied}, and {implied} is false"
            raise AppError(what, where=str(path), hint=f"Leave out {implied}, or {name}")
    return config


def dump_app_file(config: AppConfig, folder: Path) -> bytes:
    """`config` as the text of an app file that lies in `folder`; defaults are left out, but for the boards."""
    import yaml

    top = folder.resolve()
    raw = plain_values(config, lambda path: Path(os.path.relpath(path, top)).as_posix(), defaults=("boards",))
    head = (
        "# What this app is generated from, yours to edit: `tflm-zephyr generate -o APP` makes it again; with --check\n"
        "# it tells whether the app is stale. Paths are relative to this file.\n"
    )
    text: str = yaml.safe_dump(raw, sort_keys=False, allow_unicode=True, width=100)
    return (head + text).encode()
