# SPDX-License-Identifier: Apache-2.0
"""Flash, RAM and stack that kernels need, from tables measured by linking each of TFLM's operators.

`benchmarks/operator_links.py --update` writes kernel_sizes.json in the data folder of a TFLM revision, with the compile
flags of a generated app. For each registration function it has the sections that the linker keeps when an app adds
that function and nothing else: kernel, parser and helpers outside TFLM's core. Kernels share many sections, so several
kernels need the union. Functions of the compiler's libraries have names, as an app's base may link them anyway.

Stack bytes are those of the deepest of a kernel's Init, Prepare, Eval and Free with all functions that they call, read
from the machine code. They are upper bounds, except for calls through pointers (the deepest of TFLM's services and of
the kernel's own functions is counted), recursion and frames of variable size (a fixed allowance each). See
tests/helpers/stack_depth.py and benchmarks/kernel_stacks.py.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from tflm_zephyr.errors import AppError
from tflm_zephyr.kernels.core import CORES
from tflm_zephyr.model import CALLERS
from tflm_zephyr.resources import package_data
from tflm_zephyr.tflm import KERNEL_SIZES_FILE, PINNED_REVISION, data_folder

FPU = "+fp"  # suffix of a core's name: compiled for its floating point unit
# MicroMutableOpResolver<N> grows with N by a TFLMRegistration of 28 bytes, an operator's code and its parser
# (TFLM's micro_mutable_op_resolver.h, 32-bit).
RESOLVER_ENTRY_BYTES = 36
# Kernels that run another subgraph (MicroGraph::InvokeSubgraph), whose kernels stack on top of theirs.
RUN_SUBGRAPHS = frozenset(f"Register_{name}" for name in CALLERS)


@dataclass(frozen=True)
class Bytes:
    """Bytes in flash and in RAM; initial values of variables count in both."""

    flash: int
    ram: int


@dataclass(frozen=True)
class KernelRow:
    """The needs of one registration function: keys of its table's `pieces` and `library`, and bytes of stack."""

    pieces: tuple[int, ...]
    library: tuple[str, ...]
    stack_bytes: int


@dataclass(frozen=True, eq=False)
class KernelTable:
    """The kernels of one library for one core ("cortex-m3", "cortex-m33+fp").

    `pieces` are sets of sections that the same kernels need, `library` sections of the compiler's libraries by name.
    Stacks of TFLM's core: `services_bytes` is the deepest that kernels call and is in every row,
    `to_kernels_bytes` lies between the app's call of TFLM and a kernel, `own_bytes` is TFLM's own deepest.
    """

    core: str
    library_name: str
    revision: str
    pieces: tuple[Bytes, ...]
    library: Mapping[str, Bytes]
    rows: Mapping[str, KernelRow]
    services_bytes: int
    to_kernels_bytes: int
    own_bytes: int


@dataclass(frozen=True)
class KernelNeed:
    """The needs of a set of kernels together.

    `ram_bytes` includes one resolver's entries for all of them, unknown ones too. `stack_bytes` is the deepest
    kernel's stack on top of that of each kernel that runs subgraphs. `unknown` are registration functions that were
    not measured; their kernels are not counted. `measured_core` is the core that was measured.
    """

    flash_bytes: int
    ram_bytes: int
    stack_bytes: int
    unknown: tuple[str, ...]
    measured_core: str = ""


def kernel_need(
    registrations: Iterable[str],
    library: str,
    core: str,
    *,
    linked: Collection[str] = (),
    revision: str = PINNED_REVISION,
) -> KernelNeed:
    """The needs of these registration functions ("Register_CONV_2D") at a known TFLM revision.

    library: "reference" or "cmsis_nn". core: one of kernels.CORES, with FPU behind it where the app is compiled for
    the floating point unit; the nearest measured core stands in for one that is not in the table. linked: names of
    library sections that the app links anyway ("libgcc.a(_udivmoddi4.o).text").
    Raises AppError for an unknown library or core.
    """
    table = load_table(library, core, revision)
    wanted = sorted(set(registrations))
    rows = [table.rows[name] for name in wanted if name in table.rows]
    parts = [table.pieces[i] for i in sorted({i for row in rows for i in row.pieces})]
    parts += [table.library[name] for name in sorted({name for row in rows for name in row.library} - set(linked))]
    return KernelNeed(
        sum(part.flash for part in parts),
        sum(part.ram for part in parts) + RESOLVER_ENTRY_BYTES * len(wanted),
        _stack_bytes({name: table.rows[name].stack_bytes for name in wanted if name in table.rows}),
        tuple(name for name in wanted if name not in table.rows),
        table.core,
    )


def _stack_bytes(stacks: Mapping[str, int]) -> int:
    outer = sum(size for name, size in stacks.items() if name in RUN_SUBGRAPHS)
    return outer + max((size for name, size in stacks.items() if name not in RUN_SUBGRAPHS), default=0)


def load_table(library: str, core: str, revision: str = PINNED_REVISION) -> KernelTable:
    """The table of `library` for `core`, or for the measured core nearest to it; AppError as for kernel_need."""
    if core.removesuffix(FPU) not in CORES:
        raise AppError(f"no core '{core}'", hint=f"Choose one of {', '.join(CORES)}, with {FPU} for its FPU")
    tables = {table.core: table for table in all_tables(revision) if table.library_name == library}
    if not tables:
        raise AppError(f"no kernel library '{library}'", hint="Choose reference or cmsis_nn")
    return tables[min(tables, key=lambda measured: (_distance(core, measured), measured))]


def _distance(core: str, measured: str) -> tuple[bool, bool, bool, bool]:
    """The difference of two cores as a sort key; the properties that matter most for code size come first."""
    mine, other = CORES[core.removesuffix(FPU)], CORES[measured.removesuffix(FPU)]
    return (
        core.endswith(FPU) != measured.endswith(FPU),
        mine.mve != other.mve,
        mine.dsp != other.dsp,
        core != measured,
    )


def dump_tables(tables: Iterable[KernelTable]) -> str:
    """The JSON text that `load_table` reads."""
    ordered = sorted(tables, key=lambda table: (table.core, table.library_name))
    return "{\n" + ",\n".join(f'"{t.core} {t.library_name}": {_dump(t)}' for t in ordered) + "\n}\n"


def _dump(table: KernelTable) -> str:
    names = sorted(table.library)
    at = {name: i for i, name in enumerate(names)}
    rows = {
        name: [row.stack_bytes, list(row.pieces), [at[piece] for piece in row.library]]
        for name, row in sorted(table.rows.items())
    }
    lines = [
        f'"revision": {json.dumps(table.revision)}',
        f'"stack": {json.dumps([table.services_bytes, table.to_kernels_bytes, table.own_bytes])}',
        f'"pieces": {_compact([[piece.flash, piece.ram] for piece in table.pieces])}',
        '"library": {\n'
        + ",\n".join(f"{json.dumps(n)}: {_compact([table.library[n].flash, table.library[n].ram])}" for n in names)
        + "\n}",
        '"rows": {\n' + ",\n".join(f"{json.dumps(name)}: {_compact(row)}" for name, row in rows.items()) + "\n}",
    ]
    return "{\n" + ",\n".join(lines) + "\n}"


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


@cache
def all_tables(revision: str = PINNED_REVISION) -> tuple[KernelTable, ...]:
    """Every measured table of a known TFLM revision."""
    found = []
    for key, raw in json.loads(package_data(f"{data_folder(revision)}/{KERNEL_SIZES_FILE}")).items():
        core, library = key.split()
        names = list(raw["library"])
        rows = {
            name: KernelRow(tuple(pieces), tuple(names[i] for i in picks), stack)
            for name, (stack, pieces, picks) in raw["rows"].items()
        }
        pieces = tuple(Bytes(*sizes) for sizes in raw["pieces"])
        members = {name: Bytes(*sizes) for name, sizes in raw["library"].items()}
        found.append(KernelTable(core, library, raw["revision"], pieces, members, rows, *raw["stack"]))
    return tuple(found)
