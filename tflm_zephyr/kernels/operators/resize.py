# SPDX-License-Identifier: Apache-2.0
"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR.

Sources: resize_bilinear.cc, resize_nearest_neighbor.cc (tensorflow/lite/micro/kernels),
reference/resize_nearest_neighbor.h. RESIZE_BILINEAR was not read for in-place distances. Up to 8d404de7
RESIZE_NEAREST_NEIGHBOR ignores the model's half_pixel_centers and takes it as false.
"""

from __future__ import annotations

import itertools
import math
import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.in_place.geometry import affine_lead
from tflm_zephyr.kernels.in_place.rules import InPlaceDistance, at_distance, steps
from tflm_zephyr.kernels.in_place.runs import Run
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.revisions import BEFORE_4_4
from tflm_zephyr.kernels.spec import Kernel, OperatorSpec, Specs, nothing, types

_MOST_PIXELS = 1 << 16  # along one axis of an image


def takes_half_pixels(core: Core) -> bool:
    """Whether RESIZE_NEAREST_NEIGHBOR of the core's TFLM reads the option half_pixel_centers.

    The in-place rule and its check below say it for themselves, as they share nothing.
    """
    return core.revision not in BEFORE_4_4


def _nearest_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """RESIZE_NEAREST_NEIGHBOR: reference/resize_nearest_neighbor.h.

    Loops: batch, y, x, then one memcpy of a pixel, whose own bytes count as written. A pixel's place in the output
    and that of its source are sums of one term per loop.
    """
    source, result = node.input(0), node.output()
    if len(source.shape) != 4 or len(result.shape) != 4 or max(*source.shape[1:3], *result.shape[1:3]) > _MOST_PIXELS:
        return ()
    if (source.shape[0], source.shape[3]) != (result.shape[0], result.shape[3]) or not result.elements:
        return ()
    element = source.type.size_bytes
    out_steps, in_steps = steps(result.shape, element), steps(source.shape, element)
    corners = bool(node.option("align_corners"))
    half = bool(node.option("half_pixel_centers")) and core.revision not in BEFORE_4_4
    lead = affine_lead([(source.shape[0], out_steps[0], in_steps[0])])
    for axis in (1, 2):
        sizes = source.shape[axis], result.shape[axis]
        lead += max(i * out_steps[axis] - _nearest(i, *sizes, corners, half) * in_steps[axis] for i in range(sizes[1]))
    return at_distance(lead + out_steps[2])


def _nearest(index: int, in_size: int, out_size: int, corners: bool, half: bool) -> int:
    """GetNearestNeighbor, in single precision as there."""
    scale = _single((in_size - 1) / (out_size - 1)) if corners and out_size > 1 else _single(in_size / out_size)
    place = _single((index + (0.5 if half else 0.0)) * scale)
    return max(0, min(math.floor(place + 0.5 if corners else place), in_size - 1))


def _single(value: float) -> float:
    single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return single


def _nearest_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """A pixel of input is read until the last pixel of output that is copied from it is written."""
    given, taken = node.input(0), node.output()
    batches, height, width, depth = given.shape
    _, out_height, out_width, _ = taken.shape
    if place != 0 or taken.shape[0] != batches or taken.shape[3] != depth:
        return None
    pixel = depth * given.type.size_bytes
    corners = bool(node.option("align_corners"))
    half = core.revision not in BEFORE_4_4 and bool(node.option("half_pixel_centers"))
    rows, columns = _last_copies(height, out_height, corners, half), _last_copies(width, out_width, corners, half)

    def runs() -> Iterator[Run]:
        for b, (y, down), (x, across) in itertools.product(range(batches), rows.items(), columns.items()):
            reader = (b * out_height + down) * out_width + across
            yield Run(((b * height + y) * width + x) * pixel, pixel, 1, (reader + 1) * pixel, 0)

    return runs()


def _last_copies(size: int, outputs: int, corners: bool, half: bool) -> dict[int, int]:
    """The last output index that is copied from each input index (GetNearestNeighbor, whose floats are 32 bits)."""
    whole, parts = (size - 1, outputs - 1) if corners and outputs > 1 else (size, outputs)
    scale = array("f", [whole / parts])[0]
    found = {}
    for index in range(outputs):
        place = array("f", [(index + half / 2) * scale])[0]
        nearest = int(place + 0.5) if corners else int(place)
        found[min(nearest, size - 1)] = index
    return found


OPERATORS: Mapping[str, Specs] = {
    "RESIZE_BILINEAR": (OperatorSpec(types=types("i0 i1 o0", "float32|int8 int32 =")),),
    "RESIZE_NEAREST_NEIGHBOR": (
        OperatorSpec(
            Kernel(nothing, nothing, _nearest_in_place, _nearest_last_reads),
            types=types("i0 i1 o0", "float32|int8|int16 int32 ="),
        ),
    ),
}
