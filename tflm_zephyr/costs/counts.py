# SPDX-License-Identifier: Apache-2.0
"""A kernel's work and code as counts: how often each of its loops runs, and what is unrolled, by its shape.

Work and code are about linear in these counts; a table (table.py) has the factor of each, fitted to measurements. Our
kernels are those of templates/app/compiled/src/fast_kernels.hpp.j2, the others CMSIS-NN's at revision e9328d61.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tflm_zephyr.costs.helium_counts import HELIUM_WORK
from tflm_zephyr.costs.operator_counts import operator_counts
from tflm_zephyr.costs.shapes import FAST, Shape

Counts = dict[str, int]

HELIUM = ("cortex-m55", "cortex-m85")
"""Cores with Helium."""
FORM = " by "
"""Ends the name of a count in front of a form of requantisation."""
_BLOCK = 4  # pixels
_TURN = 16  # taps of a loop's turn on cores with DSP


def work_counts(shape: Shape, core: str = "") -> Counts:
    """Counts that the kernel's instructions and cycles are linear in; `core` as in "cortex-m55"."""
    counts = HELIUM_WORK.get(shape.kernel) if core in HELIUM else None
    counts = counts or _WORK.get(shape.kernel, operator_counts)
    return {name: count for name, count in {"call": 1, **counts(shape)}.items() if count}


def code_counts(shape: Shape) -> Counts:
    """Counts that the bytes of code of one of our kernels are linear in. KeyError for another kernel."""
    return {name: count for name, count in {"function": 1, **_CODE[shape.kernel](shape)}.items() if count}


def knows(kernel: str) -> bool:
    """Whether the kernel has terms."""
    return kernel in _WORK


# Our own kernels


def _blocks(s: Shape) -> Counts:
    """Four pixels by two channels, and the pixels left over."""
    fours, rest = divmod(s.pixels, _BLOCK)
    pairs, whole = -(-s.channels // 2), s.taps // 4 * 4
    return {
        "block": fours,
        "block quads": fours * whole // 4,
        "pair": fours * pairs,
        "pair taps": fours * pairs * whole,
        "pair last taps": fours * pairs * (s.taps - whole),
        "pair with last taps": fours * pairs * (s.taps != whole),
        "pair turns": fours * pairs * (s.taps // _TURN if s.taps >= 2 * _TURN else 0),
        "two pixels' taps": rest // 2 * pairs * s.taps,
        "two pixels' pairs": rest // 2 * pairs,
        "one pixel's taps": rest % 2 * pairs * s.taps,
        "one pixel's pairs": rest % 2 * pairs,
        f"outputs{FORM}{s.own.form}": s.outputs,
    }


def _windows(s: Shape) -> Counts:
    sides = s.out_height * (s.out_width - _whole_columns(s))
    apart = s.pixels if s.dilated else sides
    return {
        **_blocks(s),
        "window": s.pixels,
        "window rows": s.pixels * s.high,
        "window taps": s.pixels * s.taps,
        "window pixels apart": apart * s.high * s.wide,
    }


def _whole_columns(s: Shape) -> int:
    """Output columns whose windows lie inside of the input."""
    firsts = (k * s.across - s.left for k in range(s.out_width))
    return sum(first >= 0 and first + s.wide <= s.width for first in firsts)


def _runs(s: Shape) -> list[tuple[int, int, int]]:
    """Blocks of a depthwise kernel's row: how often, pixels, and columns inside of the input (DepthwiseRow)."""
    found = []
    first = 0
    while first < s.out_width:
        left = max(0, s.left - first * s.across)
        whole = s.width + s.left - s.wide
        whole = 0 if whole < 0 else min(whole // s.across + 1, s.out_width)
        blocks = 0 if left or whole <= first else (whole - first) // s.own.tile
        pixels = s.own.tile if blocks else min(s.own.tile, s.out_width - first)
        columns = (pixels - 1) * s.across + s.wide
        if blocks:
            found.append((blocks, pixels, columns))
            first += blocks * pixels
            continue
        right = max(0, (first + pixels - 1) * s.across - s.left + s.wide - s.width)
        found.append((1, pixels, max(0, columns - left - right)))
        first += pixels
    return found


def _depthwise(s: Shape) -> Counts:
    if s.own.step:
        return _depthwise_rows(s)
    runs, rows = _runs(s), s.out_height * s.channels
    blocks = sum(count for count, _, _ in runs)
    return {
        "row": s.out_height,
        "row blocks": s.out_height * blocks,
        "block channels": rows * blocks,
        "block weights": rows * blocks * s.taps,
        "block columns": rows * s.high * sum(count * columns for count, _, columns in runs),
        "taps": s.outputs * s.taps,
        f"outputs{FORM}{s.own.form}": s.outputs,
    }


def _depthwise_rows(s: Shape) -> Counts:
    """Rows of int16: what is expanded for each step, and two outputs at a time."""
    steps, last = divmod(s.out_height, s.own.step)
    rows = [s.own.step] * steps + ([last] if last else [])
    pitch = s.across * (s.out_width + s.out_width % 2) + 2
    read = sum((count - 1) * s.down + s.high for count in rows) * (s.depth // 4)
    pairs = s.out_height * s.channels * -(-s.out_width // 2)
    return {
        "step": len(rows),
        "expanded rows": read,
        "expanded pairs": read * pitch // 2,
        "lanes": len(rows) * s.channels,
        "lane rows": s.out_height * s.channels,
        f"pairs of stride {s.across}": pairs,
        "odd outputs": s.out_height * s.channels * (s.out_width % 2),
        f"rows of pairs{FORM}{s.own.form}": pairs,
    }


def _dense(s: Shape) -> Counts:
    return {
        "groups": -(-s.channels // 4),
        "groups' taps": -(-s.channels // 4) * s.taps,
        "pairs' taps": -(-s.channels // 2) * s.taps,
        "last taps": -(-s.channels // 4) * (s.taps % 4),
        f"outputs{FORM}{s.own.form}": s.channels,
    }


def _blocks_code(s: Shape) -> Counts:
    last, quads = s.taps % _TURN // 4, s.taps // 4
    return {
        "first quads": min(quads, 2),
        "odd quads": quads % 2 if quads > 2 else 0,
        "turn": s.taps >= _TURN,
        "loop": s.taps >= 2 * _TURN,
        "quads": last,
        "last taps": s.taps % 4,
        "any last taps": s.taps % 4 > 0,
        "odd channels": s.channels % 2,
        "few taps": s.taps < 4,
        **_groups_code(s, 2 * _BLOCK),
    }


def _groups_code(s: Shape, outputs: int = 0) -> Counts:
    """Code for a pixel's channels, four at a time and what is left over, and for `outputs` besides."""
    rest, whole = s.channels % 4, s.channels >= 4
    parts = whole + (rest > 0)
    return {
        "four channels": whole,
        f"{rest} channels behind four": rest > 0,
        "channels' last taps": parts * (s.taps % 4),
        "channels' any last taps": parts * (s.taps % 4 > 0),
        f"requantisation{FORM}{s.own.form}": outputs + 4 * whole + rest,
    }


def _windows_code(s: Shape) -> Counts:
    row = s.wide * s.depth
    copied = row if row <= 64 else 16 + row % 16
    pixel = s.depth if s.depth <= 64 else 16 + s.depth % 16
    padded = s.left > 0 or (s.out_width - 1) * s.across - s.left + s.wide > s.width
    return {
        **_blocks_code(s),
        "words of a row": -(-copied // 4) * (not s.dilated),
        "words of a pixel": -(-pixel // 4) * (padded or s.dilated),
        "padding": padded or s.dilated,
        "rows": s.high,
    }


def _depthwise_code(s: Shape) -> Counts:
    if s.own.step:
        return {
            f"stride {s.across}": 1,
            "odd width": s.out_width % 2,
            "padding at the left": s.left,
            f"requantisation{FORM}{s.own.form}": 1,
        }
    runs = _runs(s)
    return {
        "blocks": len(runs),
        "loops": sum(count > 1 for count, _, _ in runs),
        "products": s.taps * sum(pixels for _, pixels, _ in runs),
        "columns": s.high * sum(columns for _, _, columns in runs),
        "weights": s.taps * len(runs),
        f"requantisation{FORM}{s.own.form}": sum(pixels for _, pixels, _ in runs),
    }


# CMSIS-NN's


def _arm_products(s: Shape) -> Counts:
    """arm_nn_mat_mult_nt_t_s8: two channels by two pixels, and sums of the weights for each call."""
    pairs, pixels = s.channels // 2, s.pixels // 2
    return {
        "channels": s.channels,
        "weights": s.channels * s.taps,
        "blocks": pairs * pixels,
        "blocks' taps": pairs * pixels * s.taps,
        "blocks' last taps": pairs * pixels * (s.taps % 16),
        "odd pixels": pairs * (s.pixels % 2),
        "odd pixels' taps": pairs * (s.pixels % 2) * s.taps,
        "odd channels": s.channels % 2 * s.pixels,
        "odd channels' taps": s.channels % 2 * s.pixels * s.taps,
    }


def _arm_strided(s: Shape) -> Counts:
    """arm_convolve_1x1_s8: a call of the same for each pixel of the output."""
    return {
        "rows": s.out_height,
        "pixels": s.pixels,
        "outputs": s.outputs,
        "taps": s.outputs * s.taps,
        "weights": s.channels * s.taps * s.pixels,
    }


def _arm_windows(s: Shape) -> Counts:
    """arm_convolve_s8: columns of two pixels, each multiplied with all weights."""
    return {
        "pixels": s.pixels,
        "window pixels": s.pixels * s.high * s.wide,
        "window taps": s.pixels * s.taps,
        "pairs": s.pixels // 2 * s.channels,
        "pairs' taps": s.pixels // 2 * s.channels * s.taps,
        "pairs' last taps": s.pixels // 2 * s.channels * (s.taps % 4),
        "odd pixels": s.pixels % 2 * s.channels,
        "odd pixels' taps": s.pixels % 2 * s.channels * s.taps,
    }


def _arm_depthwise(s: Shape) -> Counts:
    return {
        "rows": s.out_height,
        "pixels": s.pixels,
        "outputs": s.outputs,
        "taps": s.outputs * s.taps,
        "taps inside": s.inside * s.channels,
        "window pixels": s.pixels * s.taps,
        "channels behind four": s.pixels * (s.channels % 4),
    }


def _arm_dense(s: Shape) -> Counts:
    return {
        "channels": s.pixels * s.channels,
        "taps": s.outputs * s.taps,
        "last taps": s.outputs * (s.taps % 4),
        "taps behind three": s.pixels * (s.channels % 3) * s.taps,
        "taps behind four": s.pixels * (s.channels % 4) * s.taps,
    }


_WORK: Mapping[str, Callable[[Shape], Counts]] = {
    f"{FAST}::Pointwise": _blocks,
    f"{FAST}::Convolution": _windows,
    f"{FAST}::Depthwise": _depthwise,
    f"{FAST}::Dense": _dense,
    "arm_convolve_1x1_s8": _arm_strided,
    "arm_convolve_1x1_s8_fast": _arm_products,
    "arm_convolve_1_x_n_s8": _arm_windows,
    "arm_convolve_s8": _arm_windows,
    "arm_depthwise_conv_3x3_s8": _arm_depthwise,
    "arm_depthwise_conv_s8": _arm_depthwise,
    "arm_depthwise_conv_s8_opt": _arm_depthwise,
    "arm_depthwise_conv_wrapper_s8": _arm_depthwise,
    "arm_fully_connected_per_channel_s8": _arm_dense,
    "arm_fully_connected_s8": _arm_dense,
}
_CODE: Mapping[str, Callable[[Shape], Counts]] = {
    f"{FAST}::Pointwise": _blocks_code,
    f"{FAST}::Convolution": _windows_code,
    f"{FAST}::Depthwise": _depthwise_code,
    f"{FAST}::Dense": _groups_code,
}
