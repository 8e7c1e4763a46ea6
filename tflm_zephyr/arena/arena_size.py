# SPDX-License-Identifier: Apache-2.0
"""The arena's size: from head and tail, or given by the user."""

from __future__ import annotations

from dataclasses import dataclass

from tflm_zephyr.arena.head import HeadPlan
from tflm_zephyr.arena.tail import TailEstimate
from tflm_zephyr.errors import PlanError


@dataclass(frozen=True)
class ArenaSize:
    """The arena's size in bytes and its origin in `source`: "estimated" or "given".

    `unknown` has the operators whose kernels' requests the estimate does not know.
    """

    bytes: int
    source: str
    head_bytes: int
    tail_bytes: int
    note: str
    unknown: tuple[str, ...] = ()


def arena_size(head: HeadPlan, tail: TailEstimate, *, given: int | None = None) -> ArenaSize:
    """The arena of a 32-bit device: `given` by the user, else estimated, in bytes.

    PlanError for a given arena that is smaller than the head, in which no model can run.
    """
    ends = head.head_bytes, tail.tail_bytes
    estimate = tail.arena_bytes(head.head_bytes)
    if given is not None:
        if given < head.head_bytes:
            what = f"an arena of {given} bytes cannot hold the head of {head.head_bytes} bytes"
            raise PlanError(what, where=head.graph.model.where, hint=f"Estimated need: {estimate} bytes.")
        return ArenaSize(given, "given", *ends, f"given; estimated need {estimate} bytes")
    parts = f"head {head.head_bytes} + tail {tail.tail_bytes}"
    if tail.planning_bytes > head.head_bytes + tail.tail_bytes:
        parts += f", raised to the {tail.planning_bytes} that TFLM needs while it plans"
    note = f"{parts}, with {tail.slack_bytes} bytes of slack"
    unknown = tuple(sorted({*head.unknown, *tail.unknown}))
    if unknown:
        note += f"; not known, so not counted in full: the requests of {', '.join(unknown)}"
    return ArenaSize(estimate, "estimated", *ends, note, unknown)
