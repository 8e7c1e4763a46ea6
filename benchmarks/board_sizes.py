# SPDX-License-Identifier: Apache-2.0
"""Size of an app on each board without model and kernels: python benchmarks/board_sizes.py [--update]

Builds, for every board under boards/, the app without operators (benchmarks/bare_app.py), whose flash and RAM less
model, reference data, arena and main stack are the board's base, and then apps of real models. These should take the
base, their known parts and their kernels (tflm_zephyr.kernels.code_size); the table has the deviations. `--update`
writes board_sizes.json in the data folder of the workspace's TFLM revision, and keeps the rows of other Zephyr
series. A board that the workspace cannot build is reported and left out. Run it after a change of the templates, and
after benchmarks/operator_links.py --update.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.bare_app import BareApp, bare_app, built_app, generate  # noqa: E402
from benchmarks.kernel_links import pieces, read_map  # noqa: E402
from benchmarks.operator_links import core_of  # noqa: E402
from benchmarks.revision_tables import data_file  # noqa: E402
from tflm_zephyr.boards.board import known_boards, load_board  # noqa: E402
from tflm_zephyr.build.workspace import find_workspace  # noqa: E402
from tflm_zephyr.errors import ToolError  # noqa: E402
from tflm_zephyr.footprint import attribution  # noqa: E402
from tflm_zephyr.footprint.board_sizes import BoardBase, all_bases, dump_bases  # noqa: E402
from tflm_zephyr.footprint.elf import load_elf  # noqa: E402
from tflm_zephyr.footprint.measurement import load_footprint  # noqa: E402
from tflm_zephyr.kernels.code_size import RESOLVER_ENTRY_BYTES, all_tables, kernel_need  # noqa: E402
from tflm_zephyr.tflm.pins import BOARD_SIZES_FILE  # noqa: E402

MAIN_STACK = "CONFIG_MAIN_STACK_SIZE="
SAMPLES = tuple(ROOT / "samples" / name / f"{name}.tflite" for name in ("hello_world", "digits"))
SHARED = ROOT.parent / "shared" / "models" / "kws_ref_model.tflite"
CASES = (
    ("hello_world", SAMPLES[:1], "reference"),
    ("digits", SAMPLES[1:], "cmsis_nn"),
    *([("kws_ref_model", (SHARED,), "cmsis_nn")] if SHARED.is_file() else []),
    ("two models", SAMPLES, "reference"),
)


@dataclass(frozen=True)
class Base:
    """An app's bytes besides model, reference data, arena, kernels and main stack, by region."""

    flash_bytes: int
    ram_bytes: int
    main_stack_bytes: int


def linked_sections(app: BareApp) -> frozenset[str]:
    """The app's sections that kernels may need, as kernels.code_size names them."""
    there = {piece.name for piece in pieces(read_map(app.built.elf.with_suffix(".map")))}
    return frozenset(
        name for table in all_tables(app.workspace.tflm_revision) for name in table.library if name in there
    )


def main_stack_bytes(config: str) -> int:
    """Bytes of the main stack by a build's .config; a guard of the MPU before it is of the board's base."""
    return int(next(line for line in config.splitlines() if line.startswith(MAIN_STACK)).partition("=")[2])


def without_models(app: BareApp) -> Base:
    """Size of the built app without the exactly known parts: models, reference data, arenas, main stack."""
    found = load_footprint(app.built.elf)
    used = {region.name: region.used_bytes for region in found.regions}
    sums = found.by_part()
    stack = main_stack_bytes(app.built.elf.with_name(".config").read_text())
    flash = used["FLASH"] - sum(sums.get(part, {}).get("FLASH", 0) for part in (attribution.MODEL, attribution.GOLDEN))
    return Base(flash, used["RAM"] - sums.get(attribution.ARENA, {}).get("RAM", 0) - stack, stack)


def registered(app: BareApp) -> tuple[str, ...]:
    """The registration functions in the app."""
    names = {attribution.path_in_space(symbol.name)[-1] for symbol in load_elf(app.built.elf).symbols}
    return tuple(sorted(name for name in names if name.startswith("Register_")))


def measure(board: str, folder: Path) -> BoardBase:
    """A board's row of the table; prints how apps of real models agree with it."""
    bare = bare_app(folder, board, "reference")
    base, linked, core = without_models(bare), linked_sections(bare), core_of(bare)
    base = replace(base, ram_bytes=base.ram_bytes - RESOLVER_ENTRY_BYTES)  # it has room for one operator
    print(
        f"\n{board} ({core}): flash {base.flash_bytes}, RAM {base.ram_bytes}, main stack {base.main_stack_bytes}",
        flush=True,
    )
    off_flash, off_ram = [0], [0]
    second = (0, 0)
    for name, models, library in CASES:
        generate(folder / "app", board, library, models)
        app = built_app(folder / "app", folder / "build", board)
        need = kernel_need(registered(app), library, core, linked=linked, revision=app.workspace.tflm_revision)
        rest = without_models(app)
        flash = rest.flash_bytes - need.flash_bytes - base.flash_bytes
        ram = rest.ram_bytes - need.ram_bytes - base.ram_bytes
        print(f"  {name:24} {flash:+6} {ram:+6}  kernels {need.flash_bytes} {', '.join(need.unknown)}", flush=True)
        if len(models) == 1:
            off_flash.append(flash)
            off_ram.append(ram)
        else:
            second = (flash // (len(models) - 1), ram // (len(models) - 1))
    return BoardBase(
        board,
        core,
        base.flash_bytes,
        base.ram_bytes,
        base.main_stack_bytes,
        second[0],
        second[1],
        (min(off_flash), max(off_flash)),
        (min(off_ram), max(off_ram)),
        linked,
        bare.workspace.zephyr_version,
    )


def main() -> int:
    """Measure every described board, or those named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--update", action="store_true", help=f"write {BOARD_SIZES_FILE} of the TFLM revision")
    parser.add_argument("--board", action="append", help="this board only; may be repeated")
    parser.add_argument("--folder", type=Path, help="where to build; kept, and taken again")
    args = parser.parse_args()
    workspace = find_workspace()
    revision, zephyr = workspace.tflm_revision, workspace.zephyr_version
    path = data_file(revision, BOARD_SIZES_FILE)
    bases = {(base.zephyr, base.board): base for base in (all_bases(revision) if path.is_file() else ())}
    with tempfile.TemporaryDirectory() as made:
        place = args.folder.absolute() if args.folder else Path(made)
        failed = []
        for board in args.board or known_boards():
            try:
                bases[zephyr, board] = measure(board, place / f"{load_board(board).file_stem}_sizes")
            except ToolError as error:  # a board that this workspace has not, or whose SoC's module is missing
                print(f"\n{board}: NOT MEASURED: {error}", flush=True)
                failed.append(board)
                continue
            if args.update:
                path.write_text(dump_bases(bases.values(), revision))
    return 1 if failed and args.board else 0


if __name__ == "__main__":
    sys.exit(main())
