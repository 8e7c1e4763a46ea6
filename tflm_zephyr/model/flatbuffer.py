# SPDX-License-Identifier: Apache-2.0
"""Reading FlatBuffers with every offset and length checked, by the schema's field names.

Format: https://flatbuffers.dev/internals. Nothing here trusts the file: whatever it holds, reading it
ends in a value or in a ModelError, and the work is bounded by the file's size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tflm_zephyr.errors import ModelError
from tflm_zephyr.model import schema

_CORRUPT = "The file is truncated or corrupt; export it again"
_TABLE_COST_BYTES = 16


class Reader:
    """The bytes of one file, and the number of bytes that may still be read.

    A FlatBuffer may point to the same bytes many times over, so that a small file could unfold into
    gigabytes. Exporters share little, if anything: reading more than four times the file's size is refused.
    """

    def __init__(self, data: bytes, where: str) -> None:
        self.data, self.where = data, where
        self._budget_bytes = 4 * len(data) + 65536

    def fail(self, what: str, hint: str = _CORRUPT) -> ModelError:
        """The error to raise."""
        return ModelError(what, where=self.where, hint=hint)

    def spend(self, count_bytes: int) -> None:
        """Account for bytes about to be read."""
        self._budget_bytes -= count_bytes
        if self._budget_bytes < 0:
            raise self.fail("the file's tables point to the same bytes over and over")

    def number(self, letter: str, pos: int, place: str) -> int:
        """One integer at `pos`, by its struct letter."""
        width = struct.calcsize("<" + letter)
        if pos < 0 or pos + width > len(self.data):
            raise self.fail(f"{place} points outside the file")
        return int(struct.unpack_from("<" + letter, self.data, pos)[0])

    def root(self, table: str) -> Table:
        """The root table."""
        return Table(self, self.number("I", 0, "the root"), table, "")


class Table:
    """One table, read by its schema; `place` is its path in the file ("subgraphs[0].tensors[3]").

    `vtable_pos` is the position of its vtable, `slot_count` the number of slots there.
    """

    __slots__ = ("_end", "name", "place", "pos", "reader", "slot_count", "vtable_pos")

    def __init__(self, reader: Reader, pos: int, name: str, place: str) -> None:
        self.reader, self.pos, self.name, self.place = reader, pos, name, place
        shown = place or "the root table"
        self.vtable_pos = pos - reader.number("i", pos, shown)
        vtable_bytes = reader.number("H", self.vtable_pos, shown)
        table_bytes = reader.number("H", self.vtable_pos + 2, shown)
        self._end = pos + table_bytes
        if vtable_bytes < 4 or table_bytes < 4 or self._end > len(reader.data):
            raise reader.fail(f"{shown} is no table or reaches beyond the file's end")
        if self.vtable_pos + vtable_bytes > len(reader.data):
            raise reader.fail(f"{shown} reaches beyond the file's end")
        self.slot_count = vtable_bytes // 2 - 2
        reader.spend(_TABLE_COST_BYTES)

    def slot_pos(self, slot: int, width: int = 1) -> int | None:
        """The position of a slot's value (`width` bytes); None when it is absent."""
        if slot >= self.slot_count:
            return None
        offset = struct.unpack_from("<H", self.reader.data, self.vtable_pos + 4 + 2 * slot)[0]
        if offset == 0:
            return None
        pos = self.pos + int(offset)
        if offset < 4 or pos + width > self._end:
            raise self.reader.fail(f"{self.place or 'the root table'} has a field outside itself")
        return pos

    def has(self, field: str) -> bool:
        """Whether the field is written."""
        return self.slot_pos(schema.fields(self.name)[field].slot) is not None

    def target(self, field: schema.Field) -> int | None:
        """The target of an offset field; None when it is absent."""
        pos = self.slot_pos(field.slot, 4)
        if pos is None:
            return None
        return self._follow(pos, field.name)

    def scalar(self, name: str) -> int | float | bool:
        """A scalar, or its default."""
        field = schema.fields(self.name)[name]
        pos = self.slot_pos(field.slot, schema.WIDTHS[field.kind])
        if pos is None:
            value: int | float | bool = field.default
        else:
            value = struct.unpack_from("<" + schema.FORMATS[field.kind], self.reader.data, pos)[0]
        return bool(value) if field.kind == "bool" else float(value) if field.kind[0] == "f" else value

    def integer(self, name: str) -> int:
        """An integer or boolean scalar, or its default."""
        return int(self.scalar(name))

    def text(self, name: str) -> str | None:
        """A string; bytes that are not UTF-8 are replaced."""
        pos = self.target(schema.fields(self.name)[name])
        if pos is None:
            return None
        start, count = self._span(pos, 1, name)
        self.reader.spend(count)
        return self.reader.data[start : start + count].decode("utf-8", "replace")

    def span(self, name: str) -> tuple[int, int] | None:
        """The position of a vector's or string's first element, and its length; None when it is absent."""
        field = schema.fields(self.name)[name]
        pos = self.target(field)
        if pos is None:
            return None
        width = 1 if field.kind == "str" and not field.vector else schema.WIDTHS.get(field.kind, 4)
        return self._span(pos, width, name)

    def blob(self, name: str) -> bytes | None:
        """A vector of bytes."""
        span = self.span(name)
        if span is None:
            return None
        start, count = span
        self.reader.spend(count)
        return self.reader.data[start : start + count]

    def numbers(self, name: str) -> tuple[int | float | bool, ...]:
        """A vector of scalars; empty when it is absent."""
        span = self.span(name)
        if span is None or span[1] == 0:
            return ()
        start, count = span
        kind = schema.fields(self.name)[name].kind
        self.reader.spend(count * schema.WIDTHS[kind])
        return struct.unpack_from(f"<{count}{schema.FORMATS[kind]}", self.reader.data, start)

    def integers(self, name: str) -> tuple[int, ...]:
        """A vector of integers; empty when it is absent."""
        return tuple(map(int, self.numbers(name)))

    def child(self, name: str) -> Table | None:
        """A table, or the value of a union whose member the schema knows."""
        field = schema.fields(self.name)[name]
        kind: str | None = field.kind
        if field.kind.startswith("|"):
            pos = self.slot_pos(field.slot - 1)
            number = 0 if pos is None else self.reader.data[pos]
            kind = schema.union_member(field.kind[1:], number)
        start = self.target(field) if kind is not None else None
        return None if start is None or kind is None else Table(self.reader, start, kind, self._path(name))

    def children(self, name: str) -> Iterator[Table]:
        """A vector of tables; empty when it is absent."""
        span = self.span(name)
        if span is None:
            return
        start, count = span
        kind = schema.fields(self.name)[name].kind
        self.reader.spend(4 * count)
        for index in range(count):
            path = f"{name}[{index}]"
            yield Table(self.reader, self._follow(start + 4 * index, path), kind, self._path(path))

    def values(self) -> dict[str, object]:
        """Every field that is a scalar, a string or a vector of scalars; defaults filled in. Bytes for u8."""
        found: dict[str, object] = {}
        for name, field in schema.fields(self.name).items():
            if field.is_scalar:
                found[name] = self.scalar(name)
            elif field.kind == "str" and not field.vector:
                found[name] = self.text(name)
            elif field.kind in schema.FORMATS:
                found[name] = (self.blob(name) or b"") if field.kind == "u8" else self.numbers(name)
        return found

    def _follow(self, pos: int, name: str) -> int:
        target = pos + int(struct.unpack_from("<I", self.reader.data, pos)[0])
        if target + 4 > len(self.reader.data) or target == pos:
            raise self.reader.fail(f"{self._path(name)} points outside the file")
        return target

    def _span(self, pos: int, width: int, name: str) -> tuple[int, int]:
        count = self.reader.number("I", pos, self._path(name))
        if pos + 4 + count * width > len(self.reader.data):
            raise self.reader.fail(f"{self._path(name)} reaches beyond the file's end")
        return pos + 4, count

    def _path(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name
