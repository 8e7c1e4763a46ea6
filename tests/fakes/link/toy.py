# SPDX-License-Identifier: Apache-2.0
"""Compiles the generated src/link with a toy model; runs it as a process, or in QEMU without an operating system."""

from __future__ import annotations

import os
import select
import subprocess
from pathlib import Path

from tflm_zephyr.codegen.line_breaks import broken
from tflm_zephyr.codegen.rendering import environment
from tflm_zephyr.device.transport.link import Capabilities, LinkEndedError

HERE = Path(__file__).parent
BYTES = 9216
CHECKED = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_COMMON = ("-std=c++17", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-fno-exceptions", "-fno-rtti")
_BARE = (
    *("--specs=picolibc.specs", "-mcpu=cortex-m3", "-mthumb", "-Os", "-fno-threadsafe-statics"),
    "-Wl,--defsym=__flash=0,--defsym=__flash_size=0x400000,--defsym=__ram=0x20000000,--defsym=__ram_size=0x400000",
)


def expected(data: bytes) -> bytes:
    """What the toy model makes of its input."""
    return bytes((3 * (byte ^ 0x55) + 1) & 0xFF for byte in reversed(data))


def folded(data: bytes) -> bytes:
    """The outputs of the model "streamed" for its input."""
    found = bytearray(64)
    for k, byte in enumerate(data):
        found[k % 64] = (31 * found[k % 64] + byte) & 0xFF
    return bytes(found)


def render_link() -> dict[str, bytes]:
    """The part of tflm/src/link that needs neither Zephyr nor TFLM, as an app has it: path -> content."""
    env = environment("app/common")
    names = [f"src/link/{name}.{kind}" for name in ("device", "frame", "mlperf") for kind in ("cpp", "hpp")]
    return {name: broken(env.get_template(f"{name}.j2").render()).encode() for name in names}


def sources(folder: Path) -> Path:
    """The generated src/link in `folder`, which is returned."""
    for path, data in render_link().items():
        target = folder / path.removeprefix("src/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return folder


def compile_for_host(folder: Path, *flags: str) -> Path:
    """The toy as a program of this host."""
    return _compile(folder, "g++", (*_COMMON, *(flags or CHECKED)), ("toy", "posix_port", "posix_main"), "toy")


def compile_mlperf(folder: Path) -> Path:
    """MLPerf Tiny's dialect with a model of any types, as a program of this host: see mlperf_main.cpp."""
    return _compile(folder, "g++", (*_COMMON, *CHECKED), ("posix_port", "mlperf_main"), "mlperf")


def compile_bare(folder: Path, *flags: str) -> Path:
    """The toy for QEMU's mps2-an385."""
    return _compile(folder, "arm-none-eabi-g++", (*_COMMON, *_BARE, *flags), ("toy", "baremetal_main"), "toy.elf")


def _compile(folder: Path, compiler: str, flags: tuple[str, ...], own: tuple[str, ...], name: str) -> Path:
    top = sources(folder)
    portable = [str(top / "link" / file) for file in ("frame.cpp", "device.cpp", "mlperf.cpp")]
    files = [*portable, *(str(HERE / f"{file}.cpp") for file in own)]
    argv = [compiler, *flags, "-I", str(top), "-I", str(HERE), *files, "-o", str(folder / name)]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / name


class ToyLink:
    """The toy as a child process on two pipes."""

    where = "serial"
    capabilities = Capabilities(reopens=True)
    instructions_per_tick: int | None = None

    def __init__(self, program: Path, *words: str) -> None:
        self.name = "toy"
        self._argv = [str(program), *words]
        self._child: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Start it, unless it runs: a cable that is put back."""
        if self._child is None:
            self._child = subprocess.Popen(self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def restart(self) -> None:
        """A reset."""
        self.end()
        self.open()

    def end(self) -> None:
        """Kill it."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            for stream in (self._child.stdin, self._child.stdout):
                if stream is not None:
                    stream.close()
            self._child = None

    def close(self) -> None:
        """End it; its sanitizers had nothing to say."""
        child, self._child = self._child, None
        if child is not None:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.close()
            while child.stdout.read(1 << 16):
                pass
            child.stdout.close()
            assert child.wait(20) == 0, f"toy ended with {child.returncode}"

    def read(self, timeout_s: float) -> bytes:
        """See Link."""
        assert self._child is not None
        assert self._child.stdout is not None
        if not select.select([self._child.stdout], [], [], timeout_s)[0]:
            return b""
        data = os.read(self._child.stdout.fileno(), 1 << 16)
        if not data:
            raise LinkEndedError("the toy ended")
        return data

    def write(self, data: bytes) -> None:
        """See Link."""
        assert self._child is not None
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(data)
            self._child.stdin.flush()
        except OSError as err:
            raise LinkEndedError("the toy ended") from err
