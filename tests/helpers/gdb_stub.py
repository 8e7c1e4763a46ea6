# SPDX-License-Identifier: Apache-2.0
"""A program in QEMU under its GDB stub: memory and registers are read and written where it stops.

The protocol is the GDB Remote Serial Protocol, as "Appendix E" of GDB's manual has it.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from elftools.elf.elffile import ELFFile

from tflm_zephyr.boards import load_board
from tflm_zephyr.device.transport.qemu import find_qemu
from tflm_zephyr.device.transport.qemu_command import qemu_argv
from tflm_zephyr.footprint.attribution import path_in_space

SP = 13
_TIMEOUT_S = 30
_CONNECT_S = 10


class GdbStub:
    """The stub behind a connected socket."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._read = stream.makefile("rb")

    def ask(self, text: str) -> str:
        """Send a packet; returns the answer's text."""
        data = text.encode()
        self._stream.sendall(b"$%s#%02x" % (data, sum(data) & 0xFF))
        while self._read.read(1) != b"$":  # acknowledgements
            pass
        answer = b""
        while not answer.endswith(b"#"):
            answer += self._read.read(1)
        self._read.read(2)
        self._stream.sendall(b"+")
        return answer[:-1].decode()

    def read(self, address: int, size: int) -> bytes:
        """Bytes of memory."""
        return bytes.fromhex(self.ask(f"m{address:x},{size:x}"))

    def write(self, address: int, data: bytes) -> None:
        """Write memory, flash as well."""
        assert self.ask(f"M{address:x},{len(data):x}:{data.hex()}") == "OK"

    def flip(self, address: int, bit: int) -> None:
        """Flip a bit of the byte at `address`."""
        self.write(address, bytes([self.read(address, 1)[0] ^ 1 << bit]))

    def set_register(self, number: int, value: int) -> None:
        """Write a core register; QEMU lets who has read its description."""
        self.ask("qXfer:features:read:target.xml:0,1000")
        assert self.ask(f"P{number:x}={value.to_bytes(4, 'little').hex()}") == "OK"

    def run_to(self, address: int) -> None:
        """Go on until the instruction at `address`, in thumb state."""
        assert self.ask(f"Z0,{address & ~1:x},2") == "OK"
        assert self.ask("c")[0] in "ST"
        assert self.ask(f"z0,{address & ~1:x},2") == "OK"

    def detach(self) -> None:
        """Go on without a debugger."""
        self.ask("D")


def symbols(elf: Path) -> dict[str, tuple[int, int]]:
    """Address and size of each symbol of an ELF file, C++ ones by their names with :: between."""
    with elf.open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".symtab")
        named = [symbol for symbol in table.iter_symbols() if symbol.name]
        return {"::".join(path_in_space(symbol.name)): (symbol["st_value"], symbol["st_size"]) for symbol in named}


def run_under(board: str, elf: Path, meddle: Callable[[GdbStub], None], place: Path, until: str = "TFLM:end") -> str:
    """Run an ELF file in a board's QEMU, `meddle` with it before its first instruction; returns the console's text.

    It runs until a line has `until`, or an error. `place` is a folder for the socket.
    """
    spec = load_board(board).qemu
    assert spec is not None
    path = place / "gdb"
    path.unlink(missing_ok=True)
    argv = qemu_argv(spec, elf, binary=find_qemu(spec))
    argv += ("-S", "-chardev", f"socket,path={path},server=on,wait=off,id=gdb", "-gdb", "chardev:gdb")
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as qemu:
        try:
            with _connected(path) as stream:
                stub = GdbStub(stream)
                meddle(stub)
                stub.detach()
                return _console(qemu, until)
        finally:
            qemu.kill()


def _connected(path: Path) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(_TIMEOUT_S)
    end = time.monotonic() + _CONNECT_S
    while True:
        try:
            stream.connect(str(path))
        except OSError:
            assert time.monotonic() < end, "QEMU has no GDB stub"
            time.sleep(0.01)
        else:
            return stream


def _console(qemu: subprocess.Popen[bytes], until: str) -> str:
    """The console's text to the line with `until`; the app's messages come as lines."""
    assert qemu.stdout is not None
    text = ""
    for line in iter(qemu.stdout.readline, b""):
        text += line.decode(errors="replace")
        if until in text or ("TFLM:error" in text and text.endswith("\n")):
            break
    return text
