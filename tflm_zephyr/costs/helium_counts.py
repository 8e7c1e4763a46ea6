# SPDX-License-Identifier: Apache-2.0
"""Counts of CMSIS-NN's int8 kernels on cores with Helium: four pixels go together, and 16 bytes of their products."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tflm_zephyr.costs.shapes import Shape

Counts = dict[str, int]

_BYTES = 16
_BLOCK = 4
_MOST_CHANNELS = 124
"""Channels that arm_depthwise_conv_s8_opt takes at a time (CH_IN_BLOCK_MVE)."""


def _products(pixels: int, channels: int, taps: int, times: int = 1) -> Counts:
    """arm_nn_mat_mult_nt_t_s8, called so many times."""
    fours, rest = divmod(pixels, _BLOCK)
    vectors = -(-taps // _BYTES)
    return {
        "calls": times,
        "blocks": times * fours,
        "pixels behind blocks": times * rest,
        "four pixels": times * fours * channels,
        "four pixels' vectors": times * fours * channels * vectors,
        "pixels left": times * rest * channels,
        "vectors of pixels left": times * rest * channels * vectors,
    }


def _windows(s: Shape) -> Counts:
    """The pixels of all windows are gathered."""
    pixels = s.pixels * s.high * s.wide
    return {"windows": s.pixels, "window pixels": pixels, "window vectors": pixels * -(-s.depth // _BYTES)}


def _pointwise(s: Shape) -> Counts:
    return _products(s.pixels, s.channels, s.taps)


def _strided(s: Shape) -> Counts:
    return _products(s.out_width, s.channels, s.taps, s.out_height)


def _convolution(s: Shape) -> Counts:
    return {**_products(s.pixels, s.channels, s.taps), **_windows(s)}


def _depthwise(s: Shape) -> Counts:
    fours, rest = divmod(s.pixels, _BLOCK)
    quads = -(-s.channels // _BLOCK)
    return {
        "blocks": fours * -(-s.channels // _MOST_CHANNELS),
        "block quads": fours * quads,
        "block quads' taps": fours * quads * s.taps,
        "quads left": rest * quads,
        "taps of quads left": rest * quads * s.taps,
        **_windows(s),
    }


def _as_convolution(s: Shape) -> Counts:
    """A depthwise convolution of a single channel, with its weights transposed first."""
    taps = s.high * s.wide
    return {**_products(s.pixels, s.channels, taps), **_windows(s), "weights": s.channels * taps}


def _dense(s: Shape) -> Counts:
    fours, rest = divmod(s.channels, _BLOCK)
    vectors = -(-s.taps // _BYTES)
    return {
        "rows": s.pixels,
        "rows of fours": s.pixels * (fours > 0),
        "rows of fours and more": s.pixels * (fours > 0 < rest),
        "four channels": s.pixels * fours,
        "four channels' vectors": s.pixels * fours * vectors,
        "channels left": s.pixels * rest,
        "vectors of channels left": s.pixels * rest * vectors,
    }


def _sums(s: Shape) -> Counts:
    """The sums of each output's weights, which Eval makes at each inference, five at a time (arm_vector_sum_s8)."""
    fives, rest = divmod(s.channels, 5)
    vectors = -(-s.taps // _BYTES)
    return {
        "five channels": fives,
        "five channels' vectors": fives * vectors,
        "channels left": rest,
        "vectors of channels left": rest * vectors,
    }


HELIUM_WORK: Mapping[str, Callable[[Shape], Counts]] = {
    "Eval FULLY_CONNECTED": _sums,
    "arm_convolve_1_x_n_s8": _convolution,
    "arm_convolve_1x1_s8": _strided,
    "arm_convolve_1x1_s8_fast": _pointwise,
    "arm_convolve_s8": _convolution,
    "arm_depthwise_conv_s8_opt": _depthwise,
    "arm_depthwise_conv_wrapper_s8": _as_convolution,
    "arm_fully_connected_per_channel_s8": _dense,
    "arm_fully_connected_s8": _dense,
}
"""Counts of a function by its shape, for those that are others with Helium."""
