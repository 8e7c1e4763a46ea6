# SPDX-License-Identifier: Apache-2.0
"""Estimates beside measurements: python benchmarks/estimates.py [--models NAME ...] [-c CORE ...] [--sizes BOARD ...]

Each model runs once on bare metal in QEMU, through TFLM's interpreter with CMSIS-NN's or the reference kernels, and as
generated code with CMSIS-NN's kernels or ours, on whole tensors. A line for each model, way and core: instructions that
were counted, the estimate by the tables of costs (tflm_zephyr.costs), their ratio, and what stood in for a price that
was not measured. A miss is an estimate that is farther off than the goal of its core.

`--sizes` builds apps of compiled code for these boards instead, on whole tensors, by rows, and both with fast kernels:
flash and RAM by the linker, the estimates of `tflm-zephyr fit`, their bounds, and whether they hold.

Needs a west workspace (ZEPHYR_BASE) with the tflite-micro and cmsis-nn modules, arm-none-eabi-gcc and QEMU.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.common import TOOL, Bench, add_models, chosen, main_of, say, say_load, used_bytes  # noqa: E402
from benchmarks.compiled import models  # noqa: E402
from benchmarks.kernels import ALL_CORES, Machine  # noqa: E402
from benchmarks.operator_costs import Interpreter  # noqa: E402
from tflm_zephyr import process  # noqa: E402
from tflm_zephyr.compiler import ModelWork, compiled_work, interpreter_work  # noqa: E402
from tflm_zephyr.costs import CMSIS_NN, REFERENCE, Costs, Prices  # noqa: E402
from tflm_zephyr.errors import ToolError  # noqa: E402
from tflm_zephyr.model import parse_model  # noqa: E402

GOALS: Mapping[str, float] = {"m55": 0.10}
GOAL = 0.05
_ARENA = 200 << 10


@dataclass(frozen=True)
class Estimate:
    """Counted instructions of an inference, and the estimate."""

    counted: int
    work: ModelWork

    @property
    def ratio(self) -> float:
        """The estimate as a multiple of what was counted."""
        return self.work.instructions / self.counted


def interpreted(machine: Machine, model: Path) -> Estimate:
    """The model through TFLM's interpreter."""
    parsed = parse_model(model.read_bytes())
    elf = Interpreter(machine, machine.kernels).built(model, parsed, _ARENA)
    return Estimate(machine.counted(elf), interpreter_work(parsed, _prices(machine)))


def generated(machine: Machine, model: Path, *, fast: bool) -> Estimate:
    """The model as generated code."""
    program, elf = machine.built(model, fast=fast)
    return Estimate(machine.counted(elf), compiled_work(program, _prices(machine)))


def _prices(machine: Machine) -> Costs:
    return Costs((Prices(machine.core.cpu, machine.kernels),))


WAYS: Mapping[str, tuple[str, Callable[[Machine, Path], Estimate]]] = {
    "interpreter": (CMSIS_NN, interpreted),
    "reference": (REFERENCE, interpreted),
    "compiled": (CMSIS_NN, lambda machine, model: generated(machine, model, fast=False)),
    "fast": (CMSIS_NN, lambda machine, model: generated(machine, model, fast=True)),
}
"""Ways to run a model by name, with their kernel libraries."""
SIZE_WAYS: Mapping[str, tuple[str, ...]] = {
    "whole": (),
    "rows": ("--rows",),
    "fast": ("--fast-kernels",),
    "fast rows": ("--fast-kernels", "--rows"),
}
"""Flags of apps of compiled code by name."""


def line(name: str, way: str, key: str, found: Estimate) -> str:
    """A row of the table."""
    missed = "" if abs(found.ratio - 1) <= GOALS.get(key, GOAL) else " MISSED"
    whys = sorted(set(found.work.stand_ins.values()))
    return (
        f"{name:24} {way:12} {key:7} {found.counted:13,} {found.work.instructions:13,} {found.ratio:7.3f}{missed}"
        + (f"  ({'; '.join(whys)})" if whys else "")
    )


def work_lines(bench: Bench, wanted: Mapping[str, Path], keys: Sequence[str], ways: Sequence[str]) -> Iterator[str]:
    """A line for each model, way and core, and the sum."""
    ratios, missed = [], 0
    for key in keys:
        for way in ways:
            library, measure = WAYS[way]
            machine = replace(Machine(bench, key), kernels=library)
            for name, model in wanted.items():
                try:
                    found = measure(machine, model)
                except ToolError as error:
                    yield f"{name:24} {way:12} {key:7} {str(error).splitlines()[0][:90]}"
                    continue
                ratios.append(found.ratio)
                missed += "MISSED" in (text := line(name, way, key, found))
                yield text
    if ratios:
        yield f"\n{len(ratios)} estimates, {missed} missed; ratios from {min(ratios):.3f} to {max(ratios):.3f}"


def size_lines(bench: Bench, wanted: Mapping[str, Path], board: str, ways: Sequence[str]) -> Iterator[str]:
    """Flash and RAM of each app, by the linker and by `fit`."""
    for name, model in wanted.items():
        for way in ways:
            flags = ("--backend", "compiled", "--kernels", "cmsis_nn", *SIZE_WAYS[way])
            shutil.rmtree(bench.folder / "sizes_app", ignore_errors=True)  # its app file would be taken up
            app = bench.app("sizes_app", model, board, *flags)
            built = bench.build(app, board)
            (fit,) = json.loads(_fit(model, board, flags))["boards"]
            for memory, region in (("flash", "FLASH"), ("ram", "RAM")):
                real, one = used_bytes(built, region), fit[memory]
                more = one["used_bytes"] - real
                holds = -one["below_bytes"] <= -more <= one["above_bytes"]
                yield (
                    f"{name:24} {way:10} {board:12} {memory:5} {real:8,} {one['used_bytes']:8,} {more:+7,} "
                    f"of -{one['below_bytes']:,} +{one['above_bytes']:,}{'' if holds else ' MISSED'}"
                )


def _fit(model: Path, board: str, flags: Sequence[str]) -> str:
    """The document of `fit`, whose exit code says no more than the document does."""
    return process.run((*TOOL, "fit", str(model), "-b", board, "--json", *flags), cwd=ROOT).output


def main() -> int:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "-c", "--core", nargs="*", default=list(ALL_CORES), choices=tuple(ALL_CORES), help="default: all"
    )
    parser.add_argument("-w", "--way", nargs="*", default=list(WAYS), choices=tuple(WAYS), help="default: all")
    parser.add_argument("--sizes", nargs="*", metavar="BOARD", help="sizes of apps for these boards instead of work")
    parser.add_argument("--size-ways", nargs="*", default=list(SIZE_WAYS), choices=tuple(SIZE_WAYS))
    add_models(parser)

    def body(args: argparse.Namespace, bench: Bench) -> None:
        say_load()
        for board in args.sizes or ():
            for text in size_lines(bench, chosen(models(bench.folder), args.models), board, args.size_ways):
                say(text)
        if args.sizes:
            return
        say(f"\n{'model':24} {'way':12} {'core':7} {'counted':>13} {'estimated':>13}   ratio")
        for text in work_lines(bench, chosen(models(bench.folder), args.models), args.core, args.way):
            say(text)

    return main_of(parser, body)


if __name__ == "__main__":
    sys.exit(main())
