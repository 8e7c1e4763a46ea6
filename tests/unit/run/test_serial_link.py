# SPDX-License-Identifier: Apache-2.0
"""Serial links on pseudo-terminals and sockets: bytes both ways, and each fault as one line."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from typing import Any

import pytest
import serial

from tests.fakes.device import PtyDevice
from tflm_zephyr.errors import DeviceError
from tflm_zephyr.run import serial_link
from tflm_zephyr.run.link import Link, LinkEndedError, Opened
from tflm_zephyr.run.serial_link import SerialLink


def _read(link: Link, count: int) -> bytes:
    data = b""
    ends = time.monotonic() + 5
    while len(data) < count and time.monotonic() < ends:
        data += link.read(0.2)
    return data


def test_reads_and_writes() -> None:
    with PtyDevice([b"x" * 5000]) as device, Opened(SerialLink(device.port)) as link:
        assert _read(link, 5000) == b"x" * 5000
        link.write(b"hello")
        assert device.received(5) == b"hello"


def test_nothing_comes_within_the_time() -> None:
    with PtyDevice([]) as device, Opened(SerialLink(device.port)) as link:
        start = time.monotonic()
        assert link.read(0.1) == b""
        assert 0.09 < time.monotonic() - start < 0.5


def test_a_socket_url() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                time.sleep(0.1)  # pyserial drops what came before it was open
                connection.sendall(b"over the net")

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"socket://127.0.0.1:{server.getsockname()[1]}"
        with Opened(SerialLink(url)) as link:
            assert _read(link, 12) == b"over the net"
            with pytest.raises(LinkEndedError, match="gone"):
                for _ in range(50):
                    link.read(0.1)
        thread.join()


def test_unplugged() -> None:
    with PtyDevice([b"last words"], unplug=True) as device, Opened(SerialLink(device.port)) as link:
        assert _read(link, 10) == b"last words"
        with pytest.raises(LinkEndedError, match="unplugged"):
            for _ in range(50):
                link.read(0.1)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("/dev/nosuchport", "no such serial port. Is the board plugged in"),
        ("spy:///dev/nosuchport", "no such serial port"),
        ("/dev/null", "cannot open this serial port"),
        ("bogus://x", "protocol 'bogus' not known"),
        ("socket://nonsense", "socket://host:port"),
        ("socket://127.0.0.1:1", "Nothing listens there"),
        ("rfc2217://127.0.0.1:1", "Nothing listens there"),
        ("hwgrep://nosuchthing", "no ports found"),
    ],
)
def test_a_port_that_cannot_be_opened(url: str, says: str) -> None:
    with pytest.raises(DeviceError) as caught, Opened(SerialLink(url)):
        pass
    assert says in str(caught.value) and str(caught.value).startswith(f"{url}: ") and "\n" not in str(caught.value)


def test_a_busy_port() -> None:
    with PtyDevice([]) as device, Opened(SerialLink(device.port)):
        second = SerialLink(device.port)
        with pytest.raises(DeviceError, match="is busy"):
            second.open()


def test_a_closed_port_can_be_opened_again() -> None:
    with PtyDevice([]) as device:
        link = SerialLink(device.port)
        for _ in range(2):
            with Opened(link):
                pass


def test_no_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise serial.SerialException(errno.EACCES, f"could not open port: {os.strerror(errno.EACCES)}")

    monkeypatch.setattr(serial_link.serial, "serial_for_url", refuse)
    with pytest.raises(DeviceError, match=r"no permission.*dialout"), Opened(SerialLink("/dev/ttyACM0")):
        pass
