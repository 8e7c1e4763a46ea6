# SPDX-License-Identifier: Apache-2.0
"""Kernels by their costs: the faster one, and those that a budget of flash or RAM asks for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.architectures import mobilenet
from tests.helpers.kernel_grid import GridLayer, grid_model
from tests.helpers.model_builder import ModelBuilder
from tflm_zephyr.boards import kernel_libraries, load_board
from tflm_zephyr.codegen.backends.layer_code import report
from tflm_zephyr.compiler import (
    CompiledModel,
    CompilerOptions,
    InsideLayer,
    KernelLayer,
    Search,
    SegmentLayer,
    compilation,
    compile_model,
)
from tflm_zephyr.costs import FAST, Costs, Price, Shape
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels import CMSIS_NN_REVISION, KernelLibrary, kernel_library
from tflm_zephyr.model import load_model, parse_model

M3, M4 = kernel_library("cmsis_nn"), kernel_library("cmsis_nn", dsp=True)
FASTER = GridLayer("CONV_2D", 6, 6, 32, 16)
OTHER = GridLayer("CONV_2D", 6, 6, 8, 16, (3, 3))


@pytest.fixture
def slow_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices with which our convolutions of windows take ten times as long."""

    call = Costs.call

    def slowed(costs: Costs, shape: Shape) -> Price:
        price = call(costs, shape)
        return replace(price, cycles=10 * price.cycles) if shape.kernel == f"{FAST}::Convolution" else price

    monkeypatch.setattr(Costs, "call", slowed)


def picked(
    *layers: GridLayer, core: KernelLibrary = M3, larger: int | None = None, ram: int | None = None
) -> CompiledModel:
    model = parse_model(grid_model(layers))
    return compile_model(model, (core,), CompilerOptions(fast=True, pick=True, more_flash=larger, ram=ram))


@pytest.mark.usefixtures("slow_windows")
def test_each_layer_has_the_kernel_with_fewer_cycles() -> None:
    found = picked(FASTER, OTHER)
    assert [layer.fast for layer in found.layers] == [True, False]
    assert found.layers[1].not_fast == "with CMSIS-NN's kernel, which is estimated to be faster"
    for row in report(found)["layers"]:
        assert row["estimated_cycles"] < row["runner_up"]["estimated_cycles"]


def test_every_layer_has_ours_where_nothing_is_picked() -> None:
    model = parse_model(grid_model([FASTER, OTHER]))
    found = compile_model(model, (M3,), CompilerOptions(fast=True))
    assert all(layer.fast for layer in found.layers)
    assert found.choice is None


def test_the_reference_library_is_no_rival() -> None:
    model = parse_model(grid_model([OTHER]))
    found = compile_model(model, (kernel_library("reference"),), CompilerOptions(fast=True, pick=True))
    assert found.layers[0].fast
    assert found.choice is None


def test_no_more_flash_than_without() -> None:
    many = [GridLayer("CONV_2D", 6, 6, 8 * k, 16) for k in range(1, 7)]
    assert all(layer.fast for layer in picked(*many).layers)
    found = picked(*many, larger=0)
    assert found.choice is not None
    assert found.choice.more_flash_bytes <= 0
    kept = {layer.not_fast for layer in found.layers if not layer.fast}
    assert kept == {"with CMSIS-NN's kernel, as --flash allows no more"}


def test_more_flash_buys_more_fast_layers() -> None:
    many = [GridLayer("CONV_2D", 6, 6, 8 * k, 16) for k in range(1, 7)]
    numbers = []
    for larger in (0, 2000, 5000, 100_000):
        found = picked(*many, larger=larger)
        assert found.choice is not None
        assert found.choice.more_flash_bytes <= larger
        numbers.append(sum(layer.fast for layer in found.layers))
    assert numbers == sorted(numbers)
    assert numbers[0] < numbers[-1] == 6


def chain(count: int) -> bytes:
    """Layers of one size, each in place of its input only where kernels go backwards as well."""
    model = ModelBuilder(seed=1)
    main = model.subgraph("main")
    options = {"padding": 0, "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    at = main.tensor((1, 8, 8, 16), "int8", scale=0.05, zero_point=-128)
    main.inputs.append(at)
    for _ in range(count):
        data = bytes(main.rng.randint(-127, 127) & 255 for _ in range(16 * 9 * 16))
        weights = main.tensor((16, 3, 3, 16), "int8", scale=[0.001] * 16, data=data)
        bias = main.tensor((16,), "int32", scale=[0.00005] * 16, data=bytes(64))
        after = main.tensor((1, 8, 8, 16), "int8", scale=0.05, zero_point=-128)
        main.op("CONV_2D", [at, weights, bias], [after], options={**options, "fused_activation_function": 1})
        at = after
    main.outputs.append(at)
    return model.finish()


def test_ram_is_compared_with_that_of_the_other_kernels() -> None:
    model = parse_model(chain(3))
    found, other = compile_model(model, (M4,), CompilerOptions(fast=True, pick=True)), compile_model(model, (M4,))
    assert found.choice is not None
    assert report(found)["choice"]["cmsis_nn_arena_bytes"] == other.arena_bytes
    said = "--ram limits it" in found.choice.remark(found.arena_bytes, found.slower)
    assert said == (found.arena_bytes > other.arena_bytes)
    whole = found.choice.remark(0, 0.0)
    assert f" {found.choice.cycles / 1e6:.2f} million cycles and" in whole
    more = f" {1.25 * found.choice.cycles / 1e6:.2f} million cycles (25.0 % more than with larger buffers) and"
    assert more in found.choice.remark(0, 0.25)


def test_less_ram_gives_layers_back_to_the_other_kernels() -> None:
    model = parse_model(chain(3))
    fast, other = compile_model(model, (M4,), CompilerOptions(fast=True)), compile_model(model, (M4,))
    assert fast.layers[0].scratch_bytes > other.layers[0].scratch_bytes
    least = compile_model(model, (M4,), CompilerOptions(rows=True, slower=10.0))
    found = compile_model(model, (M4,), CompilerOptions(fast=True, pick=True, ram=least.arena_bytes))
    assert found.arena_bytes <= least.arena_bytes
    assert {layer.not_fast for layer in found.layers if not layer.fast} <= {"with CMSIS-NN's kernel, for less RAM"}
    with pytest.raises(PlanError, match="bytes of RAM"):
        compile_model(model, (M4,), CompilerOptions(fast=True, pick=True, ram=500))


@pytest.mark.parametrize("count", [1, 3])
def test_by_rows_the_fastest_kernels_give_way_only_a_little(count: int) -> None:
    """Each layer of ours has scratch: less RAM by CMSIS-NN's kernels would cost more cycles than rows may."""
    search = Search(parse_model(chain(count)), (M4,))
    fastest = search.best(CompilerOptions(fast=True, pick=True))
    assert fastest.choice is not None
    for slower, most in ((None, 1.1), (0.03, 1.03), (0.5, 1.5)):
        program = search.best(CompilerOptions(slower=slower, rows=True, fast=True, pick=True))
        assert program.choice is not None
        assert program.choice.cycles * (1 + program.slower) <= most * fastest.choice.cycles
        assert program.arena_bytes <= fastest.arena_bytes


def test_a_layer_whose_kernel_takes_no_rows_has_another_one(shared: Path) -> None:
    """micro_speech: our dense layer wants its input whole; with CMSIS-NN's the convolution before it runs by rows."""
    search = Search(load_model(shared / "models" / "micro_speech_quantized.tflite"), (M4,))
    whole, rows = (search.best(CompilerOptions(rows=rows, fast=True, pick=True)) for rows in (False, True))
    assert rows.arena_bytes < 0.65 * whole.arena_bytes
    assert [layer.key for layer in rows.layers if layer.fast] == ["DEPTHWISE_CONV_2D"]
    assert rows.choice is not None and whole.choice is not None
    assert rows.choice.cycles * (1 + rows.slower) <= 1.1 * whole.choice.cycles


def test_kernels_that_were_not_measured_are_not_free() -> None:
    """Depthwise rows of int16 are of cores with DSP; without a limit on flash they are taken all the same."""
    model = parse_model(grid_model([GridLayer("DEPTHWISE_CONV_2D", 8, 8, 16, 16, (3, 3))]))
    both = {
        larger: compile_model(model, (M3, M4), CompilerOptions(fast=True, pick=True, more_flash=larger))
        for larger in (None, 0)
    }
    assert [both[larger].layers[0].fast for larger in (None, 0)] == [True, False]
    assert both[0].layers[0].not_fast.endswith("as --flash limits flash and that of ours was not measured")


def test_functions_are_counted_once() -> None:
    found = picked(FASTER, FASTER)
    assert found.choice is not None
    assert len(found.choice.functions(found.layers)) == 1


@pytest.mark.slow
def test_layers_of_segments_are_not_made_leaner() -> None:
    """A depthwise kernel of cores with DSP can take fewer rows at a time; by rows its layer is the segment's."""
    model = parse_model(mobilenet(32, 0.5, colours=1, most=6))
    found = compile_model(model, (M4,), CompilerOptions(fast=True, rows=True, slower=0.1))
    assert found.segments
    assert not any(layer.leaner for layer in found.layers if isinstance(layer, InsideLayer | SegmentLayer))


def test_layers_are_leaner_only_for_less_ram() -> None:
    model = parse_model(mobilenet(32, 0.5, colours=1, most=6))
    source = compilation.LayerSource(model, (M4,), {})
    choice = source.choice(None)
    assert choice is not None
    given = source.parts(choice).layers
    assert any(layer.leaner for layer in given)
    wide = compile_model(model, (M4,), CompilerOptions(fast=True, pick=True, ram=1 << 20))
    assert not any(layer.extra_cycles for layer in wide.layers if isinstance(layer, KernelLayer))
    less = compile_model(model, (M4,), CompilerOptions(fast=True, pick=True, slower=0.05))
    assert less.arena_bytes < wide.arena_bytes
    assert 0 < less.slower <= 0.05


def test_a_board_has_the_costs_of_its_own_core() -> None:
    (library,) = kernel_libraries(
        ("cmsis_nn",), [load_board("mps2/an386")], transpose_conv=False, revision="", cmsis_nn="0" * 40
    )
    found = picked(FASTER, core=library).choice
    assert found is not None
    assert found.costs.cores == ("cortex-m4",)
    assert f"cortex-m4 with CMSIS-NN {CMSIS_NN_REVISION[:12]}, as the workspace's was not measured" in found.remark(
        0, 0
    )
