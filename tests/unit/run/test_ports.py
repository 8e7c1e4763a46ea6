# SPDX-License-Identifier: Apache-2.0
"""Choosing a board's console by USB id: one board is found, several are listed, none is said."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tflm_zephyr.errors import DeviceError
from tflm_zephyr.run import ports
from tflm_zephyr.run.ports import SEGGER_VID, SerialPort, choose_port, find_ports

DK = [
    SerialPort("/dev/ttyACM10", SEGGER_VID, 0x1055, "000960012345", 4, "J-Link"),
    SerialPort("/dev/ttyACM2", SEGGER_VID, 0x1055, "000960012345", 0, "J-Link"),
    SerialPort("/dev/ttyACM9", SEGGER_VID, 0x1055, "000960012345", 2, "J-Link"),
]
OTHER_DK = SerialPort("/dev/ttyACM0", SEGGER_VID, 0x1055, "000960099999", 0, "J-Link")
MODEM = SerialPort("/dev/ttyUSB0", 0x0403, 0x6001, "X", 0, "FTDI")


def test_the_lowest_interface_of_the_one_board() -> None:
    assert choose_port([MODEM, *DK], usb_vid=SEGGER_VID).device == "/dev/ttyACM2"


def test_without_interfaces_the_first_in_natural_order() -> None:
    found = [SerialPort(port.device, port.vid, port.pid, port.serial_number) for port in DK]
    assert choose_port(found).device == "/dev/ttyACM2"


def test_two_boards_are_listed_not_guessed() -> None:
    with pytest.raises(DeviceError) as caught:
        choose_port([*DK, OTHER_DK], usb_vid=SEGGER_VID)
    text = str(caught.value)
    assert "2 boards" in text and "/dev/ttyACM0" in text and "/dev/ttyACM2 /dev/ttyACM9 /dev/ttyACM10" in text
    assert "000960099999" in text and "--port" in text


@pytest.mark.parametrize("number", ["000960099999", "960099999"])
def test_a_serial_number_chooses(number: str) -> None:
    assert choose_port([*DK, OTHER_DK], serial_number=number) == OTHER_DK


def test_boards_without_serial_numbers_are_not_taken_for_one() -> None:
    with pytest.raises(DeviceError, match="2 boards"):
        choose_port([SerialPort("/dev/ttyS0"), SerialPort("/dev/ttyS1")])


def test_none_found() -> None:
    with pytest.raises(DeviceError, match="no board found on USB"):
        choose_port([MODEM], usb_vid=SEGGER_VID)
    with pytest.raises(DeviceError, match="no board with serial number 5"):
        choose_port(DK, serial_number="5")


def test_find_ports_reads_interface_and_order(monkeypatch: pytest.MonkeyPatch) -> None:
    infos = [
        SimpleNamespace(device=device, vid=vid, pid=1, serial_number=None, location=location, description="n/a")
        for device, vid, location in (
            ("/dev/ttyACM10", SEGGER_VID, "1-4.1:1.2"),
            ("/dev/ttyACM9", SEGGER_VID, "1-4.1:1.0"),
            ("/dev/ttyS0", None, None),
        )
    ]
    monkeypatch.setattr(ports.list_ports, "comports", lambda: infos)
    assert [(port.device, port.interface) for port in find_ports(SEGGER_VID)] == [
        ("/dev/ttyACM9", 0),
        ("/dev/ttyACM10", 2),
    ]
    assert len(find_ports()) == 3
