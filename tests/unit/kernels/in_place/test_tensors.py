# SPDX-License-Identifier: Apache-2.0
"""Overlap of elementwise, row-wise and moving kernels against traces, and what the public function makes of it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import cmsis_nn_traces as arm
from tests.helpers import reference_traces as loops
from tests.helpers.model_builder import ModelBuilder
from tests.helpers.networks import network
from tests.helpers.operator_models import CASES, Case, Spec
from tests.helpers.overlap_cases import strided_slice
from tests.helpers.overlap_trace import Trace, node_of, slack_of
from tflm_zephyr.errors import ModelError
from tflm_zephyr.kernels.in_place.rules import InPlaceDistance
from tflm_zephyr.kernels.in_place.tensors import InPlaceTensors, in_place_tensors, kind_of
from tflm_zephyr.kernels.libraries import kernel_library
from tflm_zephyr.model.reader import load_model, parse_model
from tflm_zephyr.tflm.pins import ZEPHYR_4_4_REVISION

REFERENCE = kernel_library("reference")
ELEMENTS = {"int8": 1, "int16": 2, "float32": 4, "int32": 4}


def ints(*values: int) -> Spec:
    return Spec((len(values),), "int32", values)


def places(case: Case) -> dict[tuple[int, int], int | None]:
    return {(o.input, o.output): o.distance_bytes for o in REFERENCE.in_place(node_of(case))}


def exact(trace: Trace, distance: int | None) -> bool:
    """The distance is safe and least; below an element nothing is claimed, and below 0 where the rule stops there."""
    assert distance is not None
    slack = slack_of(trace, distance)
    return slack is None or slack == 0


@pytest.mark.parametrize(
    ("kinds", "key"),
    [(("int8", "int8"), "RELU"), (("int8", "float32"), "DEQUANTIZE"), (("float32", "int8"), "QUANTIZE")],
)
def test_elementwise(kinds: tuple[str, str], key: str) -> None:
    sizes = ELEMENTS[kinds[0]], ELEMENTS[kinds[1]]
    for count in (1, 2, 5, 40):
        distance = places(Case(key, (Spec((count,), kinds[0]),), (Spec((count,), kinds[1]),)))[0, 0]
        trace = loops.elementwise(count, *sizes)
        assert distance == max(0, (count - 1) * (sizes[1] - sizes[0]))
        # Output that is narrower than the input could begin less than an element inside the input.
        assert exact(trace, distance) or (slack_of(trace, distance) or 0) < max(sizes)


def test_broadcast() -> None:
    """The input of the output's size is read in order, whatever the other one is; that one is read again."""
    rng = random.Random(1)
    for _ in range(60):
        shape = [rng.randrange(1, 5) for _ in range(4)]
        small = [rng.choice((1, size)) for size in shape]
        case = Case("ADD", (Spec(tuple(small), "int8"), Spec(tuple(shape), "int8")), (Spec(tuple(shape), "int8"),), {})
        found = places(case)
        assert found[1, 0] == 0
        assert ((0, 0) in found) == (small == shape)
        trace = loops.broadcast(shape, shape, 1)
        assert exact(trace, 0) or trace.first_write.size == 1
        assert loops.broadcast(shape, small, 1).conflicts(0) == (small != shape)


@pytest.mark.parametrize("kind", ["float32", "int8", "int16"])
def test_rows(kind: str) -> None:
    for outer, depth, passes in itertools.product((1, 3), (1, 2, 7), (0, 1, 2)):
        spec = Spec((outer, depth), kind)
        for key in ("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION"):
            distance = places(Case(key, (spec,), (spec,), {}))[0, 0]
            trace = loops.rows(outer, depth, ELEMENTS[kind], ELEMENTS[kind], passes)
            assert exact(trace, distance) or outer * depth == 1
    wide = places(Case("SOFTMAX", (Spec((3, 7), "int8"),), (Spec((3, 7), "int16"),), {}))[0, 0]
    assert wide == 20
    assert exact(loops.rows(3, 7, 1, 2, 2), wide)
    assert exact(arm.softmax(3, 7, 1, 2), wide)
    assert exact(arm.softmax(3, 7, 4, 1), 0)


@pytest.mark.parametrize("width", [1, 2, 4, 16])
def test_cmsis_nn_reads_blocks_before_it_writes_them(width: int) -> None:
    for count, element in itertools.product((width + 1, 3 * width, 50), (1, 2)):
        assert exact(arm.blockwise(count, width, element), 0)
    case = Case("ADD", (Spec((2, 25), "int8"),) * 2, (Spec((2, 25), "int8"),), {})
    cores: list[dict[str, Any]] = [{}, {"dsp": True}, {"mve": True}]
    for core in cores:
        for key in ("ADD", "MUL", "MAXIMUM", "MINIMUM"):
            found = kernel_library("cmsis_nn", **core).in_place(node_of(replace(case, key=key)))
            assert found == (InPlaceDistance(0, 0, 0), InPlaceDistance(1, 0, 0))
            narrow = replace(case, key=key, inputs=(case.inputs[0], Spec((1, 25), "int8")))
            # With broadcast MAXIMUM and MINIMUM stay with CMSIS-NN, ADD and MUL go to the reference kernel.
            assert len(kernel_library("cmsis_nn", **core).in_place(node_of(narrow))) == (key in ("ADD", "MUL"))


def test_fully_connected() -> None:
    for batches, depth, out_depth in itertools.product((1, 2, 5), (1, 3, 8), (1, 2, 9)):
        for kind in ("int8", "float32"):
            weights = Spec((out_depth, depth), kind, [1])
            case = Case(
                "FULLY_CONNECTED",
                (Spec((batches, depth), kind), weights, None),
                (Spec((batches, out_depth), kind),),
                {},
            )
            trace = loops.fully_connected(batches, depth, out_depth, ELEMENTS[kind])
            assert exact(trace, places(case)[0, 0]) or out_depth == 1
            assert kernel_library("cmsis_nn").in_place(node_of(case)) == (
                REFERENCE.in_place(node_of(case)) if kind == "float32" else ()
            )


def random_shape(rng: random.Random, rank: int) -> list[int]:
    return [rng.randrange(1, 5) for _ in range(rank)]


def test_concatenation() -> None:
    rng = random.Random(2)
    for _ in range(60):
        rank, kind = rng.randrange(1, 5), rng.choice(("int8", "float32"))
        axis, shape = rng.randrange(rank), random_shape(rng, rank)
        sizes = [rng.randrange(1, 4) for _ in range(rng.randrange(1, 4))]
        shapes = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
        result = (*shape[:axis], sum(sizes), *shape[axis + 1 :])
        option = axis - rank if rng.random() < 0.5 else axis
        case = Case("CONCATENATION", tuple(Spec(s, kind) for s in shapes), (Spec(result, kind),), {"axis": option})
        outer, inner = product(shape[:axis]), product(shape[axis + 1 :])
        for which, distance in enumerate(places(case).values()):
            assert exact(loops.concatenation(outer, [n * inner for n in sizes], which, ELEMENTS[kind]), distance)


def test_split() -> None:
    rng = random.Random(3)
    for _ in range(60):
        rank, kind = rng.randrange(1, 5), rng.choice(("int8", "float32"))
        axis, shape = rng.randrange(rank), random_shape(rng, rank)
        equal = rng.random() < 0.5
        sizes = [rng.randrange(1, 4)] * rng.randrange(1, 4) if equal else [rng.randrange(1, 4) for _ in range(3)]
        source = Spec((*shape[:axis], sum(sizes), *shape[axis + 1 :]), kind)
        outputs = tuple(Spec((*shape[:axis], size, *shape[axis + 1 :]), kind) for size in sizes)
        if equal:
            case = Case("SPLIT", (Spec((), "int32", [axis]), source), outputs, {"num_splits": len(sizes)})
        else:
            case = Case("SPLIT_V", (source, ints(*sizes), Spec((), "int32", [axis])), outputs, {"num_splits": 3})
        outer, inner = product(shape[:axis]), product(shape[axis + 1 :])
        for (_, which), distance in places(case).items():
            trace = loops.split(outer, [n * inner for n in sizes], which, ELEMENTS[kind])
            assert exact(trace, distance) or product(outputs[which].shape) == 1


def test_pad_slice_transpose() -> None:
    rng = random.Random(4)
    found = 0
    for _ in range(80):
        rank, kind = rng.randrange(1, 5), rng.choice(("int8", "float32"))
        shape, element = random_shape(rng, rank), ELEMENTS[kind]
        widths = [(rng.randrange(3), rng.randrange(3)) for _ in shape]
        padded = tuple(n + a + b for n, (a, b) in zip(shape, widths, strict=True))
        table = Spec((rank, 2), "int32", list(itertools.chain(*widths)))
        case = Case("PAD", (Spec(tuple(shape), kind), table), (Spec(padded, kind),))
        trace = loops.pad(shape, widths, element)
        found += exact(trace, places(case)[0, 0])

        size = [rng.randrange(1, n + 1) for n in shape]
        begin = [rng.randrange(n - m + 1) for n, m in zip(shape, size, strict=True)]
        case = Case("SLICE", (Spec(tuple(shape), kind), ints(*begin), ints(*size)), (Spec(tuple(size), kind),))
        found += exact(loops.take_slice(shape, begin, size, element), places(case)[0, 0])

        order = rng.sample(range(rank), rank)
        result = Spec(tuple(shape[i] for i in order), kind)
        case = Case("TRANSPOSE", (Spec(tuple(shape), kind), ints(*order)), (result,))
        found += exact(loops.transpose(shape, order, element), places(case)[0, 0])
    # The rest are too small for anything to be written before the first element is read.
    assert found > 200


def test_strided_slice() -> None:
    rng = random.Random(6)
    found = 0
    for _ in range(80):
        shape, kind = random_shape(rng, rng.randrange(1, 5)), rng.choice(("int8", "float32"))
        case, begin, stride, size = strided_slice(rng, shape, kind)
        found += exact(loops.strided_slice(shape, begin, stride, size, ELEMENTS[kind]), places(case)[0, 0])
    assert found > 60


def test_resize_nearest_neighbor() -> None:
    rng = random.Random(5)
    for _ in range(60):
        sizes = [(rng.randrange(1, 6), rng.randrange(1, 9)) for _ in range(2)]
        batch, depth, corners, half = rng.randrange(1, 3), rng.randrange(1, 4), rng.random() < 0.3, rng.random() < 0.3
        sources = []
        for before, after in sizes:
            scale = (before - 1) / (after - 1) if corners and after > 1 else before / after
            exactly = [(i + half / 2) * scale for i in range(after)]
            sources.append([max(0, min(int(e + 0.5 if corners else e + 1e-6), before - 1)) for e in exactly])
        case = Case(
            "RESIZE_NEAREST_NEIGHBOR",
            (Spec((batch, sizes[0][0], sizes[1][0], depth), "int8"), ints(sizes[0][1], sizes[1][1])),
            (Spec((batch, sizes[0][1], sizes[1][1], depth), "int8"),),
            {"align_corners": corners, "half_pixel_centers": half},
        )
        trace = loops.copy_pixels(batch, (sizes[0][0], sizes[1][0]), sources, depth)
        (found,) = kernel_library("reference", revision=ZEPHYR_4_4_REVISION).in_place(node_of(case))
        assert exact(trace, found.distance_bytes)


def product(values: Sequence[int]) -> int:
    result = 1
    for value in values:
        result *= value
    return result


def answers(case: Case, name: str = "reference", **core: Any) -> tuple[InPlaceTensors, ...]:
    model = parse_model(case.build())
    return in_place_tensors(kernel_library(name, **core), model, model.main, model.main.operators[0])


X = Spec((1, 64), "int8")


def test_in_place_and_at_a_distance() -> None:
    (copy,) = answers(Case("RESHAPE", (X, ints(8, 8)), (Spec((8, 8), "int8"),), {"new_shape": [8, 8]}))
    assert copy == InPlaceTensors(0, 2, None, True)
    assert copy.allows(16, 16)
    assert not copy.allows(32, 16)
    assert not copy.allows(16, 32)
    (relu,) = answers(Case("RELU", (X,), (X,)))
    assert relu == InPlaceTensors(0, 1, 0, True)
    assert relu.allows(16, 16)
    assert relu.allows(32, 16)
    assert not relu.allows(16, 32)
    (wider,) = answers(Case("DEQUANTIZE", (X,), (Spec((1, 64), "float32"),)))
    assert (wider.distance_bytes, wider.in_place) == (189, False)
    assert wider.allows(189, 0)
    assert not wider.allows(188, 0)
    assert not wider.allows(0, 0)
    first, second = answers(Case("SPLIT", (Spec((), "int32", [1]), X), (Spec((1, 32), "int8"),) * 2, {"num_splits": 2}))
    assert (first.distance_bytes, second.distance_bytes) == (0, -32)
    assert second.allows(0, 32)
    assert not second.allows(0, 48)


def test_whole_output_waits_for_the_input() -> None:
    inputs = (ints(1, 4, 4, 3), Spec((3, 2, 2, 2), "int8", [1]), Spec((1, 4, 4, 2), "int8"))
    case = Case("TRANSPOSE_CONV", inputs, (Spec((1, 4, 4, 3), "int8"),), {"stride_h": 1, "stride_w": 1})
    assert answers(case) == (InPlaceTensors(2, 3, -32, True),)
    assert answers(case, "cmsis_nn") == answers(case)
    assert answers(case, "cmsis_nn", transpose_conv=True) == ()
    real = [replace(spec, type="float32") if spec.type == "int8" else spec for spec in inputs]
    assert answers(Case("TRANSPOSE_CONV", tuple(real), (Spec((1, 4, 4, 3), "float32"),), case.options)) == ()


def test_types_that_must_not_alias() -> None:
    """A compiler may reorder int16 reads and float writes; characters may alias anything."""
    assert answers(Case("DEQUANTIZE", (Spec((1, 64), "int16"),), (Spec((1, 64), "float32"),))) == ()
    assert answers(Case("CAST", (Spec((4,), "int32"),), (Spec((4,), "float32"),))) == ()
    assert len(answers(Case("QUANTIZE", (Spec((1, 64), "float32"),), (X,)))) == 1
    assert len(answers(Case("EQUAL", (X, X), (Spec((1, 64), "bool"),)))) == 2
    assert answers(Case("EQUAL", (Spec((4,), "int32"),) * 2, (Spec((4,), "bool"),))) == ()


def test_constants_variables_and_useless_distances_are_left_out() -> None:
    constant = Spec((1, 64), "int8", [1])
    assert [o.input for o in answers(Case("ADD", (X, constant), (X,), {}))] == [0]
    assert [o.input for o in answers(Case("ADD", (replace(X, variable=True), X), (X,), {}))] == [1]
    weights = Spec((4, 64), "int8", [1])
    (dense,) = answers(Case("FULLY_CONNECTED", (X, weights, None), (Spec((1, 4), "int8"),), {}))
    assert dense.distance_bytes == 3
    shape = Spec((1, 64, 2), "int8")
    (turned,) = answers(Case("TRANSPOSE", (shape, ints(0, 2, 1)), (Spec((1, 2, 64), "int8"),)))
    assert turned.distance_bytes == 63


def test_a_tensor_that_is_read_twice() -> None:
    def build(key: str, options: Mapping[str, Any]) -> tuple[InPlaceTensors, ...]:
        model = ModelBuilder()
        main = model.subgraph()
        x, y = main.tensor((2, 8), "int8", "x", scale=0.5), main.tensor((2, 16), "int8", "y", scale=0.5)
        z = main.tensor((2, 8), "int8", "z", scale=0.5)
        main.op(key, [x, x], [y if key == "CONCATENATION" else z], options=options)
        main.inputs, main.outputs = [x], [y]
        parsed = parse_model(model.finish())
        return in_place_tensors(kernel_library("reference"), parsed, parsed.main, parsed.main.operators[0])

    assert build("ADD", {}) == (InPlaceTensors(0, 2, 0, True),)
    assert build("CONCATENATION", {"axis": 1}) == (InPlaceTensors(0, 1, 24, False),)
    # As the elements to take and as the places to take them from: one of the two is not known.
    assert build("GATHER", {}) == ()


def test_unknown_kernels() -> None:
    case = Case("RELU", (X,), (X,))
    model = parse_model(case.build())
    library = kernel_library("reference").without(["RELU"])
    assert in_place_tensors(library, model, model.main, model.main.operators[0]) == ()
    assert answers(Case("CUMSUM", (X, ints(1)), (X,), {})) == ()


def test_every_operator_of_the_resolver_has_an_answer() -> None:
    """No rule stumbles over any operator or type, malformed ones included."""
    asked = 0
    for case in CASES:
        for kind in ("int8", "float32"):
            model = parse_model(case.typed(kind).build())
            for library in (
                kernel_library("reference"),
                kernel_library("cmsis_nn"),
                kernel_library("cmsis_nn", mve=True),
            ):
                for operator in model.main.operators:
                    asked += len(in_place_tensors(library, model, model.main, operator))
    assert asked > 100


def test_malformed_shapes_allow_nothing_or_are_refused() -> None:
    rng = random.Random(6)
    for case in CASES:
        for _ in range(4):

            def twist(spec: Spec | None) -> Spec | None:
                if spec is None or rng.random() < 0.4:
                    return spec
                shape = tuple(rng.choice((0, 1, 2, 3, 100)) for _ in range(rng.randrange(5)))
                return replace(spec, shape=shape if spec.values is None else spec.shape)

            outputs = tuple(spec for spec in map(twist, case.outputs) if spec is not None)
            twisted = replace(case, inputs=tuple(map(twist, case.inputs)), outputs=outputs, options=None)
            for name in ("reference", "cmsis_nn"):
                try:
                    answers(twisted.typed("int8"), name)
                except ModelError as error:
                    assert "operator 0" in str(error)


def test_person_detect_on_both_libraries(shared: Path) -> None:
    """CMSIS-NN's 1x1 convolutions go through all pixels for each channel: none, where the reference has one."""
    model = load_model(shared / "models" / "person_detect.tflite")
    found = {}
    for name in ("reference", "cmsis_nn"):
        library = kernel_library(name)
        pairs = [(o.key, bool(in_place_tensors(library, model, model.main, o))) for o in model.main.operators]
        found[name] = [known for key, known in pairs if key == "CONV_2D"]
        assert all(known for key, known in pairs if key == "DEPTHWISE_CONV_2D")
    assert all(found["reference"])
    assert not any(found["cmsis_nn"])


def test_kinds_of_kernels_are_all_that_the_rules_depend_on() -> None:
    """A check for one core holds for all of its kind: operators overlap as far with DSP as without."""
    assert [kind_of(kernel_library("reference")), kind_of(kernel_library("cmsis_nn"))] == ["reference", "cmsis_nn"]
    cores = ((False, False), (True, False), (True, True))
    plain, dsp, helium = (kernel_library("cmsis_nn", dsp=dsp, mve=mve) for dsp, mve in cores)
    assert kind_of(plain) == kind_of(dsp) != kind_of(helium) == "cmsis_nn+helium"
    differ = 0
    for seed in range(24):
        model = parse_model(network(seed))
        for subgraph in model.subgraphs:
            for operator in subgraph.operators:
                found = in_place_tensors(plain, model, subgraph, operator)
                assert found == in_place_tensors(dsp, model, subgraph, operator)
                differ += found != in_place_tensors(helium, model, subgraph, operator)
    assert differ > 0
