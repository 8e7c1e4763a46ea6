# SPDX-License-Identifier: Apache-2.0
"""Reads a GNU linker's map file: memory regions, and which object file each byte of the image is from. Pure.

The format is that of GNU ld's `lang_map` (binutils 2.40, ld/ldlang.c): an output section starts in column 0,
its input sections stand behind one space, names longer than 15 characters have their numbers on the next line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tflm_zephyr.errors import BuildError

FILL = "*fill*"
LINKER = "linker script"  # in place of a file name: data of the script itself, LONG(0x...) and the like

_REGION = re.compile(r"^(\S+) +0x([0-9a-f]{1,16}) +0x([0-9a-f]{1,16})(?: .*)?$")
_NUMBERS = re.compile(r"(?:(?<! ) +|^ +)0x([0-9a-f]{1,16}) +0x([0-9a-f]{1,16})(?: (.*))?$")
_SCRIPT_DATA = re.compile(r"(?:BYTE|SHORT|LONG|S?QUAD|ASCIZ|ASCII) ")
_CONTENTS = "Linker script and memory map"
_NOT_MEMORY = frozenset({"*default*", "Name"})


@dataclass(frozen=True)
class Region:
    """A memory region of the linker script: `length` bytes from `origin` on."""

    name: str
    origin: int
    length: int


@dataclass(frozen=True)
class Piece:
    """`size` bytes at `address` from `section` of an object file.

    `archive` is "" for an object file by itself, whose path is then `member`. Alignment has FILL as `section`.
    """

    address: int
    size: int
    section: str
    archive: str
    member: str


@dataclass(frozen=True)
class OutputSection:
    """A section of the linked file and its pieces in the linker's order.

    `load_address` is where the image keeps it: `address`, but for initialised variables.
    """

    name: str
    address: int
    size: int
    pieces: tuple[Piece, ...]
    load_address: int


@dataclass(frozen=True)
class LinkMap:
    """A map file. `regions` in the script's order."""

    regions: tuple[Region, ...]
    sections: tuple[OutputSection, ...]


def parse_map(text: str, *, where: str) -> LinkMap:
    """Read a map. Raises BuildError when it is not GNU ld's, or is cut short."""
    lines = text.splitlines()
    try:
        start = lines.index("Memory Configuration")
        contents = lines.index(_CONTENTS, start)
    except ValueError:
        raise BuildError("is no map file of GNU ld", where=where, hint="Build again, or delete it") from None
    body = lines[contents + 1 :]
    # ld closes the map with the output's name and format.
    end = next((number for number, line in enumerate(body) if line.startswith("OUTPUT(")), None)
    if end is None:
        raise BuildError("the linker's map is cut short", where=where, hint="Build again, or delete it")
    matches = (_REGION.match(line.rstrip()) for line in lines[start + 1 : contents])
    regions = (Region(m[1], int(m[2], 16), int(m[3], 16)) for m in matches if m and m[1] not in _NOT_MEMORY)
    return LinkMap(tuple(regions), tuple(_sections(body[:end])))


def _sections(lines: Sequence[str]) -> list[OutputSection]:
    found: list[tuple[str, int, int, int, list[Piece]]] = []
    pending = ""  # a name whose numbers are on the next line; with its leading space, if it has one
    for line in lines:
        numbers = _NUMBERS.search(line)
        name = line[: numbers.start()] if numbers else line
        name = name if name.strip() else pending
        pending = "" if numbers else name
        if numbers is None:
            continue
        address, size, origin = int(numbers[1], 16), int(numbers[2], 16), (numbers[3] or "").strip()
        if name[:1].strip() and (not origin or origin.startswith("load address ")):
            loaded = int(origin.split()[2], 16) if origin else address
            found.append((name, address, size, loaded, []))
        elif found and size and (origin or name.strip() == FILL):
            found[-1][4].append(_piece(name.strip(), address, size, origin))
    return [OutputSection(name, address, size, tuple(pieces), loaded) for name, address, size, loaded, pieces in found]


def _piece(name: str, address: int, size: int, origin: str) -> Piece:
    if name == FILL:
        return Piece(address, size, FILL, "", "")
    if _SCRIPT_DATA.match(origin):
        return Piece(address, size, "", "", LINKER)
    split = origin.find(".a(")
    if split >= 0 and origin.endswith(")"):
        return Piece(address, size, name, origin[: split + 2], origin[split + 3 : -1])
    return Piece(address, size, name, "", origin)
