# SPDX-License-Identifier: Apache-2.0
"""Golden runs: seeded inputs that suit their tensors, and a source that says where the bytes come from."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from tests.helpers.host_models import unknown_operator
from tests.helpers.host_runs import run_host
from tests.helpers.marks import rest_slow
from tests.helpers.model_builder import ModelBuilder, chain
from tflm_zephyr.errors import ModelError
from tflm_zephyr.host import golden_outputs, run
from tflm_zephyr.host.golden_outputs import attempt, seeded_inputs
from tflm_zephyr.host.run import run_many
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.types import Model


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
        attempt(parse_model(chain()), [[bytes(64)], [bytes(63)]])
    with pytest.raises(ModelError, match="1 inputs, 2 were given"):
        attempt(parse_model(chain()), [[bytes(64)] * 2])


@pytest.fixture
def engines() -> None:
    pytest.importorskip("tflite_micro")
    pytest.importorskip("ai_edge_litert")


@pytest.mark.usefixtures("engines")
def test_litert_is_the_source_where_both_agree() -> None:
    found = attempt(parse_model(chain()))
    (golden,) = found.golden
    assert found.source.startswith("LiteRT ") and found.source.endswith(", reference kernels")
    assert golden.outputs == (bytes(v if v < 128 else 0 for v in golden.inputs[0]),)
    assert found.notes == () and found.refusal == ""
    assert found.engines == golden_outputs.installed() and set(found.engines) == {"ai-edge-litert", "tflite-micro"}


@pytest.mark.usefixtures("engines")
@pytest.mark.parametrize("runs", rest_slow([3, 1]))
def test_where_engines_differ_tflm_decides_with_a_note(runs: int) -> None:
    model = dense_layers(60)
    found = attempt(model, runs=runs)
    assert found.source.startswith("TFLM on the host, tflite-micro ") and "LiteRT" not in found.source
    assert [run.inputs for run in found.golden] == [seeded_inputs(model, seed) for seed in range(runs)]
    assert tuple(run.outputs for run in found.golden) == run_many(model.data, [r.inputs for r in found.golden]).runs
    assert any(re.search(rf"differ from TFLM's in \d+ of {64 * runs} output bytes", note) for note in found.notes)


def both(model: Model, seeds: int) -> tuple[list[int], list[int]]:
    """The seeds on whose inputs the two engines agree, and those on which they do not."""
    runs = [seeded_inputs(model, seed) for seed in range(seeds)]
    pairs = zip(*(run_many(model.data, runs, engine=engine).runs for engine in ("litert", "tflm")), strict=True)
    equal = [one == other for one, other in pairs]
    return [k for k in range(seeds) if equal[k]], [k for k in range(seeds) if not equal[k]]


@pytest.mark.usefixtures("engines")
@pytest.mark.parametrize("runs", rest_slow([2, 1]))
def test_seeds_on_which_both_agree_are_sought(runs: int) -> None:
    model = dense_layers(8, seed=2)
    agreeing, _ = both(model, runs + golden_outputs.SPARE_SEEDS)
    assert len(agreeing) >= runs and agreeing[0] > 0, "this model no longer shows the difference: take another"
    found = attempt(model, runs=runs)
    assert [run.inputs for run in found.golden] == [seeded_inputs(model, seed) for seed in agreeing[:runs]]
    assert found.source.startswith("LiteRT ") and "TFLM" not in found.source and found.notes == ()


@pytest.mark.slow
@pytest.mark.usefixtures("engines")
def test_the_source_of_a_mixed_set_tells_both() -> None:
    model, runs = dense_layers(8, seed=2), 12
    agreeing, apart = both(model, runs + golden_outputs.SPARE_SEEDS)
    assert 0 < len(agreeing) < runs, "this model no longer shows the difference: take another"
    chosen = sorted(agreeing + apart[: runs - len(agreeing)])
    found = attempt(model, runs=runs)
    assert [run.inputs for run in found.golden] == [seeded_inputs(model, seed) for seed in chosen]
    assert re.fullmatch(
        rf"LiteRT [\d.]+, reference kernels \({len(agreeing)} of 12 runs\); "
        rf"TFLM on the host, tflite-micro [^ ]+, reference kernels \({12 - len(agreeing)} of 12 runs\)",
        found.source,
    )
    # What a device must give is TFLM's in any case.
    assert tuple(run.outputs for run in found.golden) == run_many(model.data, [r.inputs for r in found.golden]).runs


@pytest.mark.usefixtures("engines")
def test_given_inputs_are_not_exchanged() -> None:
    model = dense_layers(8, seed=2)
    agreeing, apart = both(model, 16)
    given = [seeded_inputs(model, seed) for seed in (apart[0], agreeing[0])]
    found = attempt(model, given)
    assert [run.inputs for run in found.golden] == given
    assert tuple(run.outputs for run in found.golden) == run_many(model.data, given).runs
    assert "(1 of 2 runs); TFLM" in found.source
    assert any("output bytes of 1 of 2 runs" in note for note in found.notes)


@pytest.mark.slow
@pytest.mark.usefixtures("engines")
def test_few_children_however_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[str] = []

    def counted(*args: object, engine: str, on_run: object) -> run.HostRun:
        children.append(engine)
        return run_many(*args, engine=engine)  # type: ignore[arg-type]

    monkeypatch.setattr(golden_outputs, "run_many", counted)
    assert len(attempt(dense_layers(60), runs=4).golden) == 4
    assert children.count("litert") == children.count("tflm") <= 2  # the second looks for seeds that agree
    children.clear()
    assert len(attempt(parse_model(chain()), runs=4).golden) == 4
    assert sorted(children) == ["litert", "tflm"]


def test_a_spare_input_that_tflm_fails_on_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def picky(data: bytes, runs: list[tuple[bytes, ...]], *, engine: str, on_run: object) -> run.HostRun:
        if len(runs) > 2:
            raise ModelError("failed while running the model", where=engine)
        return run.HostRun(engine, "1", tuple((bytes(64),) for _ in runs), 0, 0, 0, (), 0)

    monkeypatch.setattr(golden_outputs, "available", lambda engine: True)
    monkeypatch.setattr(golden_outputs, "run_many", picky)
    assert len(attempt(parse_model(chain()), runs=2).golden) == 2
    assert attempt(parse_model(chain()), runs=3).refusal == "tflm: failed while running the model"


@pytest.mark.usefixtures("engines")
def test_an_operator_that_no_engine_has_leaves_reasons() -> None:
    found = attempt(parse_model(unknown_operator()))
    assert found.golden == () and found.source == "" and found.engines == {}
    assert "NobodyKnowsMe" in " ".join(found.notes)
    assert found.refusal.startswith("TFLM on the host: refuses the model: ")


def test_one_engine_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tflite_micro")
    monkeypatch.setattr(golden_outputs, "available", lambda engine: engine == "tflm")
    found = attempt(parse_model(chain()), runs=2)
    assert len(found.golden) == 2 and found.source.startswith("TFLM on the host")
    assert any("ai-edge-litert" in note for note in found.notes)
    assert list(found.engines) == ["tflite-micro"]


def test_without_engines_there_is_no_golden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden_outputs, "available", lambda engine: False)
    found = attempt(parse_model(chain()))
    assert found.golden == () and len(found.notes) == 2 and found.refusal == ""


@pytest.mark.slow
@pytest.mark.usefixtures("engines")
def test_every_stock_model_has_a_golden_run(shared_model: Path) -> None:
    model = parse_model(shared_model.read_bytes())
    found = attempt(model)
    (golden,) = found.golden
    sizes = [model.main.tensors[index].size_bytes for index in model.main.outputs]
    assert [len(data) for data in golden.outputs] == sizes
    # A device must be able to pass: TFLM itself gives these bytes.
    assert run_host(model.data, golden.inputs).outputs == golden.outputs
    if shared_model.stem == "person_detect":
        assert any("quantized_dimension" in note for note in found.notes)
