# SPDX-License-Identifier: Apache-2.0
"""Heads and arenas of every model: python benchmarks/arena.py [--kernels reference] [--models NAME ...]

Head, in bytes, of the model's plan: linear (every buffer its own place), greedy (TFLM's own placing when the app
starts), packed (all buffers placed freely), in-place (the app's plan, with in-place operators), bound (what no
plan goes below); then the tail.

Arena: predicted, measured by `tflm-zephyr size` (the smallest that allocates and runs with equal outputs, proven by a
build with that size and one with 16 bytes less), and stock: the smallest with which TFLM's own interpreter and planner
allocate and run the model as it is, found by the same code in the same build. All models of a kernel library are in one
app, twice each.

Models are those of ../shared/models, the samples', and a MobileNet v1 of 96 x 96 x 3 made for this.
Needs a west workspace (ZEPHYR_BASE) with the tflite-micro and cmsis-nn modules, a compiler and QEMU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.common import DIGITS, HELLO_WORLD, Bench, add_models, chosen, main_of, say  # noqa: E402
from tests.helpers.architectures import mobilenet  # noqa: E402
from tflm_zephyr.arena.tail import SLACK_BYTES  # noqa: E402
from tflm_zephyr.boards.board import Board, load_board  # noqa: E402
from tflm_zephyr.build.west import BuildRequest, build  # noqa: E402
from tflm_zephyr.cli.commands.configuration import boards_of, tflm_for  # noqa: E402
from tflm_zephyr.codegen.generation import AppRequest, Generated, generate  # noqa: E402
from tflm_zephyr.codegen.spec import AppSpec, ModelSpec  # noqa: E402
from tflm_zephyr.device.transport.qemu import QemuLink  # noqa: E402
from tflm_zephyr.options import AppConfig, ModelConfig  # noqa: E402
from tflm_zephyr.validation.arena_sizing import Emulation, ModelSize, measure_app  # noqa: E402

BOARD = "mps2/an385"
LIBRARIES = ("reference", "cmsis_nn")
GOALS = {("person_detect", "reference"): 0.78, ("mobilenet", "reference"): 0.65}
WORST = 1.0
LEAST_ERROR, WORST_ERROR = 256, 0.05  # of a prediction, in bytes and as a share; the larger holds
STOCK = "stock"
TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class Row:
    """One model with one kernel library, in bytes; `size` and `stock` as measured."""

    name: str
    made: Generated
    index: int
    size: ModelSize
    stock: ModelSize

    @property
    def ratio(self) -> float:
        """The arena measured, as a share of what the stock interpreter needs."""
        return self.size.arena.arena_bytes / self.stock.arena.arena_bytes


def model_files(folder: Path, wanted: Sequence[str]) -> dict[str, Path]:
    """Models by name; `wanted` names some of them, none means all."""
    made = folder / "mobilenet.tflite"
    made.write_bytes(mobilenet())
    shared = sorted((ROOT.parent / "shared" / "models").glob("*.tflite"))
    files = {path.stem: path for path in (*shared, DIGITS, HELLO_WORLD, made)}
    return chosen(files, wanted)


def app_of(bench: Bench, files: dict[str, Path], library: str, app: Path) -> Generated:
    """Every model twice: as this tool plans it, and as it is, planned by TFLM."""
    models = [ModelConfig(path, name=name) for name, path in files.items()]
    models += [
        ModelConfig(path, name=f"{name} {STOCK}", plan="online", in_place=False, order="model")
        for name, path in files.items()
    ]
    config = AppConfig(tuple(models), name="arenas", boards=(BOARD,), kernels=library)
    boards = boards_of(config, bench.workspace)
    return generate(AppRequest(config, app, tflm_for(config, boards, bench.workspace), boards=boards, measured=False))


def measured_rows(bench: Bench, files: dict[str, Path], library: str) -> list[Row]:
    """Measure and prove all models with the kernels of `library`. Raises BuildError and DeviceError."""
    app = bench.folder / library
    app.mkdir(parents=True, exist_ok=True)
    made = app_of(bench, files, library, app)

    def build_app(folder: Path, board: Board) -> Path:
        return build(BuildRequest(folder, board.name, folder / "build"), bench.workspace, bench.toolchain).elf

    def link(board: Board, elf: Path) -> QemuLink:
        assert board.qemu is not None
        return QemuLink(board.qemu, elf, icount=False)

    board = load_board(BOARD)
    found = measure_app(made.spec, board, app, Emulation(board, build_app, link, TIMEOUT_S))
    sizes = {size.arena.model: size for size in found.models}
    idents = [model.ident for model in made.spec.models]
    half = len(files)
    return [
        Row(name, made, index, sizes[idents[index]], sizes[idents[half + index]]) for index, name in enumerate(files)
    ]


def goal_of(row: Row, library: str) -> float:
    """The most that its smallest arena may be of TFLM's own."""
    return min(GOALS.get((row.name, library), WORST), WORST)


def misses(row: Row, library: str) -> bool:
    """Whether its goal is missed, or a prediction is wrong."""
    return row.ratio > goal_of(row, library) or bool(_error(row))


def shown(row: Row, library: str) -> str:
    """The model's line."""
    item, spec = row.made.prepared[row.index], model_of(row.made.spec, row.index)
    head, size = item.head, row.size
    predicted, smallest = spec.arena.bytes, size.arena.arena_bytes
    goal = goal_of(row, library)
    verdict = f"goal {goal:g}: {'ok' if row.ratio <= goal else 'MISSED'}"
    columns = (
        head.linear_bytes, head.greedy_bytes, head.packed_bytes, head.head_bytes, head.lower_bound_bytes,
        size.arena.tail_bytes, predicted, smallest, row.stock.arena.arena_bytes,
    )  # fmt: skip
    return f"{row.name:26}" + "".join(f"{value:9}" for value in columns) + f"  {row.ratio:.3f} {verdict}{_error(row)}"


def _error(row: Row) -> str:
    """Errors of the prediction: "" if there are none."""
    wrong = []
    for size, spec in ((row.size, row.index), (row.stock, len(row.made.prepared) // 2 + row.index)):
        predicted, smallest = model_of(row.made.spec, spec).arena.bytes, size.arena.arena_bytes
        if predicted < smallest:
            wrong.append(f"{smallest - predicted} too low")
        elif predicted - smallest > max(LEAST_ERROR, WORST_ERROR * smallest):
            wrong.append(f"{predicted - smallest} too high")
        if size.measured.odd:
            wrong.append(f"{size.measured.odd} odd sizes")
    return f"  PREDICTION {', '.join(wrong)}" if wrong else ""


def model_of(spec: AppSpec, index: int) -> ModelSpec:
    """The model at `index`."""
    return spec.models[index]


HEADINGS = ("linear", "greedy", "packed", "in-place", "bound", "tail", "predicted", "measured", "stock")


def main() -> int:
    """Measure the models asked for, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kernels", action="append", choices=LIBRARIES, help="may be repeated (default: both)")
    add_models(parser)

    missed: list[str] = []

    def measure(args: argparse.Namespace, bench: Bench) -> None:
        files = model_files(bench.folder, args.models)
        for library in args.kernels or LIBRARIES:
            rows = measured_rows(bench, files, library)
            say(f"\n{library} kernels on {BOARD}: head, tail, arena (predictions have {SLACK_BYTES} bytes of slack)")
            say(f"{'':26}" + "".join(f"{name:>9}" for name in HEADINGS) + "  ratio")
            for row in rows:
                say(shown(row, library))
            missed.extend(f"{row.name} ({library})" for row in rows if misses(row, library))
            say(f"All {2 * len(rows)} arenas proven: self-tests pass in them, and fail with 16 bytes less.")

    code = main_of(parser, measure)
    if missed:
        say(f"MISSED: {', '.join(missed)}")
    return code or int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
