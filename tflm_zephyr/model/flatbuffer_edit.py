# SPDX-License-Identifier: Apache-2.0
"""Writing FlatBuffers forward, and cutting bytes out of a .tflite so that all other offsets stay valid."""

from __future__ import annotations

import bisect
import struct
from collections.abc import Collection, Mapping, Sequence

from tflm_zephyr.errors import ModelError
from tflm_zephyr.model import schema
from tflm_zephyr.model.flatbuffer import Reader, Table

ALIGNMENT = 16
"""Bytes: the schema's alignment of a buffer's data, which TFLM needs for tensors that it reads in place."""


class Writer:
    """A file written from its start; offsets are filled in with point() once their targets have a place."""

    def __init__(self) -> None:
        self.out = bytearray()

    def put(self, letters: str, *values: int, alignment: int = 4, before: int = 0) -> int:
        """Append little-endian integers by their struct letters, `before` bytes before an aligned place."""
        self._pad(alignment, before)
        pos = len(self.out)
        self.out += struct.pack("<" + letters, *values)
        return pos

    def table(self, values: Mapping[int, int]) -> dict[int, int]:
        """Write a table of 32-bit values or offsets by slot. Returns the positions of its slots, and its own as -1."""
        slots = max(values, default=-1) + 1
        placed = {slot: 4 + 4 * order for order, slot in enumerate(sorted(values))}
        vtable = self.put("HH", 4 + 2 * slots, 4 + 4 * len(values))
        for slot in range(slots):
            self.put("H", placed.get(slot, 0), alignment=2)
        self._pad(4)
        pos = self.put("i", len(self.out) - vtable)
        for slot in sorted(values):
            self.put("I", values[slot])
        return {-1: pos, **{slot: pos + offset for slot, offset in placed.items()}}

    def vector(self, count: int) -> int:
        """A vector of offsets, all to be filled in."""
        return self.put("I" * (1 + count), count, *([0] * count))

    def blob(self, data: bytes, alignment: int = 4) -> int:
        """A vector of bytes, the first at a multiple of `alignment`, and a zero behind it as strings need."""
        pos = self.put("I", len(data), alignment=alignment, before=4)
        self.out += data + b"\0"
        return pos

    def body(self, data: bytes) -> int:
        """Bytes that keep their alignment."""
        self._pad(ALIGNMENT)
        self.out += data
        return len(self.out) - len(data)

    def point(self, pos: int, target: int) -> None:
        """Let the offset at `pos` point to `target`."""
        struct.pack_into("<I", self.out, pos, target - pos)

    def _pad(self, alignment: int, before: int = 0) -> None:
        self.out += bytes(-(len(self.out) + before) % alignment)


def cut(reader: Reader, unwanted: Sequence[tuple[int, int]], orphans: Collection[int]) -> bytes:
    """The file without the (start, end) ranges of `unwanted`.

    `orphans` are positions of Buffer tables whose data is no longer used; their offsets may then point anywhere.
    Multiples of 16 bytes are cut, so that the rest keeps its alignment. Nothing is cut from a file with parts that the
    schema does not know, that are broken, or that overlap: the result is only larger.
    """
    survey = _Survey(orphans)
    try:
        survey.table(reader.root("Model"))
    except ModelError:
        return reader.data
    wanted = _merged(list(survey.spans))
    cuts = [
        (start, end - (end - start) % ALIGNMENT)
        for start, end in _merged(unwanted)
        if end - start >= ALIGNMENT and not _touches(wanted, start, end)
    ]
    disjoint = _total(wanted) == _total(survey.spans)
    if not survey.complete or not disjoint or not cuts:
        return reader.data
    starts = [start for start, _ in cuts]
    removed = [0]
    kept, last = bytearray(), 0
    for start, end in cuts:
        removed.append(removed[-1] + end - start)
        kept += reader.data[last:start]
        last = end
    kept += reader.data[last:]

    def moved(pos: int) -> int:
        return pos - removed[bisect.bisect_right(starts, pos)]

    for pos, target in survey.offsets:
        struct.pack_into("<I", kept, moved(pos), moved(target) - moved(pos))
    for pos, vtable in survey.vtables:
        struct.pack_into("<i", kept, moved(pos), moved(pos) - moved(vtable))
    return bytes(kept)


def _total(spans: Collection[tuple[int, int]]) -> int:
    return sum(end - start for start, end in spans)


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _touches(merged: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    index = bisect.bisect_left(merged, (end, end))
    return index > 0 and merged[index - 1][1] > start


class _Survey:
    """Every reachable object and offset of a file, each once."""

    def __init__(self, orphans: Collection[int]) -> None:
        self.spans: set[tuple[int, int]] = {(0, 8)}
        self.offsets: set[tuple[int, int]] = set()
        self.vtables: set[tuple[int, int]] = set()
        self.complete = True
        self._orphans = orphans
        self._seen: set[tuple[int, str]] = set()

    def table(self, table: Table) -> None:
        if (table.pos, table.name) in self._seen:
            return
        if not self._seen:
            self.offsets.add((0, table.pos))
        self._seen.add((table.pos, table.name))
        self.spans.add((table.vtable_pos, table.vtable_pos + 4 + 2 * table.slot_count))
        self.vtables.add((table.pos, table.vtable_pos))
        known = {field.slot: field for field in schema.fields(table.name).values()}
        # By its fields: the size in the vtable counts padding, which may hold the next object.
        end = table.pos + 4
        for slot in range(table.slot_count):
            pos, field = table.slot_pos(slot), known.get(slot)
            if pos is None:
                continue
            if field is None:
                self.complete = False
                continue
            end = max(end, pos + (schema.WIDTHS[field.kind] if field.is_scalar else 4))
            if not field.is_scalar and table.pos not in self._orphans:
                self._offset(table, field)
        self.spans.add((table.pos, end))

    def _offset(self, table: Table, field: schema.Field) -> None:
        pos, target = table.slot_pos(field.slot, 4), table.target(field)
        assert pos is not None and target is not None
        self.offsets.add((pos, target))
        if field.vector or field.kind == "str":
            start, count = table.span(field.name) or (target, 0)
            text = field.kind == "str" and not field.vector
            width = 1 if text else schema.WIDTHS.get(field.kind, 4)
            self.spans.add((target, start + count * width + text))
            if text or field.kind in schema.FORMATS:
                return
            if field.kind == "str":
                self.complete = False
                return
            for index, child in enumerate(table.children(field.name)):
                self.offsets.add((start + 4 * index, child.pos))
                self.table(child)
        elif (value := table.child(field.name)) is not None:
            self.table(value)
        else:
            self.complete = False
