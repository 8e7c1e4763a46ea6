# SPDX-License-Identifier: Apache-2.0
"""A board's core and memories from its devicetree; dtlib is a stand-in (tests/zephyr has the real one)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.fakes.west import make_workspace
from tflm_zephyr.boards import Board, kernel_libraries, load_board
from tflm_zephyr.build import devicetree
from tflm_zephyr.build.board_targets import in_workspace
from tflm_zephyr.build.devicetree import DevicetreeFacts, devicetree_facts
from tflm_zephyr.build.workspace import Workspace, find_workspace
from tflm_zephyr.errors import BoardError
from tflm_zephyr.validation.arena_sizing import emulator_for

DTLIB = Path(__file__).parents[2] / "fakes" / "dtlib.py"
KIB = 1024
MEMORIES = {"zephyr,flash": [1, 1, [0, 512 * KIB]], "zephyr,sram": [1, 1, [0x20000000, 96 * KIB]]}
PARTITION = {"zephyr,code-partition": [1, 1, [0x50000, 192 * KIB]]}

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, devicetree._PREPROCESSORS)), reason="needs a C preprocessor: cc, gcc or clang"
)


class Kit:
    """A workspace with the board `kit`, whose files a test writes."""

    def __init__(self, topdir: Path) -> None:
        self.zephyr = make_workspace(topdir)
        self.folder = self.zephyr / "boards" / "maker" / "kit"
        self.folder.mkdir(parents=True)
        (self.folder / "board.yml").write_text("board:\n  name: kit\n")
        (self.folder / "kit.yaml").write_text("identifier: kit\narch: arm\nram: 1\nflash: 1\n")
        place = self.zephyr / devicetree._DTLIB
        place.parent.mkdir(parents=True)
        shutil.copy(DTLIB, place)

    @property
    def workspace(self) -> Workspace:
        return find_workspace(self.zephyr, environ={})

    def dts(self, name: str = "kit", *cpus: str, **more: object) -> None:
        """Write a devicetree with these CPUs."""
        tree = {"cpus": cpus or ["arm,cortex-m4f"], "chosen": {**MEMORIES, **more}}
        (self.folder / f"{name}.dts").write_text(f"/* a comment */\n#ifdef __DTS__\n{json.dumps(tree)}\n#endif\n")

    def board(self, name: str = "kit") -> Board:
        return in_workspace(Board(name), self.workspace)


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path / "ws")


@pytest.mark.parametrize(
    ("compatible", "core"),
    [
        ("arm,cortex-m0+", "cortex-m0plus"),
        ("arm,cortex-m3", "cortex-m3"),
        ("arm,cortex-m33f", "cortex-m33"),
        ("arm,cortex-m55", "cortex-m55"),
        ("arm,cortex-a53", ""),
        ("riscv", ""),
        ("", ""),
    ],
)
def test_core_of_a_cpu_node(kit: Kit, compatible: str, core: str) -> None:
    kit.dts("kit", compatible)
    assert devicetree_facts(["kit"], kit.workspace) == DevicetreeFacts(core, 512 * KIB, 96 * KIB)


def test_cpus_of_several_kinds_are_no_core(kit: Kit) -> None:
    kit.dts("kit", "arm,cortex-m4", "arm,cortex-m4f")
    assert kit.board().core == "cortex-m4"
    kit.dts("kit", "arm,cortex-m4", "arm,cortex-m0")
    assert kit.board().core == ""


@pytest.mark.parametrize(
    ("board", "defconfig", "flash_kib"),
    [("kit/soc", "", 512), ("kit/soc", "CONFIG_X=y\nCONFIG_USE_DT_CODE_PARTITION=y\n", 192), ("kit/soc/ns", "", 192)],
)
def test_flash_is_the_partition_that_it_is_linked_into(kit: Kit, board: str, defconfig: str, flash_kib: int) -> None:
    kit.dts(board.replace("/", "_"), **PARTITION)
    (kit.folder / "kit_soc_defconfig").write_text(defconfig)
    found = kit.board(board)
    assert (found.flash_kib, found.ram_kib, found.arch) == (flash_kib, 96, "arm")


def test_memory_of_two_cells(kit: Kit) -> None:
    kit.dts("kit", "arm,cortex-m7", **{"zephyr,sram": [1, 2, [0, 1, 0]]})
    assert devicetree_facts(["kit"], kit.workspace).ram_bytes == 1 << 32


def test_a_memory_without_size_leaves_twisters_number(kit: Kit) -> None:
    kit.dts("kit", "arm,cortex-m7", **{"zephyr,sram": [1, 1, []]})
    found = kit.board()
    assert (found.ram_kib, found.flash_kib) == (1, 512)


def test_includes_of_zephyr_and_of_modules(kit: Kit) -> None:
    module = kit.workspace.modules["hal_nordic"]
    (module / "zephyr").mkdir(parents=True)
    (module / "zephyr" / "module.yml").write_text("build:\n  settings:\n    dts_root: more\n")
    for folder, name in ((kit.zephyr / "dts" / "arm", "soc.dtsi"), (module / "more" / "dts", "pins.dtsi")):
        folder.mkdir(parents=True)
        (folder / name).write_text("/* */\n")
    kit.dts()
    text = (kit.folder / "kit.dts").read_text()
    (kit.folder / "kit.dts").write_text(f"#include <soc.dtsi>\n#include <pins.dtsi>\n{text}")
    assert kit.board().core == "cortex-m4"


def test_a_described_board_has_the_memories_of_this_zephyr(kit: Kit) -> None:
    described = Board("kit", "A kit", core="cortex-m3", flash_kib=64, ram_kib=16, files={"kit.conf": "#"})
    (kit.folder / "kit.dts").unlink(missing_ok=True)
    assert in_workspace(described, kit.workspace) == described
    kit.dts("kit", "arm,cortex-m4")
    found = in_workspace(described, kit.workspace)
    assert (found.core, found.flash_kib, found.ram_kib, found.arch) == ("cortex-m3", 512, 96, "")


def test_an_overlay_follows_the_board(kit: Kit) -> None:
    kit.dts()
    (kit.folder / "kit.dts").write_text('{"cpus": ["arm,cortex-m4"], "chosen": {"zephyr,sram": [1, 1, [0, 4096]]')
    assert devicetree_facts(["kit"], kit.workspace) == DevicetreeFacts()  # the overlay has its end
    assert devicetree_facts(["kit"], kit.workspace, "}}").ram_bytes == 4096


@pytest.mark.parametrize("lacking", ["source", "dtlib", "include", "syntax", "preprocessor"])
def test_nothing_is_known_without(kit: Kit, lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kit.dts()
    if lacking == "source":
        (kit.folder / "kit.dts").unlink()
    elif lacking == "dtlib":
        (kit.zephyr / devicetree._DTLIB).unlink()
    elif lacking == "preprocessor":
        monkeypatch.setenv("PATH", "")
    else:
        (kit.folder / "kit.dts").write_text("#include <none.dtsi>" if lacking == "include" else "{")
    assert devicetree_facts(["kit"], kit.workspace) == DevicetreeFacts()
    board = kit.board()
    assert (board.core, board.arch, board.flash_kib, board.ram_kib) == ("", "arm", 1, 1)


def kinds(board: Board) -> set[tuple[bool, bool]]:
    """DSP and Helium of the CMSIS-NN builds whose arenas an app for `board` has to hold."""
    found = kernel_libraries(("cmsis_nn",), [board], transpose_conv=True, revision="")
    return {(library.core.dsp, library.core.mve) for library in found}


def test_the_arena_follows_the_core(kit: Kit) -> None:
    """It is the largest of the builds that the core may be, not of all cores there are."""
    expected = {
        "arm,cortex-m0+": {(False, False)},
        "arm,cortex-m4f": {(True, False)},
        "arm,cortex-m33f": {(True, False), (False, False)},  # with DSP or without
        "arm,cortex-m55f": {(True, True), (True, False), (False, False)},
    }
    for compatible, builds in expected.items():
        kit.dts("kit", compatible)
        assert kinds(kit.board()) == builds
    assert kinds(Board("kit", arch="arm")) == {(True, True), (True, False), (False, False)}


def test_measured_sizes_want_the_very_core(kit: Kit) -> None:
    """A Cortex-M33 without DSP must not get the sizes of one with it."""
    like = load_board("mps2/an521/cpu0")
    assert emulator_for(Board("kit", core="cortex-m33"), [like]) == like
    kit.dts("kit", "arm,cortex-m33f")
    with pytest.raises(BoardError, match="whether its cortex-m33 has DSP or Helium is known only after a build"):
        emulator_for(kit.board(), [like])
