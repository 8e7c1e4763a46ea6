# SPDX-License-Identifier: Apache-2.0
"""A file or standard input -> samples; the first bytes show its format."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from tflm_zephyr.errors import ToolError
from tflm_zephyr.tensors import LIMIT_BYTES, TensorLike, dataset_of, element_type, parse_npy, parse_npz, quantise
from tflm_zephyr.validation.inputs.audio import audio_samples
from tflm_zephyr.validation.inputs.image import image_sample, is_image
from tflm_zephyr.validation.inputs.sample import STDIN, InputOptions, Sample, one_input
from tflm_zephyr.validation.inputs.table import table_samples

if TYPE_CHECKING:
    import numpy

_MAGICS = (
    (b"\x93NUMPY", "npy"),
    (b"PK\x03\x04", "npz"),
    (b"\x89PNG\r\n", "image"),
    (b"BM", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"RIFF", "wav"),
)
_MODEL_IDENTIFIER = b"TFL3"  # bytes 4 to 7 of a .tflite file


def read_samples(source: str, tensors: Sequence[TensorLike], options: InputOptions, name: str = "") -> list[Sample]:
    """The samples in the file `source`, or in standard input for "-", for a model with the inputs `tensors`.

    An .npz holds x, or x0, x1, ... with one row per sample; an .npy holds only x; either may hold a single sample in
    the tensor's shape. Images, sound and tables: see image.py, audio.py and table.py; a .bin file holds all inputs'
    bytes, sample after sample. Raises ToolError, which names the file, for content that does not fit. `name`: the name
    for errors, by default the file's own without its folders.
    """
    name = name or ("standard input" if source == STDIN else Path(source).name)
    data = _content(source)
    if not data:
        raise ToolError("is empty", where=name)
    if not options.format and data[4:8] == _MODEL_IDENTIFIER:
        hint = "Give arrays (.npy, .npz), an image, sound, a table (.csv) or raw bytes (.bin)"
        raise ToolError("is a model, and inputs of one are wanted", where=name, hint=hint)
    kind = options.format or _kind(data, source)
    if kind == "image":
        one_input(len(tensors), "an image", name)
        return [image_sample(data, name, tensors[0], options)]
    if kind == "wav":
        one_input(len(tensors), "a recording", name)
        return audio_samples(data, name, tensors[0], options)
    if options.frontend is not None:
        raise ToolError("is no recording, which the front end takes", where=name, hint="Give a WAV file")
    if kind in ("npy", "npz"):
        arrays = {"x": parse_npy(data, name)} if kind == "npy" else parse_npz(data, name)
        return _array_samples(arrays, name, tensors, raw=options.raw)
    if kind == "bin":
        return _binary_samples(data, name, tensors)
    return table_samples(data, name, tensors, raw=options.raw)


def _content(source: str) -> bytes:
    try:
        with open(0, "rb", closefd=False) if source == STDIN else Path(source).open("rb") as file:
            data = file.read(LIMIT_BYTES + 1)
    except OSError as error:
        raise ToolError((error.strerror or str(error)).lower(), where=source) from None
    if len(data) > LIMIT_BYTES:
        raise ToolError(f"holds more than {LIMIT_BYTES} bytes", where=source)
    return data


def _kind(data: bytes, source: str) -> str:
    if source.lower().endswith(".bin"):
        return "bin"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image"
    known = next((kind for magic, kind in _MAGICS if data.startswith(magic)), "")
    return known or ("image" if is_image(data) else "csv")


def _array_samples(
    arrays: dict[str, numpy.ndarray], name: str, tensors: Sequence[TensorLike], *, raw: bool
) -> list[Sample]:
    names = ("x",) if "x" in arrays else tuple(f"x{i}" for i in range(len(tensors)))
    one = all(key in arrays and _is_one(arrays[key], tensor) for key, tensor in zip(names, tensors, strict=False))
    if one and len(names) == len(tensors):
        arrays = {**arrays, **{key: arrays[key][None] for key in names}}
    dataset = dataset_of({key: array for key, array in arrays.items() if key != "y"}, name)
    rows = quantise(tensors, dataset, raw=raw)
    return [Sample(name if len(rows) == 1 else f"{name}[{k}]", row) for k, row in enumerate(rows)]


def _is_one(array: numpy.ndarray, tensor: TensorLike) -> bool:
    """Whether `array` is one sample, without a leading dimension for samples."""
    shape = tuple(tensor.shape)
    return array.shape in (shape, shape[1:], (prod(shape),)) and array.size == prod(shape) and array.shape[:1] != (1,)


def _binary_samples(data: bytes, name: str, tensors: Sequence[TensorLike]) -> list[Sample]:
    sizes = [prod(tensor.shape) * element_type(tensor).itemsize for tensor in tensors]
    count, rest = divmod(len(data), sum(sizes))
    if rest:
        raise ToolError(f"holds {len(data)} bytes, the model takes {sum(sizes)} a sample", where=name)
    found = []
    for k in range(count):
        at, inputs = k * sum(sizes), []
        for size in sizes:
            inputs.append(data[at : at + size])
            at += size
        found.append(Sample(name if count == 1 else f"{name}[{k}]", tuple(inputs)))
    return found
