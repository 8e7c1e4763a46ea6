# SPDX-License-Identifier: Apache-2.0
"""Rewritten models: the same model to TFLM, LiteRT and the `tflite` package, aligned, with or without a plan."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest
import tflite

from tests.helpers.damaged_models import damaged, rich
from tests.helpers.marks import rest_slow
from tests.helpers.model_builder import ModelBuilder, chain
from tests.helpers.small_models import converted
from tflm_zephyr.errors import ModelError, PlanError
from tflm_zephyr.model.lifetimes import analyse
from tflm_zephyr.model.reader import load_model, parse_model
from tflm_zephyr.model.types import Model, TensorType
from tflm_zephyr.model.writer import (
    misaligned_buffers,
    normalised_for_litert,
    planned,
    with_offline_plan,
    without_conversions,
    without_offline_plan,
)

PLAN = "OfflineMemoryAllocation"


@pytest.mark.parametrize("outer", ["float32", "uint8"])
def test_conversions_at_the_ends_are_left_out(outer: str) -> None:
    model = parse_model(converted(outer))
    found = without_conversions(model)
    assert [operator.key for operator in found.main.operators] == ["LEAKY_RELU", "RELU6"]
    ends = (found.main.inputs, found.main.outputs)
    assert [[found.main.tensors[i].name for i in tensors] for tensors in ends] == [["inside"], ["t3", "z"]]
    assert found == parse_model(found.data) and found.main.tensors == model.main.tensors
    kept = without_conversions(parse_model(converted(outer, read_twice=True)))
    assert [kept.main.tensors[i].type.value for i in kept.main.inputs] == [outer], "another operator reads it"
    with pytest.raises(ModelError, match=r"no QUANTIZE or DEQUANTIZE .* at its ends\. Leave out io: int8"):
        without_conversions(found)


def buffers(data: bytes) -> list[tuple[int, bytes]]:
    """Where each buffer's data begins (0 when it has none) and what it is, as the `tflite` package sees it."""
    root = tflite.Model.GetRootAs(data)
    found = []
    for index in range(root.BuffersLength()):
        table = root.Buffers(index)._tab
        slot = table.Offset(4)
        start, length = (table.Vector(slot), table.VectorLen(slot)) if slot else (0, 0)
        found.append((start if length else 0, data[start : start + length]))
    return found


def metadata(data: bytes) -> dict[str, bytes]:
    root, blobs = tflite.Model.GetRootAs(data), buffers(data)
    entries = (root.Metadata(index) for index in range(root.MetadataLength()))
    return {entry.Name().decode(): blobs[entry.Buffer()][1] for entry in entries}


def assert_same_model(old: bytes, new: bytes) -> None:
    """`new` is aligned, and but for the plan it is `old`."""
    assert all(start % 16 == 0 for start, _ in buffers(new))
    before, after = parse_model(old), parse_model(new)
    assert (before.subgraphs, before.operator_codes) == (after.subgraphs, after.operator_codes)
    assert before.description == after.description
    assert {k: v for k, v in before.metadata.items() if k != PLAN} == {
        k: v for k, v in after.metadata.items() if k != PLAN
    }
    signatures = [tflite.Model.GetRootAs(d).SignatureDefsLength() for d in (old, new)]
    assert signatures[0] == signatures[1]


def weighty(size: int = 4096) -> ModelBuilder:
    """A model whose constants outweigh the rest; several, so that some are unaligned when nobody aligns them."""
    model = ModelBuilder(seed=5)
    main = model.subgraph()
    x = main.tensor((1, 64), "int8", "x", scale=0.5)
    main.inputs = [x]
    for index in range(5):
        w = main.tensor((64, 64), "int8", f"w{index}", scale=0.01, data="random")
        b = main.tensor((64,), "int32", f"b{index}", scale=0.005, data=struct.pack("<64i", *range(64)))
        y = main.tensor((1, 64), "int8", f"y{index}", scale=0.5)
        main.op("FULLY_CONNECTED", [x, w, b], [y], options={"fused_activation_function": 1})
        x = y
    main.outputs = [x]
    return model


@pytest.mark.parametrize("finish", [{}, {"align": 1}, {"align": 4}, {"external": True}], ids=str)
def test_plan_in_and_out(finish: dict[str, Any]) -> None:
    data = weighty().finish(**finish)
    model = parse_model(data)
    plan = [index * 16 - 1 if index == 0 else index * 16 for index in range(model.tensor_count)]
    planned = with_offline_plan(model, plan)
    assert_same_model(data, planned)
    assert parse_model(planned).offline_plan == tuple(plan)
    assert metadata(planned)[PLAN] == struct.pack(f"<{3 + len(plan)}i", 1, 1, len(plan), *plan)
    back = without_offline_plan(parse_model(planned))
    assert_same_model(data, back)
    assert PLAN not in metadata(back)


@pytest.mark.parametrize("finish", [{"align": 1}, {"external": True}], ids=str)
def test_aligning_moves_the_data_without_keeping_it_twice(finish: dict[str, Any]) -> None:
    tidy, untidy = weighty().finish(), weighty().finish(**finish)
    assert misaligned_buffers(parse_model(untidy))
    aligned = without_offline_plan(parse_model(untidy))
    assert_same_model(untidy, aligned)
    assert [blob for _, blob in buffers(aligned)] == [blob for _, blob in buffers(tidy)]
    assert len(aligned) < len(tidy) + 1000
    assert misaligned_buffers(parse_model(aligned)) == ()


def test_aligned_model_is_left_alone() -> None:
    model = parse_model(weighty().finish())
    assert without_offline_plan(model) is model.data


def test_plan_of_the_same_length_is_patched_in_place() -> None:
    first = with_offline_plan(parse_model(chain()), [0, 64, -1, 0])
    second = with_offline_plan(parse_model(first), [16, -1, 32, 2**31 - 1])
    assert parse_model(second).offline_plan == (16, -1, 32, 2**31 - 1)
    assert len(first) == len(second)
    assert sum(a != b for a, b in zip(first, second, strict=True)) <= 16


def test_aligning_keeps_other_metadata() -> None:
    data = rich(align=1)
    aligned = without_offline_plan(parse_model(data))
    assert_same_model(data, aligned)
    assert metadata(aligned) == {name: blob for name, blob in metadata(data).items() if name != PLAN}


def test_plan_whose_buffer_a_tensor_shares_is_not_overwritten() -> None:
    model = ModelBuilder()
    main = model.subgraph()
    main.tensor((5,), "int32", "shared", buffer=1)
    model.metadata(PLAN, struct.pack("<5i", 1, 1, 1, 7, 0)[:16] + bytes(4))
    parsed = parse_model(model.finish())
    planned = parse_model(with_offline_plan(parsed, [32]))
    assert planned.offline_plan == (32,)
    assert planned.main.tensors[0].data == parsed.main.tensors[0].data
    assert parse_model(without_offline_plan(planned)).main.tensors == parsed.main.tensors


@pytest.mark.parametrize("offsets", [[0], [0] * 5, [0, 0, 0, -2], [0, 0, 0, 2**31]])
def test_impossible_plans_are_refused(offsets: list[int]) -> None:
    with pytest.raises(PlanError, match=r"m: .*offset"):
        with_offline_plan(parse_model(chain(), where="m"), offsets)


def test_same_bytes_every_time() -> None:
    model = parse_model(rich(align=1))
    assert with_offline_plan(model, range(11)) == with_offline_plan(model, range(11))


@pytest.mark.parametrize(("data", "seed"), [(chain(), 6572), (rich(external=True), 1810)], ids=["chain", "external"])
def test_what_does_not_read_back_is_refused(data: bytes, seed: int) -> None:
    """Parts of these two overlap such that moved ones change others."""
    model = parse_model(damaged(data, random.Random(seed)), where="net.tflite")
    with pytest.raises(
        ModelError, match=r"^net\.tflite: its parts overlap, .*\. The file is corrupt; export it again$"
    ):
        planned(model, (16,) * model.tensor_count)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_whatever_parses_can_be_rewritten(seed: int) -> None:
    rng = random.Random(1000 + seed)
    bases = (rich(), rich(external=True), rich(align=1))
    rewritten = 0
    for _ in range(500):
        try:
            model = parse_model(damaged(rng.choice(bases), rng))
        except ModelError:
            continue
        plan = tuple(rng.randrange(-1, 1000) for _ in range(model.tensor_count))
        planned = parse_model(with_offline_plan(model, plan))
        assert planned.offline_plan == plan
        assert misaligned_buffers(planned) == ()
        assert PLAN not in parse_model(without_offline_plan(model)).metadata
        normalised_for_litert(model.data)
        rewritten += 1
    assert rewritten > 100


def quantised(shape: tuple[int, ...], scales: float | list[float], dimension: int) -> bytes:
    model = ModelBuilder()
    main = model.subgraph()
    x, y = (main.tensor(shape, "int8", name, scale=scales, dimension=dimension) for name in "xy")
    main.op("RELU", [x], [y])
    main.inputs, main.outputs = [x], [y]
    return model.finish()


@pytest.mark.parametrize(
    ("shape", "scales", "dimension"), [((1, 4), 0.5, 3), ((1, 4), 0.5, -1), ((4,), [0.5] * 4, 3), ((), 0.5, -1)]
)
def test_quantised_dimension_outside_the_shape_becomes_0(
    shape: tuple[int, ...], scales: float | list[float], dimension: int
) -> None:
    data = quantised(shape, scales, dimension)
    normalised, notes = normalised_for_litert(data)
    assert len(normalised) == len(data)
    assert all(t.quantization and t.quantization.dimension == 0 for t in parse_model(normalised).main.tensors)
    assert notes == (f"quantized_dimension, outside the shape, set to 0: tensor 0 'x' from {dimension} and 1 more",)


@pytest.mark.parametrize(
    ("shape", "scales", "dimension"),
    [((1, 4), 0.5, 1), ((1, 4), [0.5] * 4, 1), ((1, 4), [0.5] * 4, 2), ((), 0.5, 3), ((2, 2), 0.5, 0)],
)
def test_what_litert_takes_or_nobody_can_fix_is_left_alone(
    shape: tuple[int, ...], scales: float | list[float], dimension: int
) -> None:
    data = quantised(shape, scales, dimension)
    assert normalised_for_litert(data) == (data, ())


def test_litert_takes_the_normalised_model() -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    data = quantised((1, 4), 0.5, 3)
    with pytest.raises(ValueError, match="quantized_dimension"):
        litert.Interpreter(model_content=data)
    litert.Interpreter(model_content=normalised_for_litert(data)[0]).allocate_tensors()


def seeded_inputs(model: Model) -> list[bytes]:
    rng = random.Random(7)
    inputs = []
    for index in model.main.inputs:
        tensor = model.main.tensors[index]
        if tensor.type is TensorType.FLOAT32:
            inputs.append(struct.pack(f"<{tensor.elements}f", *(rng.uniform(-1, 1) for _ in range(tensor.elements))))
        else:
            inputs.append(rng.randbytes(tensor.size_bytes))
    return inputs


def one_after_another(model: Model) -> tuple[int, ...]:
    """A valid plan, if a wasteful one: every planned tensor in a place of its own."""
    plan, end = [-1] * model.tensor_count, 0
    for tensor in analyse(model).tensors:
        plan[sum(len(s.tensors) for s in model.subgraphs[: tensor.subgraph]) + tensor.tensor] = end
        end += -(-tensor.size_bytes // 16) * 16
    return tuple(plan)


@pytest.mark.slow
def test_tflm_gives_the_same_outputs_and_follows_the_plan(shared_model: Path) -> None:
    pytest.importorskip("tflite_micro")
    from tests.helpers.host_runs import run_host

    model = load_model(shared_model)
    plan = one_after_another(model)
    data = with_offline_plan(model, plan)
    assert_same_model(model.data, data)
    before, after = (run_host(d, seeded_inputs(model), 4 << 20) for d in (model.data, data))
    assert before.outputs == after.outputs
    # Proof that TFLM found the plan: nothing shares memory now.
    assert after.head_bytes >= sum(-(-t.size_bytes // 16) * 16 for t in analyse(model).tensors)
    assert after.head_bytes > before.head_bytes


@pytest.mark.slow
def test_litert_gives_the_same_outputs(shared_model: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    from tests.helpers.host_runs import run_host

    model = load_model(shared_model)
    if any(o.custom_code for o in model.main.operators):
        pytest.skip("LiteRT lacks its custom operators")
    if any(o.key == "SVDF" and model.main.tensors[o.inputs[4]].type is TensorType.INT8 for o in model.main.operators):
        pytest.skip("LiteRT's SVDF takes int8 state for int16 and corrupts its memory")
    data = with_offline_plan(model, one_after_another(model))
    before, after = (
        run_host(normalised_for_litert(d)[0], seeded_inputs(model), engine="litert") for d in (model.data, data)
    )
    assert before.outputs == after.outputs


@pytest.mark.parametrize("finish", rest_slow([{"align": 1}, {"external": True}]), ids=str)
def test_tflm_runs_what_was_unaligned_or_external(finish: dict[str, Any]) -> None:
    pytest.importorskip("tflite_micro")
    from tests.helpers.host_runs import run_host

    tidy, untidy = parse_model(weighty().finish()), parse_model(weighty().finish(**finish))
    outputs = [run_host(without_offline_plan(m), seeded_inputs(m), 1 << 20).outputs for m in (tidy, untidy)]
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0][0])) > 4


@pytest.mark.parametrize("offsets", [None, [0, 64, -1, 0]])
def test_planned_leaves_nothing_of_an_older_plan(offsets: list[int] | None) -> None:
    old = parse_model(with_offline_plan(parse_model(chain()), [0, 64, 128, 192]))
    data = planned(old, offsets)
    assert parse_model(data).offline_plan == (None if offsets is None else tuple(offsets))
    assert_same_model(chain(), data)
