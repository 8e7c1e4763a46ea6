# SPDX-License-Identifier: Apache-2.0
"""The cycles of layers, of calls for some rows and of runs of pixels, by the tables of costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.helpers.architectures import mobilenet
from tests.helpers.kernel_grid import GridLayer, grid_model
from tflm_zephyr.compiler import CompilerOptions, KernelLayer, compilation, compile_model
from tflm_zephyr.compiler.compilation import UnplacedModel
from tflm_zephyr.compiler.layer_cycles import LayerCycles
from tflm_zephyr.compiler.row_plan import RowPlanning, chain_of
from tflm_zephyr.costs import Prices, costs_of
from tflm_zephyr.kernels import KernelLibrary, Node, kernel_library
from tflm_zephyr.model import Model, parse_model

M3, M4 = kernel_library("cmsis_nn"), kernel_library("cmsis_nn", dsp=True)
NET = parse_model(mobilenet(32, 0.5, colours=1, most=6))


def parts(model: Model, library: KernelLibrary, *, fast: bool = True) -> UnplacedModel:
    source = compilation.LayerSource(model, (library,), {})
    return source.parts(source.choice(None) or False if fast else False)


def calls_of(model: Model, library: KernelLibrary, operator: int = 0) -> tuple[float, ...]:
    found = parts(model, library)
    return found.costs.of_rows(Node(model, model.main, model.main.operators[operator]), found.layers[operator])


@pytest.mark.parametrize("library", [M3, M4], ids=["m3", "m4"])
def test_layers_have_the_cycles_of_their_kernels(library: KernelLibrary) -> None:
    choice = compilation.LayerSource(NET, (library,), {}).choice(None)
    assert choice is not None
    layers = {layer.operator: layer for layer in parts(NET, library).layers}
    taken = [found for operator in choice.options if (found := choice.candidates(operator)) is not None]
    cycles = [layers[operator].cycles for operator in choice.options]
    assert cycles == pytest.approx([own.price.cycles for own, _ in taken], rel=1e-3, abs=1)
    assert min(layer.cycles for layer in layers.values() if layer.calls) > 0


def test_a_call_for_all_rows_takes_nothing_more() -> None:
    found = parts(NET, M4)
    nodes = [Node(NET, NET.main, NET.main.operators[layer.operator]) for layer in found.layers]
    calls = [
        found.costs.of_rows(node, layer)
        for node, layer in zip(nodes, found.layers, strict=True)
        if layer.rows is not None and layer.rows.gathering is None and 1 < layer.rows.steps <= 32
    ]
    assert [each[-1] for each in calls] == pytest.approx([0.0] * len(calls), abs=1e-6)
    assert sum(each[0] > 0 for each in calls) > len(calls) / 2


def test_rows_of_odd_pixels_cost_more() -> None:
    """Our 1x1 kernel takes four pixels at a time, CMSIS-NN's two: rows of five leave one over, rows of four none."""
    four, five = (calls_of(parse_model(grid_model([GridLayer("CONV_2D", 8, wide, 32, 32)])), M4)[0] for wide in (4, 5))
    assert five > 1.5 * four


def test_an_image_one_row_high_goes_by_its_columns() -> None:
    tall, flat = (
        calls_of(parse_model(grid_model([GridLayer("CONV_2D", *size, 8, 8, window, (2, 2))])), M3)
        for size, window in (((24, 1), (5, 1)), ((1, 24), (1, 5)))
    )
    assert tall == pytest.approx(flat)
    assert len(tall) > 1


def test_a_run_of_pixels_sums_the_weights_again() -> None:
    runs = []
    for channels in (16, 64):
        (layer,) = parts(parse_model(grid_model([GridLayer("CONV_2D", 8, 8, 32, channels)])), M3, fast=False).layers
        assert isinstance(layer, KernelLayer)
        runs.append(layer.run_cycles)
    assert 3 * runs[0] < runs[1] < 5 * runs[0]


def test_leaner_layers_have_a_price() -> None:
    layers = parts(NET, M4).layers
    assert any(one.extra_cycles > 0 for layer in layers for one in layer.leaner)
    assert not any(layer.extra_cycles for layer in layers if isinstance(layer, KernelLayer))


def test_an_unmeasured_core_has_the_cycles_of_the_nearest() -> None:
    near, far = (LayerCycles(costs_of([replace(M4, cores=(core,))])) for core in ("cortex-m4", "cortex-m7"))
    assert far.costs.prices == (Prices("cortex-m7", "cmsis_nn"),)
    assert (far.step, far.moved_byte) == (near.step, near.moved_byte)
    assert near.step > 0 < near.moved_byte


@pytest.mark.slow
def test_several_cores_take_the_mean() -> None:
    """A core without DSP takes no rows of int16."""
    found, plain = (
        [
            compile_model(NET, libraries, CompilerOptions(fast=True, pick=True, slower=slower)).arena_bytes
            for slower in (0.0, 1.0)
        ]
        for libraries in ((M3, M4), (M4,))
    )
    assert plain[0] > plain[1]
    assert found[0] >= plain[0]


@pytest.mark.slow
def test_leaner_layers_hide_no_segments() -> None:
    """A front with layers that may take fewer rows at a time is nowhere larger than one without."""
    model = parse_model(mobilenet(48))
    found = parts(model, M4)
    plain = tuple(replace(layer, leaner=()) for layer in found.layers)
    least, without = (
        RowPlanning(model, each, (M4,), None, found.costs).front()[0].memory for each in (found.layers, plain)
    )
    assert any(layer.leaner for layer in found.layers)
    assert least.plan.size_bytes <= without.plan.size_bytes


def test_the_chain_has_these_costs() -> None:
    found = parts(NET, M4)
    chain = chain_of(NET, found.layers, (M4,), None, found.costs)
    assert chain.move_cost == found.costs.moved_byte
    steps = [operation for operation in chain.operations if operation.windows]
    assert steps
    for operation in steps:
        assert min(operation.step_costs) >= found.costs.step
        assert operation.cost(1) == operation.step_costs[0] + operation.row_cost
        assert operation.cost(100) == operation.step_costs[-1] + 100 * operation.row_cost
