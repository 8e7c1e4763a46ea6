# SPDX-License-Identifier: Apache-2.0
"""An ELF file's memory image: its allocated sections, where they run and load, and its symbols."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tflm_zephyr.errors import BuildError

_ALLOC, _TLS = 0x2, 0x400  # sh_flags: SHF_ALLOC, SHF_TLS
_SYMBOL_BYTES = (16, 24)  # of 32-bit and 64-bit files
_KINDS = {"STT_FUNC": "func", "STT_OBJECT": "object", "STT_TLS": "tls", "STT_NOTYPE": ""}


@dataclass(frozen=True)
class Section:
    """An allocated section: `size` bytes at `address` when the app runs.

    `data` are its bytes in the file: empty for one that starts as zeros or unset (bss, noinit, stacks).
    `load_address` is where the image keeps them, which differs from `address` for initialised variables.
    `template` marks a thread-local section of zeros, which has an address and takes no memory there.
    """

    name: str
    address: int
    size: int
    load_address: int
    data: bytes
    template: bool = False

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + (0 if self.template else self.size)


@dataclass(frozen=True)
class Symbol:
    """A symbol; `kind` is "func", "object" or "". `size` in bytes is 0 where the source gives none."""

    name: str
    address: int
    size: int
    kind: str


@dataclass(frozen=True)
class ElfImage:
    """An ELF file's memory image. `values`: the value of every named symbol."""

    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    values: Mapping[str, int]


def load_elf(path: Path) -> ElfImage:
    """Read a linked ELF file. Raises BuildError for a damaged file or one that is no ELF file."""
    try:
        data = path.read_bytes()
    except OSError as err:
        raise BuildError(
            f"cannot be read ({err.strerror})", where=str(path), hint="Build the app first: tflm-zephyr build"
        ) from err
    return read_elf(data, where=str(path))


def read_elf(data: bytes, *, where: str) -> ElfImage:
    """The image of the ELF file `data`. Raises BuildError."""
    if data[:4] != b"\x7fELF":
        raise BuildError("is no ELF file", where=where, hint="Name a build folder, or its zephyr/zephyr.elf")
    try:
        return _read(data)
    except BuildError:
        raise
    except Exception as err:  # pyelftools raises many types for damaged files
        raise BuildError(
            f"is a damaged ELF file ({err or type(err).__name__})", where=where, hint="Build again"
        ) from err


def _read(data: bytes) -> ElfImage:
    from elftools.elf.elffile import ELFFile

    elf: Any = ELFFile(io.BytesIO(data))
    file_size = left = len(data)
    if elf["e_type"] != "ET_EXEC" and elf["e_type"] != "ET_DYN":
        raise ValueError("not linked")
    if elf["e_shoff"] + elf["e_shnum"] * elf["e_shentsize"] > file_size or elf["e_phnum"] * 32 > file_size:
        raise ValueError("cut short")
    segments = [segment.header for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD"]
    sections = []
    for section in elf.iter_sections():
        header = section.header
        start, size = header["sh_offset"], header["sh_size"]
        nobits = header["sh_type"] == "SHT_NOBITS"
        if not nobits and start + size > file_size:
            raise ValueError("cut short")
        if header["sh_flags"] & _ALLOC:
            kept = b"" if nobits else data[start : start + size]
            left -= len(kept)
            if left < 0:
                raise ValueError("sections overlap")
            sections.append(_section(section.name, header, segments, kept))
    symbols = _symbols(elf)
    wanted = tuple(symbol for symbol in symbols if symbol.kind != "tls" and symbol.name[:1] != "$")
    return ElfImage(tuple(sections), wanted, {symbol.name: symbol.address for symbol in symbols})


def _section(name: str, header: Any, segments: list[Any], data: bytes) -> Section:
    address, size = header["sh_addr"], header["sh_size"]
    nobits = header["sh_type"] == "SHT_NOBITS"
    load = address
    for segment in segments:
        inside = segment["p_vaddr"] <= address and address + size <= segment["p_vaddr"] + segment["p_memsz"]
        if inside and not nobits:
            load = address - segment["p_vaddr"] + segment["p_paddr"]
            break
    return Section(name, address, size, load, data, nobits and bool(header["sh_flags"] & _TLS))


def _symbols(elf: Any) -> list[Symbol]:
    table = elf.get_section_by_name(".symtab")
    if table is None:
        return []
    if table["sh_type"] != "SHT_SYMTAB" or table["sh_entsize"] not in _SYMBOL_BYTES:
        raise ValueError("its symbol table is damaged")
    thumb = elf["e_machine"] == "EM_ARM"
    found = []
    for symbol in table.iter_symbols():
        kind = _KINDS.get(symbol["st_info"]["type"])
        if kind is None or symbol["st_shndx"] == "SHN_UNDEF" or not symbol.name:
            continue
        # Bit 0 of a function's address says that it is Thumb code.
        address = symbol["st_value"] & ~1 if thumb and kind == "func" else symbol["st_value"]
        absolute = symbol["st_shndx"] == "SHN_ABS"
        found.append(Symbol(symbol.name, address, 0 if absolute else symbol["st_size"], kind))
    return found
