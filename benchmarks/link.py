#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of the link's frames: byte rates of 9,216 bytes there and back, unframed and framed, on the same links.

Unframed: the device sends back each byte. Framed echo: the same bytes in requests that the device answers with them.
Framed input: the same bytes written to a model's input, until the last is acknowledged. Goal: at least 0.9 of the
unframed echo's rate; exit code 1 where it is missed.

Rounds of all three follow each other, every other round in the opposite order, and each carries the 9,216 bytes as
often as takes 0.3 s. Rates are compared inside a round, and a row shows the medians over all rounds, with the least and
the most of the compared ones: other work on the machine slows a whole round, or shows in the spread. Only the device
that is measured runs.

Links: a pseudo-terminal at the pace of a UART (--baud); QEMU's mps2-an385 without an operating system; and, with
ZEPHYR_BASE, an app on Zephyr there, whose echo goes through the same driver and rings. Two more rows have no goal: a
pseudo-terminal as fast as it goes, in frames of 512 bytes and with room for an input in one. Nothing paces the bytes
there (some 60 MB/s, a thousand times a UART's), so that both sides measure this host's Python.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.common import Bench, positive, say_load  # noqa: E402
from tests.fakes.in_thread import raw_pty  # noqa: E402
from tests.fakes.link import toy  # noqa: E402
from tests.helpers.small_models import unary  # noqa: E402
from tflm_zephyr.boards.board import load_board  # noqa: E402
from tflm_zephyr.build.toolchain import detect_toolchain  # noqa: E402
from tflm_zephyr.build.workspace import find_workspace  # noqa: E402
from tflm_zephyr.device.session.device_session import DeviceSession  # noqa: E402
from tflm_zephyr.device.transport.link import Link, LinkEndedError, Opened  # noqa: E402
from tflm_zephyr.device.transport.qemu import QemuLink  # noqa: E402
from tflm_zephyr.device.transport.serial_port import SerialLink  # noqa: E402
from tflm_zephyr.errors import ToolError  # noqa: E402

GOAL = 0.9
BYTES = 9216
BOARD = "mps2/an385"
BITS_PER_BYTE = 10
_LEAST_S = 0.3
_MOST_TIMES = 1000
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
        self._master, self._slave = raw_pty()
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


@dataclass(frozen=True)
class Round:
    """Bytes per second of one round: unframed echo, framed echo, framed input."""

    raw: float
    echo: float
    given: float


def seconds(action: Callable[[], None], times: int = 1) -> float:
    """Seconds for so many repetitions."""
    start = time.perf_counter()
    for _ in range(times):
        action()
    return time.perf_counter() - start


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


def line(name: str, rounds: Sequence[Round]) -> tuple[str, float]:
    """A row of the table, and the ratio that the goal is for."""
    rates = (statistics.median(column) for column in zip(*((r.raw, r.echo, r.given) for r in rounds), strict=True))
    echo = statistics.median(r.echo / r.raw for r in rounds)
    ratios = [r.given / r.raw for r in rounds]
    given = statistics.median(ratios)
    shown = " ".join(f"{rate:>12,.0f}" for rate in rates)
    return f"{name:<26} {shown} {echo:>7.3f} {given:>7.3f} {min(ratios):>6.2f}-{max(ratios):<6.2f}", given


def compare(name: str, echo: Callable[[], Link], framed: Callable[[], Link], rounds: int, *, goal: bool = True) -> bool:
    """Print one row of the table; False when the goal is missed. `echo` and `framed` make links to new devices."""
    data = random.Random(1).randbytes(BYTES)
    times = 0

    def rate(action: Callable[[], None]) -> float:
        nonlocal times
        once = seconds(action)  # not counted: what happens once
        times = times or max(1, min(_MOST_TIMES, ceil(_LEAST_S / once)))
        return BYTES * times / seconds(action, times)

    def plain() -> float:
        with Opened(echo()) as link:
            return rate(lambda: unframed(link, data))

    def through_frames() -> tuple[float, float]:
        session = DeviceSession(framed(), reply_timeout_s=60)
        session.open()
        with session:
            step = session.hello.device.payload_bytes
            pieces = [data[at : at + step] for at in range(0, BYTES, step)]

            def framed_echo() -> None:
                if b"".join(session.echo(pieces)) != data:
                    raise ToolError("the framed echo gave other bytes back", where=name)

            return rate(framed_echo), rate(lambda: session.set_inputs([data]))

    found = []
    for number in range(rounds):
        if number % 2:
            (there, given), raw = through_frames(), plain()
        else:
            raw, (there, given) = plain(), through_frames()
        found.append(Round(raw, there, given))
    shown, ratio = line(name, found)
    met = ratio >= GOAL
    print(shown + (f"  (goal {GOAL}: {'ok' if met else 'missed'})" if goal else ""), flush=True)
    return met or not goal


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


def table(args: argparse.Namespace, folder: Path) -> bool:
    """Print all rows; False when a goal is missed."""
    head = (
        f"{'bytes per second':<26} {'unframed':>12} {'framed echo':>12} {'framed input':>12} {'echo':>7} {'input':>7}"
    )
    print(f"{head}  least-most", flush=True)
    plain = str(toy.compile_for_host(folder / "plain", "-O2"))
    large = str(toy.compile_for_host(folder / "large", *_LARGE))
    met = []
    for baud in args.baud:
        pace = partial(PtyLink, baud=baud)
        met.append(compare(f"pty at {baud} baud", partial(pace, [plain, "echo"]), partial(pace, [plain]), args.rounds))
    fast = partial(PtyLink, baud=None)
    rows = (("pty unpaced, 512 bytes", plain), ("pty unpaced, one frame", large))
    for name, program in rows:
        compare(name, partial(fast, [program, "echo"]), partial(fast, [program]), args.rounds, goal=False)
    qemu = load_board(BOARD).qemu
    assert qemu is not None
    emulated = partial(QemuLink, qemu)
    bare, echo = toy.compile_bare(folder / "bare"), toy.compile_bare(folder / "echo", "-DECHO")
    met.append(compare("QEMU, no system", partial(emulated, echo), partial(emulated, bare), args.rounds))
    if "ZEPHYR_BASE" in os.environ and not args.no_zephyr:
        framed, echo = zephyr(folder / "zephyr")
        met.append(compare("QEMU, Zephyr", partial(emulated, echo), partial(emulated, framed), args.rounds))
    return all(met)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 when a goal is missed or nothing could be measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--baud", type=int, nargs="*", default=[115200, 1000000], help="paces of the pseudo-terminal")
    parser.add_argument("--rounds", type=positive, default=9, help="rounds of each (default: 9)")
    parser.add_argument("--no-zephyr", action="store_true", help="leave the app on Zephyr out")
    args = parser.parse_args(argv)
    say_load()
    try:
        with tempfile.TemporaryDirectory(prefix="tflm-zephyr-link-") as name:
            return 0 if table(args, Path(name)) else 1
    except ToolError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
