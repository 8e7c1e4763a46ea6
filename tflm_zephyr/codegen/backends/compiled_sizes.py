# SPDX-License-Identifier: Apache-2.0
"""Flash and RAM that an app of compiled code takes less than the sum of the interpreter's size tables.

The tables have an app with the MicroInterpreter, and TFLM's kernels with their Prepare. Compiled code has neither, but
a function for each layer. The numbers are the straight line through what `benchmarks/compiled.py` and
`benchmarks/rows.py` measured with GCC 12.2 and CMSIS-NN's kernels on mps2/an385; the bound is the largest distance from
it, rounded up. Float models are farthest, as TFLM's kernels of the untyped registrations have the code of all types. On
cores with DSP, CMSIS-NN's kernels have more code for shapes and types that a model may not have: the bound there is the
largest distance on mps2/an386 and mps2/an521/cpu0, and for float models that on nrf9160dk/nrf9160/ns.

Where the code of all layers' kernels was measured on the boards' cores, flash is the sum of that code
(tflm_zephyr.costs) and of the base without the interpreter: _INTERPRETER_BYTES less. That was 9,024 to 9,287 bytes for
six int8 models on mps2/an385; the bound is wider, for the layers' own functions, of which the table has the mean.
Loops that add up rows took 389 and 491 bytes of micro_speech on mps2/an386.

An operator whose layers all have kernels of ours has none of TFLM's. Such apps took about _OWN_BYTES more than without
that kernel, as the savings are of code that its table has as well, and _ALONE_BYTES more than that where no other
kernel was left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tflm_zephyr.compiler import (
    CompiledModel,
    ControlLayer,
    FallbackLayer,
    Layer,
    called_shapes,
    members_of,
)
from tflm_zephyr.costs import Prices, has_rivals
from tflm_zephyr.model import TensorType

_CORE_BYTES = 17_000
_KERNEL_BYTES = 1_700
_LAYER_BYTES = 120
_FRAMES_BYTES = 3_000
_ROWS_BYTES = 300
_ROW_LAYER_BYTES = 60
_LOOP_BYTES = 400
_OWN_BYTES = 4_000
_ALONE_BYTES = 3_600
_OFF_BYTES = 4_096
_OTHER_CORES_OFF_BYTES = 8_192
_FLOAT_OFF_BYTES = 11_264
_INTERPRETER_BYTES = 9_156
_CODE_OFF_BYTES = 512
_RAM_BYTES = 220
_RAM_OFF_BYTES = 64


@dataclass(frozen=True)
class Savings:
    """Bytes less than by the interpreter's tables, and by how much the real size may differ either way."""

    flash_bytes: int
    ram_bytes: int
    unsure_flash_bytes: int = _OFF_BYTES
    unsure_ram_bytes: int = _RAM_OFF_BYTES


def savings(programs: Sequence[CompiledModel], *, plain: bool = True) -> Savings:
    """The savings of an app with these models; the frames of TFLM's own kernels take a part of them, and so do rows.

    `plain`: for cores without DSP and Helium alone. Layers with our own kernels are not in it: see costs.
    """
    layers = [layer for program in programs for layer in program.layers]
    direct = {layer.key for layer in layers if not isinstance(layer, FallbackLayer | ControlLayer) and not layer.fast}
    members = sum(len(layer.members) for program in programs for layer in program.segments)
    written = sum(layer.has_code for layer in layers) + members - _fast_functions(layers)
    flash = _CORE_BYTES + _KERNEL_BYTES * len(direct) - _LAYER_BYTES * written
    if any(isinstance(layer, FallbackLayer) for layer in layers):
        flash -= _FRAMES_BYTES
    if {layer.key for layer in layers if layer.fast} - {layer.key for layer in layers if not layer.fast}:
        flash -= _OWN_BYTES if direct else _OWN_BYTES + _ALONE_BYTES
    flash -= _rows_bytes(programs)
    if plain:
        return Savings(flash, _RAM_BYTES)
    return Savings(flash, _RAM_BYTES, _FLOAT_OFF_BYTES if _has_floats(programs) else _OTHER_CORES_OFF_BYTES)


def measured_code(programs: Sequence[CompiledModel], cores: Collection[str], library: str, commit: str) -> int | None:
    """Bytes of the layers' code with all functions that it calls; None where a core's table of costs lacks some of it.

    Layers with our own kernels are not in it. `cores` by name; the one with the most code counts. Cores with Helium are
    left out: no app of theirs was compared with the linker.
    """
    layers = [layer for program in programs for layer in program.layers]
    if not cores or not all(map(has_rivals, cores)):
        return None
    if any(isinstance(one, FallbackLayer | ControlLayer) for one in layers):
        return None
    kernels = [
        shape.kernel
        for program in programs
        for layer, shape in called_shapes(program)
        if not layer.fast and layer.operator not in _gathering(program)
    ]
    sizes = [Prices(core, library, commit).code_bytes(kernels) for core in sorted(cores)]
    known = [size for size in sizes if size is not None]
    return max(known) + _rows_bytes(programs) if len(known) == len(sizes) else None


def without_interpreter() -> Savings:
    """The savings of an app whose code is known: what its board's base has of the interpreter."""
    return Savings(_INTERPRETER_BYTES, _RAM_BYTES, _CODE_OFF_BYTES)


def _gathering(program: CompiledModel) -> frozenset[int]:
    """The operators that add up rows in a loop of the segment's own, in the place of their kernel."""
    forms = (one for layer in program.segments for one in layer.segment.forms.items())
    return frozenset(operator for operator, form in forms if form.gathering is not None)


def _rows_bytes(programs: Sequence[CompiledModel]) -> int:
    """The bytes of segments' steps, and of their layers' functions beyond those for whole tensors."""
    members = sum(len(layer.members) for program in programs for layer in program.segments)
    loops = _LOOP_BYTES * any(map(_gathering, programs))
    return _ROWS_BYTES + _ROW_LAYER_BYTES * members + loops if members else 0


def _has_floats(programs: Sequence[CompiledModel]) -> bool:
    return any(tensor.type is TensorType.FLOAT32 for program in programs for tensor in program.model.main.tensors)


def _fast_functions(layers: Sequence[Layer]) -> int:
    """The number of layers with our own kernels, each of which has a function, in segments too."""
    return sum(one.fast for layer in layers for one in members_of(layer))
