# SPDX-License-Identifier: Apache-2.0
"""The owner of each byte of an ELF file's sections: by the linker's map, or by symbols alone. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from tflm_zephyr.footprint import attribution
from tflm_zephyr.footprint.attribution import Owner
from tflm_zephyr.footprint.elf import ElfImage, Section, Symbol
from tflm_zephyr.footprint.link_map import FILL, LinkMap, OutputSection

_IDENTIFIER = b"TFL3"  # FlatBuffers' file_identifier of a .tflite file, behind the offset of its root table
_SMALLEST_MODEL = 32
_USERS = frozenset({attribution.APP, attribution.OTHER, attribution.UNATTRIBUTED})  # where the app's own variables are


class Span(NamedTuple):
    """Addresses from `start` up to `end` and their owner."""

    start: int
    end: int
    owner: Owner


def byte_owners(
    image: ElfImage, link_map: LinkMap | None, folders: Mapping[str, frozenset[str]]
) -> dict[Section, list[Span]]:
    """Each section's addresses from the first to the last, in order and without gap, by owner.

    Models are recognised by their bytes, arenas and stacks by their names, in any object file.
    `folders`: see attribution.ObjectFiles.
    """
    symbols = sorted(image.symbols, key=lambda symbol: symbol.address)
    addresses = [symbol.address for symbol in symbols]
    by_file = {} if link_map is None else _by_file(image, link_map, folders)
    found = {}
    for section in image.sections:
        inside = symbols[bisect_left(addresses, section.address) : bisect_left(addresses, section.end)]
        spans = by_file[section] if link_map is not None else _by_symbol(section, inside)
        special = _models(section, inside, spans) if section.data else _arenas_and_stacks(section, inside, spans)
        cut = [part for span in spans for part in _without(span, special)]
        unknown = Owner(attribution.UNATTRIBUTED, f"in section {section.name}")
        found[section] = list(filled([*cut, *special], section.address, section.end, unknown))
    return found


def filled(spans: Iterable[Span], start: int, end: int, gaps: Owner | None) -> Iterator[Span]:
    """`spans` by address from `start` to `end`. The first span gets a byte that several have; the rest go to `gaps`."""
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        first, last = max(span.start, start), min(span.end, end)
        if first >= last:
            continue
        if gaps is not None and first > start:
            yield Span(start, first, gaps)
        yield Span(first, last, span.owner)
        start = last
    if gaps is not None and start < end:
        yield Span(start, end, gaps)


def _without(span: Span, taken: Sequence[Span]) -> Iterator[Span]:
    """The pieces of `span` outside `taken`, which is in order."""
    start = span.start
    first = bisect_right(taken, span.start, key=lambda other: other.end)
    for other in taken[first:]:
        if other.start >= span.end:
            break
        if other.start > start:
            yield Span(start, other.start, span.owner)
        start = other.end
    if start < span.end:
        yield Span(start, span.end, span.owner)


def _by_file(image: ElfImage, link_map: LinkMap, folders: Mapping[str, frozenset[str]]) -> dict[Section, list[Span]]:
    outputs = {(output.name, output.address, output.size): output for output in link_map.sections}
    mine = {section: outputs.get((section.name, section.address, section.size)) for section in image.sections}
    pieces = [piece for output in mine.values() if output for piece in output.pieces if piece.section != FILL]
    pieces.sort(key=lambda piece: piece.address)
    starts = [piece.address for piece in pieces]
    registers = []
    for symbol in image.symbols:
        place = bisect_right(starts, symbol.address) - 1
        if place >= 0 and attribution.registered_operator(symbol.name) is not None:
            registers.append((pieces[place].member, symbol.name))
    app = frozenset(attribution.stem(piece.member) for piece in pieces if piece.archive.startswith("app/"))
    files = attribution.ObjectFiles(attribution.registered(registers), folders, app)
    return {section: _owned(output, files) if output else [] for section, output in mine.items()}


def _owned(output: OutputSection, files: attribution.ObjectFiles) -> list[Span]:
    # Strings that the linker merged with others take no room: their piece keeps its old size in the map, and the
    # next one has the same address. So a piece ends where the next one starts.
    pieces = sorted(output.pieces, key=lambda piece: piece.address)
    ends = [following.address for _, following in pairwise(pieces)] + [output.address + output.size]
    return [
        Span(
            piece.address,
            min(piece.address + piece.size, end),
            Owner(attribution.PADDING) if piece.section == FILL else files.owner(piece.archive, piece.member),
        )
        for piece, end in zip(pieces, ends, strict=False)  # a section without pieces has an end all the same
    ]


def _by_symbol(section: Section, symbols: Sequence[Symbol]) -> list[Span]:
    spans = [Span(s.address, s.address + s.size, attribution.by_name(s.name)) for s in symbols if s.size]
    known = sorted(
        spans, key=lambda span: span.owner.part == attribution.UNATTRIBUTED
    )  # of several names for one thing
    return list(filled(known, section.address, section.end, None))


def _models(section: Section, symbols: Sequence[Symbol], spans: Sequence[Span]) -> list[Span]:
    """The .tflite files in a section: where a symbol or an object file's bytes start with one."""
    starts = [symbol.address for symbol in symbols]
    homes = [span.start for span in spans]
    found = []
    sized = {symbol.address for symbol in symbols if symbol.size}
    for symbol in symbols:
        if not symbol.size and symbol.address in sized:  # a linker script's symbol; the model has its own
            continue
        if _is_model(section, symbol.address):
            end = symbol.address + symbol.size
            if not symbol.size:  # up to the next symbol, in the same object file
                following, home = bisect_right(starts, symbol.address), bisect_right(homes, symbol.address) - 1
                end = starts[following] if following < len(starts) else section.end
                end = min(end, spans[home].end) if home >= 0 and spans[home].end > symbol.address else end
            found.append(Span(symbol.address, end, Owner(attribution.MODEL, attribution.readable_symbol(symbol.name))))
    named = {span.start for span in found}
    for span in spans:
        if span.start not in named and span.owner.part in _USERS and _is_model(section, span.start):
            found.append(Span(span.start, span.end, Owner(attribution.MODEL, span.owner.detail)))
    return list(filled(found, section.address, section.end, None))


def _is_model(section: Section, address: int) -> bool:
    data = section.data[address - section.address : address - section.address + _SMALLEST_MODEL]
    if len(data) < _SMALLEST_MODEL or data[4:8] != _IDENTIFIER:
        return False
    root = int.from_bytes(data[:4], "little")
    return 8 <= root < section.end - address


def _arenas_and_stacks(section: Section, symbols: Sequence[Symbol], spans: Sequence[Span]) -> list[Span]:
    """Arenas and stacks in a section without data in the file (bss, noinit)."""
    starts = [span.start for span in spans]
    found = []
    for symbol in symbols:
        end = symbol.address + symbol.size
        place = bisect_right(starts, symbol.address) - 1
        part = spans[place].owner.part if place >= 0 else attribution.UNATTRIBUTED
        if symbol.size and attribution.is_stack(symbol.name):
            found.append(Span(symbol.address, end, Owner(attribution.STACKS, attribution.readable_symbol(symbol.name))))
        elif symbol.size and part in _USERS and attribution.is_arena(symbol.name):
            found.append(Span(symbol.address, end, Owner(attribution.ARENA, attribution.readable_symbol(symbol.name))))
    return list(filled(found, section.address, section.end, None))
