# SPDX-License-Identifier: Apache-2.0
"""How deep a kernel's functions stack, from the ELF file that has the operator alone.

The interpreter calls a kernel's Init, Prepare, Eval and Free through pointers; they are known by their parameters
(tensorflow/lite/c/common.h, TFLMRegistration), the operator's parser by its name. What a kernel calls through a
pointer is a service of TfLiteContext or MicroContext, which the interpreter's core implements, or a function of its
own whose address it takes; the deepest of all these is counted for each such call. Kernels that run another
subgraph (IF, WHILE, CALL_ONCE) need the depth of its operators on top of theirs, which is not in their number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.stack_depth import Depths, Function, called, disassemble, named

# Symbols of the Itanium C++ ABI; parameters stand at their end.
_ENTRY = r"P13TfLiteContext(P10TfLiteNode|PKc[jm]|Pv)$"
_PARSER = r"^_ZN6tflite\d+Parse\w+PKNS_8OperatorEPNS_13ErrorReporterE"
_ADDING = r"AddOperator|Register_|RegisterOp"
_ALLOCATOR = "_ZN6tflite14MicroAllocator"
_CONTEXT = r"^_ZN6tflite(23MicroInterpreterContext|\d+MicroContext\w*?E)"
_GRAPH = r"^_ZN6tflite21MicroInterpreterGraph"
_LOWEST = r"^_ZNK?6tflite(26SingleArenaBufferAllocator|\d+[A-Za-z]*MemoryPlanner)\d"
_DATA = r"^_ZN6tflite(12_GLOBAL__N_1)?\d+[A-Za-z]*BuiltinDataAllocator\d"
_RUNS_KERNELS = re.compile(_GRAPH + r"\d+(Init|Prepare|Reset|Free|Invoke)Subgraphs?E")


@dataclass(frozen=True)
class CoreStack:
    """Bytes of stack in TFLM's core, from the app's functions that call it on.

    `services_bytes`: the deepest service that a kernel may ask for. `to_kernels_bytes`: from the app's call to a
    kernel's. `own_bytes`: the deepest that it gets by itself, kernels left out.
    """

    services_bytes: int
    to_kernels_bytes: int
    own_bytes: int


def core_stack(elf: Path, objdump: str, roots: tuple[str, ...]) -> CoreStack:
    """From an image of the core without kernels, in which the app's calls of it begin at symbols `roots`."""
    image = disassemble(elf, objdump)
    lowest = Depths(image, 0).deepest(named(image, _LOWEST) + named(image, _DATA))
    allocator = Depths(image, lowest)
    forwarded = {_method(image[at]) for at in named(image, _CONTEXT)}
    services = [at for at in named(image, f"^{_ALLOCATOR}") if _method(image[at]) in forwarded]
    context = Depths(image, allocator.deepest(services))
    asked = [at for at in named(image, _GRAPH) if not _RUNS_KERNELS.match(image[at].name)]
    served = context.deepest([*named(image, _CONTEXT), *asked])
    everything = Depths(image, max(served, allocator.deepest(named(image, f"^{_ALLOCATOR}"))))
    starts = [at for at, function in image.items() if function.name in roots]
    to_kernels = max(_path_to_kernels(image, at, frozenset()) for at in starts)
    return CoreStack(served, to_kernels, everything.deepest(starts))


def _method(function: Function) -> str:
    """The name of a class's method."""
    match = re.match(r"_ZNK?6tflite\d+[A-Za-z_]+?(?:Context|Allocator)(\d+)(\w+)", function.name)
    return match[2][: int(match[1])] if match else ""


def _path_to_kernels(image: Mapping[int, Function], at: int, above: frozenset[int]) -> int:
    """The most bytes from the function at `at` down to one that calls kernels, its own included; 0 for no way."""
    function = image.get(at)
    if function is None or at in above:
        return 0
    below = [_path_to_kernels(image, call, above | {at}) for call in function.calls]
    deepest = max(below, default=0)
    if deepest == 0 and not (_RUNS_KERNELS.match(function.name) and function.indirect):
        return 0
    return deepest + function.frame_bytes


def kernel_stack(elf: Path, objdump: str, services_bytes: int) -> tuple[int, tuple[str, ...]]:
    """Bytes of the deepest of a kernel's functions, and what of it is an allowance."""
    image = disassemble(elf, objdump)
    entries = named(image, _ENTRY) + named(image, _PARSER)
    by_pointer = image.keys() - called(image) - set(entries) - set(named(image, _ADDING))
    own = Depths(image, services_bytes).deepest(sorted(by_pointer))
    depths = Depths(image, max(services_bytes, own))
    return depths.deepest(entries), tuple(sorted(depths.allowances))
