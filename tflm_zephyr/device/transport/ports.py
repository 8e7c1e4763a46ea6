# SPDX-License-Identifier: Apache-2.0
"""Finds a board's console among the serial ports, by USB id; a choice between boards is never guessed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from serial.tools import list_ports

from tflm_zephyr.errors import DeviceError

SEGGER_VID = 0x1366  # the J-Link on Nordic's development kits

_NUMBERS = re.compile(r"(\d+)")
_INTERFACE = re.compile(r":\d+\.(\d+)$")


@dataclass(frozen=True)
class SerialPort:
    """A serial port of this host. `vid` and `pid` are None when it is not on USB.

    `interface` is the number of the USB interface, which differs between the ports of one debug probe; `place` is its
    place on USB (Linux's "1-4.1"), the same for all ports of a probe, "" where the system does not say.
    """

    device: str
    vid: int | None = None
    pid: int | None = None
    serial_number: str = ""
    interface: int | None = None
    description: str = ""
    place: str = ""

    @property
    def board(self) -> tuple[object, ...]:
        """A key that is equal for the ports of one board; other boards have another, even with its serial number."""
        itself = "" if self.serial_number or self.place else self.device
        return self.vid, self.pid, self.serial_number, self.place, itself


def find_ports(usb_vid: int | None = None) -> tuple[SerialPort, ...]:
    """The host's serial ports in natural order; with `usb_vid`, only those of that USB vendor."""
    ports = [
        SerialPort(
            info.device,
            info.vid,
            info.pid,
            info.serial_number or "",
            _interface(info.location or ""),
            info.description or "",
            (info.location or "").partition(":")[0],
        )
        for info in list_ports.comports()
    ]
    return tuple(sorted((p for p in ports if usb_vid in (None, p.vid)), key=_order))


def choose_port(
    ports: Iterable[SerialPort],
    *,
    usb_vid: int | None = None,
    serial_number: str | None = None,
    dev_id: bool = False,
) -> SerialPort:
    """The console port of the one board among `ports`; `serial_number` selects a board. `dev_id`: --dev-id can, too.

    A debug probe with several ports shows the console (vcom0, Zephyr's uart0 on the nRF9160 DK) on its lowest
    USB interface. Raises DeviceError for no board, or for several of which none was selected.
    """
    found = [port for port in ports if usb_vid in (None, port.vid)]
    if serial_number is not None:
        wanted = _bare(serial_number)
        if not wanted:
            raise DeviceError(f"{serial_number!r} is no serial number", hint="It is printed on the board")
        found = [port for port in found if _bare(port.serial_number) == wanted]
    if not found:
        what = f"no board with serial number {serial_number}" if serial_number else "no board found on USB"
        raise DeviceError(what, hint="Plug it in and switch it on, or name its port with --port")
    boards: dict[tuple[object, ...], list[SerialPort]] = {}
    for port in found:
        boards.setdefault(port.board, []).append(port)
    if len(boards) > 1:
        numbers = {_bare(group[0].serial_number) for group in boards.values()}
        distinct = dev_id and len(numbers) == len(boards) and "" not in numbers
        raise DeviceError(
            f"{len(boards)} boards found: {'; '.join(_listing(group) for group in boards.values())}",
            hint="Choose one with --dev-id or --port" if distinct else "Choose one with --port",
        )
    return min(found, key=lambda port: (port.interface is None, port.interface or 0, _order(port)))


def _listing(group: Sequence[SerialPort]) -> str:
    first = group[0]
    name = f"serial number {first.serial_number}" if first.serial_number else first.description
    return f"{' '.join(port.device for port in sorted(group, key=_order))} ({name})"


def _order(port: SerialPort) -> tuple[tuple[int, str], ...]:
    """Sort key of natural order: ttyACM2 before ttyACM10."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in _NUMBERS.split(port.device))


def _interface(location: str) -> int | None:
    """The 2 of a Linux location "1-4.1:1.2"; None where the system gives none."""
    found = _INTERFACE.search(location)
    return int(found[1]) if found else None


def _bare(serial_number: str) -> str:
    """A serial number for comparison: boards show it without USB's leading zeros, letters in either case."""
    return serial_number.strip().lstrip("0").lower()
