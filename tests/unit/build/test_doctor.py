# SPDX-License-Identifier: Apache-2.0
"""Findings from made-up facts, each message as it is read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tflm_zephyr.boards import Board, load_board
from tflm_zephyr.build.doctor import Facts, Finding, Port, ToolchainFacts, WorkspaceFacts, diagnose, healthy

NS = "nrf9160dk/nrf9160/ns"
DEBIAN = {"ZEPHYR_TOOLCHAIN_VARIANT": "gnuarmemb", "GNUARMEMB_TOOLCHAIN_PATH": "/usr"}
PICOLIBC = "-DTOOLCHAIN_HAS_PICOLIBC=ON"
PROJECTS = ("tflite-micro", "cmsis", "cmsis_6", "cmsis-nn", "hal_nordic", "trusted-firmware-m", "mbedtls")
WORKSPACE = WorkspaceFacts(
    "/ws",
    "ZEPHYR_BASE",
    "/ws/zephyr",
    "4.1.0",
    dict.fromkeys(PROJECTS, "0123456789abcdef"),
    {},
    {"manifest.group-filter": "+optional"},
)
WHOLE = Facts(
    "3.11.2",
    {"numpy": "2.0", "west": "1.5.0"},
    {"pykwalify": "1.8.0"},
    dict.fromkeys(("west", "cmake", "ninja", "dtc", "ccache", "qemu-system-arm", "pyocd"), "9.9"),
    DEBIAN,
    replace(WORKSPACE, cmake_args=PICOLIBC),
    toolchain=ToolchainFacts("GNU Arm in /usr with picolibc", DEBIAN, (PICOLIBC,)),
    ports=(Port("/dev/ttyACM0", usb_vid=0x1366, serial_number="000960"),),
    user_in_dialout=True,
    engines={"LiteRT": "2.3.0", "TFLM on the host": "0.1"},
)
BARE = Facts("3.11.2", {"numpy": "2.0", "west": ""}, user_in_dialout=False)


def of(topic: str, facts: Facts, board: str | None = None) -> Finding:
    (found,) = [f for f in diagnose(facts, None if board is None else load_board(board)) if f.topic == topic]
    return found


def without(workspace: WorkspaceFacts, name: str, fix: str = "") -> WorkspaceFacts:
    left = {key: value for key, value in workspace.revisions.items() if key != name}
    return replace(workspace, revisions=left, missing={name: fix} if fix else {})


@pytest.mark.parametrize("board", [None, NS, "mps2/an385"])
def test_a_whole_machine_is_all_ok(board: str | None) -> None:
    findings = diagnose(WHOLE, None if board is None else load_board(board))
    assert {finding.mark for finding in findings} == {"ok"}
    assert healthy(findings)


def test_the_order_is_that_of_need() -> None:
    topics = [finding.topic for finding in diagnose(WHOLE)]
    ordered = ["Python packages", "west", "workspace", "Zephyr", "tflite-micro", "cmsis-nn", "trusted-firmware-m"]
    ordered += ["toolchain", "plain west build", "cmake", "ninja", "dtc", "ccache", "QEMU", "flash runner"]
    ordered += ["serial ports", "boards attached", "LiteRT", "TFLM on the host"]
    assert [topic for topic in topics if topic in ordered] == ordered


def test_a_bare_machine_lacks_what_every_board_needs() -> None:
    findings = diagnose(BARE)
    missing = [finding.topic for finding in findings if finding.mark == "missing"]
    assert missing == [
        "Python packages", "west", "workspace", "Zephyr", "tflite-micro", "cmsis", "cmsis_6", "toolchain", "cmake",
        "ninja", "dtc",
    ]  # fmt: skip
    assert not healthy(findings)
    assert all(finding.fix for finding in findings if finding.mark != "ok")
    assert of("workspace", BARE).fix == "tflm-zephyr setup DIR"
    assert of("Python packages", BARE) == Finding(
        "Python packages", "missing", "Python 3.11.2 lacks west", "python -m pip install west"
    )


def test_every_fix_is_a_line() -> None:
    for finding in (*diagnose(BARE), *diagnose(WHOLE), *diagnose(BARE, load_board(NS))):
        assert "\n" not in finding.text + finding.fix


@pytest.mark.parametrize(
    ("board", "mark", "binary", "package"),
    [
        (None, "optional", "qemu-system-arm", "qemu-system-arm"),
        ("mps2/an385", "missing", "qemu-system-arm", "qemu-system-arm"),
        ("qemu_riscv32", "missing", "qemu-system-riscv32", "qemu-system-misc"),
    ],
)
def test_no_qemu(board: str | None, mark: str, binary: str, package: str) -> None:
    facts = replace(WHOLE, programs={**WHOLE.programs, "qemu-system-arm": ""})
    found = of("QEMU", facts, board)
    assert (found.mark, found.fix) == (mark, f"apt install {package}")
    assert found.text == f"no {binary} on PATH: nothing runs the emulated boards"
    assert healthy(diagnose(facts)) and healthy(diagnose(facts, load_board(NS)))


def test_no_module_comes_with_its_fix() -> None:
    fix = "Run `west config manifest.group-filter -- +optional && west update tflite-micro`"
    found = of("tflite-micro", replace(WHOLE, workspace=without(WORKSPACE, "tflite-micro", fix)), "mps2/an385")
    assert found == Finding("tflite-micro", "missing", "not in the workspace: TensorFlow Lite Micro", fix)


def test_cmsis_nn_is_never_needed() -> None:
    facts = replace(WHOLE, workspace=without(WORKSPACE, "cmsis-nn"))
    assert of("cmsis-nn", facts, NS).mark == of("cmsis-nn", facts).mark == "optional"
    assert of("cmsis-nn", facts).fix == "west update cmsis-nn"


def test_tfm_is_needed_by_ns_boards_alone() -> None:
    facts = replace(WHOLE, workspace=without(WORKSPACE, "trusted-firmware-m"))
    assert of("trusted-firmware-m", facts, NS).mark == "missing"
    assert of("trusted-firmware-m", facts).mark == "optional"
    assert "trusted-firmware-m" not in [f.topic for f in diagnose(facts, load_board("nrf9160dk/nrf9160"))]


def test_plain_west_build_gets_the_very_environment() -> None:
    found = of("plain west build", replace(WHOLE, environ={}, workspace=WORKSPACE))
    assert found.mark == "optional"
    assert found.fix == (
        "export ZEPHYR_TOOLCHAIN_VARIANT=gnuarmemb GNUARMEMB_TOOLCHAIN_PATH=/usr && "
        f"west config build.cmake-args -- {PICOLIBC}"
    )
    assert found.text == (
        f"lacks ZEPHYR_TOOLCHAIN_VARIANT and GNUARMEMB_TOOLCHAIN_PATH and {PICOLIBC}; `tflm-zephyr build` gives them "
        "itself"
    )


def test_cmake_arguments_that_are_kept_stay() -> None:
    kept = replace(WORKSPACE, cmake_args="-DCONF=a")
    fix = of("plain west build", replace(WHOLE, workspace=kept)).fix
    assert fix == f"west config build.cmake-args -- '-DCONF=a {PICOLIBC}'"


def test_zephyrs_own_sdk_needs_no_environment() -> None:
    sdk = ToolchainFacts("Zephyr SDK", {"ZEPHYR_TOOLCHAIN_VARIANT": "zephyr", "ZEPHYR_SDK_INSTALL_DIR": "/opt/sdk"})
    assert of("plain west build", replace(WHOLE, environ={}, toolchain=sdk)).mark == "ok"


def test_no_toolchain_says_what_the_search_said() -> None:
    facts = replace(WHOLE, toolchain=None, toolchain_error=("no compiler for Arm Cortex-M found", "Install one"))
    found = of("toolchain", facts)
    assert (found.mark, found.text, found.fix) == ("missing", "no compiler for Arm Cortex-M found", "Install one")


@pytest.mark.parametrize(("version", "mark"), [("3.19.8", "missing"), ("3.20.0", "ok"), ("?", "ok")])
def test_an_old_cmake(version: str, mark: str) -> None:
    found = of("cmake", replace(WHOLE, programs={**WHOLE.programs, "cmake": version}))
    assert found.mark == mark
    assert mark == "ok" or found.text == "3.19.8, and Zephyr needs 3.20"


def test_ccache_is_optional() -> None:
    facts = replace(WHOLE, programs={**WHOLE.programs, "ccache": ""})
    assert of("ccache", facts, NS).mark == "optional"


def test_a_flash_runner_is_needed_by_boards_to_flash() -> None:
    facts = replace(WHOLE, programs={**WHOLE.programs, "pyocd": ""})
    assert of("flash runner", facts, NS).mark == "missing"
    assert of("flash runner", facts).mark == "optional"
    assert "flash runner" not in [f.topic for f in diagnose(facts, load_board("mps2/an385"))]


def test_ports_that_this_user_may_not_open() -> None:
    facts = replace(WHOLE, ports=(Port("/dev/ttyACM0", usable=False),), user_in_dialout=False)
    found = of("serial ports", facts, NS)
    assert (found.mark, found.text) == ("missing", "this user may not open /dev/ttyACM0")
    assert found.fix == 'sudo usermod -aG dialout "$USER", then log in again'


def test_a_user_outside_dialout_before_a_board_is_there() -> None:
    found = of("serial ports", replace(WHOLE, ports=(), user_in_dialout=False), NS)
    assert (found.mark, found.text) == ("missing", "this user is not in the group dialout")


def test_boards_attached_are_named_and_never_needed() -> None:
    assert of("boards attached", WHOLE, NS).text == "000960 (/dev/ttyACM0)"
    other = replace(WHOLE, ports=(Port("/dev/ttyUSB0", usb_vid=0x0403),))
    assert of("boards attached", other, NS).mark == "optional"  # another maker's
    assert of("boards attached", other).mark == "ok"


def test_engines_are_optional() -> None:
    found = of("LiteRT", replace(WHOLE, engines={}))
    assert (found.mark, found.text) == ("optional", "not installed: reference outputs of the self-test")


def test_another_zephyr_is_noted() -> None:
    facts = replace(WHOLE, workspace=replace(WORKSPACE, zephyr_version="3.7.0"))
    assert of("Zephyr", facts).text.startswith("3.7.0 in /ws/zephyr; apps were tried with 4.1")


def test_a_board_on_the_host_needs_no_arm_parts() -> None:
    facts = replace(WHOLE, workspace=replace(WORKSPACE, revisions={"tflite-micro": "1"}), programs={})
    topics = {f.topic: f.mark for f in diagnose(facts, Board(name="native_sim", arch="posix"))}
    assert "cmsis" not in topics and topics["flash runner"] == "optional"
