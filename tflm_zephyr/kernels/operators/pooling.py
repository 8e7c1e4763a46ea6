# SPDX-License-Identifier: Apache-2.0
"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D.

Sources: pooling_common.cc, l2_pool_2d.cc and cmsis_nn/pooling.cc (tensorflow/lite/micro/kernels); CMSIS-NN e9328d61,
Source/PoolingFunctions. From TFLM fcc760af on Prepare wants input and output quantised alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tflm_zephyr.kernels import cmsis_nn_sizes as arm
from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.in_place.last_readers import pooled_image
from tflm_zephyr.kernels.in_place.rules import InPlaceDistance, at_distance, pool_windows
from tflm_zephyr.kernels.in_place.runs import Run
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.quantisation import QUANTISED, check_same
from tflm_zephyr.kernels.revisions import BEFORE_4_4, SINCE_4_4
from tflm_zephyr.kernels.spec import CmsisNn, Kernel, OperatorSpec, Specs, fixed, nothing, output_dims, types
from tflm_zephyr.model import TensorType

_SAME_SCALE = 1e-6


def _arm_average_scratch(node: Node, core: Core) -> tuple[int, ...]:
    source = node.input(0)
    return arm.asked(arm.average_pool(core, node.dim(source, 3))) if source.type in QUANTISED else ()


def _in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """reference/integer_ops/pooling.h and reference/pooling.h; CMSIS-NN's arm_avgpool_s8.c and _s16.c.

    Loops: batch, out_y, out_x, channel; the window is read in that channel, then its element is written. Channel c is
    read when c channels of the pixel are written. CMSIS-NN's average: plain C does the same, Helium reads a block,
    then writes it, and with DSP a pixel is summed in a buffer before it is written.
    """
    windows = pool_windows(node)
    return at_distance(windows.lead() if windows is not None else None)


def _arm_max_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """MAX_POOL_2D, int8 and int16: arm_max_pool_s8.c and _s16.c.

    Loops: batch, y, x; the window's first pixel is copied to the output by memcpy, the others are compared with the
    output there: the whole pixel counts as written. At a batch's end the output is clamped in place.
    """
    if node.input(0).type is TensorType.FLOAT32:
        return _in_place(node, core)
    windows = pool_windows(node)
    lead = windows.lead() if windows is not None else None
    return at_distance(None if windows is None or lead is None else lead + windows.out_pixel)


def _last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """Channel c is read for output channel c."""
    image = pooled_image(node)
    element = image.element
    return (
        Run(byte, image.depth, element, reader * image.out_depth * element, element) for byte, reader in image.pixels()
    )


def _arm_max_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """A pixel is copied to the output and compared there with the rest of its window."""
    if node.input(place).type is TensorType.FLOAT32:
        return _last_reads(node, core, place, output)
    image = pooled_image(node)
    pixel = image.out_depth * image.element
    return (Run(byte, image.depth, image.element, (reader + 1) * pixel, 0) for byte, reader in image.pixels())


def _first_batch_alone(node: Node, core: Core) -> str:
    """PopulateCommonParams in cmsis_nn/pooling.cc gives CMSIS-NN a batch of 1, whatever the tensor's is."""
    shape = node.input(0).shape
    return f"computes the first of {shape[0]} batches alone" if shape and shape[0] > 1 else ""


def _check_alike(node: Node) -> None:
    """PoolingPrepare: scales at most 1e-6 apart, the same zero point."""
    source, output = node.optional_input(0), node.optional_output(0)
    if source is not None and output is not None and source.type in QUANTISED:
        check_same(node, source, output, _SAME_SCALE)


_REFERENCE = Kernel(nothing, fixed(32), _in_place, _last_reads)
_TYPES = types("i0 o0", "float32|int8|int16 =")
_COMPUTES = {"INT8": "i0 int8 o0 int8", "INT16": "i0 int16 o0 int16"}
_AVERAGE = OperatorSpec(
    _REFERENCE,
    CmsisNn(Kernel(_arm_average_scratch, fixed(36), _in_place, _last_reads), _COMPUTES, miscomputes=_first_batch_alone),
    _TYPES,
    revisions=BEFORE_4_4,
)
_MAX = OperatorSpec(
    _REFERENCE,
    CmsisNn(
        Kernel(nothing, fixed(36), _arm_max_in_place, _arm_max_last_reads), _COMPUTES, miscomputes=_first_batch_alone
    ),
    _TYPES,
    revisions=BEFORE_4_4,
)

OPERATORS: Mapping[str, Specs] = {
    "AVERAGE_POOL_2D": (_AVERAGE, replace(_AVERAGE, checks=(_check_alike,), revisions=SINCE_4_4)),
    "L2_POOL_2D": (
        OperatorSpec(Kernel(nothing, output_dims, _in_place, _last_reads), types=types("i0 o0", "float32 =")),
    ),
    "MAX_POOL_2D": (_MAX, replace(_MAX, checks=(_check_alike,), revisions=SINCE_4_4)),
}
