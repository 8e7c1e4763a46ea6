# SPDX-License-Identifier: Apache-2.0
"""A serial port as a link: a local one, or any URL that pyserial knows (socket://, rfc2217://, ...)."""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import serial

from tflm_zephyr.boards import Board, known_boards, load_board
from tflm_zephyr.device.transport.link import Capabilities, LinkBlockedError, LinkEndedError
from tflm_zephyr.device.transport.ports import SerialPort, choose_port, find_ports
from tflm_zephyr.device.transport.target import DeviceTarget, Transport
from tflm_zephyr.errors import DeviceError

_POLL_S = 0.05  # a port's own time-out stays as it is: changing it makes pyserial configure the port again
_WRITE_TIMEOUT_S = 10.0
_DEFAULT_BAUDRATE = 115200
_CAPABILITIES = Capabilities(reopens=True, can_flash=True)
_GONE: tuple[type[Exception], ...] = (OSError, TypeError, ValueError)
if sys.platform != "win32":
    import termios

    _GONE += (termios.error,)  # no OSError; pyserial lets it through while a port drains
_A_PORT = "A port is a device such as /dev/ttyACM0, or a URL such as socket://host:port"
_HINTS = {
    errno.ENOENT: "Is the board plugged in and switched on?",
    errno.EACCES: "Add yourself to the port's group (dialout on Debian), then log in again",
    errno.EPERM: "Add yourself to the port's group (dialout on Debian), then log in again",
    errno.EBUSY: "Another program has it open: a terminal, a modem manager, another run",
    errno.EAGAIN: "Another program has it open: a terminal, a modem manager, another run",
    errno.EISDIR: _A_PORT,
    errno.ENOTTY: _A_PORT,
    errno.ECONNREFUSED: "Nothing listens there; is the port server running?",
}
_TCP_PORT = re.compile(r"://[^/?]*:\d+(?:[/?]|$)")
_WHAT = {
    errno.ENOENT: "no such serial port",
    errno.EACCES: "no permission to open this serial port",
    errno.EPERM: "no permission to open this serial port",
    errno.EBUSY: "this serial port is busy",
    errno.EAGAIN: "this serial port is busy",
    errno.EISDIR: "is a folder, no serial port",
    errno.ENOTTY: "is no serial port",
}


class SerialLink:
    """The console port of a board at `url`; taken for this process alone while it is open."""

    where = "serial"
    capabilities = _CAPABILITIES
    instructions_per_tick: int | None = None

    def __init__(self, url: str, baudrate: int = _DEFAULT_BAUDRATE, find: Callable[[], str] | None = None) -> None:
        """`url`: a device ("/dev/ttyACM0") or a pyserial URL. Does not touch the port.

        `find` returns the present URL at each `open`: a board that is plugged in again may have another device name.
        """
        self.name = url
        self._find = find
        self._baudrate = baudrate
        self._port: Any = None

    def open(self) -> None:
        """Open the port. Raises DeviceError: missing, not permitted, busy, not a port, unreachable."""
        # pyserial's rfc2217:// takes no time-out for writing: its socket has the system's.
        write_timeout = None if self.name.startswith("rfc2217:") else _WRITE_TIMEOUT_S
        url = self.name if self._find is None else self._find()
        # Beside OSError, pyserial's URL handlers raise what their parsing does, and a RuntimeError for a setting that
        # they lack, such as a rate of no standard or a write time-out.
        try:
            self._port = serial.serial_for_url(
                url, baudrate=self._baudrate, timeout=_POLL_S, write_timeout=write_timeout, exclusive=True
            )
        except (OSError, ValueError, AttributeError, TypeError, EOFError, RuntimeError) as err:
            raise self._refused(err) from err

    def close(self) -> None:
        """Release the port."""
        port, self._port = self._port, None
        if port is not None:
            try:
                port.close()
            except (OSError, ValueError):
                return  # an unplugged port is released already

    def read(self, timeout_s: float) -> bytes:
        """See Link.read."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                data: bytes = self._port.read(1)
            except (OSError, TypeError, ValueError) as err:
                raise LinkEndedError("the port is gone: unplugged, or its server ended") from err
            if data:
                return data + self._waiting()
            if time.monotonic() >= deadline:
                return b""

    def _waiting(self) -> bytes:
        """The other bytes in the port's buffer. If the port ends here, the next read reports it, so no byte is lost."""
        try:
            return bytes(self._port.read(self._port.in_waiting))
        except (OSError, TypeError, ValueError):
            return b""

    def write(self, data: bytes) -> None:
        """See Link.write."""
        try:
            self._port.write(data)
            self._port.flush()
        except serial.SerialTimeoutException as err:
            raise LinkBlockedError(f"the port took nothing more for {_WRITE_TIMEOUT_S:g} s") from err
        except _GONE as err:
            raise LinkEndedError("the port is gone: unplugged, or its server ended") from err

    def _refused(self, err: BaseException) -> DeviceError:
        number = _errno_of(err)
        if number in _WHAT:
            hint = _HINTS[number]
            if number == errno.ENOENT:
                hint += f" Ports that are here: {', '.join(port.device for port in find_ports()) or 'none'}"
            return DeviceError(_WHAT[number], where=self.name, hint=hint)
        text = " ".join(str(err).split()) or type(err).__name__
        if self.name.partition("://")[0] in ("socket", "rfc2217") and not _TCP_PORT.search(self.name):
            text = "it names no TCP port"
        hint = _HINTS.get(number, _A_PORT)
        return DeviceError(f"cannot open this serial port ({text})", where=self.name, hint=hint)


def _errno_of(err: BaseException) -> int:
    """The errno of an error or of its cause; pyserial gives some only in the text."""
    seen: BaseException | None = err
    while seen is not None:
        number = getattr(seen, "errno", None)
        if isinstance(number, int):
            return number
        seen = seen.__cause__ or seen.__context__
    text = str(err)
    return next((number for number in _HINTS if f"[Errno {number}]" in text or os.strerror(number) in text), 0)


def _serves(target: DeviceTarget, board: Board | None) -> bool:
    return bool(target.port)


def _link(target: DeviceTarget, board: Board | None, program: Path | None) -> SerialLink:
    """The named port, or the one board's on USB, which is found again when it comes back as another device."""
    baudrate = target.baudrate or (board.serial.baudrate if board is not None else _DEFAULT_BAUDRATE)
    if target.port != "auto":
        return SerialLink(target.port, baudrate)
    first = _on_usb(target.usb_serial, board)

    def found_again() -> str:
        """The same console of the same board, on the same or another USB port; its ports come back one by one."""
        wanted = (first.vid, first.pid, first.serial_number, first.interface)
        ports = [p for p in find_ports() if (p.vid, p.pid, p.serial_number, p.interface) == wanted]
        here = [port for port in ports if port.place == first.place]
        return choose_port(here or (ports if first.serial_number else [])).device

    return SerialLink(first.device, baudrate, found_again)


def _on_usb(serial_number: str, board: Board | None) -> SerialPort:
    """The console of the one board on USB with the vendor of `board`; without one, with any described board's vendor.

    Where none of those is plugged in, any port on USB is taken.
    """
    ports = [port for port in find_ports() if port.vid is not None]
    vid = board.serial.usb_vid if board is not None else None
    if vid is None and not serial_number:
        known = {other.serial.usb_vid for other in map(load_board, known_boards())}
        ports = [port for port in ports if port.vid in known] or ports
    return choose_port(ports, usb_vid=vid, serial_number=serial_number or None, dev_id=True)


TRANSPORT = Transport("serial", _CAPABILITIES, _serves, _link)
