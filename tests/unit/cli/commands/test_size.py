# SPDX-License-Identifier: Apache-2.0
"""`tflm-zephyr size` with a west that builds nothing and a QEMU that answers for the app it was given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.helpers.command_line import Tool
from tests.helpers.sizing_device import Device
from tflm_zephyr.boards.board import Board
from tflm_zephyr.cli.commands import size as command
from tflm_zephyr.codegen.app_folder import load_manifest
from tflm_zephyr.codegen.arena_json import load_measurements

pytestmark = pytest.mark.usefixtures("fixed_reference")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    """In place of west, the compiler and QEMU; the model needs 1,104 bytes."""
    made = Device({"net": 1104})
    build: Callable[..., Callable[[Path, Board], Path]] = lambda workspace, on_line: made.build  # noqa: E731
    monkeypatch.setattr(command, "_builder", build)
    monkeypatch.setattr(command, "_link", made.link)
    monkeypatch.setattr(command, "find_workspace", lambda *args, **kwargs: None)
    return made


def test_the_app_gets_what_was_measured(tool: Tool, model_file: Path, device: Device) -> None:
    tool("generate", model_file, "-o", "app", "-b", "mps2/an385", "--kernels", "reference")
    done = tool("size", "app", "--json")
    assert done.code == 0, done.err
    assert done.json["arenas"]["net"]["bytes"] == 1104
    assert done.json["main_stack_bytes"] == 1280
    assert "kGeneratedArenaSize = 1104;" in Path("app/tflm/src/models/net.cpp").read_text()
    assert load_measurements(Path("app")).arenas[0].model == "net"
    assert tool("generate", "-o", "app", "--check").code == 0
    said = tool("size", "app").out
    assert "net: arena 1104" in said and "Written to app/tflm/arena.json, and to the app." in said


def test_another_compiler_is_reported(
    tool: Tool, model_file: Path, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "compiler_here", lambda: "GCC 12.2.1, picolibc")
    tool("generate", model_file, "-o", "app", "-b", "mps2/an385", "--kernels", "reference")
    assert tool("size", "app").code == 0
    assert load_measurements(Path("app")).arenas[0].target.compiler == "GCC 12.2.1, picolibc"
    monkeypatch.setattr("tflm_zephyr.build.compiler_here", lambda: "GCC 14.3.0, picolibc")
    said = tool("generate", "-o", "app").out
    assert "net: the measured size is stale (compiler or C library): estimated" in said
    monkeypatch.setattr("tflm_zephyr.build.compiler_here", lambda: "")
    assert "stale" not in tool("generate", "-o", "app").out


def test_an_edited_app_keeps_its_edit(tool: Tool, model_file: Path, device: Device) -> None:
    tool("generate", model_file, "-o", "app", "-b", "mps2/an385")
    main = Path("app/prj.conf")
    main.write_text(main.read_text() + "# mine\n")
    said = tool("size", "app")
    assert said.code == 0
    assert "Written to app/tflm/arena.json, and to the app." in said.out
    assert main.read_text().endswith("# mine\n")
    owned = Path("app/tflm/src/run.cpp")
    owned.write_text("mine")
    assert "not to the app: app: edited by hand: tflm/src/run.cpp" in tool("size", "app").out
    assert owned.read_text() == "mine"


def test_sizes_of_the_users_stay(tool: Tool, model_file: Path, device: Device) -> None:
    tool("generate", model_file, "-o", "app", "-b", "mps2/an385", "--arena", "3000")
    path = Path("app/tflm/app.yaml")
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "main_stack_bytes": 5000}))
    done = tool("size", "app", "--json")
    assert done.json["arenas"]["net"]["bytes"] == 3000
    assert done.json["main_stack_bytes"] == 5000
    assert load_measurements(Path("app")).arenas[0].arena_bytes == 1104


def test_boards_with_the_same_core_are_measured_once(tool: Tool, model_file: Path, device: Device) -> None:
    boards = ("nrf9160dk/nrf9160", "nrf9160dk/nrf9160/ns", "mps2/an385")
    tool("generate", model_file, "-o", "app", *(arg for board in boards for arg in ("-b", board)))
    done = tool("size", "app", "--json")
    assert [(row["board"], row["measured_on"]) for row in done.json["boards"]] == [
        ("nrf9160dk/nrf9160", "mps2/an521/cpu0"),
        ("mps2/an385", "mps2/an385"),
    ]
    assert load_manifest(Path("app")).boards == boards
    one = tool("size", "app", "--board", "nrf9160dk/nrf9160/ns", "--json").json["boards"]
    assert [row["board"] for row in one] == ["nrf9160dk/nrf9160/ns"]


def test_what_cannot_be_measured(tool: Tool, model_file: Path, device: Device) -> None:
    assert "not an app that tflm-zephyr generated" in tool("size", ".").one_line()
    tool("generate", model_file, "-o", "app", "-b", "qemu_riscv64")
    assert "qemu_riscv64: its core is not known" in tool("size", "app").one_line()
    assert "the app is not for mps2/an385" in tool("size", "app", "--board", "mps2/an385").one_line()
    path = Path("app/tflm/app.yaml")
    path.write_text(path.read_text() + "shared_arena: true\n")
    assert "the arena is shared by all models" in tool("size", "app").one_line()
    assert not Path("app/tflm/arena.json").exists()
