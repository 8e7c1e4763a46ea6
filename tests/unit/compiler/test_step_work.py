# SPDX-License-Identifier: Apache-2.0
"""The work of calls for some rows, by the tables of costs: shares of cycles as shares of multiply-accumulates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.helpers.architectures import mobilenet
from tests.helpers.kernel_grid import GridLayer, grid_model
from tflm_zephyr.compiler import CompilerOptions, KernelLayer, Layer, compilation, compile_model
from tflm_zephyr.compiler.kernel_choice import Choice
from tflm_zephyr.compiler.row_plan import RowPlanning, chain_of
from tflm_zephyr.compiler.step_work import step_work
from tflm_zephyr.kernels import KernelLibrary, Node, kernel_library
from tflm_zephyr.model import Model, parse_model

M3, M4 = kernel_library("cmsis_nn"), kernel_library("cmsis_nn", dsp=True)
NET = parse_model(mobilenet(32, 0.5, colours=1, most=6))


def parts(model: Model, library: KernelLibrary) -> tuple[list[Layer], Choice]:
    source = compilation.LayerSource(model, (library,), {})
    choice = source.choice(None)
    assert choice is not None
    return list(source.parts(choice).layers), choice


@pytest.mark.parametrize("library", [M3, M4], ids=["m3", "m4"])
def test_a_share_of_the_work_is_one_of_the_cycles(library: KernelLibrary) -> None:
    layers, choice = parts(NET, library)
    unit = step_work(layers, choice)
    assert unit is not None
    measured = [layer for layer in layers if layer.operator in choice.options]
    assert unit.per_cycle * choice.cycles == pytest.approx(sum(layer.macs for layer in measured))
    for layer in measured:
        node = Node(NET, NET.main, NET.main.operators[layer.operator])
        rows = unit.of_rows(node, layer)
        if layer.key == "FULLY_CONNECTED":
            assert rows is None
            continue
        assert rows is not None and layer.rows is not None
        assert len(rows) == min(layer.rows.steps, 32)


def test_a_call_for_all_rows_takes_nothing_more() -> None:
    layers, choice = parts(NET, M4)
    unit = step_work(layers, choice)
    assert unit is not None
    found = [unit.of_rows(Node(NET, NET.main, NET.main.operators[layer.operator]), layer) for layer in layers]
    calls = [calls for calls in found if calls is not None and len(calls) > 1]
    assert [each[-1] for each in calls] == pytest.approx([0.0] * len(calls), abs=1e-6)
    assert sum(each[0] > 0 for each in calls) > len(calls) / 2


def test_rows_of_odd_pixels_cost_more() -> None:
    """Our 1x1 kernel takes four pixels at a time: rows of five leave one over, rows of four none."""
    costs = []
    for wide in (4, 5):
        model = parse_model(grid_model([GridLayer("CONV_2D", 8, wide, 32, 32)]))
        layers, choice = parts(model, M4)
        unit = step_work(layers, choice)
        assert unit is not None
        calls = unit.of_rows(Node(model, model.main, model.main.operators[0]), layers[0])
        assert calls is not None
        costs.append(calls[0])
    assert costs[1] > 1.5 * costs[0]


def test_an_image_one_row_high_goes_by_its_columns() -> None:
    tall, flat = (
        parse_model(grid_model([GridLayer("CONV_2D", *size, 8, 8, window, (2, 2))]))
        for size, window in (((24, 1), (5, 1)), ((1, 24), (1, 5)))
    )
    found = []
    for model in (tall, flat):
        layers, choice = parts(model, M3)
        unit = step_work(layers, choice)
        assert unit is not None
        calls = unit.of_rows(Node(model, model.main, model.main.operators[0]), layers[0])
        assert calls is not None
        found.append([call / unit.per_cycle for call in calls])
    assert found[0] == pytest.approx(found[1])
    assert len(found[0]) > 1


def test_leaner_layers_have_a_price() -> None:
    layers, _ = parts(NET, M4)
    leaner = [one for layer in layers for one in layer.leaner]
    assert any(one.extra_work > 0 for one in leaner)
    assert not any(layer.extra_work for layer in layers if isinstance(layer, KernelLayer))


@pytest.mark.slow
def test_several_cores_take_the_price_where_it_is_known() -> None:
    """A core without DSP takes no rows of int16, and has no estimate of them."""
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
    layers, choice = parts(model, M4)
    unit = step_work(layers, choice)
    plain = [replace(layer, leaner=()) for layer in layers]
    least, without = (RowPlanning(model, tuple(each), (M4,), unit=unit).front()[0].memory for each in (layers, plain))
    assert any(layer.leaner for layer in layers)
    assert least.plan.size_bytes <= without.plan.size_bytes


def test_without_a_choice_there_is_no_unit() -> None:
    layers, choice = parts(NET, M4)
    assert step_work(layers, None) is None
    assert step_work(layers, replace(choice, options={}, own=frozenset())) is None


def test_the_chain_has_these_costs() -> None:
    layers, choice = parts(NET, M4)
    unit = step_work(layers, choice)
    plain, priced = chain_of(NET, layers, (M4,)), chain_of(NET, layers, (M4,), unit=unit)
    assert not any(operation.step_costs for operation in plain.operations)
    assert unit is not None and priced.move_cost == pytest.approx(plain.move_cost * unit.faster)
    steps = [operation for operation in priced.operations if operation.step_costs]
    assert steps
    for operation in steps:
        assert operation.cost(1) == operation.step_costs[0]
        assert operation.cost(10_000) == operation.step_costs[-1]
