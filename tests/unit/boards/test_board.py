# SPDX-License-Identifier: Apache-2.0
"""Boards: described ones, others by name, and names that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tflm_zephyr import resources
from tflm_zephyr.boards.board import Board, known_boards, load_board, stem_of
from tflm_zephyr.errors import BoardError
from tflm_zephyr.kernels.core import CORES

KNOWN = known_boards()


def test_the_boards_that_are_described() -> None:
    assert {"mps2/an385", "mps2/an386", "mps2/an521/cpu0", "nrf9160dk/nrf9160", "nrf9160dk/nrf9160/ns"} <= set(KNOWN)


@pytest.mark.parametrize("name", KNOWN)
def test_a_described_board(name: str) -> None:
    board = load_board(name)
    assert board.name == name and board.known
    assert board.core in CORES or not board.cortex_m
    assert board.ram_kib and (board.flash_kib or not board.cortex_m)
    assert (ROOT / "boards" / board.file_stem / "board.yaml").is_file()
    if board.qemu is None:
        assert board.serial.baudrate == 115200 and not board.twister
        assert board.serial.usb_vid == {"nrf": 0x1366, "nuc": 0x0483}.get(name[:3])  # SEGGER's probe, ST's
    else:
        image = name.replace("/cpu0", "").replace("/corstone300", "").replace("/", "-").replace("qemu_riscv32", "virt")
        assert board.qemu.machine == image and 10**9 % (board.qemu.clock_hz or 1) == 0
        assert board.qemu.cpu == board.core
        assert board.qemu.binary == ("qemu-system-arm" if board.cortex_m else "qemu-system-riscv32")


def test_every_folder_is_named_after_its_board() -> None:
    for folder in (ROOT / "boards").iterdir():
        assert any(stem_of(name) == folder.name for name in known_boards())


@pytest.mark.parametrize(
    "name", ["qemu_cortex_m3", "native_sim/native/64", "xiao_ble", "96b_carbon/stm32f401xe", "board@A/soc", "b@0.1.0"]
)
def test_any_other_board_is_its_name(name: str) -> None:
    board = load_board(name)
    assert board.name == name and not board.known and board.qemu is None and not board.files


def test_a_name_of_several_described_targets_is_refused() -> None:
    with pytest.raises(
        BoardError, match=r"mps2: names a board, not one of its targets.*mps2/an385 or mps2/an386 or mps2"
    ):
        load_board("mps2")
    assert load_board("nrf9160dk").known is False  # one SoC here; Zephyr may know of more


def test_a_revision_is_kept_in_the_name_alone() -> None:
    board = load_board("nrf9160dk@0.14.0/nrf9160/ns")
    assert board.name == "nrf9160dk@0.14.0/nrf9160/ns" and board.known
    assert board.file_stem == "nrf9160dk_nrf9160_ns"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("nrf9160dk_nrf9160_ns", "nrf9160dk/nrf9160/ns"),  # the name before hardware model v2
        ("mps2_an385", "mps2/an385"),
        ("mps2/an521_cpu0", "mps2/an521/cpu0"),
    ],
)
def test_a_misspelt_board(name: str, meant: str) -> None:
    with pytest.raises(BoardError, match=rf"^{name}: unknown board\. Did you mean {meant}\?$"):
        load_board(name)


@pytest.mark.parametrize(
    "name",
    [
        "", " ", "../../x", "mps2/../../etc", "/etc/passwd", "mps2/an385;rm -rf ~", "$(true)", "`true`", "mps2/an385 ",
        "mps2/an385\n", "mps2//an385", "mps2/an385/", "-b", "MPS2/AN385", "mps2|an385", "mps2/an385#", "größe", "a&b",
        "mps2/an385\0", "x" * 5000 + "!", "..",
    ],
)  # fmt: skip
def test_what_is_no_boards_name(name: str) -> None:
    with pytest.raises(BoardError, match="not a board target's name") as caught:
        load_board(name)
    assert "\n" not in str(caught.value)


def write(root: Path, text: str, name: str = "a_b") -> Path:
    (root / name).mkdir()
    (root / name / "board.yaml").write_text(text)
    return root


def test_a_board_brings_its_files(tmp_path: Path) -> None:
    write(tmp_path, "{board: a/b, description: x, core: cortex-m4}")
    (tmp_path / "a_b" / "a_b.conf").write_text("CONFIG_FPU=y\n")
    (tmp_path / "a_b" / "a_b.overlay").write_text("/ {};\n")
    (tmp_path / "a_b" / "notes.txt").write_text("x")
    board = load_board("a/b", tmp_path)
    assert board.files == {"a_b.conf": "CONFIG_FPU=y\n", "a_b.overlay": "/ {};\n"}
    assert (board.flash_kib, board.ram_kib, board.twister) == (None, None, False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the board wants a mapping with the keys board, description"),
        ("board", "the board wants a mapping"),
        ("[board, description, core]", "the board wants a mapping"),
        ("{board: a/b}", "wants the key description"),
        ("{board: a/b, description: x}", "wants the key core"),
        ("{board: a/b, description: x, core: y, flash_kb: 4}", "'flash_kb' is no key here; did you mean 'flash_kib'"),
        ("{board: a/b, description: x, core: y, ram_kib: 0}", "ram_kib wants a whole number from 1 to"),
        ("{board: a/b, description: x, core: y, qemu: {machine: m}}", "qemu wants the key cpu"),
        ("{board: a/b, description: x, core: y, arch: arm}", "'arch' is no key here"),
        ("{", "no YAML"),
    ],
)
def test_a_bad_description(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BoardError, match=says) as caught:
        load_board("a/b", write(tmp_path, text))
    assert "board.yaml" in str(caught.value) and "\n" not in str(caught.value)


def test_data_folders_are_found_in_a_wheel_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "tflm_zephyr"
    monkeypatch.setattr(resources, "_PACKAGE", package)
    with pytest.raises(FileNotFoundError, match="without its boards folder"):
        resources.data_dir("boards")
    (tmp_path / "site" / "boards").mkdir(parents=True)
    assert resources.data_dir("boards") == tmp_path / "site" / "boards"
    (package / "_data" / "boards").mkdir(parents=True)
    assert resources.data_dir("boards") == package / "_data" / "boards"


@pytest.mark.parametrize(
    ("board", "is_one"),
    [
        (load_board("mps2/an385"), True),
        (Board("x", core="cortex-a53"), False),
        (Board("x"), None),
        (Board("x", arch="arm"), None),
        (Board("x", arch="riscv"), False),
        (Board("x", arch="arm64"), False),
    ],
)
def test_cortex_m(board: Board, is_one: bool | None) -> None:
    assert board.cortex_m is is_one


def test_kconfig_symbol() -> None:
    assert load_board("nrf9160dk@0.14.0/nrf9160/ns").kconfig == "BOARD_NRF9160DK_NRF9160_NS"
