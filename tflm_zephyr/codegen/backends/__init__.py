# SPDX-License-Identifier: Apache-2.0
"""Backends by name. A new one is a module beside this one, its line in BACKENDS, and its folder in templates/app."""

from __future__ import annotations

from collections.abc import Callable

from tflm_zephyr.codegen.backends.backend import Backend
from tflm_zephyr.codegen.backends.compiled import Compiled
from tflm_zephyr.codegen.backends.interpreter import Interpreter
from tflm_zephyr.errors import AppError
from tflm_zephyr.options import COMPILED, INTERPRETER

BACKENDS: dict[str, Callable[[], Backend]] = {COMPILED: Compiled, INTERPRETER: Interpreter}


def backend_of(name: str) -> Backend:
    """The backend called `name`. AppError when there is none."""
    if name not in BACKENDS:
        raise AppError(f"there is no backend {name}", hint=f"Choose one of {', '.join(sorted(BACKENDS))}")
    return BACKENDS[name]()
