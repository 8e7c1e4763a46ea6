# SPDX-License-Identifier: Apache-2.0
"""Every way to run a model as compiled code, in QEMU: python benchmarks/front.py [--models NAME ...] [--cores m3 ...]

Each way of a model's front (`tflm-zephyr plan MODEL --rows`) is linked without an operating system and run twice: once
with each row of each layer compared with TFLM's where it is computed, and once as it is, for its numbers. A line for
each way: RAM by the plan, .bss by the linker, more work by the plan, instructions of an inference and how many more
these are than those of the way with the least work, stack below the caller, and the bound on it. A way whose .bss,
stack or bytes are not as they should be is named at the end, and the exit code is then 1.

Needs a west workspace (ZEPHYR_BASE) with the tflite-micro and cmsis-nn modules, arm-none-eabi-gcc with picolibc, QEMU,
and TFLM on this machine.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.common import Bench, add_models, main_of, say  # noqa: E402
from benchmarks.compiled import kernels_named, models_with_goals  # noqa: E402
from benchmarks.rows import GOALS  # noqa: E402
from tests.helpers.bare_metal import MACHINES, BareMetal, Measured, random_inputs, ways  # noqa: E402
from tests.helpers.compiled_check import expected  # noqa: E402
from tests.helpers.compiled_host import Checkouts  # noqa: E402
from tflm_zephyr.codegen.backends.compiled import runtime_of  # noqa: E402
from tflm_zephyr.tflm import tflm_of  # noqa: E402

TITLES = ("RAM", ".bss", "more work", "instructions", "more", "stack", "bound", "layers")


def table(metal: BareMetal, model: Path, folder: Path, *, fast: bool = False) -> list[str]:
    """Print the ways of one model; those that are not as they should be."""
    faults: list[str] = []
    first: Measured | None = None
    for made in ways(model, folder / "app", "cmsis_nn", metal.checkouts, metal.machine, picked=fast):
        program = runtime_of(made.spec.models[0]).program
        inputs = random_inputs(program)
        (want,) = expected(program, [inputs])
        different = metal.different(made, inputs, want)
        found = metal.measured(made, inputs, want)
        first = first or found
        found_more = found.instructions / first.instructions - 1
        bound = f"{found.stack_bound_bytes:,}" if found.stack_bound_bytes is not None else "unknown"
        say(
            f"{found.arena_bytes:9,} {found.bss_bytes:9,} {100 * program.slower:9.2f} % {found.instructions:13,} "
            f"{100 * found_more:7.2f} % {found.stack_bytes:7,} {bound:>8} {'DIFFER' if different else 'equal'}"
        )
        where = f"{model.stem} in {found.arena_bytes:,} bytes on {metal.machine.board}"
        faults += _faults(where, found, different)
    return faults


def _faults(where: str, found: Measured, different: dict[int, int]) -> list[str]:
    whys = (
        (bool(different), f"tensors {', '.join(map(str, different))} differ"),
        (found.bss_bytes != found.arena_bytes, f".bss has {found.bss_bytes:,} bytes"),
        (
            found.stack_bound_bytes is not None and found.stack_bytes > found.stack_bound_bytes,
            f"the stack takes {found.stack_bytes:,} bytes",
        ),
    )
    return [f"{where}: {why}" for applies, why in whys if applies]


def main() -> int:
    """Measure every core that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cores", nargs="*", choices=MACHINES, default=["m3", "m4", "m33"], help="default: m3 m4 m33")
    add_models(parser)
    parser.add_argument("--fast-kernels", action="store_true", help="with the kernels that it picks")
    faults: list[str] = []

    def body(args: argparse.Namespace, bench: Bench) -> None:
        workspace = bench.workspace
        assert workspace.tflm_dir is not None and workspace.cmsis_nn_dir is not None
        revision = tflm_of(None, workspace.tflm_revision)
        checkouts = Checkouts(workspace.tflm_dir, workspace.cmsis_nn_dir, bench.folder / "objects", revision)
        for core in args.cores:
            metal = BareMetal(checkouts, MACHINES[core], bench.folder / core)
            for name, model in models_with_goals(bench.folder, GOALS.keys(), args.models).items():
                say(f"\n{name} on {metal.machine.board}, {kernels_named(args.fast_kernels)}")
                say("{:>9} {:>9} {:>11} {:>13} {:>9} {:>7} {:>8} {}".format(*TITLES))
                faults.extend(table(metal, model, bench.folder, fast=args.fast_kernels))
        for fault in faults:
            say(f"fault: {fault}")

    return main_of(parser, body) or int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
