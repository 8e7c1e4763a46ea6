# SPDX-License-Identifier: Apache-2.0
"""One model, several kernel libraries: one offline plan that serves them all, and the largest arena.

An app is compiled with one library or another (or for one core or another), and carries one model with one plan.
Kernels differ in their scratch buffers, which TFLM places around the plan's offsets, so a plan is valid with every
library; but one that is good with the scratch of one may be worse than none with that of another. So every
candidate is played with every library.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tflm_zephyr.arena.head import ArenaSize, HeadPlan, arena_size, head_with_plan, plan_head, with_offsets
from tflm_zephyr.kernels import KernelLibrary
from tflm_zephyr.model import Model, analyse
from tflm_zephyr.tflm import CORTEX_M, StructSizes


@dataclass(frozen=True)
class Need:
    """A model's head and arena with the kernels of `library`."""

    library: KernelLibrary
    head: HeadPlan
    arena: ArenaSize


def needs(
    model: Model,
    libraries: Sequence[KernelLibrary],
    *,
    offline: str = "auto",
    overlap: bool = False,
    preallocated: Collection[int] = (),
    sizes: StructSizes = CORTEX_M,
) -> tuple[Need, ...]:
    """For each of `libraries` (at least one) what the model needs, the largest arena first; all with the same offsets.

    The offsets are those that keep the largest arena smallest, among the best of each library and none at all,
    and never make a head larger than TFLM's own placing would. `offline`, `preallocated`: see plan_head. overlap: an
    output may overlap an input where all libraries allow it, and the largest arena is smaller for it.
    """
    best: list[Need] | None = None
    for allowing in (tuple(libraries), ()) if overlap else ((),):
        own = _own(model, libraries, offline, preallocated, allowing)
        online = []
        for head, library in zip(own, libraries, strict=True):
            placed = with_offsets(head, model, library, None)
            assert placed is not None  # without options TFLM's own placing always serves
            online.append(placed)
        best = best or _with(model, libraries, online, None, sizes)
        for offsets in dict.fromkeys(head.offsets for head in own if head.offsets is not None):
            found = _with(model, libraries, online, offsets, sizes)
            if found is not None and (best is None or _cost(found) < _cost(best)):
                best = found
        if best is not None and best[0].head.offsets is not None:
            break  # what allows no overlap is no better
    assert best is not None
    return tuple(sorted(best, key=lambda need: -need.arena.bytes))


def needs_of_plan(
    model: Model,
    libraries: Sequence[KernelLibrary],
    offsets: Sequence[int] | None,
    preallocated: Collection[int] = (),
    *,
    arena_bytes: int | None = None,
    overlap: bool = True,
    sizes: StructSizes = CORTEX_M,
) -> tuple[Need, ...]:
    """As `needs`, with the user's own offsets; PlanError where they do not hold with one of the libraries.

    overlap: False where no output may overlap an input, whatever the libraries allow.
    """
    found = []
    for library in libraries:
        head = head_with_plan(
            model, library, offsets, preallocated=preallocated, arena_bytes=arena_bytes, overlap=overlap
        )
        found.append(Need(library, head, arena_size(head, library, sizes=sizes)))
    return tuple(sorted(found, key=lambda need: -need.arena.bytes))


def _own(
    model: Model,
    libraries: Sequence[KernelLibrary],
    offline: str,
    preallocated: Collection[int],
    overlap: Sequence[KernelLibrary],
) -> list[HeadPlan]:
    """The best head of each library; those that ask for the same scratch buffers are planned once."""
    planned: dict[object, HeadPlan] = {}
    found = []
    for library in libraries:
        graph = analyse(model, library.scratch)
        same = (graph.scratch, tuple(map(library.knows, graph.operators)))
        if same not in planned:
            planned[same] = plan_head(model, library, offline=offline, preallocated=preallocated, overlap=overlap)
        found.append(planned[same])
    return found


def _with(
    model: Model,
    libraries: Sequence[KernelLibrary],
    online: Sequence[HeadPlan],
    offsets: tuple[int, ...] | None,
    sizes: StructSizes,
) -> list[Need] | None:
    """The needs with these offsets; None when some library is worse off than without."""
    found = []
    for library, placed in zip(libraries, online, strict=True):
        head = placed if offsets is None else with_offsets(placed, model, library, offsets)
        if head is None or head.head_bytes > placed.head_bytes:
            return None
        found.append(Need(library, head, arena_size(head, library, sizes=sizes)))
    return found


def _cost(found: Sequence[Need]) -> tuple[int, bool, int]:
    overlapping = any(need.head.overlapping for need in found)  # no use where it makes no arena smaller
    return max(need.arena.bytes for need in found), overlapping, sum(need.head.head_bytes for need in found)
