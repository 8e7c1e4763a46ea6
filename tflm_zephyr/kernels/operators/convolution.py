# SPDX-License-Identifier: Apache-2.0
"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV.

Sources: conv.cc, depthwise_conv.cc, transpose_conv.cc and their like in cmsis_nn/ (tensorflow/lite/micro/kernels), the
same at all known revisions of TFLM; functions of CMSIS-NN e9328d61 in Source/ConvolutionFunctions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tflm_zephyr.kernels import cmsis_nn_sizes as arm
from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.in_place.geometry import Windows, affine_lead
from tflm_zephyr.kernels.in_place.last_readers import weighted_image
from tflm_zephyr.kernels.in_place.rules import InPlaceDistance, at_distance, convolution_windows, depth_multiplier
from tflm_zephyr.kernels.in_place.runs import Run
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.quantisation import QUANTISED, channels, quantised
from tflm_zephyr.kernels.spec import Check, CmsisNn, Kernel, OperatorSpec, Sizes, Specs, types
from tflm_zephyr.model import Tensor, TensorType

_MVE_CHANNELS = 124  # CH_IN_BLOCK_MVE
_MVE_ROWS = 4
WEIGHTED = {"INT8": "i0 int8 i1 int8 o0 int8", "INT16": "i0 int16 i1 int8 o0 int16", "INT4": "i0 int8 i1 int4 o0 int8"}
"""Types that CMSIS-NN computes where input 1 is the weights. int4 has its own registration, whose Eval unpacks them."""


# Memory


def int4_weights(node: Node, core: Core) -> tuple[int, ...]:
    """int4 weights are unpacked to a byte each."""
    weights = node.input(1)
    return (weights.elements,) if weights.type is TensorType.INT4 else ()


def _with_channels(struct: int, dimension: int) -> Sizes:
    """The struct, then a multiplier and a shift for each output channel."""
    return lambda node, core: (struct, *channels(node, 1, dimension))


def _with_quantised_channels(struct: int, dimension: int) -> Sizes:
    """The same in CMSIS-NN's kernels, which allocate the arrays for integers alone."""
    return lambda node, core: (struct, *(channels(node, 1, dimension) if node.input(0).type in QUANTISED else ()))


def _window(node: Node) -> arm.Window:
    source, output, weights = node.input(0), node.output(), node.input(1)
    if not len(source.shape) == len(output.shape) == len(weights.shape) == 4:
        raise node.fail("needs tensors of four dimensions")
    batch, height, width, depth = source.shape
    filter_height, filter_width = weights.shape[1:3]
    stride = (node.option("stride_h"), node.option("stride_w"))
    dilation = (node.option("dilation_h_factor"), node.option("dilation_w_factor"))
    return arm.Window(
        input=(height, width, depth),
        filter=(filter_height, filter_width),
        output=(output.shape[1], output.shape[2], output.shape[3]),
        stride=stride,
        padding=(
            node.padding(height, filter_height, stride[0], dilation[0]),
            node.padding(width, filter_width, stride[1], dilation[1]),
        ),
        dilation=dilation,
        batch=batch,
    )


def _arm_conv_scratch(node: Node, core: Core) -> tuple[int, ...]:
    kind = node.input(0).type
    if kind not in QUANTISED:
        return ()
    window = _window(node)
    if kind is TensorType.INT8:
        return arm.asked(arm.convolve_s8(core, window))
    # Prepare looks for the bias among the outputs, finds none, and so requests a buffer for int32 biases too.
    return arm.asked(arm.convolve_s16(core, window.input[2], window.filter))


def _arm_groups_fail(node: Node, core: Core) -> str:
    """Groups of channels in arm_convolve_s16, which knows none, and arm_convolve_s8 of CMSIS-NN e9328d61.

    In int8 each group moves the bias's pointer on, an absent one's too. For 1x1 weights
    arm_convolve_wrapper_s8_get_buffer_size asks for the buffer of the 1x1 functions, which is none, and arm_convolve_s8
    fails without its own.
    """
    source, weights = node.input(0), node.input(1)
    if source.type not in QUANTISED or len(weights.shape) != 4 or source.shape[-1:] == weights.shape[-1:]:
        return ""
    if source.type is TensorType.INT16:
        return "computes int16 with groups of channels as if there were none"
    if node.optional_input(2) is None:
        return "reads beside the bias, which is absent, for groups of channels"
    window = _window(node)
    if window.filter == (1, 1) and window.dilation == (1, 1) and window.padding == (0, 0):
        return "fails for 1x1 weights with groups of channels"
    return ""


def _arm_depthwise_scratch(node: Node, core: Core) -> tuple[int, ...]:
    if node.input(0).type is not TensorType.INT8:
        return ()
    window = _window(node)
    sizes = arm.depthwise_s4 if node.input(1).type is TensorType.INT4 else arm.depthwise_s8
    return arm.asked(sizes(core, window))


def _transpose_conv_scratch(node: Node, core: Core) -> tuple[int, ...]:
    """Accumulators for the whole output, and an int16 bias widened to int64."""
    kind, elements = node.input(2).type, node.output().elements
    if kind is TensorType.INT8:
        return (elements * 4,)
    if kind is not TensorType.INT16:
        return ()
    bias = node.optional_input(3)
    widened = (bias.elements * 8,) if bias is not None and bias.type is TensorType.INT16 else ()
    return (elements * 8, *widened)


def _arm_transpose_conv_scratch(node: Node, core: Core) -> tuple[int, ...]:
    source, weights = node.input(2), node.input(1)
    if not core.transpose_conv or source.type is not TensorType.INT8:
        return _transpose_conv_scratch(node, core)
    return arm.transpose_conv_s8(
        core,
        (node.dim(source, 1), node.dim(source, 2), node.dim(source, 3)),
        (node.dim(weights, 1), node.dim(weights, 2)),
        node.dim(weights, 0),
        (node.option("stride_h"), node.option("stride_w")),
    )


def _arm_transpose_conv_persistent(node: Node, core: Core) -> tuple[int, ...]:
    return (76 if core.transpose_conv else 72, *channels(node, 1, 0))


# In-place distances


def _conv_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """CONV_2D: reference/integer_ops/conv.h ConvPerChannel (int8, int16x8, int4 weights) and reference/conv.h Conv.

    Loops: batch, out_y, out_x, out_channel; inside, filter_y, filter_x and the group's in_channels are read, then
    one element is written. When a pixel's channel c is computed, all earlier pixels and c elements of this one are
    written, and its window is read again from the first channel of its group. In a group of f output and i input
    channels the last channel leads most: distance = windows' lead + element * max over groups g of
    ((g + 1) * f - 1 - g * i), which lies at the first or last group. The distance is exact except with one output
    channel, where the first pixel is counted although nothing is written yet.
    """
    windows = convolution_windows(node)
    depth, out_depth, group_depth = (node.dim(t, 3) for t in (node.input(0), node.output(), node.input(1)))
    lead = windows.lead() if windows is not None else None
    if lead is None or group_depth <= 0 or depth % group_depth or out_depth % (depth // group_depth):
        return ()
    groups = depth // group_depth
    filters = out_depth // groups
    ahead = filters - 1 + affine_lead([(groups, filters, group_depth)])
    return at_distance(lead + ahead * node.output().type.size_bytes)


def _depthwise_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """DEPTHWISE_CONV_2D: reference/integer_ops/depthwise_conv.h DepthwiseConvPerChannel, depthwiseconv_float.h.

    Loops: batch, out_y, out_x, in_channel, m; inside, filter_y and filter_x are read in one channel, then one
    element is written. At channel i's last multiple, i * M + M - 1 elements of the pixel are written and element i
    of the window is read. The lead is i * (M - 1) + M - 1, which is largest at the last of C channels: C * (M - 1).
    """
    windows, multiplier = convolution_windows(node), depth_multiplier(node)
    lead = windows.lead() if windows is not None else None
    if lead is None or multiplier is None:
        return ()
    return at_distance(lead + node.dim(node.input(0), 3) * (multiplier - 1) * node.output().type.size_bytes)


def _transpose_conv_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """TRANSPOSE_CONV, integer: reference/integer_ops/transpose_conv.h adds all up in a scratch buffer, then writes.

    The float kernel sets the output to zero before it reads and allows nothing.
    """
    source = node.input(2)
    if source.type not in QUANTISED:
        return ()
    return at_distance(-source.size_bytes, 2)


def _arm_conv_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """CONV_2D, int8 with int8 weights: the function that arm_convolve_wrapper_s8 calls. int4 and int16 allow nothing.

    1x1 without padding or dilation, stride 1: arm_convolve_1x1_s8_fast multiplies all pixels at once, output
    channels outermost (arm_nn_mat_mult_nt_t_s8). The first byte is read until the end, so nothing is allowed; with
    Helium see _four_rows. Other strides: arm_convolve_1x1_s8 does so row by row; a row of output counts as written
    while the row of input is read. 1 x n with Helium allows nothing. All others: arm_convolve_s8 copies a pixel's
    window; after every second (Helium: fourth) pixel it multiplies the copied windows and writes. A pixel counts as
    written at once, at most one (three) pixels too early. Groups are outermost and allow nothing.
    """
    source, weights = node.input(0), node.input(1)
    if source.type is TensorType.FLOAT32:
        return _conv_in_place(node, core)
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

    While the last channel of the first pixel is computed, the fourth pixel lacks only that channel. Remaining pixels
    are computed one by one. Four pixels are counted for all.
    """
    pixels = windows.batches * windows.rows.outputs * windows.columns.outputs
    lead = affine_lead([(pixels, windows.out_pixel, windows.in_pixel)])
    return at_distance(lead + _MVE_ROWS * windows.out_pixel - 1)


def _arm_depthwise_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """DEPTHWISE_CONV_2D, int8 with int8 weights: the function that arm_depthwise_conv_wrapper_s8 calls.

    arm_depthwise_conv_s8 loops as the reference does, or takes four multiples of a channel at a time and writes them
    after it has read the channel. arm_depthwise_conv_3x3_s8 takes four channels of a pixel at a time and reads them
    before it writes them. arm_depthwise_conv_s8_opt copies a pixel's window before it writes the pixel (DSP) or four
    pixels (Helium, up to 124 channels; more channels are split into blocks, outermost). With Helium one input channel
    becomes a CONV_2D.
    """
    if node.input(0).type is TensorType.FLOAT32:
        return _depthwise_in_place(node, core)
    if node.input(0).type is not TensorType.INT8 or node.input(1).type is not TensorType.INT8:
        return ()
    if core.mve and (node.dim(node.input(0), 3) == 1 or node.dim(node.output(), 3) > _MVE_CHANNELS):
        return ()
    return _depthwise_in_place(node, core)


def _arm_transpose_conv_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """CMSIS-NN's own function was not read; where it is not built, the reference kernel's distance holds."""
    return () if core.transpose_conv else _transpose_conv_in_place(node, core)


# Last reads, for the checker


def _conv_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """All channels of a group are read for each of its output channels, the last one included."""
    if place != 0:
        return None
    image, read = weighted_image(node), node.input(1).shape[3]
    groups, rest = divmod(image.depth, read)
    if rest or image.out_depth % groups:
        return None
    filters = image.out_depth // groups
    return (
        Run(
            byte + group * read * image.element,
            read,
            image.element,
            (reader * image.out_depth + (group + 1) * filters - 1) * image.element,
            0,
        )
        for byte, reader in image.pixels()
        for group in range(groups)
    )


def _depthwise_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """Channel c is read for its output channels c * m to c * m + m - 1."""
    if place != 0:
        return None
    image = weighted_image(node)
    times, rest = divmod(image.out_depth, image.depth)
    if rest or times != node.option("depth_multiplier"):
        return None
    element = image.element
    return (
        Run(byte, image.depth, element, (reader * image.out_depth + times - 1) * element, times * element)
        for byte, reader in image.pixels()
    )


def _transpose_conv_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """Integers are all read before the first byte is written."""
    given = node.input(place)
    if place != 2 or given.type not in (TensorType.INT8, TensorType.INT16):
        return None
    return (Run(0, given.elements, given.type.size_bytes, 0, 0),)


def _int8(node: Node, place: int) -> bool:
    return place == 0 and node.input(0).type is node.input(1).type is TensorType.INT8


def _arm_conv_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """The last reads of arm_convolve_wrapper_s8's functions.

    arm_convolve_s8 reads a pixel's window before it writes the pixel. arm_convolve_1x1_s8 reads until a row of output
    is written; arm_convolve_1x1_s8_fast until four pixels (Helium) or all pixels are written.
    """
    if node.input(place).type is TensorType.FLOAT32:
        return _conv_last_reads(node, core, place, output)
    if not _int8(node, place):
        return None
    image = weighted_image(node)
    _, height, width, read = node.input(1).shape
    if read != image.depth:
        return None
    spread = node.option("dilation_h_factor") > 1 or node.option("dilation_w_factor") > 1
    pixel = image.out_depth
    if height == width == 1 and not spread:
        if node.option("stride_h") > 1 or node.option("stride_w") > 1:
            row = image.out_size[1] * pixel
            return (Run(byte, read, 1, (reader * pixel // row + 1) * row, 0) for byte, reader in image.pixels())
        if not core.mve:
            return None
        return (Run(byte, read, 1, (reader + 4) * pixel - 1, 0) for byte, reader in image.pixels())
    if core.mve and len(image.rows) == height == 1:
        return None
    return (Run(byte, read, 1, reader * pixel, 0) for byte, reader in image.pixels())


def _arm_depthwise_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """A channel is read before it is written, or before its whole pixel is written.

    With Helium, one input channel becomes a CONV_2D, and more than 124 channels take several rounds.
    """
    if node.input(place).type is TensorType.FLOAT32:
        return _depthwise_last_reads(node, core, place, output)
    if not _int8(node, place):
        return None
    image = weighted_image(node)
    if core.mve and (image.depth == 1 or image.out_depth > 124):
        return None
    return _depthwise_last_reads(node, core, place, output)


def _arm_transpose_conv_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    return None if core.transpose_conv else _transpose_conv_last_reads(node, core, place, output)


# Prepare's checks and work


def _check_scales(filter_place: int, input_place: int, channel_dimension: int) -> Check:
    """PopulateConvolutionQuantizationParams (tensorflow/lite/kernels/kernel_util.cc)."""

    def check(node: Node) -> None:
        source, weights = node.optional_input(input_place), node.optional_input(filter_place)
        if source is None or weights is None or source.type is TensorType.FLOAT32:
            return
        quantised(node, source)
        _scales(node, weights, channel_dimension)

    return check


def _scales(node: Node, weights: Tensor, channel_dimension: int) -> None:
    quantization = quantised(node, weights)
    count = len(quantization.scales)
    if count == 1 or channel_dimension >= len(weights.shape):
        return
    channels = weights.shape[channel_dimension]
    along = quantization.dimension
    if count != channels or not 0 <= along < len(weights.shape) or weights.shape[along] != count:
        raise node.fail(
            f"needs 1 or {channels} scales along dimension {channel_dimension} of {weights.label} with "
            f"shape {list(weights.shape)}, and it has {count} along dimension {along}",
            "Convert the model again with a representative_dataset",
        )


def _conv_macs(node: Node) -> int:
    return node.output().elements * math.prod(node.input(1).shape[1:])


def _depthwise_macs(node: Node) -> int:
    weights = node.input(1).shape
    return node.output().elements * node.dim(node.input(1), 1) * weights[2] if len(weights) == 4 else 0


def _transpose_conv_macs(node: Node) -> int:
    source = node.optional_input(2)
    return 0 if source is None else source.elements * math.prod(node.input(1).shape[:3])


_FLOAT = "float32 float32 float32 float32"

OPERATORS: Mapping[str, Specs] = {
    "CONV_2D": (
        OperatorSpec(
            Kernel(int4_weights, _with_channels(56, 0), _conv_in_place, _conv_last_reads),
            CmsisNn(
                Kernel(_arm_conv_scratch, _with_quantised_channels(60, 0), _arm_conv_in_place, _arm_conv_last_reads),
                WEIGHTED,
                miscomputes=_arm_groups_fail,
            ),
            types("i0 i1 o0 i2", _FLOAT, "int8 int8|int4 int8 int32", "int16 int8 int16 int32|int64"),
            (_check_scales(1, 0, 0),),
            _conv_macs,
            looks_twice=True,
        ),
    ),
    "DEPTHWISE_CONV_2D": (
        OperatorSpec(
            Kernel(int4_weights, _with_channels(56, 3), _depthwise_in_place, _depthwise_last_reads),
            CmsisNn(
                Kernel(
                    _arm_depthwise_scratch,
                    _with_quantised_channels(60, 3),
                    _arm_depthwise_in_place,
                    _arm_depthwise_last_reads,
                ),
                WEIGHTED,
            ),
            types("i0 i1 o0 i2", _FLOAT, "int8 int8|int4 int8 int32", "int16 int8 int16 int64"),
            (_check_scales(1, 0, 3),),
            _depthwise_macs,
            looks_twice=True,
        ),
    ),
    "TRANSPOSE_CONV": (
        OperatorSpec(
            Kernel(
                _transpose_conv_scratch, _with_channels(72, 0), _transpose_conv_in_place, _transpose_conv_last_reads
            ),
            CmsisNn(
                Kernel(
                    _arm_transpose_conv_scratch,
                    _arm_transpose_conv_persistent,
                    _arm_transpose_conv_in_place,
                    _arm_transpose_conv_last_reads,
                ),
                {"INT8": "i2 int8 i1 int8 o0 int8"},
            ),
            types("i2 i1 o0 i3", _FLOAT, "int8 int8 int8 int32", "int16 int8 int16 int16|int64"),
            (_check_scales(1, 2, 0),),
            _transpose_conv_macs,
            looks_twice=True,
        ),
    ),
}
