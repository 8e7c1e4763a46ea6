# SPDX-License-Identifier: Apache-2.0
"""TFLM's own kernels in compiled models: their registrations by operator, and their cost in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tflm_zephyr.boards import Board
from tflm_zephyr.codegen.backends.backend import BuildSetup
from tflm_zephyr.codegen.backends.interpreter_model import typed_names
from tflm_zephyr.codegen.prepared_model import PreparedModel
from tflm_zephyr.compiler import CompiledModel, Kernel, Library
from tflm_zephyr.kernels import CORES, kernel_need
from tflm_zephyr.tflm import op_resolver, sized_revision


def registrations(item: PreparedModel, setup: BuildSetup) -> dict[tuple[bool, str], Kernel]:
    """The function of each operator's registration; for single types where TFLM has that."""
    typed = typed_names(item, setup)
    found = {}
    for call in item.resolver.calls:
        if isinstance(call, op_resolver.CustomOperator):
            found[True, call.key] = Kernel(Library.FALLBACK, call.register)
        elif call.register:
            space = ("tflite", "tflm_signal") if call.key.startswith("Signal") else ("tflite",)
            name = ("" if call.custom else typed.get(call.key, "")) or call.register
            found[call.custom, call.key] = Kernel(Library.FALLBACK, name, space)
    return found


def untyped_names(item: PreparedModel, program: CompiledModel) -> set[str]:
    """TFLM's untyped registration functions of the operators that keep its kernels, as its source tables name them."""
    kept = {(layer.kernel.is_custom, layer.key) for layer in program.fallbacks}
    calls = (call for call in item.resolver.calls if isinstance(call, op_resolver.ResolverCall))
    return {call.register for call in calls if (call.custom, call.key) in kept}


def typed_registrations(program: CompiledModel) -> set[str]:
    """Registration functions of TFLM's own kernels that are linked, as the size tables name them."""
    return {layer.kernel.registration.name for layer in program.fallbacks}


def remark(program: CompiledModel, label: str, library: str, boards: Iterable[Board], revision: str) -> str:
    """The operators that keep TFLM's own kernels, and the bytes that these cost; "" where all have direct code."""
    if not program.fallbacks:
        return ""
    by_key: dict[str, list[str]] = {}
    for layer in program.fallbacks:
        by_key.setdefault(layer.key, []).append(str(layer.operator))
    listed = ", ".join(f"{key} ({', '.join(numbers)})" for key, numbers in sorted(by_key.items()))
    flash = max(_flash_bytes(program, library, boards, revision), default=0)
    cost = f"{program.state_bytes:,} bytes of RAM" + (f" and about {flash:,} of flash" if flash else "")
    return f"{label}: TFLM's own kernels run the operators without direct code, {listed}, in {cost}"


def _flash_bytes(program: CompiledModel, library: str, boards: Iterable[Board], revision: str) -> Iterator[int]:
    """Bytes of the kernels' code on each board's core, where all of them were measured on one like it."""
    for board in boards:
        if board.core in CORES:
            measured = sized_revision(revision)
            need = kernel_need(typed_registrations(program), library, board.core, revision=measured)
            if not need.unknown:
                yield need.flash_bytes
