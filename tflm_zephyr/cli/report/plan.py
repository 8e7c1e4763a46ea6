# SPDX-License-Identifier: Apache-2.0
"""The report of `plan`: one model's arena, several models, or a packed CSV. Numbers without a unit are bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflm_zephyr.cli.report.words import count
from tflm_zephyr.model import shown

if TYPE_CHECKING:
    from tflm_zephyr.arena import ArenaPlan, HeadPlan, LibraryArena
    from tflm_zephyr.cli.report.terminal import Drawn
    from tflm_zephyr.compiler import CompiledModel
    from tflm_zephyr.documents import Document
    from tflm_zephyr.memory_planner import Plan
    from tflm_zephyr.model import PlannedScratch, PlannedTensor
    from tflm_zephyr.page import ArenaText

_BESIDE_THE_MAP = 16  # columns: the step's number, and the bytes alive


@dataclass(frozen=True)
class PlannedModel:
    """A model that `plan` was asked about.

    `kernels` names the kernels and their boards or core, `notes` say why these. `saved_bytes`: how much smaller the
    arena is than with all tensors in it, None where none is preallocated. `compiled` is the model as compiled code,
    None where it cannot be compiled, for the reason in `not_compiled`.
    """

    path: Path
    plan: ArenaPlan
    kernels: str
    notes: tuple[str, ...] = ()
    saved_bytes: int | None = None
    compiled: CompiledModel | None = None
    not_compiled: str = ""


def plan(item: PlannedModel, *, drawn: Document | None, written: Path | None) -> str:
    """After `plan` of a model; `drawn` is its document where the arena is to be drawn."""
    figures = (f"  {name:<12} {size:>9}  {note}" for name, size, note in _figures(item))
    arena = [] if drawn is None else ["", *_arena_text(drawn, None).lines()]
    return "\n".join([*_heading(item), *figures, *_remarks(item), *arena, *_written(written)])


def plan_on_terminal(item: PlannedModel, width: int, *, drawn: Document | None, written: Sequence[str]) -> Drawn:
    """The same for a terminal of `width` columns; `written` are lines about files."""
    from rich.console import Group

    from tflm_zephyr.cli.report import terminal

    shown = terminal.plan(_figures(item), _heading(item), _remarks(item))
    arena = [] if drawn is None else ["", terminal.arena(_arena_text(drawn, width))]
    return Group(shown, *arena, *written)


def _heading(item: PlannedModel) -> list[str]:
    head, operators = item.plan.head, count(len(item.plan.model.main.operators), "operator")
    return [
        f"{item.path.name}: {operators}, {count(len(head.problem.buffers), 'buffer')} in the head "
        f"({count(len(head.graph.scratch), 'scratch buffer')}), {item.kernels}",
        *(f"  note: {note}" for note in item.notes),
    ]


def _figures(item: PlannedModel) -> list[tuple[str, int, str]]:
    """The sizes to compare: name, bytes, note."""
    head, size = item.plan.head, item.plan.largest.size
    found = [
        ("linear", head.linear_bytes, "every buffer its own place"),
        ("greedy", head.greedy_bytes, "TFLM's own placing of the model as it is"),
        ("packed", head.packed_bytes, "all buffers placed freely"),
        ("in-place", head.in_place_bytes, _in_place(head)),
        ("this plan", head.head_bytes, _placing(head)),
        ("lower bound", head.lower_bound_bytes, f"no plan is smaller: {_gap(head)}"),
        ("tail", size.tail_bytes, f"{size.source}; the arena: {size.bytes}"),
    ]
    if item.compiled is not None:
        found.append(("compiled", item.compiled.arena_bytes, _compiled(item.compiled)))
    return found


def _compiled(program: CompiledModel) -> str:
    """The note on the arena of compiled code."""
    kept = sorted({layer.key for layer in program.fallbacks})
    state = f", {program.state_bytes} of them for TFLM's own {', '.join(kept)}" if kept else ""
    return f"the whole arena with --backend compiled, which has no tail{state}"


def _remarks(item: PlannedModel) -> list[str]:
    head, lines = item.plan.head, []
    if len({(arena.library.name, arena.size) for arena in item.plan.arenas}) > 1:
        lines += [_arena_line(arena) for arena in item.plan.arenas]
    if item.saved_bytes is not None:
        what = f"saved of the arena by {count(len(head.graph.preallocated), 'tensor')} in the app's own memory"
        lines.append(f"  preallocated {item.saved_bytes:>9}  {what}")
    if item.plan.order is not None:
        lines.append("  Its operators run in another order than the model's, which needs less.")
    if head.unknown:
        lines.append(
            f"  The scratch of {', '.join(map(shown, head.unknown))} is not known: these figures leave it out."
        )
    if head.in_place_count:
        lines.append(f"  In place: {_in_place_pairs(head)}. The plan is safe with {item.kernels} alone.")
    if item.not_compiled:
        lines.append(f"  Not with --backend compiled: {item.not_compiled}.")
    return lines


def _arena_text(drawn: Document, width: int | None) -> ArenaText:
    """The arena for `width` columns, None for a file."""
    from tflm_zephyr.page import arena_text

    return arena_text(drawn) if width is None else arena_text(drawn, max(16, width - _BESIDE_THE_MAP))


def _written(path: Path | None) -> list[str]:
    return [] if path is None else [f"Written: {path}"]


def _arena_line(arena: LibraryArena) -> str:
    """One kernel library's figures, where the plan is for several libraries or kinds of cores."""
    size = arena.size
    return f"  {_library(arena):<22} head {size.head_bytes}, tail {size.tail_bytes}, arena {size.bytes}"


def _library(arena: LibraryArena) -> str:
    core = arena.library.core
    return arena.library.name + (" with Helium" if core.mve else " with DSP" if core.dsp else "")


def shared(items: Sequence[PlannedModel]) -> str:
    """After `plan` of several models: the bytes that one arena for all of them saves."""
    apart = sum(item.plan.largest.size.bytes for item in items)
    together = shared_bytes(items)
    return (
        f"One arena for {count(len(items), 'model')}: {together} instead of {apart}, {apart - together} less "
        f"(shared_arena: true; the largest head, all tails; {items[0].plan.largest.size.source})"
    )


def shared_bytes(items: Sequence[PlannedModel]) -> int:
    """Bytes of one arena for all of them."""
    from tflm_zephyr.arena import shared_arena

    return shared_arena([item.plan for item in items]).bytes


def _in_place(head: HeadPlan) -> str:
    if not head.problem.pairs:
        return "no output may overlap an input"
    return "the same with in-place operators, as far as the kernels allow it"


def _in_place_pairs(head: HeadPlan) -> str:
    if head.in_place_count == 1:
        return "one output is written over an input"
    return f"{head.in_place_count} outputs are written over inputs"


def _gap(head: HeadPlan) -> str:
    if head.optimal:
        return "reached, so this one is optimal"
    return f"this one is {head.head_bytes - head.lower_bound_bytes} bytes above"


def _placing(head: HeadPlan) -> str:
    if head.offsets is None:
        return "no metadata needed: TFLM's own placing is as good"
    return "as metadata; TFLM places scratch buffers around it"


def plan_json(item: PlannedModel) -> dict[str, Any]:
    """After `plan` of a model."""
    size = item.plan.largest.size
    names = {arena.library.name for arena in item.plan.arenas}
    model = item.plan.model
    return {
        "model": item.path.name,
        **arena_json(item.plan),
        "kernels": next(iter(names)) if len(names) == 1 else "",
        "for": item.kernels,
        "notes": list(item.notes),
        "tail_bytes": size.tail_bytes,
        "arena_bytes": size.bytes,
        "arena_source": size.source,
        "preallocated_saves_bytes": item.saved_bytes,
        "tail": [{"name": name, "bytes": used} for name, used in item.plan.largest.tail.sections],
        "tensors": list(_tensors_json(item.plan.head)),
        "operators": [
            {"subgraph": subgraph.index, "index": operator.index, "name": operator.key}
            for subgraph in model.subgraphs
            for operator in subgraph.operators
        ],
        "placings": [*_placings_json(item.plan), *_compiled_placing(item)],
        "compiled": _compiled_json(item.compiled),
    }


def _compiled_json(program: CompiledModel | None) -> dict[str, Any] | None:
    if program is None:
        return None
    return {
        "arena_bytes": program.arena_bytes,
        "state_bytes": program.state_bytes,
        "constant_bytes": program.flash_bytes,
        "own_kernels": sorted({layer.key for layer in program.fallbacks}),
    }


def _compiled_placing(item: PlannedModel) -> Iterator[dict[str, Any]]:
    """The plan of compiled code, as _placings_json has the interpreter's."""
    from tflm_zephyr.compiler import SCRATCH

    program, order = item.compiled, item.plan.order
    if program is None:
        return
    flat, plan = program.flat, program.plan
    scopes = item.plan.head.graph.scopes
    buffers = []
    for buffer, (tensor, layer) in zip(_buffers_json(plan), program.owners, strict=True):
        if tensor == SCRATCH:
            origin = (0, layer) if flat is None else flat.origins[layer]
            subgraph, operator = _in_file(origin, order) or origin
            kind = {"kind": "scratch", "subgraph": subgraph, "index": operator}
        else:
            subgraph, index = (0, tensor) if flat is None or tensor >= len(flat.keys) else flat.keys[tensor]
            kind = {"kind": "tensor", "subgraph": subgraph, "index": index}
        buffers.append({**buffer, "upper": min(buffer["upper"], len(scopes)), **kind})
    yield {
        "name": "compiled",
        "head_bytes": program.arena_bytes,
        "steps": [_in_file(scope, order) for scope in scopes],
        "buffers": buffers,
        "in_place": [{"input": pair.input, "output": pair.output, "bytes": pair.bytes} for pair in plan.shared],
    }


def _tensors_json(head: HeadPlan) -> Iterator[dict[str, Any]]:
    """The tensors in the placings."""
    from tflm_zephyr.model import PlannedTensor

    model = head.graph.model
    for entry in head.entries:
        if isinstance(entry, PlannedTensor):
            subgraph = model.subgraphs[entry.subgraph]
            tensor = subgraph.tensors[entry.tensor]
            role = "variable" if tensor.is_variable else "intermediate"
            for name, indices in (("output", subgraph.outputs), ("input", subgraph.inputs)):
                role = name if entry.tensor in indices else role
            yield {
                "subgraph": entry.subgraph,
                "index": entry.tensor,
                "name": tensor.name,
                "type": tensor.type.value,
                "shape": list(tensor.shape),
                "bytes": entry.size_bytes,
                "role": role,
            }


def _placings_json(found: ArenaPlan) -> Iterator[dict[str, Any]]:
    """The plans to compare, with operators by their index in the model's file."""
    for name, placing in found.head.placings.items():
        order = found.order if placing.graph.model is found.running else None
        yield {
            "name": name,
            "head_bytes": placing.plan.size_bytes,
            "steps": [_in_file(scope, order) for scope in placing.graph.scopes],
            "buffers": [
                {**buffer, **_identity(entry, order)}
                for buffer, entry in zip(_buffers_json(placing.plan), placing.entries, strict=True)
            ],
            "in_place": [
                {"input": pair.input, "output": pair.output, "bytes": pair.bytes} for pair in placing.plan.shared
            ],
        }


def _in_file(scope: tuple[int, int] | None, order: Sequence[int] | None) -> list[int] | None:
    """Subgraph and operator of a scope, as in the model's file, where the main subgraph runs in `order`."""
    if scope is None:
        return None
    subgraph, operator = scope
    return [subgraph, operator if order is None or subgraph else order[operator]]


def _identity(entry: PlannedTensor | PlannedScratch, order: Sequence[int] | None) -> dict[str, Any]:
    from tflm_zephyr.model import PlannedTensor

    if isinstance(entry, PlannedTensor):
        return {"kind": "tensor", "subgraph": entry.subgraph, "index": entry.tensor}
    subgraph, operator = _in_file((entry.subgraph, entry.operator), order) or (0, 0)
    return {"kind": "scratch", "subgraph": subgraph, "index": operator}


def arena_json(plan: ArenaPlan) -> dict[str, Any]:
    """A model's plan: the figures of the largest arena, and those of each kernel library."""
    head = plan.head
    return {
        "sha256": plan.model.sha256,
        "order": None if plan.order is None else list(plan.order),
        **_head_json(head),
        "optimal": head.optimal,
        "in_place_count": head.in_place_count,
        "offsets": None if plan.offsets is None else list(plan.offsets),
        "unknown_scratch": list(head.unknown),
        "arenas": [
            {
                "kernels": arena.library.name,
                "dsp": arena.library.core.dsp,
                "helium": arena.library.core.mve,
                **_head_json(arena.head),
                "tail_bytes": arena.size.tail_bytes,
                "arena_bytes": arena.size.bytes,
            }
            for arena in plan.arenas
        ],
        "buffers": _buffers_json(head.plan),
    }


def _head_json(head: HeadPlan) -> dict[str, int]:
    return {
        "linear_bytes": head.linear_bytes,
        "greedy_bytes": head.greedy_bytes,
        "packed_bytes": head.packed_bytes,
        "in_place_bytes": head.in_place_bytes,
        "head_bytes": head.head_bytes,
        "lower_bound_bytes": head.lower_bound_bytes,
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
