# SPDX-License-Identifier: Apache-2.0
"""Reports: what people and programs read."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tflm_zephyr.boards.board import load_board
from tflm_zephyr.build.log import MemoryRegion
from tflm_zephyr.build.west import Build
from tflm_zephyr.cli.report import boards as tables
from tflm_zephyr.cli.report import text
from tflm_zephyr.codegen.app_folder import FileChange
from tflm_zephyr.device.console.result import Arena, Check, Output, RunResult, SelfTestRun
from tflm_zephyr.device.transport.ports import SerialPort
from tflm_zephyr.validation.accuracy import Accuracy, Deviation


@pytest.mark.parametrize(
    ("kind", "code", "values"),
    [
        ("int8", "b", [-128, 0, 127]),
        ("uint8", "B", [0, 255]),
        ("int16", "h", [-32768, 32767]),
        ("int32", "i", [-(2**31), 2**31 - 1]),
        ("int64", "q", [-(2**63), 2**63 - 1]),
        ("uint32", "I", [2**32 - 1]),
        ("float32", "f", [0.5, -2.0]),
        ("float64", "d", [0.1]),
        ("bool", "?", [True, False]),
        ("int8", "b", []),
    ],
)
def test_element_values(kind: str, code: str, values: list[float]) -> None:
    assert text.element_values(kind, struct.pack(f"<{len(values)}{code}", *values)) == values


def test_real_values() -> None:
    assert text.real_values("int8", b"\x00\x01\xff", (0.5, -1)) == [0.5, 1.0, 0.0]
    assert text.real_values("int8", b"\x05", None) == [5]


def result(status: str, check: Check | None, *, arena_source: str = "estimated", outputs: int = 1) -> RunResult:
    produced = tuple(Output(i, "int8", bytes(range(20))) for i in range(outputs))
    runs = (SelfTestRun(0, produced, () if check is None else (check,), 1200, 25_000_000),)
    return RunResult(
        app="net", board="mps2/an385", model="net", sha256="ab" * 8, kernels="reference", tflm="8d404de7" * 5,
        zephyr="4.1.0", arena=Arena(1000, 700, 400, 300, arena_source), runs=runs, status=status,  # type: ignore[arg-type]
        where="qemu", link="QEMU mps2-an385",
    )  # fmt: skip


def test_a_passed_result() -> None:
    shown = text.results([result("pass", Check(0, "pass", exact=True))], {"net": [(0.5, 0)]})
    assert shown.splitlines() == [
        "net on mps2/an385 (QEMU mps2-an385, reference kernels): self-test passed",
        "  TFLM 8d404de78d40, Zephyr 4.1.0, model abababababababab",
        "  arena: 700 of 1000 (estimated) used: head 400, tail 300",
        "  run 0, 1200 ticks at 25000000 Hz",
        "    output 0 (int8): 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 ... and 4 more",
        "      dequantised: 0 0.5 1 1.5 2 2.5 3 3.5 4 4.5 5 5.5 6 6.5 7 7.5 ... and 4 more",
        "      equal to the reference",
    ]


def test_other_verdicts() -> None:
    scales = {"net": [None]}
    failed = text.results([result("fail", Check(0, "fail", 3, 7, 9))], scales)
    assert "self-test FAILED" in failed and "differs from the reference at byte 3: 7, not 9" in failed
    none = text.results([result("none", None, arena_source="ample")], scales)
    assert "has no reference" in none and "arena: 700 used" in none and "dequantised" not in none
    near = text.results([result("pass", Check(0, "pass", exact=False))], scales)
    assert "within 1e-5 of the reference" in near


def test_results_json() -> None:
    (entry,) = json.loads(json.dumps(text.results_json([result("pass", None)], {"net": [(0.5, 2)]})))["results"]
    (output,) = entry["runs"][0]["outputs"]
    assert output["values"][:3] == [-1.0, -0.5, 0.0] and bytes.fromhex(output["data"]) == bytes(range(20))
    assert entry["status"] == "pass"


def test_check() -> None:
    assert text.check(Path("app"), FileChange(unchanged=("a",))) == "app is up to date (1 file)."
    shown = text.check(Path("app"), FileChange(("a",), ("b",), ("c",), ("d",)))
    assert shown.splitlines()[1:] == ["  out of date: a", "  edited by hand: d", "  no longer generated: b"]


def test_build() -> None:
    build = Build(Path("b/zephyr.elf"), Path("b"), "mps2/an385", Path("b/log"), (MemoryRegion("FLASH", 50, 200),))
    assert text.built(build).splitlines() == ["Built b/zephyr.elf", "  FLASH           50 of 200 bytes (25.0 %)"]
    assert json.loads(json.dumps(text.built_json(build)))["footprint"][0]["name"] == "FLASH"


def test_measured() -> None:
    accuracy = Accuracy(4, 3, (0, 0, 0, 1), ((2, 0), (1, 1)))
    assert text.measured("net", Path("x/d.npz"), accuracy).splitlines() == [
        "net on d.npz, TFLM on the host: 3 of 4 right, accuracy 75.00 %",
        "  1 of class 1 predicted as 0",
    ]
    assert json.loads(json.dumps(text.measured_json(accuracy)))["accuracy"] == 0.75
    assert "mean absolute error 0.25, largest 0.5" in text.measured(
        "net", Path("d"), Deviation(2, 0.25, 0.5, ((0.0,), (1.0,)))
    )


def test_tables() -> None:
    boards = tables.boards([load_board("mps2/an385"), load_board("nrf9160dk/nrf9160")])
    assert boards.splitlines()[1].split() == ["mps2/an385", "cortex-m3", "4096", "4096", "QEMU"]
    assert boards.splitlines()[2].split()[-2:] == ["serial", "port"]
    assert tables.ports([]) == "No serial ports."
    assert tables.ports([SerialPort("/dev/ttyACM0", 0x1366, 1, "42", 0, "J-Link")]) == (
        "/dev/ttyACM0  J-Link  serial number 42"
    )
