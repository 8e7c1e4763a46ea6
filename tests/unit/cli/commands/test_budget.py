# SPDX-License-Identifier: Apache-2.0
"""`budget`: exit code 1 and one line for each limit that a build exceeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.records import lines_of
from tests.fakes.scripted_link import ScriptedLink
from tests.helpers.command_line import Tool
from tflm_zephyr.cli.commands import budget as command
from tflm_zephyr.device.transport import Capabilities
from tflm_zephyr.footprint import BY_MAP, Footprint, Row
from tflm_zephyr.footprint.measurement import RegionUse

BOARD = "mps2/an385"
FLASH, RAM, ARENA = 60_000, 9_000, 4_096
USED = Footprint(
    Path("zephyr.elf"),
    BY_MAP,
    (RegionUse("FLASH", FLASH, None), RegionUse("RAM", RAM, None), RegionUse("IDT_LIST", 1, None)),
    (Row("arena", "net", {"RAM": ARENA - 96}), Row("arena", "two", {"RAM": 96}), Row("app", "main", {"RAM": 7})),
)


@pytest.fixture
def app(tool: Tool, model_file: Path, monkeypatch: pytest.MonkeyPatch, fixed_reference: None) -> Path:
    """An app for two boards, built for both as far as `budget` can tell."""
    assert tool("generate", model_file, "-o", "app", "-b", BOARD, "-b", "nrf9160dk/nrf9160/ns").code == 0
    for stem in ("mps2_an385", "nrf9160dk_nrf9160_ns"):
        elf = Path("app/build") / stem / "zephyr" / "zephyr.elf"
        elf.parent.mkdir(parents=True)
        elf.write_bytes(b"")
    monkeypatch.setattr(command, "load_footprint", lambda elf: USED)
    return Path("app")


def limits(app: Path, text: str) -> None:
    (app / "budget.yaml").write_text(text)


def test_limits_that_are_kept(tool: Tool, app: Path) -> None:
    limits(app, f"all: {{arena: {ARENA}, flash: {FLASH}, ram: {RAM}}}")
    done = tool("budget", app)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == "mps2/an385: 4,096 of 4,096 bytes of arena"
    assert done.out.splitlines()[-1] == "Budget: 6 limits kept."


def test_an_overrun_is_a_line_and_exit_code_1(tool: Tool, app: Path) -> None:
    limits(app, f"all: {{flash: {FLASH - 600}}}\nboards:\n  {BOARD}: {{flash: {FLASH}, ram: {RAM - 1}}}\n")
    done = tool("budget", app)
    assert done.code == 1
    assert done.out.splitlines() == [
        "mps2/an385: 60,000 of 60,000 bytes of flash",
        "mps2/an385: 9,000 of 8,999 bytes of ram, over budget by 1 (0.0 %)",
        "nrf9160dk/nrf9160/ns: 60,000 of 59,400 bytes of flash, over budget by 600 (1.0 %)",
        "Budget: 2 of 3 limits exceeded.",
    ]
    found = tool("budget", app, "--board", BOARD, "--json")
    assert found.code == 1 and found.json["kept"] is False
    assert found.json["limits"][1] == {"board": BOARD, "what": "ram", "used": 9000, "limit": 8999, "over": 1}


def test_instructions_are_those_of_the_longest_run(tool: Tool, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = ScriptedLink(lines_of(app))
    link.instructions_per_tick = 40
    link.capabilities = Capabilities(starts_app=True)
    monkeypatch.setattr("tflm_zephyr.device.transport.routing.Route.link", lambda self: link)
    limits(app, f"boards:\n  {BOARD}: {{instructions: {1234 * 40 - 1}}}\n")
    done = tool("budget", app)
    assert done.code == 1
    assert done.out.startswith("mps2/an385: 49,360 of 49,359 instructions, over budget by 1 (0.0 %)\n")


@pytest.mark.parametrize(
    ("text", "argv", "says"),
    [
        ("all: {}", (), "budget.yaml: has no limit for mps2/an385 or nrf9160dk/nrf9160/ns"),
        ("boards: {mps2/an385: {ram: 1}}", ("-b", "nrf9160dk/nrf9160/ns"), "has no limit for nrf9160dk/nrf9160/ns"),
        ("all: {ram: 1}", ("-b", "mps2/an386"), "the app is not for mps2/an386"),
        ("all: {ram: 1}", ("-d", "build"), "--build-dir is for one board"),
        ("all: {instructions: 1}", ("-b", "nrf9160dk/nrf9160/ns"), "no emulator counts instructions there"),
        (
            "boards: {mps2/an385: {ram: 1}}",
            ("-d", "app/src"),
            "app/src: no zephyr/zephyr.elf there. Build the app first",
        ),
    ],
)
def test_what_cannot_be_compared(tool: Tool, app: Path, text: str, argv: tuple[str, ...], says: str) -> None:
    limits(app, text)
    assert says in tool("budget", app, *argv).one_line()


def test_no_budget_file(tool: Tool, app: Path) -> None:
    assert "budget.yaml: no such file" in tool("budget", app).one_line()
    assert "other.yaml: no such file" in tool("budget", app, "--file", "other.yaml").one_line()
