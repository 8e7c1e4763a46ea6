# SPDX-License-Identifier: Apache-2.0
"""How deep functions of a linked Thumb image stack, from its disassembly. Pure but for `disassemble`.

A function's frame is the sum of all that its instructions push and take off the stack pointer, so that library
functions written in assembly count like any other. It equals GCC's -fstack-usage wherever a function has one
prologue, and is more where paths of a function have one each. A call counts with the caller's whole frame, a tail
call too. So depths are upper bounds, with three exceptions that are allowances: a call of itself, direct or by way
of others, counts for RECURSION_BYTES; a frame of variable size for VARIABLE_BYTES; a call through a pointer for
what the caller of `Depths` says can be there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tflm_zephyr import process
from tflm_zephyr.errors import BuildError

RECURSION_BYTES = 256
VARIABLE_BYTES = 256

_HEADER = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_LINE = re.compile(r"^\s*[0-9a-f]+:\t([a-z0-9.]+)(?:\t(.*))?$")
_TARGET = re.compile(r"\b([0-9a-f]+) <([^>+]+)>")
_LIST = re.compile(r"\{([^}]*)\}")
_PUSHED = re.compile(r"\[sp, #-(\d+)\]!")
_LOWERED = re.compile(r"sp(?:, sp)?, #(\d+)")
_RANGE = re.compile(r"([rsd])(\d+)-[rsd](\d+)")


@dataclass(frozen=True)
class Function:
    """Bytes of its frame, the addresses that it calls or jumps to, and whether it calls through a pointer.

    `name` is that of its symbol; several functions may have the same.
    """

    name: str
    frame_bytes: int
    calls: frozenset[int]
    indirect: bool
    variable: bool


def disassemble(elf: Path, objdump: str) -> dict[int, Function]:
    """The functions of an ELF file by address. Raises BuildError."""
    done = process.run((objdump, "-d", "--no-show-raw-insn", str(elf)), cwd=elf.parent)
    if done.returncode != 0:
        raise BuildError(f"exit code {done.returncode}:\n{done.output}", where=" ".join(done.argv))
    return functions(done.output)


def functions(listing: str) -> dict[int, Function]:
    """Functions by address, from what objdump -d prints."""
    found: dict[int, Function] = {}
    name, address, body = "", 0, list[tuple[str, str]]()
    for line in listing.splitlines():
        header = _HEADER.match(line)
        if header is not None:
            if name:
                found[address] = _function(name, address, body)
            address, name, body = int(header[1], 16), header[2], []
        elif (instruction := _LINE.match(line)) is not None:
            body.append((instruction[1], instruction[2] or ""))
    if name:
        found[address] = _function(name, address, body)
    return found


def _function(name: str, address: int, body: Iterable[tuple[str, str]]) -> Function:
    frame, calls, indirect, variable = 0, set[int](), False, False
    for opcode, operands in body:
        base = opcode.partition(".")[0]
        target = _TARGET.search(operands)
        if base.startswith("b") and target is not None:
            if int(target[1], 16) != address and not operands.startswith("{"):
                calls.add(int(target[1], 16))
        elif base in ("blx", "bx") and operands.strip() != "lr":
            indirect = True
        elif base in ("push", "vpush") or (base in ("stmdb", "vstmdb") and operands.startswith("sp!")):
            frame += _registers_bytes(operands)
        elif (pushed := _PUSHED.search(operands)) is not None:
            frame += int(pushed[1])
        elif base in ("sub", "subw", "subs") and operands.startswith("sp"):
            lowered = _LOWERED.match(operands)
            frame += int(lowered[1]) if lowered else 0
            variable |= lowered is None
        elif base == "add" and re.match(r"sp, (sp, )?r", operands):
            variable = True  # a frame too large for an immediate, or its end
    return Function(name, frame, frozenset(calls), indirect, variable)


def _registers_bytes(operands: str) -> int:
    """Bytes of the registers in braces: "{r4, r5, lr}", "{d8-d15}"."""
    listed = _LIST.search(operands)
    total = 0
    for item in (listed[1] if listed else "").split(","):
        text = item.strip()
        span = _RANGE.fullmatch(text)
        count = int(span[3]) - int(span[2]) + 1 if span else 1
        total += count * (8 if text.startswith("d") else 4)
    return total


class Depths:
    """Depths in `image` (functions by address); a call through a pointer takes `indirect_bytes` more."""

    def __init__(self, image: Mapping[int, Function], indirect_bytes: int) -> None:
        self._image, self._indirect_bytes = image, indirect_bytes
        self._known: dict[int, int] = {}
        self._open: set[int] = set()
        self.allowances: set[str] = set()

    def of(self, address: int) -> int:
        """Bytes that the function at `address` and all that it calls take at most; 0 where there is none."""
        if address in self._known:
            return self._known[address]
        function = self._image.get(address)
        if function is None:
            return 0
        if address in self._open:
            self.allowances.add(f"{function.name}: recursion")
            return RECURSION_BYTES
        self._open.add(address)
        below = max([self.of(call) for call in sorted(function.calls)], default=0)
        if function.indirect:
            below = max(below, self._indirect_bytes)
        if function.variable:
            self.allowances.add(f"{function.name}: variable frame")
            below += VARIABLE_BYTES
        self._open.discard(address)
        self._known[address] = function.frame_bytes + below
        return self._known[address]

    def deepest(self, addresses: Iterable[int]) -> int:
        """The most of several functions; 0 of none."""
        return max([self.of(address) for address in addresses], default=0)


def named(image: Mapping[int, Function], pattern: str) -> list[int]:
    """The addresses of functions whose name matches, sorted."""
    wanted = re.compile(pattern)
    return sorted(address for address, function in image.items() if wanted.search(function.name))


def called(image: Mapping[int, Function]) -> frozenset[int]:
    """The addresses that some other function calls directly."""
    return frozenset(
        call for address, function in image.items() for call in function.calls if call != address and call in image
    )
