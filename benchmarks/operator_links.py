# SPDX-License-Identifier: Apache-2.0
"""Every operator of TFLM's resolver, linked alone: python benchmarks/operator_links.py [--update]

For each kernel library and core, each operator is linked into an app without any, from just the sources that
tflm_zephyr.tflm.sources gives for it. Prints what links, what the app grew by and how much of that the table explains;
`--update` writes kernel_sizes.json in the data folder of the workspace's TFLM revision. A workspace with Zephyr, TFLM
and CMSIS-NN is needed; with --folder, a second run is short.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.bare_app import BareApp, bare_app  # noqa: E402
from benchmarks.compiling import Compiler  # noqa: E402
from benchmarks.kernel_links import TFLM, Linker, OperatorLink, Piece, addings, pieces  # noqa: E402
from benchmarks.kernel_stacks import core_stack, kernel_stack  # noqa: E402
from benchmarks.revision_tables import data_file  # noqa: E402
from tflm_zephyr.boards.board import load_board  # noqa: E402
from tflm_zephyr.kernels.code_size import (  # noqa: E402
    FPU,
    Bytes,
    KernelRow,
    KernelTable,
    all_tables,
    dump_tables,
)
from tflm_zephyr.tflm.pins import KERNEL_SIZES_FILE  # noqa: E402

BOARDS = ("mps2/an385", "mps2/an386", "mps2/an521/cpu0")  # the nRF9160 has the core of the last
LIBRARIES = ("reference", "cmsis_nn")
CALLS_OF_TFLM = ("Init", "Invoke", "Reset")


def core_of(bare: BareApp) -> str:
    """The core by the flags that the app is compiled with, as kernels.code_size names it."""
    flags = bare.link
    cpu = next(flag for flag in flags if flag.startswith("-mcpu=")).removeprefix("-mcpu=")
    core = re.sub(r"\+(?!nodsp).*", "", cpu)
    hard = any(flag in ("-mfloat-abi=hard", "-mfloat-abi=softfp") for flag in flags)
    return core + (FPU if hard else "")


@dataclass(frozen=True)
class Measured:
    """The table of one library and core, the links that it is from, and the named sections of the app without.

    `compiler` has the object files.
    """

    table: KernelTable
    links: tuple[OperatorLink, ...]
    linked: frozenset[str]
    compiler: Compiler


def measure(board: str, library: str, folder: Path, *, shared: Compiler | None = None, jobs: int = 2) -> Measured:
    """Link every operator of `library` on `board`. `shared` has object files of another library on it."""
    bare = bare_app(folder, board, library)
    assert bare.workspace.tflm_dir is not None
    wanted = addings(bare.workspace.tflm_dir)
    compiler = Compiler(bare, folder, shared=shared, jobs=jobs)
    linker = Linker(bare, library, folder, compiler)
    linker.compile(wanted)
    with ThreadPoolExecutor(jobs) as pool:
        links = list(pool.map(linker.link, wanted))
        objdump = re.sub(r"g\+\+$", "objdump", bare.link[0])
        roots = tuple(f"_ZN6models11hello_world{len(name)}{name}Ev" for name in CALLS_OF_TFLM)
        core = core_stack(linker.core_alone(roots), objdump, roots)
        stacks = list(pool.map(lambda link: kernel_stack(link.alone, objdump, core.services_bytes), links))
    found = {link.adding.register: link.pieces for link in links if link.links}
    depths = {link.adding.register: depth for link, (depth, _) in zip(links, stacks, strict=True)}
    stack = (core.services_bytes, core.to_kernels_bytes, core.own_bytes)
    table = KernelTable(core_of(bare), library, bare.workspace.tflm_revision, *tabulate(found, depths), *stack)
    linked = frozenset(piece.name for piece in pieces(linker.base) if piece.library != TFLM)
    return Measured(table, tuple(links), linked, compiler)


def tabulate(
    found: Mapping[str, Iterable[Piece]], stacks: Mapping[str, int]
) -> tuple[tuple[Bytes, ...], dict[str, Bytes], dict[str, KernelRow]]:
    """Pieces that the same operators need as one, library sections by name, and the rows."""
    users: dict[str, set[str]] = {}
    sizes: dict[str, Bytes] = {}
    named: dict[str, list[str]] = {register: [] for register in found}
    for register, parts in found.items():
        for piece in parts:
            users.setdefault(piece.name, set()).add(register)
            before = sizes.get(piece.name, Bytes(0, 0))
            sizes[piece.name] = Bytes(max(before.flash, piece.flash_bytes), max(before.ram, piece.ram_bytes))
            if piece.library != TFLM:
                named[register].append(piece.name)
    members = {name: sizes[name] for name in sorted({name for names in named.values() for name in names})}
    sums: dict[tuple[str, ...], Bytes] = {}
    for name in sorted(users.keys() - members.keys()):
        group = tuple(sorted(users[name]))
        before = sums.get(group, Bytes(0, 0))
        sums[group] = Bytes(before.flash + sizes[name].flash, before.ram + sizes[name].ram)
    groups = sorted(sums)
    rows = {
        register: KernelRow(
            tuple(i for i, group in enumerate(groups) if register in group),
            tuple(sorted(named[register])),
            stacks[register],
        )
        for register in sorted(found)
    }
    return tuple(sums[group] for group in groups), members, rows


def explained(table: KernelTable, register: str, linked: frozenset[str]) -> tuple[int, int]:
    """Bytes of flash and RAM that the table has for one operator in an app that has `linked`."""
    row = table.rows[register]
    parts = [table.pieces[i] for i in row.pieces] + [table.library[n] for n in row.library if n not in linked]
    return sum(part.flash for part in parts), sum(part.ram for part in parts)


def report(measured: Measured) -> int:
    """Print a line for each operator; the number of those that do not link."""
    table, links, linked = measured.table, measured.links, measured.linked
    print(f"\n{table.library_name}, {table.core}: bytes that an app grows by, less those of the table; stack")
    print(f"stack of TFLM: {table.own_bytes} of its own, {table.to_kernels_bytes} above kernels")
    failed = 0
    for link in links:
        name = link.adding.register
        if not link.links:
            failed += 1
            print(f"{name:46} DOES NOT LINK: {', '.join(link.lacking[:3]) or link.failure.splitlines()[-1]}")
            continue
        flash, ram = explained(table, name, linked)
        row = table.rows[name]
        differ = f"{link.flash_bytes - flash:+5} {link.ram_bytes - ram:+5}"
        print(f"{name:46} {link.flash_bytes:7} {link.ram_bytes:5}  {differ}  {row.stack_bytes:6}")
    return failed


def main() -> int:
    """Link all operators for each board and library."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--update", action="store_true", help=f"write {KERNEL_SIZES_FILE} of the TFLM revision")
    parser.add_argument("--board", action="append", help="a board whose flags are taken; may be repeated")
    parser.add_argument("--library", action="append", choices=LIBRARIES)
    parser.add_argument("--jobs", type=int, default=2, help="compilers at once (default: 2)")
    parser.add_argument("--folder", type=Path, help="where to build; kept, and taken again")
    args = parser.parse_args()
    tables: dict[tuple[str, str], KernelTable] = {}
    failed = 0
    with tempfile.TemporaryDirectory() as made:
        place = args.folder.absolute() if args.folder else Path(made)
        for board in args.board or BOARDS:
            shared = None
            for library in args.library or LIBRARIES:
                folder = place / f"{load_board(board).file_stem}_{library}"
                measured = measure(board, library, folder, shared=shared, jobs=args.jobs)
                shared = measured.compiler
                tables.setdefault((measured.table.core, library), measured.table)
                failed += report(measured)
    if args.update:
        (revision,) = {table.revision for table in tables.values()}
        path = data_file(revision, KERNEL_SIZES_FILE)
        there = all_tables(revision) if path.is_file() and (args.board or args.library) else ()
        kept = {(table.core, table.library_name): table for table in there}
        path.write_text(dump_tables({**kept, **tables}.values()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
