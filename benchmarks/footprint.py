# SPDX-License-Identifier: Apache-2.0
"""Flash, RAM and instructions beside what Zephyr itself offers: python benchmarks/footprint.py

hello_world: the generated app in its default profile against Zephyr's sample for TFLM, which it links with Zephyr's
tflite-micro module. The default takes reference kernels, which the sample has too, as CMSIS-NN's would have nothing to
compute; the app with those is beside it. Both with the sample's own model, whose bytes are then on either side, and
with this project's.

person_detect: instructions of an inference in QEMU, CMSIS-NN's kernels against the module's default. An instruction
is a nanosecond of emulated time there, so ticks give the number, the same in every run.

Needs a west workspace (ZEPHYR_BASE) with the tflite-micro and cmsis-nn modules, a compiler and QEMU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.common import (  # noqa: E402
    HELLO_WORLD,
    NO_PERSON_DETECT,
    PERSON_DETECT,
    Bench,
    against,
    clock_hz,
    emulated,
    equals_reference,
    main_of,
    model_in_source,
    say,
    used_bytes,
)
from tflm_zephyr.boards.board import load_board  # noqa: E402
from tflm_zephyr.device.console.result import RunResult  # noqa: E402
from tflm_zephyr.errors import DeviceError  # noqa: E402

GOALS = {"nrf9160dk/nrf9160/ns": (0.62, 0.65), "mps2/an385": (0.58, 0.65)}  # of the sample's flash and RAM
EMULATED = "mps2/an385"
INSTRUCTIONS_GOAL = 0.05
KERNELS = (("auto", "default kernels"), ("cmsis_nn", "CMSIS-NN's kernels"))
NS_PER_S = 10**9
SAMPLE = "Zephyr's sample"


def hello_world(bench: Bench, boards: Sequence[str]) -> None:
    """Print flash and RAM on each board."""
    extracted = bench.folder / "sample_model.tflite"
    extracted.write_bytes(model_in_source((bench.sample / "src" / "model.cpp").read_text(encoding="utf-8")))
    models = (("sample's model", extracted), ("own model", HELLO_WORLD))
    for board in boards:
        bench.workspace.require(board, "cmsis_nn")
        goals = GOALS.get(board, (None, None))
        theirs = bench.build(bench.sample, board, "zephyr_sample")
        base = tuple(used_bytes(theirs, region) for region in ("FLASH", "RAM"))
        say(f"\nhello_world on {board}\n{'':44} {'flash':>6} of the sample's {'RAM':>17} of the sample's")
        say(f"{SAMPLE:44} {base[0]:6} {'':27} {base[1]:6}")
        for model_name, model in models:
            for kernels, kernels_name in KERNELS:
                name = f"{model.stem}_{kernels}"
                built = bench.build(bench.app(name, model, board, "--kernels", kernels), board)
                used = tuple(used_bytes(built, region) for region in ("FLASH", "RAM"))
                wanted = goals if kernels == "auto" else (None, None)
                shown = [against(mine / their, goal) for mine, their, goal in zip(used, base, wanted, strict=True)]
                tested = ""
                if load_board(board).qemu is not None:
                    tested = f"  self-test: {emulated(built).status}"
                row = f"{f'this app, {model_name}, {kernels_name}':44} {used[0]:6} {shown[0]:27} {used[1]:6} {shown[1]}"
                say(row + tested)


def instructions(result: RunResult, clock_hz: int) -> int:
    """Instructions of the run's inferences; an emulated clock of `clock_hz` has an instruction each nanosecond.

    An app takes its clock for what Zephyr says, which on mps2/an521 is not the machine's. Raises DeviceError when
    nothing counted them.
    """
    total = 0
    for run in result.runs:
        if run.ticks is None:
            raise DeviceError("the self-test counted no ticks", where=result.link)
        total += run.ticks * NS_PER_S // clock_hz
    return total


def person_detect(bench: Bench) -> None:
    """Print instructions in QEMU."""
    if not PERSON_DETECT.is_file():
        say(f"\n{NO_PERSON_DETECT}")
        return
    say(f"\nperson_detect on {EMULATED}\n{'':44} {'instructions':>13} of the module's           outputs")
    base = 0
    cases = (
        ("Zephyr's module, its default kernels", ("--tflm", "module", "--kernels", "reference")),
        ("this app, CMSIS-NN's kernels", ("--kernels", "cmsis_nn")),
    )
    for name, flags in cases:
        app = bench.app(f"person_detect_{flags[-1]}", PERSON_DETECT, EMULATED, *flags)
        result = emulated(bench.build(app, EMULATED))
        count = instructions(result, clock_hz(EMULATED))
        ratio = against(count / base, INSTRUCTIONS_GOAL) if base else ""
        base = base or count
        verdict = "equal to LiteRT's reference" if equals_reference(result) else f"self-test: {result.status}"
        say(f"{name:44} {count:13,} {ratio:26} {verdict}")


def main() -> int:
    """Measure what is asked for, or everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "-b", "--board", action="append", help=f"for hello_world; may be repeated (default: {', '.join(GOALS)})"
    )
    parser.add_argument("--only", choices=("hello_world", "person_detect"), help="just this one")

    def measure(args: argparse.Namespace, bench: Bench) -> None:
        if args.only != "person_detect":
            hello_world(bench, args.board or tuple(GOALS))
        if args.only != "hello_world":
            person_detect(bench)

    return main_of(parser, measure)


if __name__ == "__main__":
    sys.exit(main())
