# SPDX-License-Identifier: Apache-2.0
"""Flash and RAM that an app of compiled code takes less than the sum of the interpreter's size tables.

The tables have an app with the MicroInterpreter, and TFLM's kernels with their Prepare. Compiled code has neither, but
a function for each layer. The numbers are the straight line through what `benchmarks/compiled.py` and
`benchmarks/rows.py` measured with GCC 12.2 and CMSIS-NN's kernels on mps2/an385; the bound is the largest distance from
it, rounded up. Float models are farthest, as TFLM's kernels of the untyped registrations have the code of all types. On
cores with DSP, CMSIS-NN's kernels have more code for shapes and types that a model may not have: the bound there is the
largest distance on mps2/an386 and mps2/an521/cpu0, and for float models that on nrf9160dk/nrf9160/ns.

An operator whose layers all have kernels of ours has none of TFLM's. Such apps took about _OWN_BYTES more than without
that kernel, as the savings are of code that its table has as well, and _ALONE_BYTES more than that where no other
kernel was left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tflm_zephyr.compiler import CompiledModel, Layer
from tflm_zephyr.model import TensorType

_CORE_BYTES = 17_000
_KERNEL_BYTES = 1_700
_LAYER_BYTES = 120
_FRAMES_BYTES = 3_000
_ROWS_BYTES = 300
_ROW_LAYER_BYTES = 60
_OWN_BYTES = 4_000
_ALONE_BYTES = 3_600
_OFF_BYTES = 4_096
_OTHER_CORES_OFF_BYTES = 8_192
_FLOAT_OFF_BYTES = 11_264
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
    direct = {layer.key for layer in layers if layer.framed is None and layer.control is None and not layer.fast}
    members = sum(len(layer.members) for layer in layers)
    written = sum(layer.has_code for layer in layers) + members - _fast_functions(layers)
    flash = _CORE_BYTES + _KERNEL_BYTES * len(direct) - _LAYER_BYTES * written
    if any(layer.framed is not None for layer in layers):
        flash -= _FRAMES_BYTES
    if {layer.key for layer in layers if layer.fast} - {layer.key for layer in layers if not layer.fast}:
        flash -= _OWN_BYTES if direct else _OWN_BYTES + _ALONE_BYTES
    if members:
        flash -= _ROWS_BYTES + _ROW_LAYER_BYTES * members
    if plain:
        return Savings(flash, _RAM_BYTES)
    return Savings(flash, _RAM_BYTES, _FLOAT_OFF_BYTES if _has_floats(programs) else _OTHER_CORES_OFF_BYTES)


def _has_floats(programs: Sequence[CompiledModel]) -> bool:
    return any(tensor.type is TensorType.FLOAT32 for program in programs for tensor in program.model.main.tensors)


def _fast_functions(layers: Sequence[Layer]) -> int:
    """The number of layers with our own kernels, each of which has a function, in segments too."""
    return sum(one.fast for layer in layers if not layer.inside for one in layer.members or (layer,))
