# SPDX-License-Identifier: Apache-2.0
"""An operator's compiled code: an entry in the table OPERATORS of its family's file, in operators/."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tflm_zephyr.compiler.ir.layers import KernelLayer
from tflm_zephyr.compiler.layer_builder import LayerBuilder
from tflm_zephyr.compiler.row_forms import RowRule
from tflm_zephyr.kernels import Node

OwnKernel = Callable[[LayerBuilder], KernelLayer]
"""Makes the operator's layer with one of our own kernels; NotFastError, saying why, where that does not take it."""


@dataclass(frozen=True)
class Lowering:
    """How an operator becomes a layer.

    `calls` are those of the chosen library's kernels, CMSIS-NN's or TFLM's reference functions; NotDirectError, saying
    why, where there are none. `own` are candidates besides them, any number, of which the costs choose. `rows` is the
    form for some rows of the library's call. `misfit` says why tensors do not fit each other, "" where they do: kernels
    take their loops' bounds from one tensor or another, TFLM's Prepare compares just some of them, and calls with
    constant parameters are proven by the sizes of the tensors. `legacy`: the calls take tensors of uint8, which TFLM's
    kernels refuse, by those functions of its headers that LiteRT's reference kernels are, too.
    """

    calls: Callable[[LayerBuilder], None]
    rows: RowRule | None = None
    misfit: Callable[[Node], str] | None = None
    own: tuple[OwnKernel, ...] = ()
    legacy: bool = False
