# SPDX-License-Identifier: Apache-2.0
"""How far output may run over input in TFLM's CMSIS-NN kernels, read in their loops.

Wrappers: tensorflow/lite/micro/kernels/cmsis_nn/*.cc, revision 8d404de7; functions: CMSIS-NN e9328d61, Source/. What
a wrapper leaves to the reference kernel, and what has no CMSIS-NN kernel, has the reference's distance. int4 weights,
16-bit convolutions, FULLY_CONNECTED, BATCH_MATMUL, SVDF, LSTM and CMSIS-NN's own TRANSPOSE_CONV allow nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from tflm_zephyr.kernels.base import Core
from tflm_zephyr.kernels.in_place import reference
from tflm_zephyr.kernels.in_place.geometry import Windows, affine_lead
from tflm_zephyr.kernels.in_place.rules import InPlaceDistance, Rule, at_distance, convolution_windows, pool_windows
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.model import TensorType

_MVE_CHANNELS = 124  # CH_IN_BLOCK_MVE
_MVE_ROWS = 4


def table(core: Core) -> Mapping[str, Rule]:
    """The rule of every kernel with a known order on `core`, by operator key."""

    def convolution(node: Node) -> tuple[InPlaceDistance, ...]:
        return _convolution(node, core)

    def depthwise(node: Node) -> tuple[InPlaceDistance, ...]:
        return _depthwise(node, core)

    rules = {
        **reference.table(),
        "CONV_2D": convolution,
        "DEPTHWISE_CONV_2D": depthwise,
        "FULLY_CONNECTED": _fully_connected,
        "MAX_POOL_2D": _max_pool,
        "MAXIMUM": _maximum,
        "MINIMUM": _maximum,
    }
    if core.transpose_conv:
        del rules["TRANSPOSE_CONV"]
    return rules


# AVERAGE_POOL_2D: PoolingFunctions/arm_avgpool_s8.c and _s16.c loop over batch, y, x as the reference does. Plain C
# goes through channels one by one, Helium in blocks that are read, then written, with DSP a pixel is summed in a
# buffer before it is written: everywhere as many channels are written as stand before the one that is read.
# ADD, MUL: arm_elementwise_add_s8.c, _mul_s8.c and _s16.c read one, two or four elements, then write them; broadcast
# goes to the reference. SOFTMAX: arm_nn_softmax_common_s8.c, arm_softmax_s8.c (Helium) and arm_softmax_s16.c read a row
# for its maximum, for its sum, and once more while they write (s16 reads its cached output then).


def _is_float(node: Node) -> bool:
    return node.input(0).type is TensorType.FLOAT32


def _convolution(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """CONV_2D, int8 with int8 weights: the function that arm_convolve_wrapper_s8 takes.

    1x1 without padding or dilation, stride 1: arm_convolve_1x1_s8_fast multiplies all pixels at once, output
    channels outermost (arm_nn_mat_mult_nt_t_s8), so that the first byte is read until the end: nothing, but with
    Helium see _four_rows. Other strides: arm_convolve_1x1_s8 does so row by row; a row of output counts as written
    while the row of input is read. 1 x n with Helium: nothing. Else arm_convolve_s8: a pixel's window is copied, and
    every second (Helium: fourth) pixel what was copied is multiplied and written; counted as written at once, at
    most one (three) pixels too much. Its groups are outermost and allow nothing.
    """
    if _is_float(node):
        return reference.convolution(node)
    source, weights = node.input(0), node.input(1)
    windows = convolution_windows(node)
    if source.type is not TensorType.INT8 or weights.type is not TensorType.INT8 or windows is None:
        return ()
    if node.dim(weights, 3) != windows.in_pixel:
        return ()
    rows, columns = windows.rows, windows.columns
    plain = rows.dilation == columns.dilation == 1
    if plain and rows.window == columns.window == 1 and rows.padding == columns.padding == 0:
        if rows.stride != 1 or columns.stride != 1:
            return _row_by_row(windows)
        return _four_rows(windows) if core.mve else ()
    if core.mve and rows.size == rows.window == columns.dilation == 1:
        return ()
    return at_distance(windows.lead())


def _row_by_row(windows: Windows) -> tuple[InPlaceDistance, ...]:
    out_row, in_row = windows.columns.outputs * windows.out_pixel, windows.columns.size * windows.in_pixel
    lead = affine_lead([(windows.rows.outputs, out_row, in_row * windows.rows.stride)])
    return at_distance(lead + windows.batch_lead() + out_row)


def _four_rows(windows: Windows) -> tuple[InPlaceDistance, ...]:
    """arm_nn_mat_mult_nt_t_s8 with Helium: four pixels at a time, each channel of the four written before the next.

    While the last channel is computed from the first of the four, the fourth pixel lacks it alone. The pixels left
    over go one by one. Four pixels are counted for all.
    """
    pixels = windows.batches * windows.rows.outputs * windows.columns.outputs
    lead = affine_lead([(pixels, windows.out_pixel, windows.in_pixel)])
    return at_distance(lead + _MVE_ROWS * windows.out_pixel - 1)


def _depthwise(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """DEPTHWISE_CONV_2D, int8 with int8 weights: the function that arm_depthwise_conv_wrapper_s8 takes.

    arm_depthwise_conv_s8 loops as the reference does, or four multiples of a channel at a time, which are written
    after the channel was read; arm_depthwise_conv_3x3_s8 goes through a pixel by four channels, each four read before
    they are written; arm_depthwise_conv_s8_opt copies a pixel's window before it writes the pixel (DSP) or four
    (Helium, up to 124 channels: more go in blocks, outermost). With Helium one input channel becomes a CONV_2D.
    """
    if _is_float(node):
        return reference.depthwise(node)
    if node.input(0).type is not TensorType.INT8 or node.input(1).type is not TensorType.INT8:
        return ()
    if core.mve and (node.dim(node.input(0), 3) == 1 or node.dim(node.output(), 3) > _MVE_CHANNELS):
        return ()
    return reference.depthwise(node)


def _max_pool(node: Node) -> tuple[InPlaceDistance, ...]:
    """MAX_POOL_2D, int8 and int16: PoolingFunctions/arm_max_pool_s8.c and _s16.c.

    Loops: batch, y, x; the window's first pixel is copied to the output by memcpy, the others are compared with
    what stands there: the whole pixel counts as written. At a batch's end the output is clamped in place.
    """
    if _is_float(node):
        return reference.pool(node)
    windows = pool_windows(node)
    lead = windows.lead() if windows is not None else None
    return at_distance(None if windows is None or lead is None else lead + windows.out_pixel)


def _maximum(node: Node) -> tuple[InPlaceDistance, ...]:
    """MAXIMUM, MINIMUM, int8: BasicMathFunctions/arm_maximum_s8.c, arm_minimum_s8.c.

    Without broadcast one element (Helium: 16) at a time is read, then written; with broadcast: nothing.
    """
    if node.output().type is TensorType.INT8 and node.input(0).shape != node.input(1).shape:
        return ()
    return reference.elementwise(node)


def _fully_connected(node: Node) -> tuple[InPlaceDistance, ...]:
    return reference.fully_connected(node) if _is_float(node) else ()
