# SPDX-License-Identifier: Apache-2.0
"""What `plan` shows: a model's arena, several models', a packed CSV. Bytes unless a unit stands beside the number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflm_zephyr.cli.report.words import count

if TYPE_CHECKING:
    from tflm_zephyr.arena import ArenaSize, HeadPlan, TailEstimate
    from tflm_zephyr.memory_planner import Plan
    from tflm_zephyr.model import Model


@dataclass(frozen=True)
class PlannedModel:
    """A model that `plan` was asked about.

    `kernels` says for which kernels and cores. `saved_bytes`: how much smaller the arena is than with all tensors in
    it, None where none is preallocated. `running` is the model with its operators in `order`, by their indices in the
    file, None for its own.
    """

    path: Path
    model: Model
    head: HeadPlan
    arena: ArenaSize
    tail: TailEstimate
    kernels: str
    saved_bytes: int | None
    running: Model
    order: tuple[int, ...] | None


def plan(item: PlannedModel, *, draw: bool, written: Path | None) -> str:
    """After `plan` of a model."""
    from tflm_zephyr.memory_planner import memory_map as drawing

    head = item.head
    buffers = len(head.problem.buffers)
    lines = [
        f"{item.path.name}: {count(len(item.model.main.operators), 'operator')}, {count(buffers, 'buffer')} in the "
        f"head ({count(len(head.graph.scratch), 'scratch buffer')}), {item.kernels}",
        f"  linear       {head.linear_bytes:>9}  every buffer its own place",
        f"  greedy       {head.greedy_bytes:>9}  TFLM's own placing at start-up",
        f"  packed       {head.packed_bytes:>9}  all buffers placed freely",
        f"  overlapped   {head.overlapped_bytes:>9}  {_overlaps(head)}",
        f"  this plan    {head.head_bytes:>9}  {_placing(head)}",
        f"  lower bound  {head.lower_bound_bytes:>9}  no plan is smaller: {_gap(head)}",
        f"  tail         {item.arena.tail_bytes:>9}  {item.arena.source}; the arena: {item.arena.bytes}",
    ]
    if item.saved_bytes is not None:
        what = f"saved of the arena by {count(len(head.graph.preallocated), 'tensor')} in the app's own memory"
        lines.append(f"  preallocated {item.saved_bytes:>9}  {what}")
    if item.order is not None:
        lines.append("  Its operators run in another order than the model's, which needs less.")
    if head.unknown:
        lines.append(f"  The scratch of {', '.join(head.unknown)} is not known: these figures leave it out.")
    if head.overlapping:
        lines.append(f"  It holds for {item.kernels} alone: {_sharing(head)}.")
    if draw:
        lines += ["", *drawing.draw(head.plan), drawing.LEGEND]
    if written is not None:
        lines.append(f"Written: {written}")
    return "\n".join(lines)


def shared(items: Sequence[PlannedModel]) -> str:
    """After `plan` of several models: what one arena for all of them saves."""
    apart = sum(item.arena.bytes for item in items)
    together = shared_bytes(items)
    return (
        f"One arena for {count(len(items), 'model')}: {together} instead of {apart}, {apart - together} less "
        f"(shared_arena: true; the largest head, all tails; {items[0].arena.source})"
    )


def shared_bytes(items: Sequence[PlannedModel]) -> int:
    """One arena for all of them."""
    from tflm_zephyr.arena import shared_arena_bytes

    return shared_arena_bytes([(item.tail, item.head.head_bytes) for item in items])


def _overlaps(head: HeadPlan) -> str:
    if not head.problem.overlaps:
        return "no output may overlap an input"
    return "outputs over inputs, as far as the kernels allow it"


def _sharing(head: HeadPlan) -> str:
    if head.overlapping == 1:
        return "an output overlaps an input"
    return f"{head.overlapping} outputs overlap inputs"


def _gap(head: HeadPlan) -> str:
    if head.optimal:
        return "reached, so this one is optimal"
    return f"this one is {head.head_bytes - head.lower_bound_bytes} bytes above"


def _placing(head: HeadPlan) -> str:
    if head.offsets is None:
        return "no metadata needed: TFLM's own placing is as good"
    return "as metadata; TFLM places scratch buffers around it"


def plan_json(head: HeadPlan, model: Model, order: Sequence[int] | None) -> dict[str, Any]:
    """The plan of `model`, whose operators run in `order`, None for its own."""
    return {
        "sha256": model.sha256,
        "order": None if order is None else list(order),
        "linear_bytes": head.linear_bytes,
        "greedy_bytes": head.greedy_bytes,
        "packed_bytes": head.packed_bytes,
        "overlapped_bytes": head.overlapped_bytes,
        "head_bytes": head.head_bytes,
        "lower_bound_bytes": head.lower_bound_bytes,
        "optimal": head.optimal,
        "overlapping": head.overlapping,
        "offsets": None if head.offsets is None else list(head.offsets),
        "unknown_scratch": list(head.unknown),
        "buffers": _buffers_json(head.plan),
    }


def packing(plan: Plan, lower: int, *, written: Path | None) -> str:
    """After `plan` of a CSV."""
    gap = plan.size_bytes - lower
    proof = "optimal: the lower bound is reached" if gap == 0 else f"{gap} above the lower bound {lower}"
    lines = [f"{count(len(plan.offsets), 'buffer')} packed into {plan.size_bytes} ({plan.method}), {proof}"]
    if written is not None:
        lines.append(f"Written: {written}")
    return "\n".join(lines)


def packing_json(plan: Plan, lower: int) -> dict[str, Any]:
    """A packed CSV."""
    return {
        "size_bytes": plan.size_bytes,
        "lower_bound_bytes": lower,
        "method": plan.method,
        "buffers": _buffers_json(plan),
    }


def _buffers_json(plan: Plan) -> list[dict[str, Any]]:
    return [
        {"id": buffer.id, "lower": buffer.lower, "upper": buffer.upper, "size": size, "offset": offset}
        for buffer, size, offset in zip(plan.problem.buffers, plan.problem.sizes, plan.offsets, strict=True)
    ]
