# SPDX-License-Identifier: Apache-2.0
"""An application in its build folder: its memories, what it uses of them, and what its models by tflm_model() take.

All is in files of the build: the linker's map, which GNU ld writes of a link that overflows too, Zephyr's .config and
zephyr.dts. The bootloader's share of a slot is what imgtool takes behind the image, from its image.py: a trailer of
the swap's state, and the TLVs of the image's hash and signature.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tflm_zephyr.boards import Board, load_board
from tflm_zephyr.errors import BuildError
from tflm_zephyr.footprint.link_map import LinkMap, OutputSection, Piece, parse_map
from tflm_zephyr.plain_values import parse_yaml

_MAPS = ("zephyr.map", "zephyr_final.map", "zephyr_pre1.map", "zephyr_pre0.map")
_FLASH, _RAM = ("FLASH", "ROM"), ("RAM",)
_NOT_LOADED = re.compile(r"\.(debug|comment|stab|note|ARM\.attributes|riscv\.attributes|symtab|strtab|shstrtab)")
_ZEROS = re.compile(r"\.?(t?bss|noinit)\b")  # GNU ld may give them a load address, where nothing is
_LIBRARY = re.compile(r"libtflm_model_(\w+)\.a$")
_SHARED = re.compile(r"libtflm_zephyr_(core|cmsis_nn)\.a$")
_SETTING = re.compile(r"^(CONFIG_\w+)=\"?([^\"\n]*)\"?$", re.M)
_SOURCE = re.compile(r"^APPLICATION_SOURCE_DIR:\w+=(.+)$", re.M)
_CORE = re.compile(r"CONFIG_CPU_CORTEX_M(\d+)(PLUS)?")
_WRITE_BLOCK = re.compile(r"write-block-size = < (0x[0-9a-f]+|\d+) >")
_SECTORS, _UNIT, _MAGIC_BYTES = 128, 8, 16  # imgtool's defaults, which Zephyr's cmake/mcuboot.cmake keeps
_TLV_BYTES = 4 + 36 + 36 + 260  # information, SHA-256 of image and key, RSA-2048, the largest key of Zephyr's default
_TFM_BYTES = 749  # TF-M's signature (317) and trailer (432), as in boards/


@dataclass(frozen=True)
class Bytes:
    """Bytes of flash and RAM."""

    flash: int
    ram: int

    def __add__(self, other: Bytes) -> Bytes:
        return Bytes(self.flash + other.flash, self.ram + other.ram)

    def __sub__(self, other: Bytes) -> Bytes:
        return Bytes(self.flash - other.flash, self.ram - other.ram)


@dataclass(frozen=True)
class BuiltApp:
    """A built application, or one whose link overflowed. `board` has the core and no memories, which are `sizes`.

    `source` is its folder. `reserved` lies in those memories and is not the app's, as `reserved_for` says. `models` are
    the shares of its models by name; `shared` is what they have in common: TFLM and CMSIS-NN.
    """

    source: Path
    board: Board
    sizes: Bytes
    used: Bytes
    reserved: Bytes
    reserved_for: str
    models: Mapping[str, Bytes]
    shared: Bytes

    def share(self, names: Collection[str]) -> Bytes:
        """Bytes that are free without the models `names`; with the last of them goes what they have in common."""
        own = sum((self.models[name] for name in names), Bytes(0, 0))
        return own + self.shared if set(names) == set(self.models) else own

    def left(self, names: Collection[str] = ()) -> Bytes:
        """Bytes that are left without the models `names`; negative where the rest of the app is too large."""
        return self.sizes - self.reserved - self.used + self.share(names)

    def replaced(self, idents: Collection[str]) -> tuple[str, ...]:
        """The app's models in whose place those called `idents` come: all where they are as many, else the same."""
        return tuple(self.models) if len(self.models) == len(idents) else tuple(n for n in self.models if n in idents)


def load_built_app(place: Path) -> BuiltApp:
    """The application that was built in the folder `place`, with sysbuild or not. Raises BuildError."""
    folder = _image_folder(place)
    config = dict(_SETTING.findall(_text(folder / ".config")))
    maps = [path for name in _MAPS if (path := folder / name).is_file()]
    if not maps:
        raise BuildError("no linker's map there", where=str(folder), hint="Build the application first: west build")
    newest = max(maps, key=lambda path: path.stat().st_mtime)
    link_map = parse_map(_text(newest), where=str(newest))
    pieces = [(section, piece) for section in link_map.sections if _loaded(section) for piece in section.pieces]
    flash, ram = _use(link_map, _FLASH, str(newest)), _use(link_map, _RAM, str(newest))
    reserved, why = _reserved(config, folder)
    models: dict[str, Bytes] = {}
    shared = Bytes(0, 0)
    for section, piece in pieces:
        size = _bytes(section, piece, flash[0], ram[0])
        if own := _LIBRARY.search(piece.archive):
            models[own[1]] = models.get(own[1], Bytes(0, 0)) + size
        elif _SHARED.search(piece.archive):
            shared += size
    name = config.get("CONFIG_BOARD_TARGET", "")
    if not name:
        raise BuildError("has no CONFIG_BOARD_TARGET", where=str(folder / ".config"), hint="Build again")
    board = replace(load_board(name), core=_core(config), arch=config.get("CONFIG_ARCH", ""), flash_kib=None)
    return BuiltApp(
        Path(_source(folder.parent)),
        replace(board, ram_kib=None),
        Bytes(flash[1], ram[1]),
        Bytes(flash[2], ram[2]),
        Bytes(reserved, 0),
        why,
        models,
        shared,
    )


def _image_folder(place: Path) -> Path:
    """The folder with the application's .config: with sysbuild that of the default domain."""
    domains = place / "domains.yaml"
    if not (place / "zephyr" / ".config").is_file() and domains.is_file():
        try:
            folder = place.joinpath(parse_yaml(_text(domains))["default"], "zephyr")
        except (ValueError, TypeError, KeyError):
            raise BuildError("names no default domain", where=str(domains), hint="Build again") from None
        if not (folder / ".config").is_file():
            raise BuildError("names a default domain that was not built", where=str(domains), hint="Build again")
        return folder
    if not (place / "zephyr" / ".config").is_file():
        hint = "Name the folder that `west build` made, as in --into build"
        raise BuildError("is no build folder of Zephyr", where=str(place), hint=hint)
    return place / "zephyr"


def _source(folder: Path) -> str:
    """The application's folder, by CMake's cache."""
    found = _SOURCE.search(_text(folder / "CMakeCache.txt"))
    if found is None:
        raise BuildError("names no application", where=str(folder / "CMakeCache.txt"), hint="Build again")
    return found[1]


def _loaded(section: OutputSection) -> bool:
    return not _NOT_LOADED.match(section.name)


def _use(link_map: LinkMap, names: Collection[str], where: str) -> tuple[int, int, int]:
    """Origin, size and used bytes of the memory region with one of the names, as the linker counts them."""
    region = next((one for one in link_map.regions if one.name in names), None)
    if region is None:
        what = f"has no memory region {' or '.join(names)}"
        raise BuildError(what, where=where, hint="An application that runs from flash is needed")
    beyond = min((one.origin for one in link_map.regions if one.origin > region.origin), default=1 << 64)
    ends = [
        start + section.size * (section.name != ".tbss")  # a template, which takes nothing
        for section in link_map.sections
        if _loaded(section) and section.size
        for start in {section.address, section.address if _ZEROS.match(section.name) else section.load_address}
        if region.origin <= start < beyond
    ]
    return region.origin, region.length, max(ends, default=region.origin) - region.origin


def _bytes(section: OutputSection, piece: Piece, flash: int, ram: int) -> Bytes:
    """Bytes of a piece: initialised variables take both memories."""
    loaded = section.load_address != section.address and not _ZEROS.match(section.name)
    in_ram = section.address >= ram if ram > flash else section.address < flash
    return Bytes(piece.size if not in_ram or loaded else 0, piece.size * in_ram)


def _core(config: Mapping[str, str]) -> str:
    """The core as kernels.CORES names it, "" where it is no Cortex-M; as cmake/tflm_model.cmake has it."""
    found = next((match for name in config if (match := _CORE.fullmatch(name))), None)
    if found is None:
        return ""
    core = f"cortex-m{found[1]}{'plus' if found[2] else ''}"
    return f"{core}+nodsp" if core == "cortex-m33" and "CONFIG_ARMV8_M_DSP" not in config else core


def _reserved(config: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Bytes of the slot behind the image, and for what."""
    if "CONFIG_TFM_BL2" in config:
        return _TFM_BYTES, "the image's signature and trailer for TF-M's bootloader"
    if "CONFIG_BOOTLOADER_MCUBOOT" not in config:
        return 0, ""
    trailer = 2 * _UNIT + _MAGIC_BYTES
    if "CONFIG_MCUBOOT_IMGTOOL_OVERWRITE_ONLY" not in config:
        dts = folder / "zephyr.dts"
        blocks = [int(size, 0) for size in _WRITE_BLOCK.findall(_text(dts))] if dts.is_file() else []
        align = 1 if "CONFIG_MCUBOOT_BOOTLOADER_MODE_RAM_LOAD" in config else max(blocks, default=4)
        trailer = _SECTORS * 3 * align + 4 * max(_UNIT, align) + max(_MAGIC_BYTES, align)
    outside = int(config.get("CONFIG_ROM_END_OFFSET", "0"), 0)
    return max(0, trailer + _TLV_BYTES - outside), "the image's trailer and signature for MCUboot"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as err:
        raise BuildError(f"cannot be read ({err.strerror})", where=str(path), hint="Build again") from err
