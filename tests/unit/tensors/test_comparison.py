# SPDX-License-Identifier: Apache-2.0
"""Where two versions of a tensor are apart, and how far."""

from __future__ import annotations

import math
import struct

import pytest

from tflm_zephyr.tensors.comparison import compare_tensors
from tflm_zephyr.tensors.quantisation import TensorForm

BYTES = TensorForm("t", "int8", (1, 2, 3), 0.5, 0)
FLOATS = TensorForm("t", "float32", (3,), None, 0)


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def test_equal_is_none() -> None:
    assert compare_tensors(BYTES, bytes(6), bytes(6)) is None
    assert compare_tensors(FLOATS, floats(1, math.nan, math.inf), floats(1, math.nan, math.inf)) is None


def test_the_first_and_the_largest() -> None:
    found = compare_tensors(BYTES, bytes([0, 0, 0, 0, 1, 128]), bytes([0, 0, 0, 0, 2, 127]))
    assert found is not None and (found.differing, found.count, found.at) == (2, 6, (0, 1, 1))
    assert (found.got, found.want, found.largest, found.largest_real) == (1, 2, 255, 127.5)
    assert not found.close


def test_whole_numbers_of_64_bits_lose_nothing() -> None:
    form = TensorForm("t", "int64", (1,), None, 0)
    found = compare_tensors(form, struct.pack("<q", 2**62 + 1), struct.pack("<q", 2**62))
    assert found is not None and found.largest == 1
    unsigned = compare_tensors(TensorForm("t", "uint8", (1,), None, 0), b"\x00", b"\xff")
    assert unsigned is not None and unsigned.largest == 255


@pytest.mark.parametrize(
    ("got", "want", "close", "largest"),
    [
        ((1.0, 2.0, 1000.0), (1.0, 2.0, 1000.005), True, 0.005),
        ((1.0, 2.0, 0.00001), (1.0, 2.0, 0.0), True, 1e-5),
        ((1.0, 2.0, 3.001), (1.0, 2.0, 3.0), False, 0.001),
        ((0.0, math.inf, 1.0), (-0.0, math.inf, 1.0), True, 0.0),
        ((math.nan, 2.0, 1.0), (1.0, 2.0, 1.0), False, math.inf),
        ((math.inf, 2.0, 1.0), (1.0, 2.0, 1.0), False, math.inf),
        ((math.inf, 2.0, 1.0), (-math.inf, 2.0, 1.0), False, math.inf),
    ],
)
def test_floats(got: tuple[float, ...], want: tuple[float, ...], close: bool, largest: float) -> None:
    found = compare_tensors(FLOATS, floats(*got), floats(*want))
    assert found is not None and found.close is close
    assert found.largest == pytest.approx(largest, rel=0.05)


def test_other_sizes_are_no_comparison() -> None:
    with pytest.raises(ValueError, match="5 bytes beside 6"):
        compare_tensors(BYTES, bytes(5), bytes(6))


def test_scalars_and_booleans() -> None:
    found = compare_tensors(TensorForm("t", "bool", (), None, 0), b"\x01", b"\x00")
    assert found is not None and found.at == (0,) and found.largest == 1


def test_types_that_numpy_lacks_are_compared_by_their_bytes() -> None:
    found = compare_tensors(TensorForm("t", "bfloat16", (2,), None, 0), b"\x00\x01\x02\x03", b"\x00\x01\x02\x05")
    assert found is not None and (found.differing, found.count, found.at, found.close) == (1, 4, (3,), False)
