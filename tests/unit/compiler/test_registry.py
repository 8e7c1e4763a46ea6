# SPDX-License-Identifier: Apache-2.0
"""An operator's entry: its candidates among our own kernels, and the choice of several."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.helpers.kernel_grid import GridLayer, grid_model
from tflm_zephyr.compiler import CompiledModel, CompilerOptions, compilation, compile_model
from tflm_zephyr.compiler.fast_layers import own_convolution
from tflm_zephyr.compiler.fast_rounding import NotFastError
from tflm_zephyr.compiler.ir.layers import KernelLayer
from tflm_zephyr.compiler.layer_builder import LayerBuilder
from tflm_zephyr.compiler.lowering import OwnKernel
from tflm_zephyr.compiler.registry import FAST_KEYS, OPERATORS
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import parse_model

M4 = kernel_library("cmsis_nn", dsp=True)
MODEL = parse_model(grid_model([GridLayer("DEPTHWISE_CONV_2D", 16, 16, 16, 16, (3, 3))]))


def refusing(b: LayerBuilder) -> KernelLayer:
    raise NotFastError("is refused here")


def leanest(b: LayerBuilder) -> KernelLayer:
    """Our depthwise kernel with the fewest rows at a time, which takes the most cycles."""
    return own_convolution(b).leaner[-1]


def compiled(monkeypatch: pytest.MonkeyPatch, *own: OwnKernel, pick: bool) -> CompiledModel:
    lowering = replace(OPERATORS["DEPTHWISE_CONV_2D"], own=own)
    monkeypatch.setattr(compilation, "OPERATORS", {**OPERATORS, "DEPTHWISE_CONV_2D": lowering})
    return compile_model(MODEL, (M4,), CompilerOptions(fast=True, pick=pick))


def steps(program: CompiledModel) -> tuple[object, ...]:
    """Rows at a time of the layers with our depthwise kernel."""
    return tuple(kernel.template[2] for layer in program.layers for kernel in layer.kernels if layer.fast)


@pytest.mark.parametrize("pick", [False, True])
def test_a_candidate_that_refuses_leaves_the_next(monkeypatch: pytest.MonkeyPatch, pick: bool) -> None:
    wanted = steps(compiled(monkeypatch, own_convolution, pick=pick))
    assert wanted and steps(compiled(monkeypatch, refusing, own_convolution, pick=pick)) == wanted


def test_of_several_candidates_the_fastest_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    (lean,), (tall,) = (steps(compiled(monkeypatch, one, pick=True)) for one in (leanest, own_convolution))
    assert lean != tall
    for own in ((leanest, own_convolution), (own_convolution, leanest)):
        assert steps(compiled(monkeypatch, *own, pick=True)) == (tall,)


def test_a_reason_is_kept_where_all_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    (layer,) = compiled(monkeypatch, refusing, refusing, pick=False).layers
    assert (layer.fast, layer.not_fast) == (False, "is refused here")


def test_operators_with_own_kernels_are_those_of_the_tables() -> None:
    assert FAST_KEYS == ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
