# SPDX-License-Identifier: Apache-2.0
"""The footprint as a table, as what changed, and as JSON. Bytes throughout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tflm_zephyr.footprint import BY_MAP, Footprint, Row, attribution, changes

if TYPE_CHECKING:
    from tflm_zephyr.cli.report.terminal import Drawn

_ITEMISED = frozenset({attribution.KERNELS, attribution.MODEL, attribution.GOLDEN, attribution.ARENA})
_SHOWN_CHANGES = 25
_WIDTH = 10


def footprint(new: Footprint, old: Footprint | None = None) -> str:
    """`new` part by part, kernels by operator; then what changed since `old`."""
    names = [use.name for use in new.regions if use.used_bytes]
    rows: list[tuple[str, Mapping[str, int]]] = []
    for part, sums in new.by_part().items():
        details = [row for row in new.rows if row.part == part]
        rows.append((part, sums))
        if part in _ITEMISED and (len(details) > 1 or part == attribution.KERNELS):
            rows += [(f"  {row.detail}", row.bytes) for row in details]
    rows.append(("sum", {use.name: use.used_bytes for use in new.regions}))
    lines = [f"{new.elf}, by {_source(new)}:", *_table(rows, names, "d")]
    lines += [
        f"{use.name}: {use.used_bytes} of {use.size_bytes} bytes ({100 * use.used_bytes / use.size_bytes:.1f} %)"
        for use in new.regions
        if use.size_bytes and use.used_bytes
    ]
    lines += [_verdict(new), *new.notes]
    if old is not None:
        lines += ["", *_changes(new, old)]
    return "\n".join(lines)


def on_terminal(plain: Mapping[str, Any], lines: str) -> Drawn:
    """A bar for each part, then the same lines; `plain` is the document."""
    from tflm_zephyr.cli.report import terminal

    return terminal.footprint(plain, ["", *lines.splitlines()])


def footprint_json(new: Footprint, old: Footprint | None = None) -> dict[str, Any]:
    """The same as plain data; `against` has the bytes that `new` has more than `old`."""
    plain = {**_json(new), "parts": new.by_part(), "rows": _rows_json(new.rows), "notes": list(new.notes)}
    if old is not None:
        plain["against"] = {**_json(old), "parts": old.by_part(), "changes": _rows_json(changes(new, old))}
    return plain


def _json(found: Footprint) -> dict[str, Any]:
    return {"elf": str(found.elf), "source": found.source, "regions": [asdict(use) for use in found.regions]}


def _rows_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [{"part": row.part, "detail": row.detail, "bytes": dict(row.bytes)} for row in rows]


def _source(found: Footprint) -> str:
    if found.source == BY_MAP:
        return "the linker's map"
    return "ELF symbols alone (no zephyr.map beside it)"


def _verdict(found: Footprint) -> str:
    if all(use.linker_bytes is None for use in found.regions):
        return "No linker table to compare with: build the app with `tflm-zephyr build`, which keeps it."
    if all(use.linker_bytes in (None, use.used_bytes) for use in found.regions):
        return "The sums equal the linker's."
    return "The sums differ from the linker's."


def _changes(new: Footprint, old: Footprint) -> Iterable[str]:
    before = {use.name: use.used_bytes for use in old.regions}
    after = {use.name: use.used_bytes for use in new.regions}
    names = [name for name in dict.fromkeys([*after, *before]) if after.get(name) or before.get(name)]
    sums = {name: after.get(name, 0) - before.get(name, 0) for name in names}
    yield f"Against {old.elf}: " + ", ".join(
        f"{name} {before.get(name, 0)} -> {after.get(name, 0)} ({sums[name]:+d})" for name in names
    )
    found = changes(new, old)
    rows: list[tuple[str, Mapping[str, int]]] = [
        (f"{row.part}: {row.detail}" if row.detail else row.part, row.bytes) for row in found[:_SHOWN_CHANGES]
    ]
    if len(found) > _SHOWN_CHANGES:
        rest = found[_SHOWN_CHANGES:]
        more = {name: sum(row.bytes.get(name, 0) for row in rest) for name in names}
        rows.append((f"{len(rest)} more, with --json", more))
    if found:
        yield from _table([*rows, ("sum", sums)], names, "+d")
    else:
        yield "Nothing changed."


def _table(rows: Sequence[tuple[str, Mapping[str, int]]], names: Sequence[str], number: str) -> Iterable[str]:
    width = max(len(title) for title, _ in rows)
    yield " " * width + "".join(name.rjust(_WIDTH) for name in names)
    for title, sizes in rows:
        cells = (format(sizes[name], number) if sizes.get(name) else "-" for name in names)
        yield title.ljust(width) + "".join(cell.rjust(_WIDTH) for cell in cells)
