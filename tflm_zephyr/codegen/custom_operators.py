# SPDX-License-Identifier: Apache-2.0
"""Operators whose kernels the user brings: checked, and their sources and headers as an app names them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tflm_zephyr.errors import AppError
from tflm_zephyr.options import CustomOperatorConfig
from tflm_zephyr.tflm import CustomOperator


def custom_operator(config: CustomOperatorConfig) -> CustomOperator:
    """The operator for the op resolver. AppError for a name that C++ does not take, or a source that does not exist."""
    if not re.fullmatch(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*", config.register):
        raise AppError(f"register: {config.register!r} is no C++ function's name", where=config.name, hint="Fix it")
    if not re.fullmatch(r"[\w./+-]+", config.header):
        raise AppError(f"header: {config.header!r} cannot be included", where=config.name, hint="Rename the file")
    for path in config.sources:
        if not path.is_file():
            raise AppError("no such source of a custom operator", where=str(path), hint="Fix the app file")
    return CustomOperator(
        config.name, config.register, config.header, tuple(path.as_posix() for path in config.sources)
    )


def include_dir(custom: CustomOperatorConfig) -> Path:
    """The nearest folder above one of the sources from which `#include` finds the header."""
    for source in custom.sources:
        for folder in source.parents:
            if (folder / custom.header).is_file():
                return folder
    raise AppError(f"no header {custom.header} beside or above its sources", where=custom.name, hint="Fix the app file")


def code_sha256(customs: Sequence[CustomOperatorConfig]) -> str:
    """SHA-256 over the custom operators' sources and headers, "" without any; AppError for an unreadable one."""
    found = hashlib.sha256()
    for custom in customs:
        for path in (*custom.sources, include_dir(custom) / custom.header):
            try:
                found.update(hashlib.sha256(path.read_bytes()).digest())
            except OSError as error:
                raise AppError(f"cannot be read ({error.strerror})", where=str(path)) from None
    return found.hexdigest() if customs else ""


def relative_paths(paths: Iterable[Path], app: Path) -> tuple[str, ...]:
    """`paths` as the app in folder `app` names them, each once."""
    base = app.resolve()
    return tuple(dict.fromkeys(Path(os.path.relpath(path, base)).as_posix() for path in paths))
