# SPDX-License-Identifier: Apache-2.0
"""Flash and RAM of a built app by part, exact to the byte.

Every byte of a memory region has one owner. An initialised variable takes room in RAM, and in flash for the value
that it starts with. The used bytes of a region, as the linker counts them, reach from its origin to the end of its
last section, alignment between sections included (GNU ld, `lang_print_memory_usage`), so the rows' sum is that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tflm_zephyr.build import LINKER_ONLY, MemoryRegion, linked_regions
from tflm_zephyr.errors import BuildError
from tflm_zephyr.footprint import attribution
from tflm_zephyr.footprint.attribution import Owner
from tflm_zephyr.footprint.byte_owners import Span, byte_owners, filled
from tflm_zephyr.footprint.elf import ElfImage, Section, load_elf
from tflm_zephyr.footprint.link_map import LinkMap, Region, parse_map

BY_MAP, BY_SYMBOLS = "linker map", "ELF symbols"
_ALIGNMENT = 4096  # bytes: no empty section is aligned to more


@dataclass(frozen=True)
class RegionUse:
    """A memory region. `linker_bytes`: the used bytes in the linker's own table; None without that table.

    `size_bytes` is None where neither a map nor the linker's table has it.
    """

    name: str
    used_bytes: int
    size_bytes: int | None
    linker_bytes: int | None = None


@dataclass(frozen=True)
class Row:
    """Bytes by region of one `part` (of attribution.ORDER) and `detail` (operators, an object file, a symbol)."""

    part: str
    detail: str
    bytes: Mapping[str, int]


@dataclass(frozen=True)
class Footprint:
    """Rows in the order of attribution.ORDER, the largest first in each. `source` is BY_MAP or BY_SYMBOLS."""

    elf: Path
    source: str
    regions: tuple[RegionUse, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def by_part(self) -> dict[str, dict[str, int]]:
        """Bytes by part and region; only parts that the image has, in order."""
        sums: dict[str, dict[str, int]] = {}
        for row in self.rows:
            into = sums.setdefault(row.part, {})
            for region, size in row.bytes.items():
                into[region] = into.get(region, 0) + size
        return sums


def find_elf(place: Path, app: str = "") -> Path:
    """The ELF file `place`, or the ELF file in the build folder `place`. Raises BuildError.

    With sysbuild, the app's own build is the subfolder `app`.
    """
    if not place.is_dir():
        return place
    found = [place / "zephyr" / "zephyr.elf", *([place / app / "zephyr" / "zephyr.elf"] if app else [])]
    found = [elf for elf in found if elf.is_file()] or sorted(place.glob("*/zephyr/zephyr.elf"))
    if not found:
        raise BuildError("no zephyr/zephyr.elf there", where=str(place), hint="Build the app first: tflm-zephyr build")
    if len(found) > 1:
        raise BuildError("several images are there", where=str(place), hint="Name the folder or the ELF file of one")
    return found[0]


def load_footprint(elf: Path, *, with_map: bool = True) -> Footprint:
    """The footprint of a linked ELF file, by the linker's map in its folder where there is one.

    Raises BuildError when the ELF file or the map is missing, damaged, or of another build.
    """
    image = load_elf(elf)
    folder = elf.absolute().parent.parent
    link_map = map_of(elf, image) if with_map else None
    table = next((rows for place in (folder, folder.parent) if (rows := linked_regions(place, elf))), ())
    found = measure_footprint(image, link_map, table, folders=source_folders(folder), where=str(elf))
    notes = found.notes
    if (folder / "tfm").is_dir():
        notes += ("TF-M's own image is not included: this is the non-secure app's share of flash and RAM.",)
    return Footprint(elf, found.source, found.regions, found.rows, notes)


def map_of(elf: Path, image: ElfImage) -> LinkMap | None:
    """The linker's map beside the ELF file, None where there is none. Raises BuildError for another build's."""
    where = elf.with_suffix(".map")
    if not where.is_file():
        return None
    link_map = parse_map(_text(where), where=str(where))
    _check_same_build(image, link_map, str(where))
    return link_map


def measure_footprint(
    image: ElfImage,
    link_map: LinkMap | None,
    table: Sequence[MemoryRegion] = (),
    *,
    folders: Mapping[str, frozenset[str]] | None = None,
    where: str = "",
) -> Footprint:
    """The footprint of `image`. `table` is the linker's, `folders` the sources' by stem (see attribution.ObjectFiles).

    Raises BuildError when no memory region is known.
    """
    regions = _regions(image, link_map)
    if not regions:
        raise BuildError("has no memory regions", where=where, hint="It must be an image that Zephyr linked")
    spans, used, notes = _placed(image, regions, byte_owners(image, link_map, folders or {}))
    linked = {row.name: row.used_bytes for row in table}
    sizes = {row.name: row.size_bytes for row in table}
    sums: dict[tuple[str, str], dict[str, int]] = {}
    uses = []
    for region in regions:
        end, linker_bytes = region.origin + used[region.name], linked.get(region.name)
        # The linker counts the alignment of an empty section behind the last one, too.
        if linker_bytes is not None and 0 < linker_bytes - used[region.name] < _ALIGNMENT:
            end = region.origin + linker_bytes
        for start, stop, owner in filled(spans[region.name], region.origin, end, Owner(attribution.PADDING)):
            into = sums.setdefault((owner.part, owner.detail), {})
            into[region.name] = into.get(region.name, 0) + stop - start
        size = region.length if link_map is not None else sizes.get(region.name)
        uses.append(RegionUse(region.name, end - region.origin, size, linker_bytes))
        if linker_bytes is not None and linker_bytes != end - region.origin:
            notes.append(f"The linker's table says {linker_bytes} for {region.name}.")
    rows = [Row(part, detail, sizes) for (part, detail), sizes in sums.items()]
    rows.sort(key=lambda row: (attribution.ORDER.index(row.part), -sum(row.bytes.values()), row.detail))
    source = BY_MAP if link_map is not None else BY_SYMBOLS
    return Footprint(Path(where), source, tuple(uses), tuple(rows), tuple(notes))


def changes(new: Footprint, old: Footprint) -> tuple[Row, ...]:
    """The difference `new` - `old` in bytes by part and detail; rows of zeros are left out."""
    sums: dict[tuple[str, str], dict[str, int]] = {}
    for found, sign in ((new, 1), (old, -1)):
        for row in found.rows:
            into = sums.setdefault((row.part, row.detail), {})
            for region, size in row.bytes.items():
                into[region] = into.get(region, 0) + sign * size
    rows = [Row(part, detail, sizes) for (part, detail), sizes in sums.items() if any(sizes.values())]
    return tuple(sorted(rows, key=lambda row: (-sum(map(abs, row.bytes.values())), row.part, row.detail)))


def _regions(image: ElfImage, link_map: LinkMap | None) -> tuple[Region, ...]:
    if link_map is not None:
        return tuple(region for region in link_map.regions if region.name not in LINKER_ONLY)
    # Zephyr's linker scripts say where its two regions start (include/zephyr/linker/linker-defs.h).
    origins = {"FLASH": image.values.get("__rom_region_start"), "RAM": image.values.get("_image_ram_start")}
    known = sorted((origin, name) for name, origin in origins.items() if origin is not None)
    ends = [*(origin for origin, _ in known[1:]), 1 << 64]
    return tuple(Region(name, origin, end - origin) for (origin, name), end in zip(known, ends, strict=False))


def _placed(
    image: ElfImage, regions: Sequence[Region], spans: Mapping[Section, Sequence[Span]]
) -> tuple[dict[str, list[Span]], dict[str, int], list[str]]:
    """By region: the spans in it, sorted, and the bytes used; notes on sections outside every region."""
    placed: dict[str, list[Span]] = {region.name: [] for region in regions}
    used = {region.name: 0 for region in regions}
    notes = []
    for section in image.sections:
        for base in {section.address, section.load_address}:
            end = base + section.end - section.address
            home = next((r for r in regions if r.origin <= base and end <= r.origin + r.length), None)
            if home is None:
                if end > base:
                    notes.append(f"Section {section.name} ({section.size} bytes at {base:#x}) is in no memory region.")
                continue
            used[home.name] = max(used[home.name], end - home.origin)
            moved = base - section.address
            placed[home.name] += [Span(s.start + moved, s.end + moved, s.owner) for s in spans[section]]
    return {name: sorted(found, key=lambda span: span.start) for name, found in placed.items()}, used, notes


def _check_same_build(image: ElfImage, link_map: LinkMap, where: str) -> None:
    there = {(output.name, output.address, output.size) for output in link_map.sections}
    for section in image.sections:
        if section.end > section.address and (section.name, section.address, section.size) not in there:
            raise BuildError(
                f"is the map of another build: no {section.size} bytes of {section.name} at {section.address:#x}",
                where=where,
                hint="Build again, or delete it to go by the ELF file's symbols",
            )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as err:
        raise BuildError(f"cannot be read ({err.strerror})", where=str(path), hint="Build again") from err


def source_folders(folder: Path) -> dict[str, frozenset[str]]:
    """By stem, the folders of the sources that CMake compiles; none where its list is not there or damaged.

    Folders begin at the first `tensorflow` or `signal`: TFLM's own.
    """
    try:
        files = [str(entry["file"]) for entry in json.loads(_text(folder / "compile_commands.json"))]
    except (BuildError, ValueError, TypeError, KeyError, RecursionError):
        return {}
    found: dict[str, set[str]] = {}
    for file in files:
        path = PurePosixPath(file.replace("\\", "/"))
        top = next((n for n, part in enumerate(path.parts) if part in ("tensorflow", "signal")), None)
        if top is not None:
            found.setdefault(path.stem, set()).add("/".join(path.parts[top:-1]))
    return {name: frozenset(places) for name, places in found.items()}
