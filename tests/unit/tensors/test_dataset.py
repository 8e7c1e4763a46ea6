# SPDX-License-Identifier: Apache-2.0
"""Data files: what is taken, how it is quantised, and that a bad file is one line."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.model_builder import ModelBuilder
from tflm_zephyr.errors import ToolError
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.types import Model
from tflm_zephyr.tensors.dataset import Dataset, load_dataset, quantise, with_class_numbers
from tflm_zephyr.tensors.quantisation import TensorForm, output_forms
from tflm_zephyr.validation.accuracy import deviate, evaluate_host, score


def image_model(kind: str = "int8", scale: float | None = 0.5, zero_point: int = -1) -> Model:
    """A RELU of a 1x2x3x1 tensor."""
    model = ModelBuilder()
    main = model.subgraph("main")
    x = main.tensor((1, 2, 3, 1), kind, "image", scale=scale, zero_point=zero_point)
    y = main.tensor((1, 2, 3, 1), kind, "out", scale=scale, zero_point=zero_point)
    main.op("RELU", [x], [y])
    main.inputs, main.outputs = [x], [y]
    return parse_model(model.finish())


def output_of(model: Model) -> TensorForm:
    """Its one output."""
    return output_forms(model)[0]


def rows(model: Model, x: np.ndarray) -> list[list[int]]:
    """The int8 values of `x` after `quantise`."""
    return [list(np.frombuffer(run[0], np.int8)) for run in quantise(model, Dataset("f", (x,), None))]


def saved(path: Path, **arrays: np.ndarray) -> Path:
    """An .npz with these arrays."""
    np.savez_compressed(path, **arrays)
    return path


def test_npz_and_npy_are_read(tmp_path: Path) -> None:
    x, y = np.arange(12, dtype=np.int8).reshape(2, 6), np.array([1, 0])
    found = load_dataset(saved(tmp_path / "d.npz", x=x, y=y))
    assert len(found) == 2 and found.has_classes
    assert (found.inputs[0] == x).all() and found.y is not None and (found.y == y).all()
    np.save(tmp_path / "x.npy", np.asfortranarray(x))
    np.save(tmp_path / "y.npy", y.astype(np.float32))
    assert load_dataset(tmp_path / "x.npy").y is None
    both = load_dataset(tmp_path / "x.npy", tmp_path / "y.npy")
    assert (both.inputs[0] == x).all() and not both.has_classes


def test_own_type_is_taken_as_it_is() -> None:
    x = np.array([[-128, -1, 0, 1, 2, 127]], np.int8)
    assert rows(image_model(), x) == [[-128, -1, 0, 1, 2, 127]]


def test_whole_numbers_are_elements_where_that_is_said() -> None:
    data = Dataset("f", (np.array([[-128.0, -1, 0, 1, 2, 127]]),), None)
    assert list(np.frombuffer(quantise(image_model(), data, raw=True)[0][0], np.int8)) == [-128, -1, 0, 1, 2, 127]
    wide = Dataset("f", (np.array([[0, 1, 2, 3, 4, 200]]),), None)
    with pytest.raises(ToolError, match="outside -128 to 127"):
        quantise(image_model(), wide, raw=True)
    with pytest.raises(ToolError, match="already quantised"):
        quantise(image_model(), Dataset("f", (np.array([[0.5, 1, 2, 3, 4, 5]]),), None), raw=True)


def test_floats_round_halves_away_from_zero_and_clamp() -> None:
    # scale 0.5, zero point -1: 0.25 is half a step.
    x = np.array([[0.0, 0.25, -0.25, 0.74, -0.75, 1e9]], np.float64)
    assert rows(image_model(), x) == [[-1, 0, -2, 0, -3, 127]]
    assert rows(image_model(), np.full((1, 6), -1e30)) == [[-128] * 6]


def test_just_below_a_half_stays_below() -> None:
    x = np.full((1, 6), np.nextafter(np.float32(0.25), np.float32(0)), np.float32)
    assert rows(image_model(), x) == [[-1] * 6]


@pytest.mark.parametrize("shape", [(4, 6), (4, 2, 3), (4, 2, 3, 1), (4, 1, 2, 3, 1), (4, 1, 6)])
def test_shapes_that_mean_the_same(shape: tuple[int, ...]) -> None:
    x = np.arange(24, dtype=np.int8)
    assert rows(image_model(), x.reshape(shape)) == x.reshape(4, 6).tolist()


@pytest.mark.parametrize("shape", [(4, 3, 2), (4, 7), (4, 2, 3, 2), (24,), (6,)])
def test_other_shapes_are_refused_naming_the_expected_one(shape: tuple[int, ...]) -> None:
    with pytest.raises(ToolError, match=r"array x: has shape .*input image takes \(N, 2, 3, 1\)"):
        rows(image_model(), np.zeros(shape, np.int8))


def test_other_integers_are_refused_for_a_quantised_input() -> None:
    with pytest.raises(ToolError, match=r"is uint8, .* takes int8 \(already quantised\) or float"):
        rows(image_model(), np.zeros((1, 6), np.uint8))


def test_not_finite_is_refused() -> None:
    for bad in (np.nan, np.inf):
        with pytest.raises(ToolError, match="not finite"):
            rows(image_model(), np.full((1, 6), bad, np.float32))


def test_inputs_that_are_not_quantised() -> None:
    x = np.array([[1, 2, 3, 4, 5, 6]])
    (run,) = quantise(image_model("float32", None), Dataset("f", (x,), None))
    assert struct.unpack("<6f", run[0]) == (1, 2, 3, 4, 5, 6)
    (run,) = quantise(image_model("int32", None), Dataset("f", (x,), None))
    assert struct.unpack("<6i", run[0]) == (1, 2, 3, 4, 5, 6)
    with pytest.raises(ToolError, match="outside -128 to 127"):
        rows(image_model("int8", None), x * 1000)
    with pytest.raises(ToolError, match=r"is float64, .* takes int8"):
        rows(image_model("int8", None), x * 0.5)


def test_big_endian_files_give_the_same_bytes(tmp_path: Path) -> None:
    x = np.linspace(-3, 3, 12).reshape(2, 6)
    for kind in ("<f4", ">f4"):
        np.save(tmp_path / "x.npy", x.astype(kind))
        runs = quantise(image_model("float32", None), load_dataset(tmp_path / "x.npy"))
        assert struct.unpack("<6f", runs[1][0]) == tuple(x[1].astype(np.float32))


def test_models_of_several_inputs_take_x0_x1(tmp_path: Path) -> None:
    model = ModelBuilder()
    main = model.subgraph("main")
    a, b = main.tensor((1, 2), "int8", "a", scale=1.0), main.tensor((1, 2), "float32", "b")
    c = main.tensor((1, 2), "float32", "c")
    main.op("RELU", [b], [c])
    main.inputs, main.outputs = [a, b], [c]
    parsed = parse_model(model.finish())
    found = load_dataset(saved(tmp_path / "d.npz", x0=np.ones((3, 2)), x1=np.zeros((3, 2))))
    assert quantise(parsed, found) == ((b"\x01\x01", bytes(8)),) * 3
    with pytest.raises(ToolError, match=r"arrays for 1 inputs, the model has 2.*x0"):
        quantise(parsed, load_dataset(saved(tmp_path / "e.npz", x=np.ones((3, 2)))))


def _header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text.encode() + b"\n"


def _npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


BAD_NPY = {
    "empty": b"",
    "text": b"x,y\n1,2\n",
    "cut": _npy(np.zeros((4, 6), np.int8))[:-3],
    "longer": _npy(np.zeros((4, 6), np.int8)) + b"more",
    "object": _npy(np.array([{}, []], dtype=object)),
    "strings": _npy(np.array(["a", "b"])),
    "complex": _npy(np.zeros(3, np.complex64)),
    "pickle": pickle.dumps([1, 2, 3]),
    "huge": _header("{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776, 1024)}"),
    "negative": _header("{'descr': '|i1', 'fortran_order': False, 'shape': (-1, -8)}") + bytes(8),
    "code": _header("__import__('os').abort()"),
    "deep": _header("(" * 9000),
    "version": b"\x93NUMPY\x09\x00" + bytes(64),
    "scalar": _npy(np.array(3)),
    "nothing": _npy(np.zeros((0, 6))),
}


@pytest.mark.parametrize("name", BAD_NPY)
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_a_bad_array_is_one_line(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / f"bad.{kind}"
    if kind == "npy":
        path.write_bytes(BAD_NPY[name])
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", BAD_NPY[name])
    with pytest.raises(ToolError, match=r"bad\.np") as caught:
        load_dataset(path)
    assert "\n" not in str(caught.value)


def test_any_damage_to_a_good_file_is_a_tool_error_or_harmless(tmp_path: Path) -> None:
    good = saved(tmp_path / "d.npz", x=np.zeros((4, 6), np.int8), y=np.arange(4)).read_bytes()
    path = tmp_path / "e.npz"
    for at in range(0, len(good), 3):
        for data in (good[:at], good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :]):
            path.write_bytes(data)
            try:
                load_dataset(path)
            except ToolError as error:
                assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"y": np.zeros(3)}, r"has no array x \(found: y\)"),
        ({"x": np.zeros((3, 6)), "y": np.zeros(4)}, "differ in length: 3, 4"),
        ({"x0": np.zeros((3, 6)), "x1": np.zeros((2, 6))}, "differ in length"),
    ],
)
def test_missing_or_unequal_arrays(tmp_path: Path, arrays: dict[str, np.ndarray], text: str) -> None:
    with pytest.raises(ToolError, match=text):
        load_dataset(saved(tmp_path / "d.npz", **arrays))


def test_paths_that_are_no_data_files(tmp_path: Path) -> None:
    for path in (tmp_path / "none.npz", tmp_path / "none.npy", tmp_path / "x.csv"):
        with pytest.raises(ToolError, match=path.name):
            load_dataset(path)
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(ToolError, match=r"folder\.npz: Is a directory"):
        load_dataset(tmp_path / "folder.npz")


def test_a_score_counts_what_is_right() -> None:
    runs = [bytes([0, 9, 3, 0, 0, 0]), bytes([0, 9, 3, 0, 0, 0]), bytes([255, 0, 0, 0, 0, 5])]
    found = score(output_of(image_model()), Dataset("f", (np.zeros((3, 6)),), np.array([1, 2, 5])), runs)
    assert (found.count, found.correct, found.predictions) == (3, 2, (1, 1, 5))
    assert found.accuracy == pytest.approx(2 / 3)
    assert found.confusion[2] == (0, 1, 0, 0, 0, 0) and found.confusion[5][5] == 1
    assert sum(map(sum, found.confusion)) == 3


@pytest.mark.parametrize(
    ("y", "text"),
    [
        (None, "no array y"),
        (np.array([0.0, 1.0]), "no array y of one integer class"),
        (np.zeros((2, 6), int), "no array y of one integer class"),
        (np.array([0, 6]), "y runs from 0 to 6, the model has 6 classes"),
        (np.array([-1, 0]), "y runs from -1"),
    ],
)
def test_labels_that_do_not_suit(y: np.ndarray | None, text: str) -> None:
    with pytest.raises(ToolError, match=text):
        score(output_of(image_model()), Dataset("f", (np.zeros((2, 6)),), y), [bytes(6)] * 2)


def test_a_deviation_is_in_real_units() -> None:
    # Bytes 1 with scale 0.5 and zero point -1 mean 1.0.
    runs = [bytes([1] * 6)] * 2
    y = np.array([[1.0] * 6, [1.0, 1.0, 1.0, 1.0, 1.0, 4.0]])
    found = deviate(output_of(image_model()), Dataset("f", (np.zeros((2, 6)),), y), runs)
    assert found.mean_absolute == pytest.approx(0.25) and found.largest == 3.0
    assert found.outputs[0] == (1.0,) * 6
    with pytest.raises(ToolError, match="no array y of 6 values"):
        deviate(output_of(image_model()), Dataset("f", (np.zeros((2, 6)),), np.zeros(2)), runs)


def test_evaluate_runs_the_model() -> None:
    pytest.importorskip("tflite_micro")
    x = np.full((4, 6), -10.0)
    x[[0, 1, 2, 3], [5, 4, 3, 2]] = 10.0
    found = evaluate_host(image_model().data, Dataset("f", (x,), np.array([5, 4, 3, 0])))
    assert found.predictions == (5, 4, 3, 2) and found.correct == 3


@pytest.mark.parametrize("kind", ["int64", "uint8", "bool", "float32"])
def test_one_hot_rows_are_class_numbers(kind: str) -> None:
    rows = np.array([[0, 0, 1], [1, 0, 0]], kind)
    dataset = Dataset("d", (np.zeros((2, 4)),), rows)
    named = with_class_numbers(dataset, 3)
    assert named.has_classes and named.y is not None and named.y.tolist() == [2, 0]
    assert with_class_numbers(dataset, 4) is dataset  # columns of something else


@pytest.mark.parametrize("rows", [[[0.2, 0.8]], [[1, 1]], [[0, 0]], [1, 0], None])
def test_other_labels_stay_as_they_are(rows: object) -> None:
    y = None if rows is None else np.array(rows)
    dataset = Dataset("d", (np.zeros((1 if y is None else len(y), 4)),), y)
    assert with_class_numbers(dataset, 2) is dataset
