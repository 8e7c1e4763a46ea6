# SPDX-License-Identifier: Apache-2.0
"""The main stack of an app: the bytes that its kernels need, compared with those that the user gives."""

from __future__ import annotations

from collections.abc import Sequence

from tflm_zephyr.boards import UNMEASURED_BYTES, Board, least_main_stack_bytes, main_stack_bytes
from tflm_zephyr.codegen.backends.backend import BuildSetup
from tflm_zephyr.codegen.spec import ModelSpec
from tflm_zephyr.errors import AppError


def needed_stack_bytes(setup: BuildSetup, models: Sequence[ModelSpec], boards: Sequence[Board]) -> int:
    """Bytes of main stack that the kernels of `models` need on any of the boards."""
    if setup.app.tflm != "selected":
        return UNMEASURED_BYTES
    used = {name for model in models for name in model.runtime.registrations}
    revision, debug, host_link = setup.tflm.revision, setup.app.debug, setup.app.host_link
    extra = max((model.runtime.extra_stack_bytes for model in models), default=0)
    return extra + main_stack_bytes(used, setup.kernels, boards, revision=revision, debug=debug, host_link=host_link)


def stack_notes(given: int | None, needed: int, name: str, revision: str) -> list[str]:
    """Remarks on the main stack of `given` bytes of the app called `name`; AppError when no app runs in it."""
    if given is None or given >= needed:
        return []
    least = least_main_stack_bytes(revision)
    if given < least:
        raise AppError(
            f"main_stack_bytes: {given} are too few, as TFLM may take {least} without any kernel",
            where=name,
            hint="Leave main_stack_bytes out, or measure it with `tflm-zephyr size`",
        )
    return [f"main_stack_bytes: {given} bytes are fewer than the {needed} that the kernels may take"]
