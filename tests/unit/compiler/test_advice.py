# SPDX-License-Identifier: Apache-2.0
"""Changes of a network: each gains what the network that is made so is estimated to take less."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.networks import Network
from tflm_zephyr.compiler import compile_model, layer_costs
from tflm_zephyr.compiler.advice import LayerCosts
from tflm_zephyr.compiler.work import compiled_work, interpreter_work
from tflm_zephyr.costs import CMSIS_NN, Costs, Prices
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import Model, parse_model

ARENA = 100_000
SIDE, DEPTH = 24, 16
M3, M4 = (Costs((Prices(core, CMSIS_NN),)) for core in ("cortex-m3", "cortex-m4"))


def costs(model: Model, prices: Costs, order: Sequence[int] | None = None) -> LayerCosts:
    return layer_costs(model, interpreter_work(model, prices), prices, order, ARENA)


def network(*changed: str) -> LayerCosts:
    """A network that has everything that may be changed, but for what is."""
    net = Network(1, "int8")
    channels, activated = 8, "activation" not in changed
    net.main.inputs = [net.tensor((1, SIDE, SIDE, DEPTH), "x")]
    last = net.main.inputs[0]
    if "float" not in changed:
        net.main.inputs = [net.main.tensor((1, SIDE, SIDE, DEPTH), "float32", "real")]
        net.main.op("QUANTIZE", net.main.inputs, [last])
    if "padding" not in changed:
        padded = net.tensor((1, SIDE + 2, SIDE + 2, DEPTH))
        net.main.op("PAD", [last, net.main.tensor((4, 2), "int32", data=_words(0, 0, 1, 1, 1, 1, 0, 0))], [padded])
        last = padded
    last = convolved(net, last, SIDE, channels, 3, same="padding" in changed)
    if activated:
        last = net.unary(last, "HARD_SWISH")
    if "stride" in changed:
        last = convolved(net, last, SIDE // 2, 16, 1, stride=2)
    else:
        whole, last = convolved(net, last, SIDE, 16, 1), net.tensor((1, SIDE // 2, SIDE // 2, 16))
        options = {"padding": 1, "stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2}
        net.main.op("MAX_POOL_2D", [whole], [last], options=options)
    net.main.outputs = [last]
    return costs(parse_model(net.builder.finish()), M4)


def convolved(
    net: Network, source: int, side: int, filters: int, window: int, *, same: bool = True, stride: int = 1
) -> int:
    weights = net.constants((filters, window, window, net.shape(source)[3]), filters, 0)
    made = net.tensor((1, side, side, filters))
    options = {"padding": 0 if same else 1, "stride_h": stride, "stride_w": stride}
    options |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
    net.main.op("CONV_2D", [source, *weights], [made], options=options)
    return made


def _words(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)


def separable(channels: int) -> LayerCosts:
    """Convolutions of one pixel around a depthwise one: `channels` between them."""
    net = Network(1, "int8")
    net.main.inputs = [net.tensor((1, SIDE, SIDE, 4), "x")]
    wide = convolved(net, net.main.inputs[0], SIDE, channels, 1)
    deep = net.tensor((1, SIDE, SIDE, channels))
    options = {"padding": 0, "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    weights = net.constants((1, 3, 3, channels), channels, 3)
    net.main.op("DEPTHWISE_CONV_2D", [wide, *weights], [deep], options={**options, "depth_multiplier": 1})
    net.main.outputs = [convolved(net, deep, SIDE, 16, 1)]
    return costs(parse_model(net.builder.finish()), M4)


@pytest.mark.parametrize(("channels", "less"), [(9, 8), (10, 8), (14, 12)])
def test_channels_gain_what_fewer_of_them_take_less(channels: int, less: int) -> None:
    before = separable(channels)
    (change,) = before.changes
    assert change.kind == "channels" and change.what.startswith(f"{less} channels instead of {channels}")
    assert change.operators == (0, 1, 2)
    assert change.cycles == pytest.approx(before.cycles - separable(less).cycles, rel=0.001)


@pytest.mark.parametrize("channels", [8, 12])
def test_multiples_of_four_are_left_alone(channels: int) -> None:
    assert separable(channels).changes == ()


@pytest.mark.parametrize("kind", ["float", "padding", "activation", "stride"])
def test_a_change_gains_what_the_changed_network_takes_less(kind: str) -> None:
    before, after = network(), network(kind)
    (change,) = (one for one in before.changes if one.kind == kind)
    assert change.cycles == pytest.approx(before.cycles - after.cycles, rel=0.05)
    assert change.cycles_share == pytest.approx(change.cycles / before.cycles, abs=1e-4) and change.cycles_share >= 0.02
    assert kind not in {one.kind for one in after.changes}


def test_the_most_gain_comes_first() -> None:
    found = network().changes
    gains = [max(one.cycles_share, one.ram_share) for one in found]
    assert gains == sorted(gains, reverse=True) and len(gains) == 4
    floats = next(one for one in found if one.kind == "float")
    assert floats.ram_bytes == 3 * SIDE * SIDE * DEPTH and "9,216 bytes instead of 36,864" in floats.what
    assert "the result is the same" in next(one.what for one in found if one.kind == "padding")


@pytest.mark.parametrize("compiled", [False, True])
def test_layers_are_the_work_of_the_model(compiled: bool) -> None:
    digits = parse_model((ROOT / "samples" / "digits" / "digits.tflite").read_bytes())
    program = compile_model(digits, (kernel_library("cmsis_nn"),)) if compiled else None
    work = interpreter_work(digits, M3) if program is None else compiled_work(program, M3)
    found = layer_costs(digits, work, M3, None, ARENA)
    assert {one.operator: one.cycles for one in found.layers if one.kernel} == {
        one.operator: round(one.price.cycles) for one in work.operators
    }
    assert found.cycles == work.cycles and found.core == "cortex-m3"
    assert any(one.kernel == "arm_convolve_s8" for one in found.layers)


def test_operators_have_the_files_numbers(shared: Path) -> None:
    """An order of the operators changes their places alone."""
    person = parse_model((shared / "models" / "hello_world_int8.tflite").read_bytes())
    plain = costs(person, M3).layers
    turned = costs(person, M3, [2, 0, 1]).layers
    assert [one.operator for one in plain] == [0, 1, 2] and [one.operator for one in turned] == [2, 0, 1]
