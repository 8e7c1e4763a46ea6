# SPDX-License-Identifier: Apache-2.0
"""A layer's call of a convolution, a depthwise one or a dense layer in int8, as the tables of costs see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tflm_zephyr.compiler.fast_layers import FAST_KEYS
from tflm_zephyr.compiler.operators.convolution import window_of
from tflm_zephyr.compiler.program import Layer
from tflm_zephyr.costs import FAST, Shape, knows
from tflm_zephyr.kernels import Node

_SATURATED = ("-128", "127")


def shape_of(node: Node, layer: Layer) -> Shape | None:
    """The shape of the layer's call; None for other operators, and for kernels without tables."""
    if len(layer.calls) != 1 or layer.key not in FAST_KEYS:
        return None
    kernel, arguments = _split(layer.calls[0].function)
    if not knows(kernel):
        return None
    form = form_of(layer) if kernel.startswith(FAST) else ""
    source, weights, output = node.input(0), node.input(1), node.output()
    if layer.key == "FULLY_CONNECTED":
        channels, depth = weights.shape
        pixels = output.elements // channels
        return Shape(kernel, 1, pixels, depth, 1, pixels, channels, form=form)
    stride, padding, dilation = window_of(node)
    tile, step = _tile_and_step(kernel, arguments)
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
        form=form,
        tile=tile,
        step=step,
    )


def shape_by_rows(node: Node, layer: Layer) -> Shape | None:
    """The shape of the layer's call for one of its rows; None where it has no such call, or no table has its kernel."""
    whole, form = shape_of(node, layer), layer.rows
    if whole is None or form is None or layer.key == "FULLY_CONNECTED":
        return None
    kernel, arguments = _split(form.function)
    if not knows(kernel):
        return None
    turned = node.input(0).shape[1] == 1 and node.input(0).shape[2] > 1
    tile, step = _tile_and_step(kernel, arguments)
    return replace(
        whole.turned() if turned else whole,
        kernel=kernel,
        top=0,  # most rows are far from the image's ends
        tile=tile,
        step=step,
    )


def _tile_and_step(kernel: str, arguments: Sequence[str]) -> tuple[int, int]:
    """The pixels and rows that our depthwise kernel computes at a time; 0 for other kernels."""
    return (int(arguments[1]), int(arguments[2])) if kernel == f"{FAST}::Depthwise" else (0, 0)


def form_of(layer: Layer) -> str:
    """The form of requantisation of a call of ours: the class without numbers, and whether one floor also clamps."""
    name, arguments = _split(_aliases(layer)["Rounding"])
    name = name.removeprefix(f"{FAST}::")
    return "OneFloor, clamped" if name == "OneFloor" and tuple(arguments[-2:]) != _SATURATED else name


def instance_of(layer: Layer) -> str:
    """The function of ours that the layer calls, with all arguments of its template: layers share it by this text."""
    aliases = _aliases(layer)
    kernel, arguments = _split(layer.calls[0].function)
    return f"{kernel}<{', '.join(aliases.get(one, one) for one in arguments)}>"


def _aliases(layer: Layer) -> Mapping[str, str]:
    return {local.name: local.text for local in layer.locals if local.c_type == "using"}


def _split(function: str) -> tuple[str, list[str]]:
    """A template's name and its arguments at the top."""
    name, _, rest = function.partition("<")
    found, depth, at = [], 0, ""
    for letter in rest.removesuffix(">"):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            found.append(at.strip())
            at = ""
        else:
            at += letter
    return name, [*found, at.strip()] if rest else []
