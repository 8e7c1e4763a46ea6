# SPDX-License-Identifier: Apache-2.0
"""Plans of random networks are proven on their calls; each planted fault is caught and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.helpers.architectures import mobilenet
from tests.helpers.model_builder import ModelBuilder
from tests.helpers.networks import network
from tflm_zephyr.compiler import CompiledModel, compile_model
from tflm_zephyr.compiler.plan_proof import prove
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import parse_model

PLAIN = (kernel_library("cmsis_nn"),)


@pytest.fixture(scope="module")
def compiled() -> CompiledModel:
    """A small MobileNet for a Cortex-M3, with runs in both directions and scratch buffers."""
    return compile_model(parse_model(mobilenet(24)), PLAIN)


@pytest.mark.parametrize("kind", ["int8", "float32"])
@pytest.mark.parametrize(("name", "dsp"), [("reference", False), ("cmsis_nn", False), ("cmsis_nn", True)])
def test_random_networks_are_proven(kind: str, name: str, dsp: bool) -> None:
    libraries = (kernel_library(name, dsp=dsp),)
    for seed in range(6):
        model = parse_model(network(seed, kind))
        compiled = compile_model(model, libraries)
        sizes = [model.main.tensors[tensor].size_bytes for tensor in compiled.offsets]
        assert max(sizes) <= compiled.arena_bytes <= sum(sizes) + 16 * len(sizes) + 4096 * len(compiled.layers)


def test_each_tensor_moved_alone_is_caught(compiled: CompiledModel) -> None:
    caught = 0
    for tensor, offset in compiled.offsets.items():
        for other in (offset + 16, offset - 16, offset + 8):
            moved = replace(compiled, offsets={**compiled.offsets, tensor: other})
            try:
                prove(moved, PLAIN)
            except PlanError as error:
                caught += 1
                assert "layer" in str(error) or "end of the run" in str(error)
    assert caught > len(compiled.offsets)  # every misaligned one, and many others


def changed_runs(compiled: CompiledModel, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> CompiledModel:
    """With the runs of the layer with the most of them changed."""
    layer = max(compiled.layers, key=lambda layer: sum(len(c.runs.counts) for c in layer.calls if c.runs))
    (call,) = layer.calls
    assert call.runs is not None
    assert len(call.runs.counts) > 2
    cut = replace(layer, calls=(replace(call, runs=replace(call.runs, counts=change(call.runs.counts))),))
    return replace(compiled, layers=tuple(cut if one is layer else one for one in compiled.layers))


def test_a_run_that_is_too_long_is_caught(compiled: CompiledModel) -> None:
    wrong = changed_runs(compiled, lambda counts: (counts[0] + counts[1], *counts[2:]))
    with pytest.raises(PlanError, match=r"layer \d+ \(CONV_2D\) (writes|reads)"):
        prove(wrong, PLAIN)


def test_a_run_that_is_left_out_is_caught(compiled: CompiledModel) -> None:
    with pytest.raises(PlanError, match=r"which holds|writes .* over"):
        prove(changed_runs(compiled, lambda counts: counts[:-1]), PLAIN)


def test_an_arena_that_is_too_small_is_caught(compiled: CompiledModel) -> None:
    with pytest.raises(PlanError, match="outside"):
        prove(replace(compiled, arena_bytes=compiled.arena_bytes - 16), PLAIN)


def test_a_scratch_buffer_over_a_tensor_is_caught(compiled: CompiledModel) -> None:
    layer = next(layer for layer in compiled.layers if layer.scratch_bytes)
    source = compiled.offsets[compiled.model.main.operators[layer.operator].inputs[0]]
    with pytest.raises(PlanError, match="scratch buffer over"):
        prove(replace(compiled, scratch={layer.operator: source}), PLAIN)


def test_a_layer_left_out_is_caught(compiled: CompiledModel) -> None:
    with pytest.raises(PlanError, match="which holds"):
        prove(replace(compiled, layers=compiled.layers[:3] + compiled.layers[4:]), PLAIN)


def with_scratch_between() -> bytes:
    """Two copies of the input: one waits for ADD while CONV_2D, which has a scratch buffer, makes another."""
    model = ModelBuilder()
    main = model.subgraph()
    shape = (1, 8, 8, 4)
    source, waiting, convolved, result = (main.tensor(shape, "int8", name, scale=0.5) for name in "xyzr")
    weights = main.tensor((4, 3, 3, 4), "int8", "weights", scale=[0.02] * 4, data="random")
    bias = main.tensor((4,), "int32", "bias", scale=[0.01] * 4, data=bytes(16))
    main.op("RELU", [source], [waiting])
    main.op("CONV_2D", [source, weights, bias], [convolved], options={"padding": 0, "stride_h": 1, "stride_w": 1})
    main.op("ADD", [waiting, convolved], [result], options={})
    main.inputs, main.outputs = [source], [result]
    return model.finish()


def test_a_scratch_buffer_leaves_nothing_behind() -> None:
    """The layer touches the tensor with its scratch buffer alone; who reads the tensor later is caught."""
    compiled = compile_model(parse_model(with_scratch_between()), PLAIN)
    (layer,) = (layer for layer in compiled.layers if layer.scratch_bytes)
    model = compiled.model.main
    waiting = model.operators[0].outputs[0]
    assert layer.key == "CONV_2D" and waiting not in model.operators[layer.operator].inputs
    offsets = {tensor: offset + 4096 * (tensor != waiting) for tensor, offset in compiled.offsets.items()}
    apart = replace(compiled, offsets=offsets, arena_bytes=compiled.arena_bytes + 8192)
    prove(replace(apart, scratch={layer.operator: compiled.arena_bytes + 4096}), PLAIN)
    with pytest.raises(PlanError, match=r"layer 2 \(ADD\) reads tensor 1 'y' at byte \d+ .*, which holds nothing yet"):
        prove(replace(apart, scratch={layer.operator: offsets[waiting]}), PLAIN)


def test_a_variable_overwritten_after_its_last_layer_is_caught() -> None:
    """The next run reads it: it has to hold its value at the end of this one."""
    model = ModelBuilder()
    main = model.subgraph()
    source = main.tensor((1, 8), "int8", "source", scale=0.05)
    features = main.tensor((6, 8), "int8", "features", scale=0.01, data="random")
    state = main.tensor((1, 30), "int16", "state", scale=0.001, variable=True)
    times = main.tensor((6, 5), "int16", "times", scale=0.0002, data=bytes(60))
    bias = main.tensor((6,), "int32", "bias", scale=0.0000002, data=bytes(24))
    sums, result = (main.tensor((1, 6), "int8", name, scale=0.02) for name in ("sums", "result"))
    main.op("SVDF", [source, features, times, bias, state], [sums], options={"rank": 1})
    main.op("RELU", [sums], [result])
    main.inputs, main.outputs = [source], [result]
    compiled = compile_model(parse_model(model.finish()), PLAIN)
    over = replace(compiled, offsets={**compiled.offsets, result: compiled.offsets[state]})
    with pytest.raises(
        PlanError, match=r"the end of the run reads tensor \d 'state' .*, which holds tensor \d 'result'"
    ):
        prove(over, PLAIN)
