# SPDX-License-Identifier: Apache-2.0
"""The table of struct sizes against the compiler, on the TFLM of the workspace."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.tflm.struct_sizes import BUILTIN_DATA, CORTEX_M, CORTEX_M_STATIC, Layout, StructSizes

COMPILER = shutil.which("arm-none-eabi-g++")
pytestmark = [pytest.mark.zephyr, pytest.mark.skipif(COMPILER is None, reason="needs arm-none-eabi-g++")]

# Not to be named from outside: MicroBuiltinDataAllocator is a vtable pointer and a reference, the two of
# micro_resource_variable.h are written out here.
HIDDEN = {
    "MicroBuiltinDataAllocator": "struct MicroBuiltinDataAllocator : TfLiteBridgeBuiltinDataAllocator {"
    " void* Allocate(size_t, size_t) override; void Deallocate(void*) override; void* allocator; };",
    "MicroResourceVariable": "struct MicroResourceVariable {"
    " const char* container; const char* name; void* buffer; size_t bytes; int8_t value; };",
}
HEADERS = (
    "c/builtin_op_data.h",
    "micro/memory_planner/greedy_memory_planner.h",
    "micro/micro_allocation_info.h",
    "micro/micro_allocator.h",
    "micro/micro_resource_variable.h",
    "micro/tflite_bridge/flatbuffer_conversions_bridge.h",
)


def measured(tflm: Path, folder: Path, names: list[str], *defines: str) -> tuple[Mapping[str, Layout], int]:
    """sizeof and alignof by the sizes of arrays in an object file, and the planner's bytes a buffer."""
    lines = [f'#include "tensorflow/lite/{header}"' for header in HEADERS]
    lines += ["using namespace tflite;", "namespace hidden {", *HIDDEN.values(), "}"]
    for name in names:
        kind = f"hidden::{name}" if name in HIDDEN else name
        kind = f"internal::{name}" if name == "ScratchBufferRequest" else kind
        lines.append(f"char size_{name}[sizeof({kind})]; char align_{name}[alignof({kind})];")
    lines.append('extern "C" int record() { return GreedyMemoryPlanner::per_buffer_size(); }')
    (folder / "sizes.cc").write_text("\n".join(lines))
    static = tflm / "third_party_static"
    includes = [tflm, static / "gemmlowp", static / "flatbuffers" / "include", static / "ruy"]
    argv = [str(COMPILER), "-mcpu=cortex-m3", "-mthumb", "-std=c++17", "-fno-rtti", "-fno-exceptions", "-c", "-O1"]
    argv += [*defines, *(f"-I{path}" for path in includes), "sizes.cc", "-o", "sizes.o"]
    subprocess.run(argv, cwd=folder, check=True)
    with (folder / "sizes.o").open("rb") as stream:
        elf = ELFFile(stream)
        symbols = {symbol.name: symbol for symbol in elf.get_section_by_name(".symtab").iter_symbols()}
        at = symbols["record"]["st_value"] & ~1
        number, opcode = elf.get_section(symbols["record"]["st_shndx"]).data()[at : at + 2]
    assert opcode == 0x20, "no movs r0, #number"
    sizes = {name: symbol["st_size"] for name, symbol in symbols.items()}
    layouts = {name: (sizes[f"size_{name}"], sizes[f"align_{name}"]) for name in names}
    return layouts, number


@pytest.mark.parametrize(("sizes", "defines"), [(CORTEX_M, ()), (CORTEX_M_STATIC, ("-DTF_LITE_STATIC_MEMORY",))])
def test_every_layout(workspace: Workspace, tmp_path: Path, sizes: StructSizes, defines: tuple[str, ...]) -> None:
    assert workspace.tflm_dir is not None
    found = measured(workspace.tflm_dir, tmp_path, sorted(sizes.layouts), *defines)
    assert found == (dict(sizes.layouts), sizes.planner_record_bytes)


def test_operators_with_builtin_data_are_those_of_tflm(workspace: Workspace) -> None:
    assert workspace.tflm_dir is not None
    lite = workspace.tflm_dir / "tensorflow" / "lite"
    resolver = (lite / "micro" / "micro_mutable_op_resolver.h").read_text()
    conversions = (lite / "core" / "api" / "flatbuffer_conversions.cc").read_text()
    allocated = {
        match[1]: re.search(r"Allocate<(\w+)>", match[2])
        for match in re.finditer(r"^TfLiteStatus (Parse\w+)\(const Operator\*[^{]*\{(.*?)^\}", conversions, re.S | re.M)
    }
    registered = re.findall(r"AddBuiltin\(\s*BuiltinOperator_(\w+),.*?(Parse\w+)\);", resolver, re.S)
    found = {key: allocated[parser] for key, parser in registered}
    assert {key: match[1] for key, match in found.items() if match} == dict(BUILTIN_DATA)
