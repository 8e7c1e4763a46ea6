# SPDX-License-Identifier: Apache-2.0
"""One arena for all models of an app, of which one runs at a time: as large as the largest head and all tails.

TFLM's MicroAllocator prepares several models one after the other ("multi-tenant"): the head is reserved for the
largest of them (CommitStaticMemoryPlan in tensorflow/lite/micro/micro_allocator.cc, revision 8d404de7), the tails add
up. It gives nothing back, so that each model is built once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tflm_zephyr.arena import SLACK_BYTES, estimate_tail, shared_arena_bytes
from tflm_zephyr.codegen.app_spec import ArenaSpec, ModelSpec
from tflm_zephyr.codegen.prepared_model import PreparedModel
from tflm_zephyr.errors import AppError
from tflm_zephyr.tflm import StructSizes


def share_arena(
    models: Sequence[ModelSpec], prepared: Sequence[PreparedModel], sizes: StructSizes, app: str
) -> tuple[tuple[ModelSpec, ...], ArenaSpec]:
    """The models of the app named `app`, each with the arena of all, and that one. Raises AppError."""
    for model, item in zip(models, prepared, strict=True):
        why = (
            "a table of its own in place of the planner" if model.static_plan is not None
            else "preallocated tensors" if model.preallocated
            else "an arena size of its own" if item.config.arena is not None
            else ""
        )  # fmt: skip
        if why:
            hint = "Use shared_arena: false, or leave that out"
            raise AppError(f"a shared arena is for models without {why}, which {model.name} has", where=app, hint=hint)
    kinds = [(need.library.name, need.library.core) for need in prepared[0].needs]
    bytes_, head, tails = max(_size(prepared, kind, sizes) for kind in kinds)
    note = f"the largest head {head} + tails {tails} of {len(models)} models, with {SLACK_BYTES} bytes of slack"
    unknown = tuple(sorted({key for model in models for key in model.arena.unknown}))
    arena = ArenaSpec(bytes_, "estimated", note, unknown=unknown)
    return tuple(replace(model, arena=arena) for model in models), arena


def _size(prepared: Sequence[PreparedModel], kind: object, sizes: StructSizes) -> tuple[int, int, int]:
    """Bytes of the arena, of the largest head and of all tails with the kernels of one library and core."""
    found = []
    for item in prepared:
        need = next(need for need in item.needs if (need.library.name, need.library.core) == kind)
        planned = need.head.variables_planned
        tail = estimate_tail(need.head.graph, need.library, sizes, variables_planned=planned)
        found.append((tail, need.head.head_bytes))
    size = shared_arena_bytes(found, sizes)
    head = max(head for _, head in found)
    return size, head, size - head - SLACK_BYTES
