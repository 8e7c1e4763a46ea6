# SPDX-License-Identifier: Apache-2.0
"""One arena for several models that run one at a time: the largest head and all tails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tflm_zephyr.arena.arena_plan import ArenaPlan
from tflm_zephyr.arena.tail import SLACK_BYTES, shared_arena_bytes


@dataclass(frozen=True)
class SharedArena:
    """Bytes of an arena, of the largest head in it and of all tails together."""

    bytes: int
    head_bytes: int
    tail_bytes: int


def shared_arena(plans: Sequence[ArenaPlan]) -> SharedArena:
    """The arena of all `plans`, which have the same kernel libraries and struct sizes: the largest of any library."""
    sizes = plans[0].request.sizes
    found = []
    for one in plans[0].arenas:
        kind = (one.library.name, one.library.core)
        arenas = [next(a for a in plan.arenas if (a.library.name, a.library.core) == kind) for plan in plans]
        total = shared_arena_bytes([(arena.tail, arena.head.head_bytes) for arena in arenas], sizes)
        head = max(arena.head.head_bytes for arena in arenas)
        found.append(SharedArena(total, head, total - head - SLACK_BYTES))
    return max(found, key=lambda arena: (arena.bytes, arena.head_bytes, arena.tail_bytes))
