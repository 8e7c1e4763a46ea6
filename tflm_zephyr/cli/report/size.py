# SPDX-License-Identifier: Apache-2.0
"""The result of `size` as text and JSON, in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tflm_zephyr.codegen import INTERRUPT_BYTES, AppSpec
from tflm_zephyr.validation import STEP, MeasuredSizes, ModelSize


def table(found: Sequence[MeasuredSizes]) -> list[str]:
    """Each board's models, and its main stack."""
    return [line for sizes in found for line in _board(sizes)]


def _board(sizes: MeasuredSizes) -> list[str]:
    like = "" if sizes.emulated == sizes.board else f", measured on {sizes.emulated.name}"
    lines = [f"{sizes.board.name} ({sizes.target.core}, {sizes.target.kernels} kernels{like})"]
    for size in sizes.models:
        lines += _model(size)
    if not sizes.models:
        lines.append("  arenas: planned to the byte, so only the stack was measured; the self-test passes with it")
    stack = sizes.stack
    lines.append(
        f"  main stack: {stack.used_bytes} used, {stack.stack_bytes} with {INTERRUPT_BYTES} for an interrupt, "
        "an eighth more, and rounded up to 64"
    )
    return lines


def _model(size: ModelSize) -> list[str]:
    found = size.measured
    used = f"head {found.head_bytes}, tail {found.tail_bytes}"
    lines = [
        f"  {found.model}: arena {found.arena_bytes} ({used}; the app had {size.estimate_bytes}), {found.tries} tries",
        f"    proven: its self-test passes in {found.arena_bytes}; with {STEP} less: {size.refusal}",
    ]
    if found.allocates_bytes != found.arena_bytes:
        lines.append(f"    allocates in {found.allocates_bytes}, but does not run there")
    if found.odd:
        lines.append(f"    note: {found.odd} sizes near it do not behave as a larger or smaller arena should")
    return lines


def sizes_json(found: Sequence[MeasuredSizes], spec: AppSpec) -> dict[str, Any]:
    """The same, with the sizes that the app has now."""
    return {
        "boards": [
            {
                "board": sizes.board.name,
                "measured_on": sizes.emulated.name,
                **asdict(sizes.target),
                "models": [_model_json(size) for size in sizes.models],
                "main_stack": {"used_bytes": sizes.stack.used_bytes, "bytes": sizes.stack.stack_bytes},
            }
            for sizes in found
        ],
        "arenas": {model.ident: asdict(model.arena) for model in spec.models},
        "main_stack_bytes": spec.main_stack_bytes,
    }


def _model_json(size: ModelSize) -> dict[str, Any]:
    found = size.measured
    return {
        "model": found.model,
        "arena_bytes": found.arena_bytes,
        "allocates_bytes": found.allocates_bytes,
        "floor_bytes": found.floor_bytes,
        "head_bytes": found.head_bytes,
        "tail_bytes": found.tail_bytes,
        "odd": found.odd,
        "tries": found.tries,
        "estimate_bytes": size.estimate_bytes,
        "less": {"bytes": found.arena_bytes - STEP, "refusal": size.refusal},
    }
