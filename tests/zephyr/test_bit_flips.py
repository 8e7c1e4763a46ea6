# SPDX-License-Identifier: Apache-2.0
"""Bits that flip in apps on real Zephyr: in constants, the memory plan, around the arena, in the stack.

Each is noticed, by its own error, or harmless: the self-test's outputs are the reference's.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.gdb_stub import SP, GdbStub, run_under, symbols
from tests.helpers.zephyr_apps import Tool
from tflm_zephyr.device.console.status import sentence

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

BOARD = "mps2/an385"
MODEL = "models::digits"
INIT, INVOKE = f"{MODEL}::Init", f"{MODEL}::Invoke"
CONSTANTS, PLAN, ARENA, STACK, OVERFLOW = (12, "init"), (13, "init"), (14, "invoke"), (15, "invoke"), (2, "fault")
BACKENDS = {
    "compiled": ("--backend", "compiled", "--kernels", "cmsis_nn"),
    "interpreter": ("--plan", "static", "--kernels", "cmsis_nn"),
}
INSIDE = {"compiled": f"{MODEL}::RunLayer", "interpreter": "tflite::MicroInterpreter::Invoke"}
CANARY = 16


@dataclass(frozen=True)
class Built:
    """An app's backend and ELF file, with its symbols, and where a test may put files."""

    backend: str
    elf: Path
    symbols: dict[str, tuple[int, int]]
    place: Path

    @property
    def constants(self) -> tuple[int, int]:
        """First byte and bytes of what the CRC-32 is of."""
        if self.backend == "interpreter":
            return self.symbols["tflm_model_digits"]
        first = self.symbols["digits_weights_begin"][0]
        ends = [sum(place) for name, place in self.symbols.items() if re.fullmatch(r"digits_\w+_\d+", name)]
        return first, max(ends) - first

    def stack(self, stub: GdbStub) -> int:
        """The first byte of the main thread's stack behind its guard: of its addresses, z_main_thread has no lower."""
        low, size = self.symbols["z_main_stack"]
        words = struct.iter_unpack("<I", stub.read(*self.symbols["z_main_thread"]))
        return min(word for (word,) in words if low <= word < low + size)

    def outcome(self, meddle: Callable[[GdbStub], None]) -> tuple[int, str] | str:
        """The error's code and stage, else the self-test's verdict."""
        text = run_under(BOARD, self.elf, meddle, self.place)
        error = re.search(r"TFLM:error code=(\d+) at=(\w+)", text)
        if error is not None:
            return int(error[1]), error[2]
        verdict = re.search(r"TFLM:end status=(\w+)", text)
        assert verdict is not None, text
        return verdict[1]

    def flipped(self, at: str, address: int, bit: int, *, in_stack: bool = False) -> tuple[int, str] | str:
        """The outcome when a bit flips as the function `at` begins; `address` is from the stack's first byte on."""

        def meddle(stub: GdbStub) -> None:
            stub.run_to(self.symbols[at][0])
            stub.flip(address + (self.stack(stub) if in_stack else 0), bit)

        return self.outcome(meddle)


@pytest.fixture(scope="module", params=BACKENDS)
def built(request: pytest.FixtureRequest, tool: Tool, apps: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = apps / f"flips_{request.param}"
    sample = ROOT / "samples" / "digits" / "digits.tflite"
    tool("generate", sample, "-o", folder, "--board", BOARD, *BACKENDS[request.param])
    elf = Path(tool("build", folder, "--board", BOARD, as_json=True)["elf"])
    return Built(request.param, elf, symbols(elf), tmp_path_factory.mktemp("gdb"))


@pytest.fixture
def bits() -> random.Random:
    return random.Random(27)


def test_nothing_flips(built: Built) -> None:
    assert built.outcome(lambda stub: None) == "pass"


def test_constants(built: Built, bits: random.Random) -> None:
    first, size = built.constants
    places = [first, first + size - 1, *(first + bits.randrange(size) for _ in range(6))]
    assert {built.flipped(INIT, place, bits.randrange(8)) for place in places} == {CONSTANTS}


def test_vtables_of_the_flatbuffer(built: Built, bits: random.Random) -> None:
    """TFLM would follow them anywhere, or say that the arena is too small."""
    if built.backend == "compiled":
        pytest.skip("has no flatbuffer")
    first, _ = built.constants
    found = {built.flipped(INIT, first + place, bits.randrange(8)) for place in (0, 1, 20, 24, 30, 36)}
    assert found == {CONSTANTS}
    assert "damaged" in sentence(*CONSTANTS)


def test_the_memory_plan(built: Built, bits: random.Random) -> None:
    if built.backend == "compiled":
        pytest.skip("has its plan in its code")
    first, size = built.symbols[f"{MODEL}::kPlan"]
    assert {built.flipped(INIT, first + bits.randrange(size), bits.randrange(8)) for _ in range(4)} == {PLAN}


def test_bytes_around_the_arena(built: Built, bits: random.Random) -> None:
    first, size = built.symbols[f"{MODEL}::g_guarded_arena"]
    places = (first, first + CANARY - 1, first + size - CANARY, first + size - 1)
    assert {built.flipped(INVOKE, place, bits.randrange(8)) for place in places} == {ARENA}


def test_the_end_of_the_stack(built: Built, bits: random.Random) -> None:
    inside = INSIDE[built.backend]
    assert {built.flipped(inside, place, bits.randrange(8), in_stack=True) for place in (0, 15)} == {STACK}


def test_stack_that_is_not_in_use(built: Built, bits: random.Random) -> None:
    assert built.flipped(INVOKE, 64, bits.randrange(8), in_stack=True) == "pass"


def test_a_stack_that_overflows(built: Built) -> None:
    """The MPU's guard is written."""

    def meddle(stub: GdbStub) -> None:
        stub.run_to(built.symbols[INSIDE[built.backend]][0])
        stub.set_register(SP, built.stack(stub) + 8)

    assert built.outcome(meddle) == OVERFLOW
