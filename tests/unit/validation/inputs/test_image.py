# SPDX-License-Identifier: Apache-2.0
"""Images as inputs: channels, size, values; and that no file is more than one line."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tflm_zephyr.errors import ToolError
from tflm_zephyr.tensors.quantisation import TensorForm
from tflm_zephyr.validation.inputs.image import image_sample
from tflm_zephyr.validation.inputs.sample import InputOptions

PLAIN = InputOptions()


def form(shape: tuple[int, ...] = (1, 2, 3, 1), kind: str = "int8", scale: float | None = 1 / 127.5, zero: int = -1):
    return TensorForm("image", kind, shape, scale, zero)


def saved(picture: Image.Image, kind: str = "PNG", **more: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, **more)
    return out.getvalue()


def grey(rows: list[list[int]]) -> bytes:
    return saved(Image.fromarray(np.array(rows, np.uint8)))


def values(data: bytes, tensor: TensorForm, options: InputOptions = PLAIN) -> list[float]:
    sample = image_sample(data, "a.png", tensor, options)
    return list(np.frombuffer(sample.inputs[0], tensor.type))


PIXELS = [[0, 1, 127], [128, 254, 255]]


@pytest.mark.parametrize(
    ("scale", "zero", "kind"),
    [(1 / 127.5, -1, "int8"), (1 / 255, -128, "int8"), (1.0, -128, "int8"), (1.0, 0, "int8")],
)
def test_a_step_of_the_picture_is_a_step_of_the_tensor(scale: float, zero: int, kind: str) -> None:
    assert values(grey(PIXELS), form(scale=scale, zero=zero, kind=kind)) == [-128, -127, -1, 0, 126, 127]


def test_unsigned_tensors_take_pixels_as_they_are() -> None:
    for scale in (None, 1 / 255, 1.0):
        assert values(grey(PIXELS), form(kind="uint8", scale=scale, zero=0)) == [0, 1, 127, 128, 254, 255]


def test_a_range_that_is_given() -> None:
    floats = form(kind="float32", scale=None)
    assert values(grey(PIXELS), floats, InputOptions(pixels=(0, 255))) == [0, 1, 127, 128, 254, 255]
    assert values(grey(PIXELS), floats, InputOptions(pixels=(-1, 1)))[-1] == 1.0
    narrow = form(scale=0.02, zero=-10)
    assert values(grey(PIXELS), narrow, InputOptions(pixels=(-2, 2))) == [-110, -109, -10, -10, 89, 90]
    assert values(grey(PIXELS), form(), InputOptions(pixels=(1, -1)))[0] == 126  # black and white change places


@pytest.mark.parametrize("tensor", [form(kind="float32", scale=None), form(scale=0.02), form(kind="int16", scale=None)])
def test_a_range_that_the_tensor_does_not_show_is_asked_for(tensor: TensorForm) -> None:
    with pytest.raises(ToolError, match=r"a\.png: .*black and white.* --pixels 0,1"):
        values(grey(PIXELS), tensor)


def test_raw_pixels_are_the_tensors_bytes() -> None:
    assert values(grey(PIXELS), form(), InputOptions(raw=True)) == [0, 1, 127, -128, -2, -1]


def test_colours_and_layouts() -> None:
    rgb = np.arange(18, dtype=np.uint8).reshape(2, 3, 3)
    data = saved(Image.fromarray(rgb), "BMP")
    bytes_ = {"kind": "uint8", "scale": None, "zero": 0}
    assert values(data, form((1, 2, 3, 3), **bytes_)) == list(range(18))
    assert values(data, form((1, 3, 2, 3), **bytes_), InputOptions(resampling="nearest")) != list(range(18))
    five = np.arange(30, dtype=np.uint8).reshape(2, 5, 3)
    first = values(saved(Image.fromarray(five)), form((3, 2, 5), **bytes_))
    assert first == list(five.transpose(2, 0, 1).reshape(-1))
    luma = (rgb @ np.array([0.299, 0.587, 0.114])).reshape(-1)
    assert np.abs(np.array(values(data, form((2, 3), **bytes_))) - luma).max() <= 1
    sample = image_sample(data, "a.bmp", form((2, 3), **bytes_), PLAIN)
    assert sample.notes == ("RGB taken as greyscale",)


def test_what_resizing_did_is_reported() -> None:
    sample = image_sample(grey([[10] * 8] * 4), "a.png", form(), InputOptions(resampling="box"))
    assert sample.notes == ("8x4 resized to 3x2 (box)",)
    assert list(sample.inputs[0]) == [(10 - 128) % 256] * 6


def test_palettes_alpha_and_sixteen_bits() -> None:
    tensor = form((1, 1, 2, 3), kind="uint8", scale=None, zero=0)
    palette = Image.new("P", (2, 1))
    palette.putpalette([9, 8, 7, 3, 2, 1])
    palette.putdata([1, 0])
    assert values(saved(palette), tensor) == [3, 2, 1, 9, 8, 7]
    alpha = Image.new("RGBA", (2, 1), (1, 2, 3, 4))
    assert values(saved(alpha), tensor) == [1, 2, 3, 1, 2, 3]
    deep = Image.fromarray(np.array([[0, 65535]], np.uint16))
    assert values(saved(deep), tensor) == [0, 0, 0, 255, 255, 255]


def test_a_tensors_bytes_saved_as_a_picture_are_noticed() -> None:
    ramp = np.linspace(90, 170, 32 * 32).astype(np.uint8).reshape(32, 32)
    tensor = form((1, 32, 32, 1))
    assert image_sample(grey(ramp.tolist()), "a.png", tensor, PLAIN).notes == ()
    wrapped = image_sample(grey((ramp ^ 0x80).tolist()), "a.png", tensor, PLAIN)
    assert wrapped.notes == ("its pixels look like signed bytes; --raw takes them as they are",)
    text = np.where(np.indices((32, 32)).sum(axis=0) % 5 < 3, 255, 0).astype(np.uint8)
    text[::4] = np.linspace(0, 255, 32).astype(np.uint8)[None, :] // 2 + np.arange(8, dtype=np.uint8)[:, None] * 9
    assert image_sample(grey(text.tolist()), "a.png", tensor, PLAIN).notes == ()


@pytest.mark.parametrize("shape", [(1, 6), (6,), (1, 2, 3, 5), (2, 2, 3, 1), ()])
def test_tensors_that_are_no_images(shape: tuple[int, ...]) -> None:
    with pytest.raises(ToolError, match="is no image"):
        values(grey(PIXELS), form(shape))


def bomb() -> bytes:
    """A PNG of 60,000 by 60,000 pixels, in its head."""
    head = b"IHDR" + struct.pack(">IIBBBBB", 60000, 60000, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))


@pytest.mark.parametrize("data", [b"", b"BM", b"\x89PNG\r\n\x1a\n", grey(PIXELS)[:-30], grey(PIXELS)[:40], bomb()])
def test_what_is_no_image_is_one_line(data: bytes) -> None:
    with pytest.raises(ToolError, match=r"^a\.png: not a readable image \(.+\)") as error:
        values(data, form())
    assert "\n" not in str(error.value) and "0x" not in str(error.value)
