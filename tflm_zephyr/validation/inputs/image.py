# SPDX-License-Identifier: Apache-2.0
"""Images as a model's input: converted to its tensor's channels, size and pixel values."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

from tflm_zephyr.errors import ToolError
from tflm_zephyr.tensors import TensorLike, element_type, elements, limits
from tflm_zephyr.validation.inputs.sample import InputOptions, Sample

if TYPE_CHECKING:
    import numpy
    from PIL.Image import Image

# Pixel ranges that models are trained on: 0..1, -1..1, 0..255, -128..127.
_RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0), (-128.0, 127.0))
_SLACK = 0.02
_CHANNELS = {1: "L", 3: "RGB", 4: "RGBA"}
_NAMES = {"L": "greyscale", "RGB": "RGB", "RGBA": "RGBA"}
_MANY_LEVELS, _MOSTLY_PLAIN, _FEW_LEAPS = 64, 0.25, 16


def is_image(data: bytes) -> bool:
    """Whether Pillow, if it is installed, identifies `data` as an image by its first bytes."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Image.open(io.BytesIO(data)).close()
    except UnidentifiedImageError:
        return False
    except Exception:  # a reader identified it, but it is damaged or too large: image_sample reports that
        return True
    return True


def image_sample(data: bytes, name: str, tensor: TensorLike, options: InputOptions) -> Sample:
    """The image in `data` (PNG, BMP, any format that Pillow reads) for the input `tensor`.

    Raises ToolError when `data` is no image, the tensor does not have an image's shape, or its quantisation does not
    show the range of pixel values.
    """
    import numpy

    height, width, channels, first = _layout(tensor, name)
    picture, notes = _fitted(_open(data, name), (width, height), _CHANNELS[channels], options.resampling)
    pixels = numpy.asarray(picture, dtype=numpy.uint8).reshape(height, width, channels)
    if not options.raw and tensor.type == "int8" and _looks_signed(pixels):
        notes.append("its pixels look like signed bytes; --raw takes them as they are")
    if first:
        pixels = pixels.transpose(2, 0, 1)
    values = _elements(pixels, tensor, name, options)
    return Sample(name, (numpy.ascontiguousarray(values).tobytes(),), notes=tuple(notes))


def _open(data: bytes, name: str) -> Image:
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise ToolError("Pillow, which reads images, is not installed", where=name, hint="pip install pillow") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.open(io.BytesIO(data))
            picture.load()
            return ImageOps.exif_transpose(picture)
    except Exception as error:  # Pillow's readers raise many kinds on damaged files
        text = " ".join(str(error).split()).replace(repr(io.BytesIO), "") or type(error).__name__
        text = "cannot identify the image" if "cannot identify" in text else text
        raise ToolError(f"not a readable image ({text})", where=name, hint="Save it as PNG or BMP") from None


def _layout(tensor: TensorLike, name: str) -> tuple[int, int, int, bool]:
    """Height, width, channels, and whether the channels come first."""
    shape = tensor.shape[1:] if len(tensor.shape) > 2 and tensor.shape[0] == 1 else tensor.shape
    if len(shape) == 2 and shape[0] > 1:
        return shape[0], shape[1], 1, False
    if len(shape) == 3 and shape[2] in _CHANNELS:
        return shape[0], shape[1], shape[2], False
    if len(shape) == 3 and shape[0] in _CHANNELS:
        return shape[1], shape[2], shape[0], True
    raise ToolError(
        f"the model's input {tensor.name} of shape {tuple(tensor.shape)} is no image",
        where=name,
        hint="Make an .npy of that shape from it",
    )


def _fitted(picture: Image, size: tuple[int, int], mode: str, resampling: str) -> tuple[Image, list[str]]:
    """`picture` with 8 bits a channel, in `mode` and `size`; notes on conversions."""
    from PIL import Image

    notes = []
    if picture.mode.startswith(("I", "F")):
        import numpy

        deep = numpy.asarray(picture, dtype=numpy.float64)
        if picture.mode == "F" or deep.min(initial=0) < 0 or deep.max(initial=0) > 65535:
            raise ToolError("holds pixels beyond 16 bits", hint="Save it with 8 bits a channel")
        picture = Image.fromarray(numpy.floor(deep / 257 + 0.5).astype(numpy.uint8))
        notes.append("16 bits a pixel reduced to 8")
    if picture.mode != mode:
        plain = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
        notes.append(f"{_NAMES.get(picture.mode, picture.mode)} taken as {_NAMES[mode]}")
        picture = picture.convert(mode) if picture.mode in _NAMES else plain.convert(mode)
    if picture.size != size:
        notes.append(f"{picture.width}x{picture.height} resized to {size[0]}x{size[1]} ({resampling})")
        picture = picture.resize(size, Image.Resampling[resampling.upper()])
    return picture, notes


def _elements(pixels: numpy.ndarray, tensor: TensorLike, name: str, options: InputOptions) -> numpy.ndarray:
    import numpy

    target = element_type(tensor)
    if options.raw:
        return pixels.view(target) if target.itemsize == 1 else pixels.astype(target)
    if options.pixels is None and target.kind in "iu":
        if not tensor.scale and target == numpy.uint8:
            return pixels
        shown = _shown_range(tensor)
        if shown is None:
            raise _unknown_range(tensor, name)
        if target.itemsize == 1:  # a step of the tensor is a step of the picture
            return (pixels.astype(numpy.int16) + limits(target)[0]).astype(target)
    elif options.pixels is not None:
        shown = options.pixels
    else:
        raise _unknown_range(tensor, name)
    low, high = shown
    return elements(low + pixels.astype(numpy.float64) * ((high - low) / 255.0), tensor, name)


def _shown_range(tensor: TensorLike) -> tuple[float, float] | None:
    """The usual pixel range that the tensor's quantisation spans, within 2 % of its width."""
    if not tensor.scale:
        return None
    low, high = ((limit - tensor.zero_point) * tensor.scale for limit in limits(element_type(tensor)))
    for usual in _RANGES:
        slack = _SLACK * (usual[1] - usual[0])
        if abs(low - usual[0]) <= slack and abs(high - usual[1]) <= slack:
            return usual
    return None


def _unknown_range(tensor: TensorLike, name: str) -> ToolError:
    return ToolError(
        f"the model's input {tensor.name} does not show what values black and white have in it",
        where=name,
        hint="Say so, as in --pixels 0,1 or --pixels=-1,1",
    )


def _looks_signed(pixels: numpy.ndarray) -> bool:
    """Whether neighbouring pixels jump between white and black, but do not when the bytes are read as signed.

    Some tools save a tensor's bytes as an image. Pictures of mostly plain black and white do not count.
    """
    import numpy

    plain = numpy.isin(pixels, (0, 255)).mean()
    if len(numpy.unique(pixels)) < _MANY_LEVELS or plain > _MOSTLY_PLAIN:
        return False
    return _leaps(pixels) > 4 * _leaps(pixels ^ 0x80) + _FEW_LEAPS


def _leaps(pixels: numpy.ndarray) -> int:
    """The number of neighbours that differ by more than three quarters of the range."""
    import numpy

    wide = pixels.astype(numpy.int16)
    return sum(int((numpy.abs(numpy.diff(wide, axis=axis)) > 192).sum()) for axis in (0, 1))
