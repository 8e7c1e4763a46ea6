# SPDX-License-Identifier: Apache-2.0
"""sizeof() and alignof() of the structs in TFLM's arena, on a 32-bit Arm core.

`benchmarks/revision_tables.py --update` measures them with arm-none-eabi-g++ (-mcpu=cortex-m3 -mthumb -std=c++17; its
ABI has short enums) and writes struct_sizes.json in the revision's data folder.
tests/benchmarks/test_revision_tables.py measures them again.
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

ALIGNMENT = 16
"""MicroArenaBufferAlignment(): bytes that the arena, and offsets and sizes in it, are multiples of."""
STRUCT_SIZES_FILE = "struct_sizes.json"
ALLOCATOR = "MicroAllocator"
# In the place of MicroAllocator: templates/app/interpreter/src/preallocated.hpp.j2.
PREALLOCATED = "PreallocatedAllocator"


@dataclass(frozen=True, eq=False)
class StructSizes:
    """The layouts of one target. `own_objects` are what MicroAllocator::Create() allocates, in order.

    planner_record_bytes: GreedyMemoryPlanner::per_buffer_size(). builtin_data: by operator key the struct that its
    parse function allocates (core/api/flatbuffer_conversions.cc); an operator without an entry allocates none.
    """

    pointer_bytes: int
    planner_record_bytes: int
    own_objects: tuple[str, ...]
    layouts: Mapping[str, Layout]
    builtin_data: Mapping[str, str]

    def of(self, name: str) -> Layout:
        """sizeof and alignof of a struct."""
        return self.layouts[name]

    def preallocating(self) -> StructSizes:
        """The sizes in an app whose allocator hands out preallocated tensors."""
        return replace(self, layouts=MappingProxyType({**self.layouts, ALLOCATOR: self.layouts[PREALLOCATED]}))


@cache
def cortex_m_sizes(revision: str = PINNED_REVISION, *, static_memory: bool = False) -> StructSizes:
    """The sizes of a known TFLM revision on a Cortex-M.

    static_memory: with TF_LITE_STATIC_MEMORY, as TFLM's own Makefile compiles it; Zephyr's tflite-micro module does not
    define that.
    """
    raw = json.loads(package_data(f"{data_folder(revision)}/{STRUCT_SIZES_FILE}"))
    found = {**raw["layouts"], **(raw["static_memory"] if static_memory else {})}
    return StructSizes(
        pointer_bytes=4,
        planner_record_bytes=raw["planner_record_bytes"],
        own_objects=tuple(raw["own_objects"]),
        layouts=MappingProxyType({name: (size, alignment) for name, (size, alignment) in found.items()}),
        builtin_data=MappingProxyType(raw["builtin_data"]),
    )


def dump_struct_sizes(plain: StructSizes, static: StructSizes, revision: str) -> str:
    """The JSON text that `cortex_m_sizes` reads: sizes without and with TF_LITE_STATIC_MEMORY."""
    differ = {name: layout for name, layout in sorted(static.layouts.items()) if plain.layouts[name] != layout}
    raw = {
        "revision": revision,
        "planner_record_bytes": plain.planner_record_bytes,
        "own_objects": list(plain.own_objects),
        "layouts": _rows(plain.layouts),
        "static_memory": _rows(differ),
        "builtin_data": _rows(plain.builtin_data),
    }
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {_text(value)}" for key, value in raw.items()) + "\n}\n"


def _rows(table: Mapping[str, object]) -> dict[str, object]:
    return dict(sorted(table.items()))


def _text(value: object) -> str:
    if not isinstance(value, dict):
        return json.dumps(value)
    rows = (f" {json.dumps(name)}: {json.dumps(row)}" for name, row in value.items())
    return "{\n" + ",\n".join(rows) + "\n}"
