# SPDX-License-Identifier: Apache-2.0
"""A kernel's work and code as counts: how often each of its loops runs, and what is unrolled, by its shape.

Work and code are about linear in these counts; a table (table.py) has the factor of each, fitted to measurements. Our
kernels are those of templates/app/compiled/src/fast_kernels.hpp.j2, the others CMSIS-NN's at revision e9328d61.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tflm_zephyr.costs.helium_counts import HELIUM_WORK
from tflm_zephyr.costs.operator_counts import operator_counts
from tflm_zephyr.costs.shapes import FAST, Shape
from tflm_zephyr.kernels import CORES

Counts = dict[str, int]

HELIUM = ("cortex-m55", "cortex-m85")
"""Cores with Helium."""
FORM = " by "
"""Ends the name of a count in front of a form of requantisation."""
_BLOCK = 4  # pixels
_REGISTERS = 10  # for rows, weights and sums of our depthwise kernel, beside its own
_TURN = 16  # taps of a loop's turn on cores with DSP


def work_counts(shape: Shape, core: str) -> Counts:
    """Counts that the kernel's instructions and cycles are linear in; `core` as in "cortex-m55"."""
    counts = _WORK.get(shape.kernel, operator_counts)
    if core in CORES and CORES[core].dsp:
        counts = _DSP_WORK.get(shape.kernel, counts)
    if core in HELIUM:
        counts = HELIUM_WORK.get(shape.kernel, counts)
    return {name: count for name, count in {"call": 1, **counts(shape)}.items() if count}


def code_counts(shape: Shape) -> Counts:
    """Counts that the bytes of code of one of our kernels are linear in. KeyError for another kernel."""
    return {name: count for name, count in {"function": 1, **_CODE[shape.kernel](shape)}.items() if count}


def knows(kernel: str) -> bool:
    """Whether the kernel has terms."""
    return kernel in _WORK


# Our own kernels


def _fours(s: Shape) -> Counts:
    """Four pixels by two channels."""
    fours = s.pixels // _BLOCK
    pairs, whole = -(-s.channels // 2), s.taps // 4 * 4
    return {
        "block": fours,
        "block quads": fours * whole // 4,
        "pair": fours * pairs,
        "pair taps": fours * pairs * whole,
        "pair last taps": fours * pairs * (s.taps - whole),
        "pair with last taps": fours * pairs * (s.taps != whole),
        "pair turns": fours * pairs * (s.taps // _TURN if s.taps >= 2 * _TURN else 0),
        f"outputs{FORM}{s.own.form}": s.outputs,
    }


def _pairs(s: Shape, twos: int, ones: int) -> Counts:
    """Two pixels by two channels, and one by two."""
    pairs = -(-s.channels // 2)
    return {
        "two pixels' taps": twos * pairs * s.taps,
        "two pixels' pairs": twos * pairs,
        "one pixel's taps": ones * pairs * s.taps,
        "one pixel's pairs": ones * pairs,
    }


def _pointwise(s: Shape) -> Counts:
    rest = s.pixels % _BLOCK
    return {**_fours(s), **_pairs(s, rest // 2, rest % 2)}


def _dsp_pointwise(s: Shape) -> Counts:
    return {**_fours(s), **_one_pixel(s, s.pixels % _BLOCK)}


def _convolution(s: Shape) -> Counts:
    return {**_fours(s), **_pairs(s, 0, s.pixels % _BLOCK), **_windows(s)}


def _dsp_convolution(s: Shape) -> Counts:
    return {**_fours(s), **_one_pixel(s, s.pixels % _BLOCK), **_windows(s)}


def _windows(s: Shape) -> Counts:
    sides = s.out_height * (s.out_width - _whole_columns(s))
    apart = s.pixels if s.dilated else sides
    return {
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
    # A window of one column reads each weight where it is used: nothing to keep.
    spilled = max(0, s.high + s.wide + s.own.tile - _REGISTERS) if s.wide > 1 else 0
    return {
        "row": s.out_height,
        "row blocks": s.out_height * blocks,
        "block channels": rows * blocks,
        "block weights": rows * blocks * s.taps,
        "block lines": rows * blocks * s.high,
        "spilled": rows * blocks * s.high * spilled,
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
        "rows of int16": 1,
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
    """Four channels at a time, the last of them with products that nobody reads; less than four alone have none."""
    fours = -(-s.channels // 4) if s.channels >= 4 else 0
    few = s.channels if s.channels < 4 else 0
    several = fours if s.channels > 4 else 0
    return {
        "fours": fours,
        "fours' taps": fours * s.taps,
        "fours' last taps": fours * (s.taps % 4),
        "several fours": several,
        "several fours' taps": several * s.taps,
        "fours that may be short": fours * (s.channels % 4 > 0),
        "few channels": few > 0,
        "few channels' taps": (few > 0) * s.taps,
        "few taps": few * s.taps,
        f"outputs{FORM}{s.own.form}": s.channels,
    }


def _dsp_dense(s: Shape) -> Counts:
    """The same as of one pixel, apart for each number of channels and of taps left, whose code differs."""
    fours, rest = divmod(s.channels, 4)
    quads, last = divmod(s.taps, 4)
    return {
        "fours": fours,
        "fours with quads": fours * (quads > 0),
        "fours' quads": fours * quads,
        f"fours with {last} last taps": fours * (last > 0),
        f"{rest} channels behind fours": rest > 0,
        f"quads of {rest} channels": (rest > 0) * quads,
        "last taps behind fours": rest * last,
        f"outputs{FORM}{s.own.form}": s.channels,
    }


def _one_pixel(s: Shape, times: int) -> Counts:
    """Four channels at a time and then the others, four taps at a time and then the others (OnePixel)."""
    fours, rest = divmod(s.channels, 4)
    quads, last = divmod(s.taps, 4)
    fours, pairs, odd = times * fours, times * -(-rest // 2), times * (rest % 2)
    return {
        "fours": fours,
        "fours with quads": fours * (quads > 0),
        "fours' quads": fours * quads,
        "fours with last taps": fours * (last > 0),
        "fours' last taps": fours * last,
        "channels behind fours": times * (rest > 0),
        "pairs behind fours": pairs,
        "quads behind fours": times * (rest > 0) * quads,
        "quads of pairs": pairs * quads,
        "quads of an odd channel": odd * quads,
        "last taps behind fours": times * rest * last,
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


def _dense_code(s: Shape) -> Counts:
    """Loops over four taps and then those left, for four channels and for those left; few taps have no loop."""
    rest, whole = s.channels % 4, s.channels >= 4
    quads, last = divmod(s.taps, 4)
    return {
        "four channels": whole,
        "fours": s.channels >= 8,
        "fours' quads": whole and quads > 0,
        "fours' loop of quads": whole and quads > 1,
        "fours' last taps": whole * last,
        "fours' any last taps": whole and last > 0,
        f"{rest} channels": rest > 0,
        f"{rest} channels' quads": rest > 0 and quads > 0,
        f"{rest} channels' loop of quads": rest > 0 and quads > 1,
        f"{rest} channels behind four": whole and rest > 0,
        "channels' last taps": (rest > 0) * last,
        "channels' any last taps": rest > 0 and last > 0,
        f"requantisation{FORM}{s.own.form}": 4 * whole + rest,
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
    """arm_convolve_1x1_s8: a call of the same for each row of the output."""
    row = _arm_products(replace(s, out_height=1))
    return {"rows": s.out_height, **{name: s.out_height * count for name, count in row.items()}}


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


def _arm_depthwise_any(s: Shape) -> Counts:
    """arm_depthwise_conv_s8: four outputs of an input channel at a time, else one (depthwise_conv_s8_generic)."""
    one = "" if s.channels // s.depth % 4 == 0 else "one by one: "
    return {
        "rows": s.out_height,
        "pixels": s.pixels,
        f"{one}outputs": s.outputs,
        f"{one}rows inside": s.rows_inside * s.channels,
        f"{one}taps inside": s.inside * s.channels,
    }


def _arm_dense(s: Shape) -> Counts:
    """arm_nn_vec_mat_mult_t_s8: three channels at a time, then one."""
    threes, rest = divmod(s.channels, 3)
    return {
        "rows": s.pixels,
        "rows of threes": s.pixels * (threes > 0),
        "rows of threes and more": s.pixels * (threes > 0 < rest),
        "threes": s.pixels * threes,
        "threes' taps": s.pixels * threes * s.taps,
        "channels left": s.pixels * rest,
        "taps of channels left": s.pixels * rest * s.taps,
    }


def _arm_dsp_dense(s: Shape) -> Counts:
    """The same with DSP: two channels at a time, then one; four taps, in a loop of eight turns, and then one."""
    pairs, rest = divmod(s.channels, 2)
    found = {
        "rows": s.pixels,
        "rows of pairs": s.pixels * (pairs > 0),
        "rows of pairs and one": s.pixels * (pairs > 0 < rest),
    }
    quads, last = divmod(s.taps, 4)
    for name, times in (("pairs", s.pixels * pairs), ("channel left", s.pixels * rest)):
        found |= {
            name: times,
            f"{name}: quads": times * quads,
            f"{name}: quads behind eight": times * (quads % 8),
            f"{name}: last taps": times * last,
            f"{name} with last taps": times * (last > 0),
        }
    return found


_WORK: Mapping[str, Callable[[Shape], Counts]] = {
    f"{FAST}::Pointwise": _pointwise,
    f"{FAST}::Convolution": _convolution,
    f"{FAST}::Depthwise": _depthwise,
    f"{FAST}::Dense": _dense,
    "arm_convolve_1x1_s8": _arm_strided,
    "arm_convolve_1x1_s8_fast": _arm_products,
    "arm_convolve_1_x_n_s8": _arm_windows,
    "arm_convolve_s8": _arm_windows,
    "arm_depthwise_conv_3x3_s8": _arm_depthwise,
    "arm_depthwise_conv_s8": _arm_depthwise_any,
    "arm_depthwise_conv_s8_opt": _arm_depthwise,
    "arm_depthwise_conv_wrapper_s8": _arm_depthwise,
    "arm_fully_connected_per_channel_s8": _arm_dense,
    "arm_fully_connected_s8": _arm_dense,
}
_DSP_WORK: Mapping[str, Callable[[Shape], Counts]] = {
    f"{FAST}::Convolution": _dsp_convolution,
    f"{FAST}::Dense": _dsp_dense,
    f"{FAST}::Pointwise": _dsp_pointwise,
    "arm_fully_connected_per_channel_s8": _arm_dsp_dense,
    "arm_fully_connected_s8": _arm_dsp_dense,
}
_CODE: Mapping[str, Callable[[Shape], Counts]] = {
    f"{FAST}::Pointwise": _blocks_code,
    f"{FAST}::Convolution": _windows_code,
    f"{FAST}::Depthwise": _depthwise_code,
    f"{FAST}::Dense": _dense_code,
}
