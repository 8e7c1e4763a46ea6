# SPDX-License-Identifier: Apache-2.0
"""What lies between a host and a device: a pseudo-terminal, and harm done to the bytes on their way."""

from __future__ import annotations

import os
import random
import select
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.fakes.in_thread import InThread, raw_pty
from tflm_zephyr.device.transport.link import Link

Harm = Callable[[bytes], bytes]


def unharmed(data: bytes) -> bytes:
    """No harm."""
    return data


class Noise:
    """Drops, doubles or flips each byte with a small chance each; `count` is how many were hit."""

    def __init__(self, seed: int, *, drop: float = 0.0, double: float = 0.0, flip: float = 0.0) -> None:
        self._rng = random.Random(seed)
        self._limits = (drop, drop + double, drop + double + flip)
        self.count = 0

    def __call__(self, data: bytes) -> bytes:
        out = bytearray()
        drop, double, flip = self._limits
        for byte in data:
            chance = self._rng.random()
            self.count += chance < flip
            if chance < drop:
                continue
            if chance < double:
                out += bytes((byte, byte))
            elif chance < flip:
                out.append(byte ^ 1 << self._rng.randrange(8))
            else:
                out.append(byte)
        return bytes(out)


class DamagedFrames:
    """Flips one bit in one of `one_in` frames; whole frames come in any pieces."""

    def __init__(self, seed: int, one_in: int = 100) -> None:
        self._rng = random.Random(seed)
        self._one_in = one_in
        self._skip = self._next()
        self.count = 0

    def _next(self) -> int:
        return self._rng.randrange(2 * self._one_in - 1) + 1

    def __call__(self, data: bytes) -> bytes:
        if b"\xfe" not in data:
            return data
        out, at = bytearray(data), 0
        while (at := data.find(b"\0\xfe", at)) >= 0:
            at += 2
            self._skip -= 1
            if self._skip <= 0 and at < len(out):
                self._skip = self._next()
                self.count += 1
                out[min(at + self._rng.randrange(12), len(out) - 1)] ^= 1 << self._rng.randrange(8)
        return bytes(out)


class HarmedLink:
    """A link whose bytes come to harm."""

    def __init__(self, link: Link, *, to_device: Harm = unharmed, to_host: Harm = unharmed) -> None:
        self.name, self.where = link.name, link.where
        self.capabilities, self.instructions_per_tick = link.capabilities, link.instructions_per_tick
        self._link, self._to_device, self._to_host = link, to_device, to_host

    def open(self) -> None:
        """See Link."""
        self._link.open()

    def close(self) -> None:
        """See Link."""
        self._link.close()

    def read(self, timeout_s: float) -> bytes:
        """See Link."""
        return self._to_host(self._link.read(timeout_s))

    def write(self, data: bytes) -> None:
        """See Link."""
        self._link.write(self._to_device(data))


class PtyDevice(InThread):
    """The toy behind a pseudo-terminal at `port`, a name that stays when the cable is unplugged and put back."""

    def __init__(
        self,
        program: Path,
        folder: Path,
        *words: str,
        to_device: Harm = unharmed,
        to_host: Harm = unharmed,
        before: bytes = b"",
    ) -> None:
        """`before` comes before any answer, as soon as a host has sent something: a port drops what came unheard."""
        super().__init__()
        self.port = str(folder / "tty")
        self.to_device, self.to_host = to_device, to_host
        self._argv = [str(program), *words]
        self._before = before
        self._lock = threading.Lock()
        self._master = self._slave = -1
        self.sent = 0  # bytes that went to the device

    def begin(self) -> None:
        """See InThread."""
        self._start()
        self.plug()

    def end(self) -> None:
        """See InThread."""
        self.unplug()
        self._end()

    def plug(self) -> None:
        """Put the cable in."""
        with self._lock:
            self._master, self._slave = raw_pty(blocking=False)
            Path(self.port).symlink_to(os.ttyname(self._slave))

    def unplug(self) -> None:
        """Pull it; what is on its way is lost."""
        with self._lock:
            if self._master >= 0:
                Path(self.port).unlink()
                os.close(self._slave)
                os.close(self._master)
                self._master = self._slave = -1

    def reset(self) -> None:
        """The device starts anew."""
        with self._lock:
            self._end()
            self._start()

    def _start(self) -> None:
        self._child = subprocess.Popen(self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def _end(self) -> None:
        self._child.kill()
        self._child.wait()
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        self._child.stdout.close()

    def work(self) -> None:
        """See InThread."""
        while not self.stop.is_set():
            with self._lock:
                moved = self._move()
            if not moved:
                time.sleep(0.0005)

    def _move(self) -> bool:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        out = self._child.stdout.fileno()
        streams = [out] if self._master < 0 else [out, self._master]
        ready = select.select(streams, [], [], 0)[0]
        if self._master in ready:
            try:
                data = os.read(self._master, 4096)
                os.write(self._master, self._before)
                self._before = b""
                os.write(self._child.stdin.fileno(), self.to_device(data))
                self.sent += len(data)
            except OSError:
                return False
        if out in ready:
            data = self.to_host(os.read(out, 4096))
            while data and self._master >= 0:
                try:
                    data = data[os.write(self._master, data) :]
                except BlockingIOError:  # the host is slow
                    if self.stop.wait(0.001):
                        break
        return bool(ready)
