# SPDX-License-Identifier: Apache-2.0
"""A layer's call of a convolution, a depthwise one or a dense layer in int8, as the tables of costs see it."""

from __future__ import annotations

from dataclasses import replace

from tflm_zephyr.compiler.ir.kernels import Kernel, Library, Rounding
from tflm_zephyr.compiler.ir.layers import Layer
from tflm_zephyr.compiler.operators.weights import window_of
from tflm_zephyr.compiler.registry import FAST_KEYS
from tflm_zephyr.costs import OwnForm, Shape, knows
from tflm_zephyr.kernels import Node

_SATURATED = (-128, 127)


def shape_of(node: Node, layer: Layer) -> Shape | None:
    """The shape of the layer's call; None for other operators, and for kernels without tables."""
    if len(layer.calls) != 1 or layer.key not in FAST_KEYS:
        return None
    (call,) = layer.calls
    kernel = call.kernel.qualified_name
    if not knows(kernel):
        return None
    source, weights, output = node.input(0), node.input(1), node.output()
    if layer.key == "FULLY_CONNECTED":
        channels, depth = weights.shape
        pixels = output.elements // channels
        return Shape(kernel, 1, pixels, depth, 1, pixels, channels, own=_own_form(call.kernel))
    stride, padding, dilation = window_of(node)
    images = source.shape[0]
    (_, height, width, depth), (_, out_height, out_width, channels) = source.shape, output.shape
    return Shape(
        kernel,
        height=height * images,
        width=width,
        depth=depth,
        out_height=out_height * images,
        out_width=out_width,
        channels=channels,
        high=weights.shape[1],
        wide=weights.shape[2],
        down=stride[0],
        across=stride[1],
        top=padding[0],
        left=padding[1],
        dilated=dilation[1] > 1,
        own=_own_form(call.kernel),
    )


def shape_by_rows(node: Node, layer: Layer) -> Shape | None:
    """The shape of the layer's call for one of its rows; None where it has no such call, or no table has its kernel."""
    whole, form = shape_of(node, layer), layer.rows
    if whole is None or form is None or layer.key == "FULLY_CONNECTED":
        return None
    kernel = form.call.kernel
    if not knows(kernel.qualified_name):
        return None
    turned = node.input(0).shape[1] == 1 and node.input(0).shape[2] > 1
    return replace(
        whole.turned() if turned else whole,
        kernel=kernel.qualified_name,
        top=0,  # most rows are far from the image's ends
        own=_own_form(kernel),
    )


def _own_form(kernel: Kernel) -> OwnForm:
    form = "" if kernel.rounding is None else form_of(kernel.rounding)
    if kernel.library is not Library.OWN or kernel.name != "Depthwise":
        return OwnForm(form)
    _, tile, step, *_ = kernel.template
    assert isinstance(tile, int) and isinstance(step, int)
    return OwnForm(form, tile, step)


def form_of(rounding: Rounding) -> str:
    """The form of requantisation: the class without numbers, and whether one floor also clamps."""
    clamped = rounding.form == "OneFloor" and rounding.arguments[-2:] != _SATURATED
    return "OneFloor, clamped" if clamped else rounding.form
