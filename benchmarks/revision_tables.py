# SPDX-License-Identifier: Apache-2.0
"""Tables of a TFLM revision from its checkout: python benchmarks/revision_tables.py [--update]

Reads the tflite-micro and the CMSIS-NN of the workspace, or of --tflm and --cmsis-nn: op resolver calls, registrations
for single types, the sources of both kernel libraries, and the sizes of TFLM's structs by arm-none-eabi-g++ and, for
other cores, by g++ with libraries for -m32 (g++-multilib). Prints which tables differ from the shipped ones; `--update`
writes them to the revision's folder below tflm_zephyr/data.
docs/revisions.md has the whole way to a new revision.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from elftools.elf.elffile import ELFFile  # noqa: E402

from benchmarks.bare_app import run  # noqa: E402
from tflm_zephyr.build.workspace import find_workspace, git_revision  # noqa: E402
from tflm_zephyr.errors import BuildError, ToolError  # noqa: E402
from tflm_zephyr.tflm.cmsis_nn_tree import CmsisNnTree  # noqa: E402
from tflm_zephyr.tflm.op_resolver import HEADER, OPERATORS_FILE, dump_operator_table, operator_table_for  # noqa: E402
from tflm_zephyr.tflm.pins import data_folder  # noqa: E402
from tflm_zephyr.tflm.sources import INCLUDE_DIRS, TflmTree, dump_source_table, sources_file  # noqa: E402
from tflm_zephyr.tflm.struct_sizes import (  # noqa: E402
    ARM,
    ILP32,
    LP64,
    PREALLOCATED,
    STRUCT_SIZES_FILE,
    TARGETS,
    Layout,
    StructSizes,
    dump_struct_sizes,
)
from tflm_zephyr.tflm.typed_registrations import TYPED_FILE, dump_typed, typed_for  # noqa: E402

COMPILER = "arm-none-eabi-g++"
FLAGS = ("-std=c++17", "-fno-rtti", "-fno-exceptions", "-O1")
COMPILERS: Mapping[str, tuple[str, ...]] = {
    ARM: (COMPILER, "-mcpu=cortex-m3", "-mthumb"),
    ILP32: ("g++", "-m32", "-fno-pic", "-fcf-protection=none"),
    LP64: ("g++", "-m64", "-fno-pic", "-fcf-protection=none"),
}
STATIC_MEMORY = "-DTF_LITE_STATIC_MEMORY"
# MicroAllocator::Create() allocates these, in this order.
OWN_OBJECTS = ("SingleArenaBufferAllocator", "GreedyMemoryPlanner", "MicroAllocator")
# Other structs of the arena besides the operators' data.
ARENA_STRUCTS = (
    *OWN_OBJECTS, "AllocationInfo", "MicroBuiltinDataAllocator", "MicroResourceVariable", "MicroResourceVariables",
    "NodeAndRegistration", "ScratchBufferHandle", "ScratchBufferRequest", "SubgraphAllocations",
    "TfLiteAffineQuantization", "TfLiteEvalTensor", "TfLiteTensor", PREALLOCATED,
)  # fmt: skip
# Not to be named from outside: MicroBuiltinDataAllocator is a vtable pointer and a reference, MicroResourceVariable is
# written out here, and PreallocatedAllocator is the app's (templates/app/interpreter/src/preallocated.hpp.j2).
HIDDEN = {
    "MicroBuiltinDataAllocator": "struct MicroBuiltinDataAllocator : TfLiteBridgeBuiltinDataAllocator {"
    " void* Allocate(size_t, size_t) override; void Deallocate(void*) override; void* allocator; };",
    "MicroResourceVariable": "struct MicroResourceVariable {"
    " const char* container; const char* name; void* buffer; size_t bytes; int8_t value; };",
    PREALLOCATED: f"struct {PREALLOCATED} : MicroAllocator {{"
    " void* list; size_t count; void* main; TF_LITE_REMOVE_VIRTUAL_DELETE };",
}
HEADERS = (
    "c/builtin_op_data.h",
    "micro/memory_planner/greedy_memory_planner.h",
    "micro/micro_allocation_info.h",
    "micro/micro_allocator.h",
    "micro/micro_resource_variable.h",
    "micro/tflite_bridge/flatbuffer_conversions_bridge.h",
)


def data_file(revision: str, name: str) -> Path:
    """A table of the TFLM commit `revision` in this checkout. Raises BuildError for a commit that is not known."""
    if not revision:
        raise BuildError("git cannot tell the commit of tflite-micro", where=name, hint="Check a commit out with git")
    folder = ROOT / "tflm_zephyr" / "data" / data_folder(revision)
    folder.mkdir(exist_ok=True)
    return folder / name


def layouts(
    tflm: Path, folder: Path, names: Iterable[str], *defines: str, target: str = ARM
) -> tuple[dict[str, Layout], int]:
    """sizeof and alignof of structs by the sizes of arrays in an object file, and the planner's bytes a buffer."""
    names = sorted(names)
    lines = [f'#include "tensorflow/lite/{header}"' for header in HEADERS]
    lines += ["using namespace tflite;", "namespace hidden {", *HIDDEN.values(), "}"]
    for name in names:
        kind = f"hidden::{name}" if name in HIDDEN else name
        kind = f"internal::{name}" if name == "ScratchBufferRequest" else kind
        lines.append(f"char size_{name}[sizeof({kind})]; char align_{name}[alignof({kind})];")
    lines.append('extern "C" int record() { return GreedyMemoryPlanner::per_buffer_size(); }')
    (folder / "sizes.cc").write_text("\n".join(lines))
    includes = [f"-I{tflm / path}" for path in INCLUDE_DIRS]
    run([*COMPILERS[target], *FLAGS, *defines, *includes, "-c", "sizes.cc", "-o", "sizes.o"], folder)
    with (folder / "sizes.o").open("rb") as stream:
        elf = ELFFile(stream)
        symbols = {symbol.name: symbol for symbol in elf.get_section_by_name(".symtab").iter_symbols()}
        at = symbols["record"]["st_value"] & ~1
        code = elf.get_section(symbols["record"]["st_shndx"]).data()[at : at + 2]
    opcode, number = code[::-1] if target == ARM else code
    if opcode != (0x20 if target == ARM else 0xB8):
        raise BuildError("record() does not begin with movs r0, #number or mov eax, number", where="sizes.cc")
    sizes = {name: symbol["st_size"] for name, symbol in symbols.items()}
    return {name: (sizes[f"size_{name}"], sizes[f"align_{name}"]) for name in names}, number


def builtin_data(tflm: Path) -> dict[str, str]:
    """By operator key the struct that its parse function allocates; operators without one are left out."""
    lite = tflm / "tensorflow" / "lite"
    resolver = (tflm / HEADER).read_text()
    conversions = (lite / "core" / "api" / "flatbuffer_conversions.cc").read_text()
    parser = re.compile(r"^TfLiteStatus (Parse\w+)\(const Operator\*[^{]*\{(.*?)^\}", re.S | re.M)
    allocated = {match[1]: re.search(r"Allocate<(\w+)>", match[2]) for match in parser.finditer(conversions)}
    registered = re.findall(r"AddBuiltin\(\s*BuiltinOperator_(\w+),.*?(Parse\w+)\);", resolver, re.S)
    found = {key: allocated[name] for key, name in registered}
    return {key: match[1] for key, match in found.items() if match is not None}


def struct_sizes(tflm: Path, folder: Path, *, static_memory: bool) -> StructSizes:
    """The sizes with the compilers here; `folder` for their files."""
    data = builtin_data(tflm)
    defines = (STATIC_MEMORY,) if static_memory else ()
    names = {*ARENA_STRUCTS, *data.values()}
    found = {target: layouts(tflm, folder, names, *defines, target=target) for target in TARGETS}
    (record,) = {record for _, record in found.values()}
    return StructSizes(record, OWN_OBJECTS, {target: rows for target, (rows, _) in found.items()}, data)


def tables(tflm: Path, cmsis_nn: Path, folder: Path) -> Mapping[str, str]:
    """The text of each table by file name, of the checkouts of tflite-micro and CMSIS-NN."""
    revision = git_revision(tflm)
    plain = struct_sizes(tflm, folder, static_memory=False)
    static = struct_sizes(tflm, folder, static_memory=True)
    optimised = TflmTree(tflm, "cmsis_nn").table(revision, CmsisNnTree(cmsis_nn), git_revision(cmsis_nn))
    return {
        OPERATORS_FILE: dump_operator_table(operator_table_for(tflm, revision)),
        TYPED_FILE: dump_typed(typed_for(tflm), revision),
        sources_file("reference"): dump_source_table(TflmTree(tflm).table(revision)),
        sources_file("cmsis_nn"): dump_source_table(optimised),
        STRUCT_SIZES_FILE: dump_struct_sizes(plain, static, revision),
    }


def main() -> int:
    """Read, measure, and compare or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write the tables below tflm_zephyr/data")
    parser.add_argument("--tflm", type=Path, help="a checkout of tflite-micro (default: the workspace's)")
    parser.add_argument("--cmsis-nn", type=Path, help="a checkout of CMSIS-NN (default: the workspace's)")
    args = parser.parse_args()
    try:
        if shutil.which(COMPILER) is None:
            raise BuildError("not found", where=COMPILER, hint="Put it on PATH")
        workspace = None if args.tflm and args.cmsis_nn else find_workspace()
        tflm = args.tflm or (workspace.tflm_dir if workspace else None)
        cmsis_nn = args.cmsis_nn or (workspace.cmsis_nn_dir if workspace else None)
        if tflm is None or cmsis_nn is None:
            what = "the workspace lacks tflite-micro or cmsis-nn"
            raise BuildError(what, where="ZEPHYR_BASE", hint="Run west update")
        with tempfile.TemporaryDirectory() as folder:
            found = tables(tflm, cmsis_nn, Path(folder))
        for name, text in found.items():
            path = data_file(git_revision(tflm), name)
            same = path.is_file() and path.read_text() == text
            print(f"{path.relative_to(ROOT)}: {'as shipped' if same else 'written' if args.update else 'differs'}")
            if args.update:
                path.write_text(text)
    except ToolError as err:
        print(f"{parser.prog}: error: {err}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
