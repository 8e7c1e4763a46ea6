# SPDX-License-Identifier: Apache-2.0
"""The wall: values with which no kernel works are refused as a model is loaded, the edges of what is meant are not."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.damaged_models import rich
from tests.helpers.model_builder import ModelBuilder, chain
from tflm_zephyr.errors import ModelError
from tflm_zephyr.model import load_model, parse_model
from tflm_zephyr.model.wall import LARGEST_BYTES, check

_INT32 = 1 << 31


def relu(shape: tuple[int, ...] = (1, 8), scale: float = 0.5, zero_point: int = 0) -> bytes:
    """A RELU; its input has the scale and the zero point."""
    model = ModelBuilder()
    main = model.subgraph("main")
    source = main.tensor(shape, "int8", "source", scale=scale, zero_point=zero_point)
    result = main.tensor(shape, "int8", "result", scale=0.5)
    main.op("RELU", [source], [result])
    main.inputs, main.outputs = [source], [result]
    return model.finish()


def pool(size: tuple[int, int] = (6, 4), **options: int) -> bytes:
    """A MAX_POOL_2D of 2 x 2 over 6 x 4, or with other options."""
    model = ModelBuilder()
    main = model.subgraph("main")
    source = main.tensor((1, *size, 3), "int8", "source", scale=0.5)
    result = main.tensor((1, 3, 2, 3), "int8", "result", scale=0.5)
    given = {"padding": 1, "stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2}
    main.op("MAX_POOL_2D", [source], [result], options=given | options)
    main.inputs, main.outputs = [source], [result]
    return model.finish()


def dense(weights: tuple[int, ...] = (4, 8), output: tuple[int, ...] = (1, 4)) -> bytes:
    model = ModelBuilder()
    main = model.subgraph("main")
    source = main.tensor((1, 8), "int8", "source", scale=0.5)
    matrix = main.tensor(weights, "int8", "weights", scale=0.25, data="random")
    result = main.tensor(output, "int8", "result", scale=0.5)
    main.op("FULLY_CONNECTED", [source, matrix, -1], [result], options={})
    main.inputs, main.outputs = [source], [result]
    return model.finish()


def convolution(
    operator: str = "CONV_2D",
    scales: int = 4,
    weights: tuple[int, ...] = (4, 3, 3, 4),
    kind: str = "int8",
    rank: int = 4,
) -> bytes:
    """A convolution of any kind, 4 channels to 4; `scales`: of its weights."""
    model = ModelBuilder()
    main = model.subgraph("main")
    shape = (1, 8, 8, 4)[4 - rank :]
    source, result = (main.tensor(shape, kind, name, scale=0.5) for name in ("source", "result"))
    filters = main.tensor(weights, kind, "weights", scale=[0.1] * scales or None, data="random")
    places = [source, filters, -1] if operator != "TRANSPOSE_CONV" else [-1, filters, source]
    main.op(operator, places, [result], options={"padding": 0, "stride_h": 1, "stride_w": 1})
    main.inputs, main.outputs = [source], [result]
    return model.finish()


def softmax(beta: float) -> bytes:
    model = ModelBuilder()
    main = model.subgraph("main")
    source, result = (main.tensor((1, 8), "int8", name, scale=0.5) for name in ("source", "result"))
    main.op("SOFTMAX", [source], [result], options={"beta": beta})
    main.inputs, main.outputs = [source], [result]
    return model.finish()


def lstm(units: int = 3, depth: int = 2, **shapes: tuple[int, ...]) -> bytes:
    """A UNIDIRECTIONAL_SEQUENCE_LSTM of one batch and five steps; `shapes` has other ones by place ("i2")."""
    wanted: dict[str, tuple[int, ...]] = {"i0": (1, 5, depth), "i18": (1, units), "i19": (1, units)}
    wanted |= {f"i{place}": (units, depth if place < 5 else units) for place in range(1, 9)}
    wanted |= {f"i{place}": (units,) for place in range(12, 16)}
    wanted |= {"o0": (1, 5, units)} | shapes
    model = ModelBuilder()
    main = model.subgraph("main")
    inputs = [-1] * 24
    for slot, shape in wanted.items():
        place = int(slot[1:])
        constant = slot not in ("i0", "i18", "i19", "o0")
        more: dict[str, Any] = {"data": "random"} if constant else {"variable": place > 0}
        kind = "int32" if 12 <= place < 16 else "int16" if place == 19 else "int8"
        index = main.tensor(shape, kind, slot, scale=2.0**-11, **more)
        if slot == "o0":
            main.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [index], options={"cell_clip": 10.0})
            main.inputs, main.outputs = [inputs[0]], [index]
        else:
            inputs[place] = index
    return model.finish()


def svdf(**shapes: tuple[int, ...]) -> bytes:
    wanted = {"i0": (1, 8), "i1": (4, 8), "i2": (4, 3), "i4": (1, 12), "o0": (1, 4)} | shapes
    model = ModelBuilder()
    main = model.subgraph("main")
    places = {}
    for slot, shape in wanted.items():
        more: dict[str, Any] = {"data": "random"} if slot in ("i1", "i2") else {"variable": slot == "i4"}
        places[slot] = main.tensor(shape, "int8", slot, scale=0.5, **more)
    inputs = [places["i0"], places["i1"], places["i2"], -1, places["i4"]]
    main.op("SVDF", inputs, [places["o0"]], options={"rank": 1})
    main.inputs, main.outputs = [places["i0"]], [places["o0"]]
    return model.finish()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (relu(scale=math.nan), r"tensor 0 'source' of subgraph 0 has the scale nan"),
        (relu(scale=math.inf), "has the scale inf"),
        (relu(scale=-0.5), "has the scale -0.5"),
        (relu(zero_point=_INT32), "zero point 2147483648, which is beyond int32"),
        (relu(zero_point=-_INT32 - 1), "zero point -2147483649, which is beyond int32"),
        (relu((1,) * 9), "has 9 dimensions"),
        (relu((1, LARGEST_BYTES + 1)), "takes 67,108,865 bytes of memory, more than any board has"),
        (relu((1, LARGEST_BYTES // 2 + 1)), r"operator 0 \(RELU\) .* tensors of 67,108,866 bytes in memory at once"),
        (softmax(math.nan), "has the option beta = nan"),
        (softmax(-math.inf), "has the option beta = -inf"),
        (pool(filter_height=603979778), "has the option filter_height = 603979778, outside 1 to 32767"),
        (
            pool(filter_height=7),
            r"has the option filter_height = 7, but tensor 0 'source' has the shape \[1, 6, 4, 3\]",
        ),
        (pool(filter_width=5), "has the option filter_width = 5"),
        (pool(filter_height=13, padding=0), "has the option filter_height = 13"),
        (pool(stride_h=0), "has the option stride_h = 0, outside 1 to 32767"),
        (pool(stride_w=-1), "has the option stride_w = -1"),
        (pool(padding=2), "has the option padding = 2, outside 0 to 1"),
        (pool(fused_activation_function=100), "has the option fused_activation_function = 100, outside 0 to 5"),
        (dense(weights=(1, 4, 8)), r"needs 2 dimensions of tensor 1 'weights', whose shape is \[1, 4, 8\]"),
        (dense(output=()), "needs a dimension of tensor 2 'result', which has none"),
        (dense(weights=(0, 8)), r"needs elements of tensor 1 'weights', whose shape is \[0, 8\]"),
        (convolution(scales=0), r"needs scales of tensor 2 'weights'"),
        (convolution(scales=2), r"has 2 scales for the 4 channels of tensor 2 'weights'"),
        (convolution(rank=3), "needs 4 dimensions of tensor 0 'source'"),
        (convolution(weights=(4, 0, 3, 4)), "needs elements of"),
        (convolution("DEPTHWISE_CONV_2D", weights=(1, 3, 3, 4), scales=3), "has 3 scales for the 4 channels"),
        (convolution("DEPTHWISE_CONV_2D", weights=(4, 3, 3, 1)), "has 4 scales for the 1 channels"),
        (convolution("TRANSPOSE_CONV", scales=0), "needs scales of"),
        (convolution("TRANSPOSE_CONV", scales=5), "has 5 scales for the 4 channels"),
        (lstm(i0=(1, 10)), "needs 3 dimensions of tensor 0 'i0'"),
        (lstm(i1=(3, 3)), r"needs the shape \[3, 2\] of"),
        (lstm(i4=(1, 2)), r"needs the shape \[3, 2\] of"),
        (lstm(i5=()), r"needs the shape \[3, 3\] of"),
        (lstm(i8=(3, 2)), r"needs the shape \[3, 3\] of"),
        (lstm(i12=(4,)), r"needs the shape \[3\] of"),
        (lstm(i15=(1, 3)), r"needs the shape \[3\] of"),
        (lstm(i19=(2, 3)), r"needs the shape \[1, 3\] of"),
        (lstm(o0=(1, 4, 3)), r"needs the shape \[1, 5, 3\] of"),
        (svdf(i1=(4, 8, 1)), "needs 2 dimensions of"),
        (svdf(i4=(12,)), "needs 2 dimensions of"),
    ],
)
def test_what_no_kernel_works_with_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    file = tmp_path / "bad.tflite"
    file.write_bytes(data)
    with pytest.raises(ModelError, match=said) as caught:
        load_model(file)
    assert str(caught.value).startswith(f"{file}: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize("operator", ["MAX_POOL_2D", "CONV_2D"])
def test_windows_without_a_stride_are_refused(operator: str) -> None:
    model = ModelBuilder()
    main = model.subgraph("main")
    source, result = (main.tensor((1, 4, 4, 1), "int8", name, scale=0.5) for name in ("source", "result"))
    weights = main.tensor((1, 1, 1, 1), "int8", "weights", scale=0.5, data="random")
    main.op(operator, [source, weights, -1][: 1 if operator == "MAX_POOL_2D" else 3], [result])
    main.inputs, main.outputs = [source], [result]
    with pytest.raises(ModelError, match="lacks the option stride_h"):
        check(parse_model(model.finish()))


@pytest.mark.parametrize(
    "data",
    [
        chain(),
        rich(),
        relu(scale=0.0),
        relu(zero_point=_INT32 - 1),
        relu(zero_point=-_INT32),
        relu((1,) * 8),
        relu((1, LARGEST_BYTES // 2)),
        pool(),
        pool(filter_height=6, filter_width=4),
        pool(filter_height=12, padding=0),
        pool(fused_activation_function=5),
        *(convolution(operator, scales) for operator in ("CONV_2D", "TRANSPOSE_CONV") for scales in (1, 4)),
        convolution("DEPTHWISE_CONV_2D", weights=(1, 3, 3, 4)),
        convolution(kind="float32", scales=0),
        softmax(0.0),
        dense(),
        lstm(),
        svdf(),
    ],
)
def test_the_edges_of_what_is_meant_pass(data: bytes) -> None:
    model = parse_model(data)
    assert check(model) is model


def test_a_constant_is_no_part_of_the_arena() -> None:
    model = ModelBuilder()
    main = model.subgraph("main")
    tensor = main.tensor((LARGEST_BYTES + 1,), "int8", "table", data=bytes(LARGEST_BYTES + 1))
    main.outputs = [tensor]
    assert check(parse_model(model.finish()))


def test_custom_operators_have_options_of_their_own() -> None:
    model = ModelBuilder()
    main = model.subgraph("main")
    source, result = (main.tensor((1, 8), "int8", name) for name in ("source", "result"))
    main.op("CUSTOM", [source], [result], custom_code="MAX_POOL_2D")
    main.inputs, main.outputs = [source], [result]
    assert check(parse_model(model.finish()))


def test_a_longer_buffer_is_read_by_its_tensors_size() -> None:
    """TFLM reads no further than the tensor's end; so does every later stage."""
    model = ModelBuilder()
    main = model.subgraph("main")
    long = main.tensor((4,), "int32", "long", data=bytes(range(20)))
    packed = main.tensor((3,), "int4", "packed", data=bytes(range(9)))
    none = main.tensor((0,), "int8", "none", data=b"abc")
    main.outputs = [long, packed, none]
    tensors = parse_model(model.finish()).main.tensors
    assert [tensor.data for tensor in tensors] == [bytes(range(16)), bytes(range(2)), b""]
    assert all(tensor.is_constant for tensor in tensors)


def test_every_shared_model_passes(shared_models: list[Path]) -> None:
    assert all(check(load_model(path)) for path in shared_models)
