# SPDX-License-Identifier: Apache-2.0
"""One arena for all models of an app, which run one at a time: as large as the largest head and all tails.

TFLM's MicroAllocator prepares several models one after the other ("multi-tenant"): the head is reserved for the
largest of them (CommitStaticMemoryPlan in tensorflow/lite/micro/micro_allocator.cc, revision 8d404de7), the tails add
up. It gives nothing back, so that each model is built once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tflm_zephyr.arena import SLACK_BYTES, shared_arena
from tflm_zephyr.codegen.prepared_model import PreparedModel, bytes_by_target
from tflm_zephyr.codegen.spec import ArenaSpec, ModelSpec
from tflm_zephyr.errors import AppError


def share_arena(
    models: Sequence[ModelSpec], prepared: Sequence[PreparedModel], app: str
) -> tuple[tuple[ModelSpec, ...], ArenaSpec]:
    """The models of the app named `app`, each with the shared arena, and that arena. Raises AppError."""
    for model, item in zip(models, prepared, strict=True):
        why = model.runtime.own_memory or ("an arena size of its own" if item.config.arena is not None else "")
        if why:
            hint = "Use shared_arena: false, or leave that out"
            raise AppError(f"a shared arena is for models without {why}, which {model.name} has", where=app, hint=hint)
    arena = shared_arena([item.plan for item in prepared])
    note = f"the largest head {arena.head_bytes} + tails {arena.tail_bytes} of {len(models)} models"
    note += f", with {SLACK_BYTES} bytes of slack"
    unknown = tuple(sorted({key for model in models for key in model.arena.unknown}))
    there = bytes_by_target([item.plan for item in prepared], lambda plans: shared_arena(plans).bytes)
    spec = ArenaSpec(arena.bytes, "estimated", note, unknown=unknown, by_target=there)
    return tuple(replace(model, arena=spec) for model in models), spec
