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
import serial.rfc2217

from tests.fakes.device import PtyDevice
from tflm_zephyr.device.transport import serial_port
from tflm_zephyr.device.transport.link import Link, LinkBlockedError, LinkEndedError, Opened
from tflm_zephyr.device.transport.serial_port import SerialLink
from tflm_zephyr.errors import DeviceError


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
        ("/dev/null", "is no serial port"),
        ("/dev", "is a folder, no serial port"),
        ("socket://localhost", "it names no TCP port"),
        ("rfc2217://localhost?ign_set_control", "it names no TCP port"),
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


@pytest.mark.filterwarnings(r"ignore:set\w+\(\) is deprecated:DeprecationWarning")  # pyserial's
def test_a_port_behind_an_rfc2217_server() -> None:
    with (
        PtyDevice([b"hello", b"\xff\x00"], wait=True) as device,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        thread = threading.Thread(target=_serve_rfc2217, args=(server, device.port), daemon=True)
        thread.start()
        with Opened(SerialLink(f"rfc2217://127.0.0.1:{server.getsockname()[1]}")) as link:
            device.start()
            assert _read(link, 7) == b"hello\xff\x00"
            link.write(b"\xff\x01 back")
            assert device.received(7) == b"\xff\x01 back"
        thread.join(5)


class _PlainPort(serial.Serial):
    """A pseudo-terminal, which has no control lines."""

    rts = dtr = cts = dsr = ri = cd = property(lambda self: False, lambda self, value: None)


def _serve_rfc2217(server: socket.socket, port: str) -> None:
    """One client, served by pyserial's own server side."""
    connection, _ = server.accept()
    with connection, _PlainPort(port, timeout=0) as remote:
        manager = serial.rfc2217.PortManager(remote, type("Wire", (), {"write": lambda _, d: connection.sendall(d)})())
        connection.settimeout(0.01)
        while True:
            if data := remote.read(64):
                connection.sendall(b"".join(manager.escape(data)))
            try:
                heard = connection.recv(64)
            except TimeoutError:
                continue
            except OSError:
                return
            if not heard:
                return
            remote.write(b"".join(manager.filter(heard)))


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

    monkeypatch.setattr(serial_port.serial, "serial_for_url", refuse)
    with pytest.raises(DeviceError, match=r"no permission.*dialout"), Opened(SerialLink("/dev/ttyACM0")):
        pass


def test_a_port_that_takes_nothing_more_is_no_port_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial_port, "_WRITE_TIMEOUT_S", 0.2)
    with (
        PtyDevice([], wait=True) as device,
        Opened(SerialLink(device.port)) as link,
        pytest.raises(LinkBlockedError, match=r"the port took nothing more for 0\.2 s"),
    ):
        link.write(bytes(1 << 20))
