# SPDX-License-Identifier: Apache-2.0
"""Which kernel libraries, for which cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.model_builder import ModelBuilder
from tests.helpers.operator_models import Case, Spec
from tflm_zephyr.boards.board import Board, load_board
from tflm_zephyr.boards.kernel_choice import choose, kernel_libraries, libraries_of
from tflm_zephyr.errors import AppError
from tflm_zephyr.kernels.core import CORES
from tflm_zephyr.kernels.uses import miscomputed
from tflm_zephyr.model.reader import load_model, parse_model
from tflm_zephyr.model.types import Model

BOTH = ("cmsis_nn", "reference")
M3, M33, UNKNOWN = load_board("mps2/an385"), load_board("nrf9160dk/nrf9160/ns"), Board("board/soc")
ARM, RISCV = Board("board/arm_soc", arch="arm"), Board("board/riscv_soc", arch="riscv")


@pytest.mark.parametrize(
    ("board", "names"), [(M3, BOTH[:1]), (M33, BOTH[:1]), (RISCV, BOTH[1:]), (ARM, BOTH), (UNKNOWN, BOTH)]
)
def test_by_board(board: Board, names: tuple[str, ...]) -> None:
    assert libraries_of(board) == names
    choice = choose("auto", [board], BOTH)
    assert (choice.names, choice.notes) == (names, ())
    assert choice.label == (names[0] if len(names) == 1 else "auto")
    assert choose("reference", [board], BOTH).names == ("reference",)


def test_both_kinds_of_board() -> None:
    assert choose("auto", [M3, RISCV], BOTH).names == BOTH
    assert choose("auto", [M3, M33], BOTH).names == ("cmsis_nn",)


def test_cmsis_nn_is_refused_where_it_surely_cannot_be() -> None:
    assert choose("cmsis_nn", [M3, UNKNOWN, ARM], BOTH).names == ("cmsis_nn",)
    with pytest.raises(AppError, match="board/riscv_soc"):
        choose("cmsis_nn", [M3, RISCV], BOTH)


def pool(batch: int, kind: str = "int8") -> Model:
    """A MAX_POOL_2D of images of `batch` batches."""
    builder = ModelBuilder()
    main = builder.subgraph()
    scale = None if kind == "float32" else 0.5
    main.inputs = [main.tensor((batch, 4, 4, 1), kind, scale=scale)]
    main.outputs = [main.tensor((batch, 2, 2, 1), kind, scale=scale)]
    options = {"padding": 1, "stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2}
    main.op("MAX_POOL_2D", main.inputs, main.outputs, options={**options, "fused_activation_function": 0})
    return parse_model(builder.finish())


def test_pools_of_several_batches_are_for_the_reference_kernels() -> None:
    assert miscomputed(pool(1)) == miscomputed(pool(2, "float32")) == ""
    wrong = miscomputed(pool(2))
    assert wrong == "TFLM's CMSIS-NN kernel of operator 0 (MAX_POOL_2D) computes the first of 2 batches alone"
    choice = choose("auto", [M3], BOTH, wrong=wrong)
    assert (choice.names, choice.notes) == (("reference",), (f"reference kernels: {wrong}",))
    with pytest.raises(AppError, match=r"computes the first of 2 batches alone\. Use --kernels reference"):
        choose("cmsis_nn", [M3], BOTH, wrong=wrong)
    assert choose("reference", [M3], BOTH, wrong=wrong).notes == ()


@pytest.mark.parametrize(("kind", "classes", "wrong"), [("int16", 1, True), ("int16", 2, False), ("int8", 1, False)])
def test_int16_softmax_of_one_class_is_for_reference(kind: str, classes: int, *, wrong: bool) -> None:
    case = Case("SOFTMAX", (Spec((3, classes)),), (Spec((3, classes)),), {"beta": 1.0}).typed(kind)
    assert ("overflows for rows of one element" in miscomputed(parse_model(case.build()))) is wrong


@pytest.mark.parametrize(
    ("window", "bias", "why"),
    [
        (3, True, ""),
        (3, False, "reads beside the bias, which is absent"),
        (1, True, "fails for 1x1 weights with groups of channels"),
    ],
)
def test_groups_of_channels_that_cmsis_nn_gets_wrong(window: int, bias: bool, why: str) -> None:
    image = Spec((1, 4, 4, 4), "int8", scale=0.1)
    weights = Spec((8, window, window, 2), "int8", (1,) * (16 * window * window), scale=0.02)
    biases = (Spec((8,), "int32", tuple(range(8)), scale=0.002),) if bias else ()
    options = {"stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    case = Case("CONV_2D", (image, weights, *biases), (Spec((1, 4, 4, 8), "int8", scale=0.1),), options)
    found = miscomputed(parse_model(case.build()))
    assert why in found and bool(why) == bool(found)


def test_int16_groups_of_channels_are_for_reference() -> None:
    image, output = (Spec((1, 4, 4, depth), "int16", scale=0.1) for depth in (4, 8))
    weights = Spec((8, 3, 3, 2), "int8", (1,) * 144, scale=0.02)
    bias = Spec((8,), "int64", tuple(range(8)), scale=0.002)
    options = {"stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    case = Case("CONV_2D", (image, weights, bias), (output,), options)
    assert "int16 with groups of channels" in miscomputed(parse_model(case.build()))


@pytest.mark.parametrize(("zero_point", "rank", "wrong"), [(0, 3, False), (3, 2, False), (3, 3, True)])
def test_dense_weights_with_a_zero_point(zero_point: int, rank: int, *, wrong: bool) -> None:
    weights = Spec((8, 4), "int8", tuple(range(32)), scale=0.02, zero_point=zero_point)
    source, output = (Spec((1,) * (rank - 1) + (size,), "int8", scale=0.1) for size in (4, 8))
    case = Case("FULLY_CONNECTED", (source, weights), (output,), {"keep_num_dims": True})
    assert ("ignores the zero point of the weights" in miscomputed(parse_model(case.build()))) is wrong


def test_int8_svdf_on_a_core_with_helium(shared_models: list[Path]) -> None:
    (path,) = (path for path in shared_models if path.stem == "keyword_scrambled_8bit")
    model = load_model(path)
    assert miscomputed(model) == miscomputed(model, "", ("cortex-m3", "cortex-m33")) == ""
    assert "SVDF) refuses the model on a core with Helium" in miscomputed(model, "", ("cortex-m3", "cortex-m55"))


def test_a_workspace_without_cmsis_nn() -> None:
    lacking = choose("auto", [M3], ("reference",))
    assert lacking.names == ("reference",) and len(lacking.notes) == 1
    assert choose("auto", [RISCV], ("reference",)).notes == ()
    with pytest.raises(AppError, match="cmsis-nn"):
        choose("cmsis_nn", [M3], ("reference",))


def made(names: tuple[str, ...], *boards: Board) -> list[tuple[str, bool, bool]]:
    found = kernel_libraries(names, boards, transpose_conv=True, revision="")
    return [(library.name, library.core.dsp, library.core.mve) for library in found]


def test_one_library_for_each_kind_of_core() -> None:
    assert made(("cmsis_nn",), M3, M33) == [("cmsis_nn", False, False), ("cmsis_nn", True, False)]
    assert made(("cmsis_nn",), M33, load_board("mps2/an386")) == [("cmsis_nn", True, False)]
    assert made(("reference",), M3, M33) == [("reference", False, False)]
    assert made(BOTH, M3, RISCV) == [("cmsis_nn", False, False), ("reference", False, False)]


def test_an_unknown_core_may_be_any() -> None:
    kinds = {("cmsis_nn", core.dsp, core.mve) for core in CORES.values()}
    assert set(made(BOTH, UNKNOWN)) == {*kinds, ("reference", False, False)}
    assert set(made(("cmsis_nn",), UNKNOWN)) == kinds
