# SPDX-License-Identifier: Apache-2.0
"""The checker's statement of overlap: never more than the traces allow, never less than the planner's statement."""

from __future__ import annotations

import ast
import inspect
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers import cmsis_nn_traces as arm
from tests.helpers import reference_traces as loops
from tests.helpers.marks import rest_slow
from tests.helpers.operator_models import CASES, Case, Spec
from tests.helpers.overlap_cases import cases, strided_slice, window_case
from tests.helpers.overlap_trace import Shapes, Trace, node_of, slack_of
from tflm_zephyr.kernels.in_place.checker import why_unsafe
from tflm_zephyr.kernels.in_place.runs import Run
from tflm_zephyr.kernels.in_place.tensors import in_place_tensors
from tflm_zephyr.kernels.libraries import NAMES, kernel_library
from tflm_zephyr.kernels.library import KernelLibrary
from tflm_zephyr.kernels.registry import kernels_of
from tflm_zephyr.kernels.revisions import REVISIONS
from tflm_zephyr.kernels.uses import miscomputed
from tflm_zephyr.model.reader import load_model, parse_model
from tflm_zephyr.model.types import Model
from tflm_zephyr.tflm.pins import PINNED_REVISION, ZEPHYR_4_4_REVISION

REFERENCE = kernel_library("reference")
CORES_4_4 = {
    arm.PLAIN: kernel_library("cmsis_nn", revision=ZEPHYR_4_4_REVISION),
    arm.DSP: kernel_library("cmsis_nn", dsp=True, revision=ZEPHYR_4_4_REVISION),
    arm.MVE: kernel_library("cmsis_nn", mve=True, revision=ZEPHYR_4_4_REVISION),
}
CORES = {
    arm.PLAIN: kernel_library("cmsis_nn"),
    arm.DSP: kernel_library("cmsis_nn", dsp=True),
    arm.MVE: kernel_library("cmsis_nn", mve=True),
}


def why(library: KernelLibrary, model: Model, source: int, result: int, distance: int) -> str | None:
    return why_unsafe(library, model, model.main, model.main.operators[0], source, result, distance)


def both_statements_agree(library: KernelLibrary, case: Case) -> int:
    """Whatever the planner may use, the checker lets pass; how many pairs there were."""
    model = parse_model(case.build())
    pairs = in_place_tensors(library, model, model.main, model.main.operators[0])
    for pair in pairs:
        size = model.main.tensors[pair.output].size_bytes
        distances = [0] if pair.in_place else []
        if pair.distance_bytes is not None:
            distances.extend(range(pair.distance_bytes, size, max(1, size // 40)))
        for distance in distances:
            assert pair.allows(distance, 0)
            assert why(library, model, pair.input, pair.output, distance) is None, (case, pair, distance)
    return len(pairs)


def never_too_much(library: KernelLibrary, case: Case, trace: Trace, result: int) -> tuple[int, int]:
    """Where the trace has a conflict, the checker says so; counts of conflicts, and of refusals without one."""
    model, caught, needless = parse_model(case.build()), 0, 0
    for distance in range(-len(trace.last_read) - 1, len(trace.first_write) + 2):
        conflict = trace.conflicts(distance)
        what = why(library, model, 0, result, distance)
        assert what is not None or not conflict, (case, distance)
        caught, needless = caught + conflict, needless + (what is not None and not conflict)
    return caught, needless


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "kernel"),
    [
        ("CONV_2D", loops.convolution),
        ("DEPTHWISE_CONV_2D", loops.depthwise),
        ("AVERAGE_POOL_2D", loops.pool),
        ("MAX_POOL_2D", loops.pool),
    ],
)
def test_reference_windows(key: str, kernel: Callable[[Shapes, Trace], None]) -> None:
    known = caught = needless = 0
    for shapes, case in cases(key, 21, 40, ("int8", "float32"), largest=5, depths=3):
        known += both_statements_agree(REFERENCE, case)
        one, other = never_too_much(REFERENCE, case, shapes.trace(kernel), len(case.inputs))
        caught, needless = caught + one, needless + other
    assert known > 20
    assert needless < caught / 20  # elements written whole, and output before anything is written


@pytest.mark.parametrize("core", rest_slow(CORES))
def test_cmsis_nn_windows(core: str) -> None:
    kernels: tuple[tuple[str, Callable[[Shapes, Trace, str], None]], ...] = (
        ("CONV_2D", convolution),
        ("DEPTHWISE_CONV_2D", arm.depthwise),
        ("AVERAGE_POOL_2D", arm.average_pool),
        ("MAX_POOL_2D", arm.max_pool),
    )
    known = 0
    for key, kernel in kernels:
        for shapes, case in cases(key, 22, 25, ("int8",), largest=5, depths=3):
            known += both_statements_agree(CORES[core], case)
            trace = Trace(shapes.in_bytes, shapes.out_bytes)
            kernel(shapes, trace, core)
            never_too_much(CORES[core], case, trace, len(case.inputs))
    assert known > 40


def convolution(shapes: Shapes, trace: Trace, core: str) -> None:
    """arm_convolve_wrapper_s8, with the order of arm_convolve_s8 for functions that were not read."""
    if shapes.window != (1, 1) or shapes.dilation != (1, 1) or shapes.groups > 1:
        arm.convolve_s8(shapes, trace, core)
    elif shapes.stride == (1, 1):
        arm.convolve_1x1_s8_fast(shapes, trace, core)
    else:
        arm.convolve_1x1_s8(shapes, trace, core)


@pytest.mark.parametrize("core", list(CORES))
def test_cmsis_nn_one_by_one(core: str) -> None:
    for shapes, case in cases("CONV_2D", 23, 40, ("int8",), one_by_one=True):
        both_statements_agree(CORES[core], case)
        trace = Trace(shapes.in_bytes, shapes.out_bytes)
        convolution(shapes, trace, core)
        never_too_much(CORES[core], case, trace, len(case.inputs))


def ints(*values: int) -> Spec:
    return Spec((len(values),), "int32", values)


def moving() -> Iterator[tuple[Case, Trace, int]]:
    """Kernels that move elements: the case, its trace, and the tensor index of the output."""
    rng = random.Random(24)
    for _ in range(15):
        shape = [rng.randrange(1, 4) for _ in range(3)]
        widths = [(rng.randrange(3), rng.randrange(3)) for _ in shape]
        padded = tuple(n + a + b for n, (a, b) in zip(shape, widths, strict=True))
        table = Spec((3, 2), "int32", [n for pair in widths for n in pair])
        yield Case("PAD", (Spec(tuple(shape), "int8"), table), (Spec(padded, "int8"),)), loops.pad(shape, widths, 1), 2
        size = [rng.randrange(1, n + 1) for n in shape]
        begin = [rng.randrange(n - m + 1) for n, m in zip(shape, size, strict=True)]
        inputs = (Spec(tuple(shape), "float32"), ints(*begin), ints(*size))
        yield Case("SLICE", inputs, (Spec(tuple(size), "float32"),)), loops.take_slice(shape, begin, size, 4), 3
        case, begin, stride, size = strided_slice(rng, shape, "float32")
        yield case, loops.strided_slice(shape, begin, stride, size, 4), 4
        order = rng.sample(range(3), 3)
        turned = (Spec(tuple(shape[i] for i in order), "int8"),)
        yield Case("TRANSPOSE", (Spec(tuple(shape), "int8"), ints(*order)), turned), loops.transpose(shape, order, 1), 2
        parts = [rng.randrange(1, 4) for _ in range(3)]
        whole = Spec((shape[0], sum(parts), 2), "int8")
        pieces = tuple(Spec((shape[0], n, 2), "int8") for n in parts)
        case = Case("CONCATENATION", pieces, (whole,), {"axis": 1})
        yield case, loops.concatenation(shape[0], [2 * n for n in parts], 0, 1), 3
        case = Case("SPLIT_V", (whole, ints(*parts), Spec((), "int32", [-2])), pieces, {"num_splits": 3})
        for which in range(3):
            yield case, loops.split(shape[0], [2 * n for n in parts], which, 1), 3 + which


def test_moving_kernels() -> None:
    known = caught = needless = 0
    for case, trace, result in moving():
        known += both_statements_agree(REFERENCE, case)
        one, other = never_too_much(REFERENCE, case, trace, result)
        caught, needless = caught + one, needless + other
    assert known > 60
    assert needless < caught / 20


@pytest.mark.slow
def test_all_operators_and_types() -> None:
    """The two statements know the same operators, and agree on each."""
    known = 0
    for case in CASES:
        for kind in ("int8", "int16", "float32", "int32"):
            for library in (REFERENCE, *CORES.values(), *CORES_4_4.values()):
                known += both_statements_agree(library, case.typed(kind))
    assert known > 400


def test_resize_and_broadcast_and_rows() -> None:
    rng = random.Random(25)
    for _ in range(40):
        corners, half = rng.random() < 0.4, rng.random() < 0.4
        source = Spec((2, rng.randrange(1, 9), rng.randrange(1, 9), 3), "int8")
        target = Spec((2, rng.randrange(1, 14), rng.randrange(1, 14), 3), "int8")
        options = {"align_corners": corners, "half_pixel_centers": half}
        case = Case("RESIZE_NEAREST_NEIGHBOR", (source, ints(*target.shape[1:3])), (target,), options)
        assert both_statements_agree(REFERENCE, case) <= 1
    x, y = Spec((1, 2, 3, 8), "int8"), Spec((1, 1, 1, 8), "int8")
    for key in ("ADD", "MAXIMUM", "PRELU"):
        case = Case(key, (x, y), (x,), None if key == "PRELU" else {})
        assert both_statements_agree(REFERENCE, case) == 1
        model = parse_model(case.build())
        assert why(REFERENCE, model, 1, 2, 40) is not None  # read again for every pixel
    wide = Case("SOFTMAX", (Spec((3, 7), "int8"),), (Spec((3, 7), "int16"),), {})
    assert both_statements_agree(REFERENCE, wide) == 1
    assert never_too_much(REFERENCE, wide, loops.rows(3, 7, 1, 2, 2), 1)[0] > 20


def test_copies_and_what_is_kept() -> None:
    x = Spec((1, 64), "int8")
    model = parse_model(Case("RESHAPE", (x, ints(8, 8)), (Spec((8, 8), "int8"),), {"new_shape": [8, 8]}).build())
    assert why(REFERENCE, model, 0, 2, 0) is None
    assert "as a whole" in str(why(REFERENCE, model, 0, 2, 16))
    assert why(REFERENCE, model, 0, 2, 64) is None
    assert why(REFERENCE, model, 0, 2, -64) is None
    assert "no input" in str(why(REFERENCE, model, 2, 0, 0))
    model = parse_model(Case("ADD", (replace(x, variable=True), x), (x,), {}).build())
    assert "keeps its values" in str(why(REFERENCE, model, 0, 2, 0))
    assert why(REFERENCE, model, 1, 2, 0) is None
    assert "an order that is not known" in str(why(REFERENCE.without(["ADD"]), model, 1, 2, 0))
    model = parse_model(Case("CAST", (Spec((8,), "int32"),), (Spec((8,), "float32"),)).build())
    assert "reordered" in str(why(REFERENCE, model, 0, 1, 0))


def test_runs() -> None:
    run = Run(start=8, count=5, size=4, until=6, step=4)  # element k must not be overwritten by the first 6 + 4 k
    for distance in range(-40, 40):
        for out_bytes in (1, 9, 40):
            bad = [
                byte
                for k in range(run.count)
                for byte in range(8 + 4 * k, 12 + 4 * k)
                if 0 <= byte + distance < min(out_bytes, 6 + 4 * k)
            ]
            assert (run.overwritten(distance, out_bytes) is not None) == bool(bad), (distance, out_bytes)


# Both statements see an operator's tensors and its core through these, and each answers in its own class.
COMMON = {"Node", "Core", "TensorType", "Tensor", "PINNED_REVISION", "BEFORE_4_4"}


def used_by(statements: list[Callable[..., object]]) -> set[tuple[str, str]]:
    """The definitions of the kernels room (module, name) that these functions use, directly or not."""
    found: set[tuple[str, str]] = set()
    todo = [(one.__module__, one.__name__) for one in statements]
    while todo:
        module, name = todo.pop()
        if (module, name) in found or name in COMMON or not module.startswith("tflm_zephyr.kernels"):
            continue
        found.add((module, name))
        tree = ast.parse(inspect.getsource(sys.modules[module]))
        origins = {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        definitions: dict[str, ast.AST] = {}
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                definitions[node.name] = node
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                definitions.update({target.id: node for target in targets if isinstance(target, ast.Name)})
        for node in ast.walk(definitions[name]):
            if isinstance(node, ast.Name) and node.id in definitions:
                todo.append((module, node.id))
            elif isinstance(node, ast.Name) and node.id in origins:
                todo.append(origins[node.id])
    return found


def test_the_two_statements_share_nothing() -> None:
    """No rule and no check of last reads, of any family, library and revision, lead to one function or constant."""
    kernels = [kernel for revision in REVISIONS for name in NAMES for kernel in kernels_of(name, revision).values()]
    rules = used_by([kernel.in_place for kernel in kernels if kernel.in_place is not None])
    checks = used_by([kernel.last_reads for kernel in kernels if kernel.last_reads is not None])
    assert len(rules) > 30
    assert len(checks) > 30
    assert not rules & checks


def test_each_rule_has_its_check() -> None:
    for revision in REVISIONS:
        for name in NAMES:
            for key, kernel in kernels_of(name, revision).items():
                assert (kernel.in_place is None) == (kernel.last_reads is None), (key, name, revision)


def padded(rng: random.Random) -> tuple[Case, list[int], list[tuple[int, int]]]:
    """A random int8 PAD of four dimensions, with its shape and paddings."""
    shape = [rng.randrange(1, 4) for _ in range(4)]
    widths = [(rng.randrange(3), rng.randrange(3)) for _ in shape]
    widths[3] = widths[3] if rng.random() < 0.5 else (0, 0)
    out = tuple(n + a + b for n, (a, b) in zip(shape, widths, strict=True))
    table = Spec((4, 2), "int32", [n for pair in widths for n in pair])
    return Case("PAD", (Spec(tuple(shape), "int8"), table), (Spec(out, "int8"),)), shape, widths


@pytest.mark.slow
@pytest.mark.parametrize("core", list(CORES_4_4))
def test_cmsis_nn_pad_and_transpose(core: str) -> None:
    """Kernels that CMSIS-NN has from fcc760af on: the distance is exact, and the checker agrees."""
    library, rng = CORES_4_4[core], random.Random(27)
    exact = caught = 0
    for _ in range(60):
        case, shape, widths = padded(rng)
        trace = arm.pad_s8(shape, widths)
        (pad,) = library.in_place(node_of(case))
        exact += slack_of(trace, pad.distance_bytes or 0) == 0
        both_statements_agree(library, case)
        caught += never_too_much(library, case, trace, 2)[0]
        shape = [rng.randrange(1, 5) for _ in range(rng.randrange(2, 5))]
        order = rng.sample(range(len(shape)), len(shape))
        spec, turned = Spec(tuple(shape), "int8"), Spec(tuple(shape[i] for i in order), "int8")
        case = Case("TRANSPOSE", (spec, ints(*order)), (turned,))
        found = library.in_place(node_of(case))
        assert bool(found) != bool(miscomputed_on(core, order))
        if found:
            trace = arm.transpose_s8(shape, order, core)
            slack = slack_of(trace, found[0].distance_bytes or 0)
            assert slack is None or slack <= (8 if core == arm.MVE else 1)
            both_statements_agree(library, case)
            caught += never_too_much(library, case, trace, 2)[0]
    assert exact > 40
    assert caught > 500


def miscomputed_on(core: str, order: list[int]) -> bool:
    """Permutations that arm_transpose_s8.c gets wrong."""
    return order == [0, 1] or (core == arm.MVE and order == [0, 1, 2, 3])


def test_ranks_that_cmsis_nn_gets_wrong() -> None:
    line, swap = Spec((5,), "int8"), ints(0)
    for library in CORES_4_4.values():
        case = Case("PAD", (line, Spec((1, 2), "int32", [1, 1])), (Spec((7,), "int8"),))
        assert library.in_place(node_of(case)) == ()
        assert why(library, parse_model(case.build()), 0, 2, 6) is not None
        model = parse_model(case.build())
        assert "reads four dimensions of a tensor that has 1" in miscomputed(model, ZEPHYR_4_4_REVISION)
        assert miscomputed(model) == ""
        (one,) = library.in_place(node_of(Case("TRANSPOSE", (line, swap), (line,))))
        assert (one.distance_bytes, one.in_place) == (None, True)
        wide = Spec((1, 2, 1, 2, 3), "int8")
        turned = Case("TRANSPOSE", (wide, ints(0, 1, 2, 4, 3)), (Spec((1, 2, 1, 3, 2), "int8"),))
        assert library.in_place(node_of(turned)) == ()
        assert "5 dimensions unwritten" in miscomputed(parse_model(turned.build()), ZEPHYR_4_4_REVISION)


def test_nearest_neighbour_ignored_half_pixels() -> None:
    """resize_nearest_neighbor.cc at 8d404de7 sets half_pixel_centers to false, later ones read it."""
    source, target = Spec((1, 1, 6, 1), "int8"), Spec((1, 1, 3, 1), "int8")
    for half in (False, True):
        options = {"half_pixel_centers": half}
        case = Case("RESIZE_NEAREST_NEIGHBOR", (source, ints(1, 3)), (target,), options)
        for revision, shifted in ((PINNED_REVISION, False), (ZEPHYR_4_4_REVISION, half)):
            library = kernel_library("reference", revision=revision)
            columns = [int((i + shifted / 2) * 2) for i in range(3)]
            trace = loops.copy_pixels(1, (1, 6), [[0], columns], 1)
            (found,) = library.in_place(node_of(case))
            assert slack_of(trace, found.distance_bytes or 0) in (0, None)
            both_statements_agree(library, case)
            never_too_much(library, case, trace, 2)


def test_stock_models(shared_model: Path) -> None:
    model = load_model(shared_model)
    for library in (REFERENCE, *CORES.values()):
        for operator in model.main.operators:
            for pair in in_place_tensors(library, model, model.main, operator):
                distances = [0] if pair.in_place else []
                distances += [] if pair.distance_bytes is None else [pair.distance_bytes]
                for distance in distances:
                    assert why_unsafe(library, model, model.main, operator, pair.input, pair.output, distance) is None


def test_a_little_too_tight_is_caught(shared: Path) -> None:
    model = load_model(shared / "models" / "person_detect.tflite")
    refused = 0
    for operator in model.main.operators:
        for pair in in_place_tensors(REFERENCE, model, model.main, operator):
            if pair.distance_bytes is not None:
                what = why_unsafe(
                    REFERENCE, model, model.main, operator, pair.input, pair.output, pair.distance_bytes - 1
                )
                assert what is not None
                assert "before it has read it" in what
                refused += 1
    assert refused > 25


def test_window_cases_with_int4_weights() -> None:
    shapes = Shapes(1, (4, 4), 2, (4, 4), 2, (3, 3), (1, 1), (1, 1), (1, 1))
    for key in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        case = window_case(key, shapes, True, "int8", "int4")
        assert both_statements_agree(REFERENCE, case) == 1
        model = parse_model(case.build())
        assert all("an order that is not known" in str(why(library, model, 0, 3, 31)) for library in CORES.values())
