# SPDX-License-Identifier: Apache-2.0
"""The link that a session opens, and the errors when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import serial

from tests.fakes.link.toy import BYTES, expected
from tests.fakes.link.wire import PtyDevice
from tests.helpers.small_models import dense
from tflm_zephyr.codegen.app_folder import load_manifest, owned, write_files
from tflm_zephyr.codegen.generation import AppRequest, generate
from tflm_zephyr.codegen.rendering import render
from tflm_zephyr.device.session.opening import open_session
from tflm_zephyr.device.transport import serial_port
from tflm_zephyr.device.transport.ports import SEGGER_VID, SerialPort
from tflm_zephyr.device.transport.target import DeviceTarget
from tflm_zephyr.errors import AppError, BoardError, DeviceError, ToolError
from tflm_zephyr.options import AppConfig, ModelConfig
from tflm_zephyr.tflm.revision import tflm_of


def test_a_port_is_opened(program: Path, tmp_path: Path) -> None:
    with PtyDevice(program, tmp_path) as device, open_session(DeviceTarget(port=device.port, model="toy")) as session:
        assert session.hello.link == device.port
        assert session.invoke([bytes(BYTES)]).outputs[0] == expected(bytes(BYTES))


def test_a_usb_board_is_found_by_serial_number_again(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PtyDevice(program, tmp_path) as device:
        moved = tmp_path / "ttyACM1"
        moved.symlink_to(device.port)
        ports = [
            SerialPort("/dev/ttyS0"),
            SerialPort(str(tmp_path / "other"), SEGGER_VID, serial_number="0007", interface=0),
            SerialPort(device.port, SEGGER_VID, serial_number="00042", interface=0),
        ]
        monkeypatch.setattr(serial_port, "find_ports", lambda: tuple(ports))
        with open_session(DeviceTarget(port="auto", usb_serial="42", model="toy")) as session:
            assert session.hello.link == device.port
            device.unplug()
            ports[2:] = [
                SerialPort(str(tmp_path / "data"), SEGGER_VID, serial_number="00042", interface=2),
                SerialPort(str(moved), SEGGER_VID, serial_number="00042", interface=0),
            ]
            opened_as: list[str] = []
            real = serial.serial_for_url
            monkeypatch.setattr(
                serial, "serial_for_url", lambda url, **more: opened_as.append(url) or real(url, **more)
            )
            device.plug()
            assert session.invoke([bytes(BYTES)]).outputs[0] == expected(bytes(BYTES))
            assert set(opened_as) == {str(moved)}


def test_a_board_is_found_where_it_was_not_by_serial_alone(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PtyDevice(program, tmp_path) as device:
        ports = [SerialPort(device.port, SEGGER_VID, 1, "0001", interface=0, place="1-1")]
        monkeypatch.setattr(serial_port, "find_ports", lambda: tuple(ports))
        target = DeviceTarget(port="auto", model="toy")
        with open_session(target) as session:
            ports.insert(0, SerialPort("/dev/none", SEGGER_VID, 1, "0001", interface=0, place="1-2"))
            device.unplug()
            device.plug()
            assert session.invoke([bytes(BYTES)]).outputs[0] == expected(bytes(BYTES))
        with pytest.raises(DeviceError, match=r"2 boards found: .* Choose one with --port$"):
            open_session(target)


def test_auto_without_a_board_uses_known_vendors(monkeypatch: pytest.MonkeyPatch) -> None:
    modem, dk = SerialPort("/dev/none0", 0x1199), SerialPort("/dev/none1", SEGGER_VID)
    for ports, said in (
        ((SerialPort("/dev/ttyS0"), modem, dk), "/dev/none1: no such serial port"),
        ((SerialPort("/dev/ttyS0"), modem), "/dev/none0: no such serial port"),
        ((SerialPort("/dev/ttyS0"),), "no board found on USB"),
    ):
        monkeypatch.setattr(serial_port, "find_ports", lambda ports=ports: ports)
        with pytest.raises(DeviceError, match=said):
            open_session(DeviceTarget(port="auto"))


def test_just_one_thing_is_opened(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="nothing to open"):
        open_session(DeviceTarget())
    with pytest.raises(DeviceError, match="elf and recording at once to open"):
        open_session(DeviceTarget(elf=tmp_path, recording=tmp_path))


def test_what_cannot_be_opened_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for target, kind, said in (
        (DeviceTarget(app=tmp_path), AppError, "not an app that tflm-zephyr generated"),
        (DeviceTarget(elf=tmp_path / "x.elf"), BoardError, "no board is named"),
        (
            DeviceTarget(elf=tmp_path / "x.elf", board="nrf9160dk/nrf9160"),
            BoardError,
            "this board is not emulated",
        ),
        (DeviceTarget(elf=tmp_path / "x.elf", board="mps2/an385"), DeviceError, "no such ELF file"),
        (DeviceTarget(port=str(tmp_path / "tty")), DeviceError, "no such serial port"),
    ):
        with pytest.raises(kind, match=said):
            open_session(target)
    monkeypatch.setattr("tflm_zephyr.device.transport.serial_port.find_ports", lambda: ())
    with pytest.raises(ToolError, match="no board found on USB"):
        open_session(DeviceTarget(port="auto"))


def test_an_app_without_the_link_is_reported(tmp_path: Path) -> None:
    model = tmp_path / "dense.tflite"
    model.write_bytes(dense())
    for host_link, said in ((False, "this app has no host link"), (True, "no such ELF file")):
        app = tmp_path / f"app{host_link}"
        config = AppConfig((ModelConfig(model),), boards=("mps2/an385",), host_link=host_link)
        made = generate(AppRequest(config, app, tflm_of(None), golden=False))
        write_files(app, owned(render(made.spec)), made.manifest)
        assert load_manifest(app).host_link is host_link
        with pytest.raises(ToolError, match=said):
            open_session(DeviceTarget(app=app))
    for board in ("nrf9160dk/nrf9160", "no/such"):
        with pytest.raises(AppError, match=f"neither generated nor built for {board}. It is for mps2/an385"):
            open_session(DeviceTarget(app=app, board=board))


def test_an_app_without_the_link_has_none_of_its_files(tmp_path: Path) -> None:
    model = tmp_path / "dense.tflite"
    model.write_bytes(dense())
    trees = {}
    for host_link in (False, True):
        config = AppConfig((ModelConfig(model),), boards=("mps2/an385",), host_link=host_link)
        trees[host_link] = render(generate(AppRequest(config, tmp_path / "app", tflm_of(None), golden=False)).spec)
    assert not any(
        "link/" in path or b"HOST_LINK" in data or b"tflm_link" in data for path, data in trees[False].items()
    )
    assert b"SERIAL_SUPPORT_INTERRUPT\n\tdefault n\n" in trees[False]["Kconfig"]
    assert b"SERIAL_SUPPORT_INTERRUPT\n\tdefault y\n" in trees[True]["Kconfig"]
    assert {path.rpartition("/")[2] for path in trees[True] if path.startswith("src/link/")} >= {
        "device.cpp", "frame.cpp", "mlperf.cpp", "server.cpp", "watch.cpp", "zephyr_port.cpp"
    }  # fmt: skip


@pytest.mark.parametrize(("name", "size"), [("kws01", 4), ("ad01", 16)])
def test_mlperf_buffer_takes_floats_for_one_benchmark_only(tmp_path: Path, name: str, size: int) -> None:
    model = tmp_path / "model.tflite"
    model.write_bytes(dense())
    config = AppConfig((ModelConfig(model, name=name),), boards=("mps2/an385",), host_link=True)
    made = render(generate(AppRequest(config, tmp_path / "app", tflm_of(None), golden=False)).spec)[
        "src/link/server.cpp"
    ]
    assert f"static uint8_t loaded[{size}];" in made.decode()
