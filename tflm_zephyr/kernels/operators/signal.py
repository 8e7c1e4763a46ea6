# SPDX-License-Identifier: Apache-2.0
"""The audio front end's operators (signal/micro/kernels), the same at all known revisions of TFLM.

signal/src/window.cc goes through its input once, from front to back, and reads an element before it writes it. The
other operators were not read for in-place distances.
"""

from __future__ import annotations

from collections.abc import Mapping

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.in_place.last_readers import one_by_one
from tflm_zephyr.kernels.in_place.rules import elementwise_in_place
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.spec import Kernel, OperatorSpec, Sizes, Specs, fixed, nothing, types
from tflm_zephyr.model import TensorType

_RING = 24  # sizeof(tflm_signal::CircularBuffer)


def _rings(outer: int, capacity: int) -> tuple[int, ...]:
    """Two arrays of pointers, then a ring buffer for each outer index."""
    return (4 * outer, 4 * outer, *((_RING + 4 * capacity,) * outer))


def _outer(node: Node, inner_dimensions: int) -> int:
    """The product of the dimensions of input 0 before its last `inner_dimensions`."""
    source = node.input(0)
    inner = 1
    for dimension in range(1, inner_dimensions + 1):
        inner *= node.dim(source, -dimension)
    return source.elements // inner if inner else 0


def _framer(node: Node, core: Core) -> tuple[int, ...]:
    size, step = node.flexbuffer(2)  # frame_size, frame_step
    if size < 0 or step <= 0:
        raise node.fail(f"has frames of {size} samples every {step}")
    return (28, *_rings(_outer(node, 1), -(-size // step) * step))


def _delay(node: Node, core: Core) -> tuple[int, ...]:
    (delay,) = node.flexbuffer(1)  # delay_length
    return (20, *_rings(_outer(node, 1), node.dim(node.input(0), -1) + delay))


def _stacker(node: Node, core: Core) -> tuple[int, ...]:
    count, left, right = node.flexbuffer(3)  # num_channels, stacker_left_context, stacker_right_context
    return 36, _RING + 4 * count * (left + right + 1)


def _fft(struct: int, inverse: bool) -> Sizes:
    def sizes(node: Node, core: Core) -> tuple[int, ...]:
        _, length = node.flexbuffer(2)  # T, fft_length
        kind = node.input(0).type
        complex_bytes = 4 if kind is TensorType.INT16 else 8
        half = length // 2
        # kiss_fftr_alloc: its state, kiss_fft's state with the twiddles, a buffer and more twiddles
        state = 12 + 264 + complex_bytes * half + complex_bytes * (half * 3 // 2)
        return struct, state + (8 if inverse else 0)

    return sizes


def _rfft_scratch(node: Node, core: Core) -> tuple[int, ...]:
    _, length = node.flexbuffer(2)  # T, fft_length
    return (length * node.input(0).type.size_bytes,)


def _filter_bank(node: Node, core: Core) -> tuple[int, ...]:
    (count,) = node.flexbuffer(1)  # num_channels
    return 36, 8 * (count + 1)


def _spectral_subtraction(node: Node, core: Core) -> tuple[int, ...]:
    return 44, 4 * node.flexbuffer(5)[4]  # num_channels


def _overlap_add(node: Node, core: Core) -> tuple[int, ...]:
    source = node.input(0)
    outer, frame = _outer(node, 2), node.dim(source, -1)
    return (24, 4 * outer, *((frame * source.type.size_bytes,) * outer))


def _spec(persistent: Sizes, slots: str, row: str, scratch: Sizes = nothing) -> Specs:
    return (OperatorSpec(Kernel(scratch, persistent), types=types(slots, row)),)


_WINDOW = Kernel(nothing, fixed(8), elementwise_in_place, one_by_one)

OPERATORS: Mapping[str, Specs] = {
    "SignalDelay": _spec(_delay, "i0 o0", "int16 int16"),
    "SignalEnergy": _spec(fixed(8), "i0 o0", "int16 uint32"),
    "SignalFftAutoScale": _spec(nothing, "i0 o0 o1", "int16 int16 int32"),
    "SignalFilterBank": _spec(_filter_bank, "i0 i1 i2 i3 i4 i5 o0", "uint32 int16 int16 int16 int16 int16 uint64"),
    "SignalFilterBankLog": _spec(fixed(8), "i0 o0", "uint32 int16"),
    "SignalFilterBankSpectralSubtraction": _spec(_spectral_subtraction, "i0 o0 o1", "uint32 uint32 uint32"),
    "SignalFilterBankSquareRoot": _spec(nothing, "i0 i1 o0", "uint64 int32 uint32"),
    "SignalFramer": _spec(_framer, "i0 o0 o1", "int16 int16 bool"),
    "SignalIrfft": _spec(_fft(24, inverse=True), "i0 o0", "int16|int32|float32 ="),
    "SignalOverlapAdd": _spec(_overlap_add, "i0 o0", "int16|float32 ="),
    "SignalPCAN": _spec(fixed(4), "i0 i1 i2 o0", "uint32 uint32 int16 uint32"),
    "SignalRfft": _spec(_fft(32, inverse=False), "i0 o0", "int16|int32|float32 =", _rfft_scratch),
    "SignalStacker": _spec(_stacker, "i0 o0 o1", "int16 int16 bool"),
    "SignalWindow": (OperatorSpec(_WINDOW, types=types("i0 i1 o0", "int16 int16 int16")),),
}
