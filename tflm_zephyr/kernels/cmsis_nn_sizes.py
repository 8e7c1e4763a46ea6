# SPDX-License-Identifier: Apache-2.0
"""Working buffers of CMSIS-NN's functions: its arm_*_get_buffer_size(), for each kind of core.

From Source/*/arm_*_get_buffer_sizes_*.c of CMSIS-NN at revision e9328d61, as GCC or clang compile them
(Arm's own compiler gets other sizes for 1x1 convolutions and depthwise ones with a single input channel).
"""

from __future__ import annotations

from dataclasses import dataclass

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.node import quotient
from tflm_zephyr.memory_planner import align_up

_DEPTHWISE_BLOCK_MVE = 124  # CH_IN_BLOCK_MVE
_REVERSE_THRESHOLD = 16  # REVERSE_TCOL_EFFICIENT_THRESHOLD


@dataclass(frozen=True)
class Window:
    """A convolution along height and width; input and output are heights, widths and channels."""

    input: tuple[int, int, int]
    filter: tuple[int, int]
    output: tuple[int, int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    batch: int = 1


def asked(size: int) -> tuple[int, ...]:
    """The request for a buffer of `size` bytes; no request for 0 bytes."""
    return (size,) if size > 0 else ()


def convolve_s8(core: Core, window: Window) -> int:
    """arm_convolve_wrapper_s8_get_buffer_size, which TFLM asks for int4 weights as well."""
    (height, _, depth), (filter_height, _) = window.input, window.filter
    if window.padding == (0, 0) and window.filter == (1, 1) and window.dilation == (1, 1):
        return 0
    one_row = height == filter_height == 1 and window.dilation[1] == 1
    if core.mve and one_row and window.stride[1] * depth % 4 == 0:
        return _convolve_1_x_n_mve(window)
    return columns_s8(core, depth, window.filter)


def columns_s8(core: Core, depth: int, filter_size: tuple[int, int]) -> int:
    """arm_convolve_s8_get_buffer_size: the columns of an im2col."""
    length = depth * filter_size[0] * filter_size[1]
    return 4 * align_up(length, 16) if core.mve else 2 * align_up(length, 4) * 2


def _convolve_1_x_n_mve(window: Window) -> int:
    (_, width, depth), kernel, out_width = window.input, window.filter[1], window.output[1]
    stride, left = window.stride[1], window.padding[1]
    total = (out_width - 1) * stride + kernel - width
    asymmetric = total % 2 if total >= 0 else -(-total % 2)
    right = left + asymmetric
    right_count = max(1, quotient(right + stride - 1, stride)) if right else 0
    left_count = max(1, quotient(left + stride - 1, stride)) if left else 0
    inner_count = max(out_width - (right_count + left_count), 0)
    if right_count + inner_count + left_count != out_width:
        return 4 * align_up(depth * kernel, 16)
    left_bytes = left * depth
    right_bytes = right_count * depth if asymmetric else left_bytes
    return max(kernel * depth + left_bytes, (kernel - 1) * depth + right_bytes)


def convolve_s16(core: Core, depth: int, filter_size: tuple[int, int]) -> int:
    """arm_convolve_wrapper_s16_get_buffer_size."""
    length = depth * filter_size[0] * filter_size[1]
    return 4 * align_up(length, 8) * 2 if core.mve else 2 * length * 2


def depthwise_s8(core: Core, window: Window) -> int:
    """arm_depthwise_conv_wrapper_s8_get_buffer_size.

    On Helium one input channel makes it a convolution, for which TFLM leaves the stride unset. The size
    is then that of the general case, which is not less than those of the special ones it may fall into.
    """
    depth, out_depth, filter_area = window.input[2], window.output[2], window.filter[0] * window.filter[1]
    if core.mve and depth == 1 and out_depth > 1:
        pointwise = window.padding == (0, 0) and window.filter == (1, 1) and window.dilation == (1, 1)
        return (0 if pointwise else columns_s8(core, 1, window.filter)) + out_depth * filter_area
    if depth != out_depth or window.batch != 1 or window.dilation != (1, 1):
        return 0
    if core.mve:
        return 4 * _DEPTHWISE_BLOCK_MVE * filter_area
    if window.filter == (3, 3) and max(window.padding) <= 1:
        return 0
    return depth * filter_area * 2 if core.dsp else 0


def depthwise_s4(core: Core, window: Window) -> int:
    """arm_depthwise_conv_wrapper_s4_get_buffer_size."""
    depth, filter_area = window.input[2], window.filter[0] * window.filter[1]
    if depth != window.output[2] or window.batch != 1 or window.dilation != (1, 1):
        return 0
    return 4 * _DEPTHWISE_BLOCK_MVE * filter_area if core.mve else depth * filter_area * 2


def fully_connected_s8(core: Core, out_depth: int) -> int:
    """arm_fully_connected_s8_get_buffer_size, and arm_svdf_s8_get_buffer_size by the number of filters."""
    return 4 * out_depth if core.mve else 0


def average_pool(core: Core, depth: int) -> int:
    """arm_avgpool_s8_get_buffer_size and the same for s16."""
    return 4 * depth if core.dsp and not core.mve else 0


def transpose_conv_s8(
    core: Core,
    source: tuple[int, int, int],
    filter_size: tuple[int, int],
    out_depth: int,
    stride: tuple[int, int],
) -> tuple[int, int]:
    """arm_transpose_conv_s8_get_buffer_size and ..._get_reverse_conv_buffer_size."""
    _, width, depth = source
    if max(stride) <= 2 and depth > _REVERSE_THRESHOLD:
        return columns_s8(core, depth, filter_size), depth * filter_size[0] * filter_size[1] * out_depth
    # It takes the stride's height here, whatever the axis.
    columns = ((width - 1) * stride[1] + max(filter_size[1], stride[0])) * out_depth
    return columns * max(filter_size[0], stride[0]) * 4, 0
