# SPDX-License-Identifier: Apache-2.0
"""A device whose models need arenas of known sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.records import as_bytes, begin, self_test, with_end
from tests.fakes.scripted_link import ScriptedLink
from tflm_zephyr.boards.board import Board


@dataclass
class Device:
    """Behaves as an app would whose models need `needs` bytes, by what its sources say."""

    needs: dict[str, int]
    stacks: bool = True
    tight_fails: bool = False
    built: list[tuple[Path, str]] = field(default_factory=list)

    def build(self, app: Path, board: Board) -> Path:
        self.built.append((app, board.name))
        return app

    def link(self, board: Board, app: Path) -> ScriptedLink:
        lines: list[str] = []
        sizes = {}
        for name in self.needs:
            text = (app / "tflm" / "src" / "models" / f"{name}.cpp").read_text()
            found = re.search(r"kGeneratedArenaSize = (\d+);", text)
            assert found is not None
            sizes[name] = int(found[1])
        for name, size in sizes.items():
            if size >= self.needs[name]:
                told = self_test(model=name, status="fail" if self.tight_fails and size == self.needs[name] else "pass")
                if (app / "tflm" / "src" / "measure.cpp").is_file() and self.stacks:
                    assert "config INIT_STACKS\n" in (app / "tflm" / "Kconfig").read_text()
                    told = with_end([*told[:-1], "TFLM:stacks main=8192 main_used=1000 isr=2048 isr_used=200"])
                lines += told
            else:
                lines += with_end([begin(name), "TFLM:error code=4 at=init"], "fail")
        if (app / "tflm" / "src" / "measure.cpp").is_file():
            for name, need in self.needs.items():
                lines.append(
                    f"TFLM:measured model={name} result=ok arena={need} allocates={need} floor={need // 32 * 16} "
                    "head=32 tail=740 odd=0 tries=31"
                )
        return ScriptedLink(as_bytes(lines))


@dataclass
class StackDevice:
    """Behaves as a compiled app of one model, "dense", would that uses `used` bytes of its main stack.

    With less than `fails_below` bytes of main stack its self-test fails.
    """

    used: int
    fails_below: int = 0
    stacks: list[int] = field(default_factory=list)

    def build(self, app: Path, board: Board) -> Path:
        kconfig = (app / "tflm" / "Kconfig").read_text()
        assert "config INIT_STACKS\n" in kconfig
        found = re.search(r"config TFLM_APP_STACK_SIZE\n[^#]*?default (\d+)\n", kconfig)
        assert found is not None
        self.stacks.append(int(found[1]))
        return app

    def link(self, board: Board, app: Path) -> ScriptedLink:
        size = self.stacks[-1]
        told = self_test(model="dense", status="fail" if size < self.fails_below else "pass")
        stacks = f"TFLM:stacks main={size} main_used={self.used} isr=2048 isr_used=200"
        return ScriptedLink(as_bytes(with_end([*told[:-1], stacks], "fail" if size < self.fails_below else "pass")))
