# SPDX-License-Identifier: Apache-2.0
"""The MicroInterpreter beside compiled code: python benchmarks/compiled.py [--models NAME ...] [-b BOARD ...]

Each model becomes an app with CMSIS-NN's kernels by either backend, both built cold without ccache and run in QEMU.
A line for each way: bytes of the model's RAM (arena), flash and RAM of the whole app by the linker's table,
instructions of an inference (the self-test's ticks, equal from run to run), seconds of CPU time of the cold build, and
whether the self-test found every output equal to its reference. Below are the ratios, with their goals. Stock is the
smallest arena of TFLM's own interpreter and planner, as benchmarks/arena.py measures it (docs/arena.md).

Models are those of ../shared/models, the samples', and a MobileNet v1 of 96 x 96 x 3 made for this.
Needs a west workspace (ZEPHYR_BASE) with the tflite-micro and cmsis-nn modules, a compiler and QEMU.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.bare_app import run  # noqa: E402
from benchmarks.build import cost_of  # noqa: E402
from benchmarks.common import (  # noqa: E402
    TOOL,
    Bench,
    against,
    emulated,
    environment,
    equals_reference,
    main_of,
    say,
    say_load,
    used_bytes,
)
from benchmarks.footprint import instructions  # noqa: E402
from tests.zephyr.models import mobilenet  # noqa: E402
from tflm_zephyr.build.west import Build  # noqa: E402
from tflm_zephyr.codegen.backends import COMPILED, INTERPRETER  # noqa: E402
from tflm_zephyr.errors import ToolError  # noqa: E402

BOARDS = ("mps2/an385",)
SHARED = ROOT.parent / "shared" / "models"
MOBILENET = "mobilenet"
STOCK_BYTES: Mapping[str, int] = {
    "ad01_int8": 3_024,
    "kws_ref_model": 22_832,
    "micro_speech_quantized": 6_848,
    "mobilenet": 100_816,
    "person_detect": 82_320,
    "pretrainedResnet_quant": 54_992,
}
"""The stock arena on a Cortex-M3 with CMSIS-NN's kernels: docs/arena.md, measured by benchmarks/arena.py."""


@dataclass(frozen=True)
class Goals:
    """The most that compiled may take: of the stock arena, and of the interpreter app's instructions, flash and RAM."""

    stock: float | None = None
    instructions: float | None = None
    flash: float | None = None
    ram: float | None = None


GOALS: Mapping[str, Goals] = {
    "ad01_int8": Goals(stock=0.40),
    "hello_world": Goals(flash=0.65, ram=0.72),
    "kws_ref_model": Goals(stock=0.45, instructions=1.05),
    "micro_speech_quantized": Goals(stock=0.65),
    "mobilenet": Goals(stock=0.50),
    "person_detect": Goals(stock=0.46, instructions=1.01, flash=0.80),
    "pretrainedResnet_quant": Goals(stock=0.70),
}


@dataclass(frozen=True)
class Way:
    """One model by one backend, in bytes, instructions and seconds. `equal`: outputs are the reference's."""

    arena: int
    flash: int
    ram: int
    instructions: int
    build_s: float
    equal: bool


def models(folder: Path) -> dict[str, Path]:
    """Every model by name; the MobileNet is written to `folder`."""
    made = folder / f"{MOBILENET}.tflite"
    made.write_bytes(mobilenet(96))
    paths = [*sorted(SHARED.glob("*.tflite")), *sorted((ROOT / "samples").glob("*/*.tflite")), made]
    return {path.stem: path for path in paths}


def measured(bench: Bench, name: str, model: Path, board: str, backend: str) -> Way:
    """Generate, build and run one app. Raises ToolError."""
    app = bench.folder / f"{name}_{backend}"
    flags = ("--kernels", "cmsis_nn", "--backend", backend, "--force", "--json")
    said = json.loads(run([*TOOL, "generate", model, "-o", app, "-b", board, *flags], ROOT))
    shutil.rmtree(bench.build_dir(app, board), ignore_errors=True)
    built: list[Build] = []
    with environment(CCACHE_DISABLE="1"):
        cost = cost_of(lambda: built.append(bench.build(app, board)))
    result = emulated(built[0])
    return Way(
        arena=said["models"][0]["arena"]["bytes"],
        flash=used_bytes(built[0], "FLASH"),
        ram=used_bytes(built[0], "RAM"),
        instructions=instructions(result),
        build_s=cost.cpu_s,
        equal=equals_reference(result),
    )


def lines(name: str, interpreted: Way, compiled: Way) -> list[str]:
    """Both ways and their ratios, as the table shows them."""
    goals, stock = GOALS.get(name, Goals()), STOCK_BYTES.get(name)
    found = [_row(name, INTERPRETER, interpreted), _row("", COMPILED, compiled)]
    ratios = [
        ("arena", compiled.arena / interpreted.arena, 1.0),
        ("flash", compiled.flash / interpreted.flash, goals.flash),
        ("RAM", compiled.ram / interpreted.ram, goals.ram),
        ("instructions", compiled.instructions / interpreted.instructions, goals.instructions),
        ("cold build", compiled.build_s / interpreted.build_s, 1.0),
    ]
    if stock is not None:
        ratios.insert(0, (f"of stock's {stock:,}", compiled.arena / stock, goals.stock))
    found.append("  " + ", ".join(f"{what} {against(ratio, goal)}" for what, ratio, goal in ratios))
    return found


def _row(name: str, backend: str, way: Way) -> str:
    outputs = "equal" if way.equal else "other"
    return (
        f"{name:24} {backend:12} {way.arena:9,} {way.flash:9,} {way.ram:9,} {way.instructions:13,} "
        f"{way.build_s:7.1f} {outputs}"
    )


def compare(bench: Bench, board: str, wanted: list[str]) -> None:
    """Print the table of one board. A model that a way cannot take has its error in its place."""
    say(f"\n{board}, CMSIS-NN's kernels")
    say(f"{'model':24} {'backend':12} {'arena':>9} {'flash':>9} {'RAM':>9} {'instructions':>13} {'build s':>7} outputs")
    for name, model in models(bench.folder).items():
        if wanted and name not in wanted:
            continue
        try:
            ways = [measured(bench, name, model, board, backend) for backend in (INTERPRETER, COMPILED)]
        except ToolError as error:
            say(f"{name:24} {error}")
            continue
        for line in lines(name, *ways):
            say(line)


def main() -> int:
    """Measure every board that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-b", "--board", action="append", help=f"default: {' '.join(BOARDS)}; may be repeated")
    parser.add_argument("--models", nargs="*", default=[], metavar="NAME", help="just these models")

    def body(args: argparse.Namespace, bench: Bench) -> None:
        say_load()
        for board in args.board or BOARDS:
            bench.workspace.require(board, "cmsis_nn")
            compare(bench, board, args.models)

    return main_of(parser, body)


if __name__ == "__main__":
    sys.exit(main())
