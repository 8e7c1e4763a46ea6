# SPDX-License-Identifier: Apache-2.0
"""sizeof() and alignof() of the structs in TFLM's arena, on 32-bit Arm and on other cores.

`benchmarks/revision_tables.py --update` measures them with arm-none-eabi-g++ (-mcpu=cortex-m3 -mthumb) and g++ (-m32,
-m64), and writes struct_sizes.json in the revision's data folder. riscv64-unknown-elf-g++ gave the same sizes as g++,
for rv32imac and for rv64imac. tests/benchmarks/test_revision_tables.py measures them again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

from tflm_zephyr.resources import package_data
from tflm_zephyr.tflm.pins import PINNED_REVISION, data_folder

Layout = tuple[int, int]
"""sizeof and alignof, in bytes."""
ARM, ILP32, LP64 = TARGETS = ("arm", "ilp32", "lp64")
"""Kinds of cores: 32-bit Arm, whose ABI without an operating system has short enums; others of 32 bits; of 64 bits."""

ALIGNMENT = 16
"""MicroArenaBufferAlignment(): bytes that the arena, and offsets and sizes in it, are multiples of."""
STRUCT_SIZES_FILE = "struct_sizes.json"
_STATIC = "_static_memory"
ALLOCATOR = "MicroAllocator"
# In the place of MicroAllocator: templates/app/interpreter/src/preallocated.hpp.j2.
PREALLOCATED = "PreallocatedAllocator"


@dataclass(frozen=True, eq=False)
class StructSizes:
    """The layouts of one target. `own_objects` are what MicroAllocator::Create() allocates, in order.

    tables: the layouts by target. planner_record_bytes: GreedyMemoryPlanner::per_buffer_size(). builtin_data: by
    operator key the struct that its parse function allocates (core/api/flatbuffer_conversions.cc); an operator without
    an entry allocates none.
    """

    planner_record_bytes: int
    own_objects: tuple[str, ...]
    tables: Mapping[str, Mapping[str, Layout]]
    builtin_data: Mapping[str, str]
    target: str = ARM

    @property
    def pointer_bytes(self) -> int:
        """sizeof(void *)."""
        return 8 if self.target == LP64 else 4

    @property
    def layouts(self) -> Mapping[str, Layout]:
        """The layouts of the target."""
        return self.tables[self.target]

    def of(self, name: str) -> Layout:
        """sizeof and alignof of a struct."""
        return self.layouts[name]

    def on(self, target: str) -> StructSizes:
        """The sizes of the same build for another target."""
        return replace(self, target=target)

    def preallocating(self) -> StructSizes:
        """The sizes in an app whose allocator hands out preallocated tensors."""
        tables = {target: {**rows, ALLOCATOR: rows[PREALLOCATED]} for target, rows in self.tables.items()}
        return replace(self, tables=MappingProxyType(tables))


@cache
def cortex_m_sizes(revision: str = PINNED_REVISION, *, static_memory: bool = False) -> StructSizes:
    """The sizes of a known TFLM revision on a Cortex-M; `on` gives those of other cores.

    static_memory: with TF_LITE_STATIC_MEMORY, as TFLM's own Makefile compiles it; Zephyr's tflite-micro module does not
    define that.
    """
    raw = json.loads(package_data(f"{data_folder(revision)}/{STRUCT_SIZES_FILE}"))
    tables = {}
    for target in TARGETS:
        found = {**raw[ARM], **raw[target], **(raw[f"{target}{_STATIC}"] if static_memory else {})}
        tables[target] = MappingProxyType({name: (size, alignment) for name, (size, alignment) in found.items()})
    return StructSizes(
        planner_record_bytes=raw["planner_record_bytes"],
        own_objects=tuple(raw["own_objects"]),
        tables=MappingProxyType(tables),
        builtin_data=MappingProxyType(raw["builtin_data"]),
    )


def dump_struct_sizes(plain: StructSizes, static: StructSizes, revision: str) -> str:
    """The JSON text that `cortex_m_sizes` reads: sizes without and with TF_LITE_STATIC_MEMORY.

    Of other targets those that are not Arm's, and with TF_LITE_STATIC_MEMORY those that are not the target's without.
    """
    rows: dict[str, object] = {}
    for target in TARGETS:
        rows[target] = _differing(plain.tables[target], {} if target == ARM else plain.tables[ARM])
        rows[f"{target}{_STATIC}"] = _differing(static.tables[target], plain.tables[target])
    raw = {
        "revision": revision,
        "planner_record_bytes": plain.planner_record_bytes,
        "own_objects": list(plain.own_objects),
        **rows,
        "builtin_data": dict(sorted(plain.builtin_data.items())),
    }
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {_text(value)}" for key, value in raw.items()) + "\n}\n"


def _differing(table: Mapping[str, Layout], base: Mapping[str, Layout]) -> dict[str, Layout]:
    return {name: layout for name, layout in sorted(table.items()) if base.get(name) != layout}


def _text(value: object) -> str:
    if not isinstance(value, dict):
        return json.dumps(value)
    rows = (f" {json.dumps(name)}: {json.dumps(row)}" for name, row in value.items())
    return "{\n" + ",\n".join(rows) + "\n}"
