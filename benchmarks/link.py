#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the link's frames cost: byte rates of 9,216 bytes there and back, unframed and framed, on the same links.

Unframed: the device sends back each byte. Framed echo: the same bytes in requests that the device answers with them.
Framed input: the same bytes written to a model's input, until the last is acknowledged. Goal: at least 0.9 of the
unframed echo's rate. Rounds of all three alternate, and the medians are compared, as other work on the machine slows
all.

Links: a pseudo-terminal at the pace of a UART (--baud) and as fast as it goes, where the host's Python is measured, in
frames of 512 bytes for what they cost it, and with room for an input in one; QEMU's mps2-an385 without an operating
system; and, with ZEPHYR_BASE, an app on Zephyr there, whose echo goes through the same driver and rings.
"""

from __future__ import annotations

import argparse
import os
import pty
import random
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tty
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.common import Bench  # noqa: E402
from tests.fakes.link import toy  # noqa: E402
from tests.unit.small_models import unary  # noqa: E402
from tflm_zephyr.board import load_board  # noqa: E402
from tflm_zephyr.errors import ToolError  # noqa: E402
from tflm_zephyr.run.link import Link, LinkEndedError, Opened  # noqa: E402
from tflm_zephyr.run.qemu_link import QemuLink  # noqa: E402
from tflm_zephyr.run.serial_link import SerialLink  # noqa: E402
from tflm_zephyr.session.device_session import DeviceSession  # noqa: E402
from tflm_zephyr.toolchain import detect_toolchain  # noqa: E402
from tflm_zephyr.workspace import find_workspace  # noqa: E402

GOAL = 0.9
BYTES = 9216
BOARD = "mps2/an385"
BITS_PER_BYTE = 10
_LARGE = ("-O2", "-DTFLM_LINK_PAYLOAD_BYTES=16384", "-DWINDOW_BYTES=65535")
_ECHO = """#include "link/zephyr_port.hpp"

int main()
{
	const tflm_link::Port port = tflm_link::OpenPort();
	while (true) {
		static uint8_t data[512];
		const size_t size = port.read(port.context, data, sizeof(data));
		port.lock(port.context, true);
		port.write(port.context, data, size);
		port.lock(port.context, false);
	}
}
"""


class PtyLink(SerialLink):
    """A program behind a pseudo-terminal: directly, or at the pace of a UART."""

    def __init__(self, argv: list[str], baud: int | None) -> None:
        self._argv, self._baud = argv, baud
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        self._stop = threading.Event()
        super().__init__(os.ttyname(self._slave))

    def open(self) -> None:
        """Start the program and open the port."""
        if self._baud is None:
            self._child = subprocess.Popen(self._argv, stdin=self._master, stdout=self._master)
        else:
            self._child = subprocess.Popen(self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
            assert self._child.stdin is not None
            assert self._child.stdout is not None
            ways = ((self._master, self._child.stdin.fileno()), (self._child.stdout.fileno(), self._master))
            self._threads = [threading.Thread(target=self._carry, args=way) for way in ways]
            for thread in self._threads:
                thread.start()
        super().open()

    def close(self) -> None:
        """End all of it."""
        super().close()
        self._stop.set()
        for thread in getattr(self, "_threads", []):
            thread.join()
        self._child.kill()
        self._child.wait()
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None:
                stream.close()
        os.close(self._master)
        os.close(self._slave)

    def _carry(self, source: int, target: int) -> None:
        """Bytes as a UART would bring them: none before its time."""
        assert self._baud is not None
        free = 0.0
        while not self._stop.is_set():
            if not select.select([source], [], [], 0.05)[0]:
                continue
            data = os.read(source, 64)
            free = max(free, time.perf_counter()) + len(data) * BITS_PER_BYTE / self._baud
            time.sleep(max(0.0, free - time.perf_counter()))
            os.write(target, data)


def rate(action: Callable[[], None]) -> float:
    """Bytes per second of BYTES that `action` carries."""
    start = time.perf_counter()
    action()
    return BYTES / (time.perf_counter() - start)


def unframed(link: Link, data: bytes) -> None:
    """There and back, as they are."""
    link.write(data)
    back = b""
    while len(back) < len(data):
        got = link.read(30)
        if not got:
            raise LinkEndedError("the echo fell silent")
        back += got
    if back != data:
        raise ToolError("the echo gave other bytes back", where=link.name)


def compare(name: str, echo: Link, framed: Link, rounds: int, *, goal: bool = True) -> None:
    """One row of the table."""
    data = random.Random(1).randbytes(BYTES)
    session = DeviceSession(framed, reply_timeout_s=60)
    with Opened(echo):
        session.open()
        with session:
            step = session.hello.limits.payload_bytes
            pieces = [data[at : at + step] for at in range(0, BYTES, step)]

            def framed_echo() -> None:
                if b"".join(session.echo(pieces)) != data:
                    raise ToolError("the framed echo gave other bytes back", where=name)

            rows = [
                (
                    rate(lambda: unframed(echo, data)),
                    rate(framed_echo),
                    rate(lambda: session.set_inputs([data])),
                )
                for _ in range(rounds + 1)
            ][1:]
    raw, there, given = (statistics.median(column) for column in zip(*rows, strict=True))
    verdict = f"  (goal {GOAL}: {'ok' if given >= GOAL * raw else 'missed'})" if goal else ""
    shown = f"{raw:>12,.0f} {there:>12,.0f} {given:>12,.0f} {there / raw:>7.3f} {given / raw:>7.3f}"
    print(f"{name:<34} {shown}{verdict}", flush=True)


def zephyr(folder: Path) -> tuple[Path, Path]:
    """The ELFs of an app with the link, and of one whose main() echoes."""
    folder.mkdir()
    bench = Bench(find_workspace(), detect_toolchain(), folder)
    path = folder / "relu.tflite"
    path.write_bytes(unary("RELU", shape=(1, 96, 96, 1)))
    framed = bench.app("framed", path, BOARD, "--host-link")
    echo = bench.app("echo", path, BOARD, "--host-link")
    (echo / "src" / "main.cpp").write_text(_ECHO)
    return bench.build(framed, BOARD).elf, bench.build(echo, BOARD).elf


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--baud", type=int, nargs="*", default=[115200, 1000000], help="paces of the pseudo-terminal")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each (default: 9)")
    parser.add_argument("--no-zephyr", action="store_true", help="leave the app on Zephyr out")
    args = parser.parse_args()
    print(
        f"{'bytes per second':<34} {'unframed':>12} {'framed echo':>12} {'framed input':>12} {'echo':>7} {'input':>7}"
    )
    with tempfile.TemporaryDirectory(prefix="tflm-zephyr-link-") as name:
        folder = Path(name)
        plain = str(toy.compile_for_host(folder / "plain", "-O2"))
        large = str(toy.compile_for_host(folder / "large", *_LARGE))
        for baud in args.baud:
            compare(f"pty at {baud} baud", PtyLink([plain, "echo"], baud), PtyLink([plain], baud), min(args.rounds, 5))
        compare(
            "pty, frames of 512 bytes",
            PtyLink([plain, "echo"], None),
            PtyLink([plain], None),
            args.rounds * 9,
            goal=False,
        )
        compare("pty, one frame", PtyLink([large, "echo"], None), PtyLink([large], None), args.rounds * 9)
        qemu = load_board(BOARD).qemu
        assert qemu is not None
        bare, echo = toy.compile_bare(folder / "bare"), toy.compile_bare(folder / "echo", "-DECHO")
        compare("QEMU, no operating system", QemuLink(qemu, echo), QemuLink(qemu, bare), args.rounds)
        if "ZEPHYR_BASE" in os.environ and not args.no_zephyr:
            framed, echo = zephyr(folder / "zephyr")
            compare("QEMU, Zephyr", QemuLink(qemu, echo), QemuLink(qemu, framed), args.rounds)


if __name__ == "__main__":
    main()
