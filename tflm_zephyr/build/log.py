# SPDX-License-Identifier: Apache-2.0
"""Reads the log of a west build: its first error in one line, and the linker's memory table. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_LIMIT = 300  # characters of an error's text

_COMPILER = re.compile(r"^(?P<where>\S.*?:\d+(?::\d+)?): (?:fatal )?error: (?P<text>.*)$")
_LINKER = re.compile(
    r"(?:^(?P<where>\S+:\d+): )?"
    r"(?P<text>undefined reference to .*|multiple definition of [^;]*|(?<=: )cannot find -l\S+.*"
    r"|region [`'](?P<region>[^`']+)' overflowed by \d+ bytes)$"
)
_NO_ROOM = re.compile(r"will not fit in region")
_CMAKE = re.compile(r"^\s*CMake Error(?: at (?P<where>\S+?:\d+))?(?: \([^)]*\))?:?\s*(?P<text>.*)$")
_CMAKE_CHILD = re.compile(r"command failed with return code|execute_process failed|Command failed|failed with error")
_KCONFIG_ABORT = re.compile(r"^error: Aborting due to Kconfig warnings")
_KCONFIG_START = re.compile(r"^Parsing \S*Kconfig")
_KCONFIG_WARNING = re.compile(r"^(?:(?P<where>\S+:\d+): )?warning: (?P<text>.*)$")
_DEFINED_AT = re.compile(r" \(defined at [^)]*\)")
_DEVICETREE = re.compile(r"^devicetree error: (?P<text>.*)$|^Error: (?P<dtc>\S+\.dts\S*:.*)$")
_PYTHON = re.compile(r"^(?P<text>(?:ModuleNotFoundError|ImportError): .*)$")
_WEAK = (
    re.compile(r"^ninja: error: (?P<text>.*)$"),
    re.compile(r"^(?P<text>FAILED: \S+)"),
    re.compile(r"^FATAL ERROR: (?P<text>.*)$"),
    re.compile(r"^ERROR: (?P<text>.*)$"),
    re.compile(r"^(?:west|error): (?P<text>.*)$"),
)
_TABLE_HEAD = re.compile(r"^Memory region\s+Used Size\s+Region Size\s+%age Used")
_TABLE_ROW = re.compile(r"^\s*(?P<name>[\w.]+):\s+(?P<used>\d+) (?P<unit>[KMG]?B)\s+(?P<size>\d+) (?P<of>[KMG]?B)\b")
_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
LINKER_ONLY = frozenset({"IDT_LIST"})  # read by Zephyr's build from the ELF file; not in the device
# Picolibc's errno is thread-local. Without Zephyr's thread-local storage its address is an offset from 0.
_ORPHANED_TLS = re.compile(r"warning: orphan section [`']\.tbss'")
_NO_STORAGE_FOR_ERRNO = (
    "the C library's errno is thread-local, and this build has no thread-local storage: code that sets errno, such as "
    "Zephyr's sockets, ends in a fault. Set ZEPHYR_TOOLCHAIN_SUPPORTS_THREAD_LOCAL_STORAGE=y in the environment and "
    "build again"
)


@dataclass(frozen=True)
class FirstError:
    """The error that a build failed with.

    `kind`: "compiler", "linker", "overflow", "cmake", "kconfig", "devicetree", "python", "other". For an
    overflow, `region` is the memory that is too small.
    """

    kind: str
    text: str
    where: str = ""
    region: str = ""


@dataclass(frozen=True)
class MemoryRegion:
    """A row of the linker's table: bytes used of a memory region of `size_bytes`.

    The linker rounds neither, but prints whole KB, MB or GB where a number is one.
    """

    name: str
    used_bytes: int
    size_bytes: int


def first_error(lines: Sequence[str]) -> FirstError | None:
    """The first error in a failed build's log; None when no line looks like an error."""
    for number, line in enumerate(lines):
        found = _strong(lines, number, line.rstrip())
        if found is not None:
            return found
    for pattern in _WEAK:
        for line in lines:
            match = pattern.match(line.rstrip())
            if match:
                return FirstError("other", _short(match["text"]))
    return None


def warnings_of(lines: Sequence[str]) -> tuple[str, ...]:
    """Warnings of the log that mean a fault on the device, each as one line with its remedy."""
    return (_NO_STORAGE_FOR_ERRNO,) if any(_ORPHANED_TLS.search(line) for line in lines) else ()


def memory_regions(lines: Sequence[str]) -> tuple[MemoryRegion, ...]:
    """The last table in the log, which is the app's: TF-M's images come before it. Empty when none is."""
    heads = [number for number, line in enumerate(lines) if _TABLE_HEAD.match(line)]
    regions: list[MemoryRegion] = []
    for line in lines[heads[-1] + 1 :] if heads else ():
        row = _TABLE_ROW.match(line)
        if row is None:
            break
        if row["name"] not in LINKER_ONLY:
            used, size = int(row["used"]) * _UNITS[row["unit"]], int(row["size"]) * _UNITS[row["of"]]
            regions.append(MemoryRegion(row["name"], used, size))
    return tuple(regions)


def _strong(lines: Sequence[str], number: int, line: str) -> FirstError | None:
    if match := _COMPILER.match(line):
        # Zephyr's Kconfig script puts its own name before the place.
        where = match["where"].rpartition(": ")[2]
        kind = "kconfig" if "Kconfig" in where else "compiler"
        return FirstError(kind, _short(match["text"]), where)
    if _NO_ROOM.search(line):
        return None  # the overflow's line with its bytes comes next
    if match := _LINKER.search(line):
        if match["region"]:
            return FirstError("overflow", match["text"], "", match["region"])
        return FirstError("linker", _short(match["text"]), match["where"] or "")
    if match := _DEVICETREE.match(line):
        return FirstError("devicetree", _short(match["text"] or match["dtc"]))
    if match := _PYTHON.match(line):
        return FirstError("python", _short(match["text"]))
    if _KCONFIG_ABORT.match(line):
        return _kconfig(lines[:number])
    if match := _CMAKE.match(line):
        text = _short(" ".join([match["text"], *_paragraph(lines[number + 1 :])]))
        return None if _CMAKE_CHILD.search(text) else FirstError("cmake", text, match["where"] or "")
    return None


def _kconfig(lines: Sequence[str]) -> FirstError:
    """The first warning since Kconfig was last read, with the dependencies that its next lines name."""
    starts = [number for number, line in enumerate(lines) if _KCONFIG_START.match(line)]
    for number in range(starts[-1] if starts else 0, len(lines)):
        match = _KCONFIG_WARNING.match(lines[number].rstrip())
        if match:
            text = " ".join([match["text"], *_paragraph(lines[number + 1 :])])
            return FirstError("kconfig", _short(_DEFINED_AT.sub("", text)), match["where"] or "")
    return FirstError("kconfig", "Kconfig warnings")


def _paragraph(lines: Sequence[str]) -> list[str]:
    """The text up to the next empty line, except for empty lines at its start or after a colon."""
    found: list[str] = []
    for line in lines:
        text = line.strip()
        if text.startswith("Call Stack") or (found and not text and not found[-1].endswith(":")):
            break
        if text:
            found.append(text)
    return found


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _LIMIT else plain[: _LIMIT - 3] + "..."
