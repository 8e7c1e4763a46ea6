# SPDX-License-Identifier: Apache-2.0
"""One run of a model by an engine on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from unittest import mock

from tflm_zephyr import arena
from tflm_zephyr.host.run import HostLimits, HostRun, run_many


def run_host(
    data: bytes,
    inputs: Sequence[bytes],
    arena_bytes: int = HostLimits.arena_bytes,
    *,
    engine: str = "tflm",
    any_plan: bool = False,
) -> HostRun:
    """One run from the initial state. `any_plan`: TFLM follows the model's plan even where that corrupts memory."""
    with mock.patch.object(arena, "given_plan", (lambda *_: None) if any_plan else arena.given_plan):
        return run_many(data, (inputs,), engine=engine, limits=HostLimits(arena_bytes))
