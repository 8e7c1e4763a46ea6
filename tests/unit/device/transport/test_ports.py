# SPDX-License-Identifier: Apache-2.0
"""Choosing a board's console by USB id: one board is found, several are listed, none is said."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tflm_zephyr.device.transport import ports
from tflm_zephyr.device.transport.ports import SEGGER_VID, SerialPort, choose_port, find_ports
from tflm_zephyr.errors import DeviceError

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


def board(bus: int, serial_number: str = "", *, vid: int = SEGGER_VID, first: int = 0) -> list[SerialPort]:
    """Three ports of a probe at "1-bus"."""
    return [
        SerialPort(f"/dev/ttyACM{first + k}", vid, 0x1055, serial_number, 2 * k, "J-Link", f"1-{bus}") for k in range(3)
    ]


def test_ports_at_one_place_are_one_board_without_a_serial() -> None:
    assert choose_port(board(1)).device == "/dev/ttyACM0"
    with pytest.raises(DeviceError, match=r"2 boards.*: /dev/ttyACM0 /dev/ttyACM1 /dev/ttyACM2 \(J-Link\); .*--port"):
        choose_port([*board(1), *board(2, first=3)])


@pytest.mark.parametrize("other", [board(2, "0001", first=3), board(1, "0001", vid=0x10C4, first=3)])
def test_boards_with_equal_serial_numbers_are_two_boards(other: list[SerialPort]) -> None:
    for number in (None, "1"):
        with pytest.raises(DeviceError, match=r"2 boards found: .*\. Choose one with --port$"):
            choose_port([*board(1, "0001"), *other], serial_number=number, dev_id=True)


def test_the_hint_names_what_tells_boards_apart() -> None:
    with pytest.raises(DeviceError, match="Choose one with --dev-id or --port"):
        choose_port([*board(1, "0001"), *board(2, "0002", first=3)], dev_id=True)
    with pytest.raises(DeviceError, match="Choose one with --port"):
        choose_port([*board(1, "0001"), *board(2, "0002", first=3)])
    assert choose_port([*board(1, "00ab"), *board(2, "0002", first=3)], serial_number="AB").device == "/dev/ttyACM0"


@pytest.mark.parametrize("number", ["0", "000", " ", ""])
def test_an_empty_serial_number_is_none(number: str) -> None:
    with pytest.raises(DeviceError, match=r"is no serial number\. It is printed on the board"):
        choose_port([SerialPort("/dev/ttyUSB0", 0x1A86)], serial_number=number)


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
    assert {port.place for port in find_ports()} == {"1-4.1", ""}
