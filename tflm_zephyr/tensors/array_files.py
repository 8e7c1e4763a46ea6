# SPDX-License-Identifier: Apache-2.0
"""Arrays from .npy and .npz files by `numpy.load`, with the checks that it lacks on damaged or hostile files.

Sizes are checked against the file before anything is allocated, an archive's sum before anything is unpacked, and every
error is one line. Format: numpy's NEP 1. Pickled (object) arrays are refused, as reading them runs code.
"""

from __future__ import annotations

import io
import zipfile
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tflm_zephyr.errors import ToolError

if TYPE_CHECKING:
    import numpy

LIMIT_BYTES = 2 << 30
_KINDS = frozenset("biuf")


def load_npy(path: Path) -> numpy.ndarray:
    """The array in a .npy file. Raises ToolError naming the file."""
    with _opened(path) as file:
        return _read(file, path.stat().st_size, str(path), "npy")[""]


def load_npz(path: Path) -> dict[str, numpy.ndarray]:
    """All arrays in a .npz file by name, sorted. Raises ToolError naming the file and the array."""
    with _opened(path) as file:
        return _read(file, path.stat().st_size, str(path), "npz")


def parse_npy(data: bytes, where: str) -> numpy.ndarray:
    """The array in a .npy file's bytes. Raises ToolError with `where`."""
    return _read(io.BytesIO(data), len(data), where, "npy")[""]


def parse_npz(data: bytes, where: str) -> dict[str, numpy.ndarray]:
    """All arrays in a .npz file's bytes, as `load_npz`."""
    return _read(io.BytesIO(data), len(data), where, "npz")


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise ToolError(error.strerror or str(error), where=str(path)) from None


def _read(file: IO[bytes], size_bytes: int, where: str, kind: str) -> dict[str, numpy.ndarray]:
    try:
        return {"": _array(file, size_bytes, where)} if kind == "npy" else _members(file, where)
    except ToolError:
        raise
    except OSError as error:
        raise ToolError(error.strerror or str(error), where=where) from None
    except Exception as error:  # numpy and zipfile raise a dozen kinds on damaged files
        text = " ".join(str(error).split()) or type(error).__name__
        raise ToolError(f"not a readable .{kind} file ({text})", where=where, hint="Write it with numpy anew") from None


def _members(file: IO[bytes], where: str) -> dict[str, numpy.ndarray]:
    arrays = {}
    with zipfile.ZipFile(file) as archive:
        total = sum(info.file_size for info in archive.infolist())
        if total > LIMIT_BYTES:
            raise ToolError(f"holds {total} bytes, more than {LIMIT_BYTES}", where=where)
        for info in sorted(archive.infolist(), key=lambda entry: entry.filename):
            name = info.filename.removesuffix(".npy")
            with archive.open(info) as member:
                arrays[name] = _array(member, info.file_size, f"{where}, array {name}")
    return arrays


def _array(file: IO[bytes], size_bytes: int, where: str) -> numpy.ndarray:
    """The array in `file`, which holds `size_bytes`; numpy allocates before it knows whether they are there."""
    import numpy
    from numpy.lib import format as npy

    # The header of version 3 differs from that of 2 in its text encoding only, which plain dtypes do not show.
    header = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = header(file)
    if dtype.kind not in _KINDS:
        raise ToolError(f"holds {dtype}, not numbers", where=where, hint="Save an array of int8 or float32")
    wanted, there = prod(shape) * dtype.itemsize, size_bytes - file.tell()
    if wanted != there or wanted > LIMIT_BYTES:
        raise ToolError(f"should hold {wanted} bytes of {dtype} {shape}, but holds {there}", where=where)
    file.seek(0)
    found: numpy.ndarray = numpy.load(file, allow_pickle=False)
    return found
