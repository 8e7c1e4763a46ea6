# SPDX-License-Identifier: Apache-2.0
"""Files and standard input as samples, whatever their names."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.small_models import dense
from tflm_zephyr.errors import ToolError
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.tensors.quantisation import TensorForm
from tflm_zephyr.validation.inputs.files import read_samples
from tflm_zephyr.validation.inputs.front_end import HostFrontEnd
from tflm_zephyr.validation.inputs.sample import InputOptions
from tflm_zephyr.validation.inputs.table import table_samples

QUANTISED = TensorForm("x", "int8", (1, 2, 3), 0.5, -1)
WHOLE = TensorForm("n", "int32", (1, 2), None, 0)
PLAIN = InputOptions()
RAW = InputOptions(raw=True)


def read(path: Path | str, *tensors: TensorForm, options: InputOptions = PLAIN) -> list[list[float]]:
    """The first input of each sample."""
    tensors = tensors or (QUANTISED,)
    return [list(np.frombuffer(s.inputs[0], tensors[0].type)) for s in read_samples(str(path), tensors, options)]


@pytest.mark.parametrize("shape", [(1, 2, 3), (2, 3), (1, 6), (1, 2, 3, 1), (6,)])
def test_one_array_is_one_sample(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(shape))
    assert read(tmp_path / "x.npy") == [[-1, 1, 3, 5, 7, 9]]


def test_rows_are_samples(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.int8).reshape(2, 6)
    np.savez(tmp_path / "d.npz", x=x, y=np.array([1, 2]))
    assert read(tmp_path / "d.npz") == x.tolist()
    names = [sample.name for sample in read_samples(str(tmp_path / "d.npz"), [QUANTISED], InputOptions())]
    assert names == ["d.npz[0]", "d.npz[1]"]
    (tmp_path / "d.npz").rename(tmp_path / "d.data")
    assert read(tmp_path / "d.data") == x.tolist()  # its content tells


def test_several_inputs(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x0=np.zeros((2, 3), np.int8), x1=np.array([7, 8], np.int32))
    found = read_samples(str(tmp_path / "d.npz"), [QUANTISED, WHOLE], InputOptions())
    assert len(found) == 1 and found[0].inputs == (bytes(6), np.array([7, 8], np.int32).tobytes())
    np.savez(tmp_path / "e.npz", x0=np.zeros((3, 2, 3), np.int8), x1=np.zeros((3, 2), np.int32))
    assert len(read_samples(str(tmp_path / "e.npz"), [QUANTISED, WHOLE], InputOptions())) == 3


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("x0", "x2"), "has the array x2, which is none of x0, x1"),
        (("x", "x1"), "has the array x1, which is none of x"),
        (("x1",), "has the array x1, which is none of x0"),
        (("x0", "x1"), "holds arrays for 2 inputs, the model has 1"),
    ],
)
@pytest.mark.parametrize("shape", [(1, 2, 3), (4, 2, 3)])
def test_an_array_that_no_input_takes_is_reported(
    tmp_path: Path, shape: tuple[int, ...], names: tuple[str, ...], said: str
) -> None:
    np.savez(tmp_path / "d.npz", **{name: np.zeros(shape, np.int8) for name in names})
    with pytest.raises(ToolError, match=said):
        read(tmp_path / "d.npz")


def test_tables(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\ufeffa,b,c,d,e,f\n# a remark\n0, 0.5, 1;1.5;2 2.5\n\n-1,-1,-1,-1,-1,1e3,\n")
    assert read(path) == [[-1, 0, 1, 2, 3, 4], [-3, -3, -3, -3, -3, 127]]
    assert [s.name for s in read_samples(str(path), [QUANTISED], InputOptions())] == ["t.csv:3", "t.csv:5"]
    path.write_text("1 2 3 4 5 -128")
    assert read(path, options=RAW) == [[1, 2, 3, 4, 5, -128]]
    path.write_text("1 2 3 4 5 6 70000 -1")
    assert read_samples(str(path), [QUANTISED, WHOLE], RAW)[0].inputs[1] == np.array([70000, -1], np.int32).tobytes()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 2 3", "line 1: holds 3 numbers, the model takes 6"),
        ("1 2 3 4 5 six", "line 1: 'six' is no number"),
        ("a b c d e f", "holds no numbers"),
        ("a b\nc d", "line 2: 'c' is no number"),
        ("1 2 3 4 5 nan", "line 1: holds values that are not finite"),
        ("1_0 2 3 4 5 6", "'1_0' is no number"),
        ("\n\n", "holds no numbers"),
    ],
)
def test_tables_that_do_not_suit(text: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        table_samples(text.encode(), "t.csv", [QUANTISED], raw=False)


def test_elements_that_do_not_suit() -> None:
    for text in ("1 2 3 4 5 128", "1 2 3 4 5 0.5", "1 2 3 4 5 99999999999999999999"):
        with pytest.raises(ToolError, match=r"^t\.csv, line 1: "):
            table_samples(text.encode(), "t.csv", [QUANTISED], raw=True)


@pytest.mark.parametrize("kind", ["TIFF", "GIF", "WEBP", "PPM"])
def test_whatever_pillow_reads_is_an_image(tmp_path: Path, kind: str) -> None:
    image = pytest.importorskip("PIL.Image").new("L", (3, 2), 255)
    image.save(tmp_path / "picture", kind, **({"lossless": True} if kind == "WEBP" else {}))
    grey = TensorForm("x", "int8", (1, 2, 3, 1), 1 / 255, -128)
    assert read(tmp_path / "picture", grey) == [[127] * 6]


def test_plain_bytes(tmp_path: Path) -> None:
    (tmp_path / "in.bin").write_bytes(bytes(range(28)))
    found = read_samples(str(tmp_path / "in.bin"), [QUANTISED, WHOLE], InputOptions())
    assert [b"".join(s.inputs) for s in found] == [bytes(range(14)), bytes(range(14, 28))]
    with pytest.raises(ToolError, match="holds 28 bytes, the model takes 6"):
        read(tmp_path / "in.bin")


def test_standard_input(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((1, 6), 0.5))
    saved = os.dup(0)
    try:
        with (tmp_path / "x.npy").open("rb") as file:
            os.dup2(file.fileno(), 0)
            assert read("-") == [[0] * 6]
    finally:
        os.dup2(saved, 0)
        os.close(saved)


def test_files_that_do_not_suit(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "net.tflite").write_bytes(dense())
    (tmp_path / "odd").write_bytes(b"\xfe\xed\x00\x01")
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY\x01\x00junk")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 junk")
    for name, said in [
        ("empty", "is empty"),
        ("net.tflite", "is a model, and inputs of one are wanted"),
        ("odd", "neither text nor of a known format"),
        ("bad.npy", "not a readable .npy file"),
        ("bad.npz", "not a readable .npz file"),
        ("none.npy", "no such file"),
        (".", "is a directory"),
    ]:
        with pytest.raises(ToolError, match=said):
            read(tmp_path / name)
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n")
    with pytest.raises(ToolError, match="an image is one input, the model has 2"):
        read_samples(str(tmp_path / "a.png"), [QUANTISED, WHOLE], InputOptions())
    np.save(tmp_path / "x.npy", np.zeros(6))
    with pytest.raises(ToolError, match="is no recording"):
        read(tmp_path / "x.npy", options=InputOptions(frontend=HostFrontEnd(parse_model(dense()))))
