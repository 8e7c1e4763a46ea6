# SPDX-License-Identifier: Apache-2.0
"""Golden runs: seeded inputs that suit their tensors, and a source that says where the bytes come from."""

from __future__ import annotations

import struct

import pytest

from tests.builder import ModelBuilder, chain
from tests.unit.test_host import unknown_operator
from tflm_zephyr import reference
from tflm_zephyr.errors import ModelError
from tflm_zephyr.model import Model, parse_model
from tflm_zephyr.reference import attempt, golden, run_host, run_many, seeded_inputs


def relu_of(kind: str, count: int = 1000) -> Model:
    """A model with one input and one output of type `kind`."""
    model = ModelBuilder()
    main = model.subgraph("main")
    x, y = main.tensor((1, count), kind, "x"), main.tensor((1, count), kind, "y")
    main.op("RELU", [x], [y])
    main.inputs, main.outputs = [x], [y]
    return parse_model(model.finish())


def dense_layers(layers: int, width: int = 64, *, seed: int = 5) -> Model:
    """Dense int8 layers, on which LiteRT's and TFLM's rounding differ sooner or later."""
    model = ModelBuilder(seed=seed)
    main = model.subgraph("main")
    first = last = main.tensor((1, width), "int8", "x", scale=0.05)
    for index in range(layers):
        w = main.tensor((width, width), "int8", f"w{index}", scale=0.0016, data="random")
        b = main.tensor((width,), "int32", f"b{index}", scale=0.00008, data=bytes(4 * width))
        y = main.tensor((1, width), "int8", f"y{index}", scale=0.05)
        main.op("FULLY_CONNECTED", [last, w, b], [y])
        last = y
    main.inputs, main.outputs = [first], [last]
    return parse_model(model.finish())


def test_seeds_decide_the_inputs() -> None:
    model = parse_model(chain())
    assert seeded_inputs(model, 1) == seeded_inputs(model, 1) != seeded_inputs(model, 2)


@pytest.mark.parametrize(
    ("kind", "code", "low", "high"),
    [
        ("int8", "b", -128, 127),
        ("uint8", "B", 0, 255),
        ("int16", "h", -32768, 32767),
        ("float32", "f", -1, 1),
        ("bool", "B", 0, 1),
        ("int32", "i", -127, 127),
        ("int64", "q", -127, 127),
    ],
)
def test_seeded_inputs_suit_their_type(kind: str, code: str, low: int, high: int) -> None:
    (data,) = seeded_inputs(relu_of(kind))
    values = struct.unpack(f"<1000{code}", data)
    assert low <= min(values) <= low + 0.1 * (high - low)
    assert high >= max(values) >= high - 0.1 * (high - low)
    if kind in ("int32", "int64"):
        assert 0 not in values


def test_seeded_positions_lie_inside_what_they_index() -> None:
    model = ModelBuilder()
    main = model.subgraph("main")
    table = main.tensor((5, 2), "float32", "table", data="random")
    x, y = main.tensor((40,), "int32", "x"), main.tensor((40, 2), "float32", "y")
    main.op("GATHER", [table, x], [y])
    main.inputs, main.outputs = [x], [y]
    (data,) = seeded_inputs(parse_model(model.finish()))
    assert set(struct.unpack("<40i", data)) == {0, 1}


def test_a_type_without_plain_bytes_is_refused() -> None:
    with pytest.raises(ModelError, match=r"tensor 0 \(x\) is of type complex64"):
        seeded_inputs(relu_of("complex64"))


def test_given_inputs_must_fit() -> None:
    with pytest.raises(ModelError, match="takes 64 bytes, 63 were given"):
        golden(parse_model(chain()), [bytes(63)])
    with pytest.raises(ModelError, match="1 inputs, 2 were given"):
        golden(parse_model(chain()), [bytes(64)] * 2)


def test_litert_is_the_source_where_both_agree() -> None:
    pytest.importorskip("tflite_micro")
    pytest.importorskip("ai_edge_litert")
    found = golden(parse_model(chain()))
    assert found is not None
    assert found.source.startswith("LiteRT ") and found.source.endswith(", reference kernels")
    assert found.outputs == (bytes(v if v < 128 else 0 for v in found.inputs[0]),)
    assert found.notes == ()


def test_where_the_engines_round_apart_tflm_decides_and_a_note_tells() -> None:
    pytest.importorskip("tflite_micro")
    pytest.importorskip("ai_edge_litert")
    model = dense_layers(60)
    found = golden(model)
    assert found is not None
    assert found.source.startswith("TFLM on the host, tflite-micro ")
    assert found.outputs == run_host(model.data, found.inputs).outputs
    assert any("differ from TFLM's in" in note for note in found.notes)


def test_a_seed_on_which_both_agree_is_sought() -> None:
    pytest.importorskip("tflite_micro")
    pytest.importorskip("ai_edge_litert")
    model = dense_layers(8, seed=2)
    runs = [seeded_inputs(model, seed) for seed in range(reference.SEEDS)]
    both = [run_many(model.data, runs, engine=engine).runs for engine in ("litert", "tflm")]
    agreeing = [seed for seed, (one, other) in enumerate(zip(*both, strict=True)) if one == other]
    assert agreeing and agreeing[0] > 0, "this model no longer shows the difference: take another"
    found = golden(model)
    assert found is not None
    assert found.inputs == seeded_inputs(model, agreeing[0])
    assert found.source.startswith("LiteRT ")
    # Given inputs are not exchanged: what a device gives on them is golden.
    given = golden(model, runs[0])
    assert given is not None
    assert (given.inputs, given.outputs) == (runs[0], both[1][0])
    assert given.source.startswith("TFLM")


def test_an_operator_that_no_engine_has_leaves_no_golden_but_reasons() -> None:
    pytest.importorskip("tflite_micro")
    pytest.importorskip("ai_edge_litert")
    found = attempt(parse_model(unknown_operator()))
    assert found.golden is None
    assert len(found.notes) == 2 and all("NobodyKnowsMe" in note or "op" in note for note in found.notes)


def test_one_engine_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tflite_micro")
    monkeypatch.setattr(reference, "available", lambda engine: engine == "tflm")
    found = attempt(parse_model(chain()))
    assert found.golden is not None and found.golden.source.startswith("TFLM on the host")
    assert any("ai-edge-litert" in note for note in found.notes)


def test_without_engines_there_is_no_golden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "available", lambda engine: False)
    assert golden(parse_model(chain())) is None
    assert len(attempt(parse_model(chain())).notes) == 2


def test_every_stock_model_has_a_golden_run(shared_model: object) -> None:
    pytest.importorskip("tflite_micro")
    pytest.importorskip("ai_edge_litert")
    from pathlib import Path

    model = parse_model(Path(str(shared_model)).read_bytes())
    found = golden(model)
    assert found is not None
    sizes = [model.main.tensors[index].size_bytes for index in model.main.outputs]
    assert [len(data) for data in found.outputs] == sizes
    # A device must be able to pass: TFLM itself gives these bytes.
    assert run_host(model.data, found.inputs).outputs == found.outputs
    if "person_detect" in str(shared_model):
        assert any("quantized_dimension" in note for note in found.notes)
