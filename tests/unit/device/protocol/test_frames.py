# SPDX-License-Identifier: Apache-2.0
"""Frames and text on one stream."""

from __future__ import annotations

import random
import zlib

import pytest
from cobs import cobs
from hypothesis import given
from hypothesis import strategies as st

from tflm_zephyr.device.protocol.frames import (
    CRC_BYTES,
    MAX_BODY_BYTES,
    Damaged,
    Decoder,
    Event,
    Frame,
    Text,
    encode,
    most_body_bytes,
)


def encoded_bytes(body_bytes: int) -> int:
    """The largest size in bytes of a frame with a body of `body_bytes`."""
    inner = body_bytes + CRC_BYTES
    return inner + inner // 254 + 4


TEXTS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1).map(str.encode)


def in_pieces(data: bytes, rng: random.Random) -> list[Event]:
    decoder, events, at = Decoder(), [], 0
    while at < len(data):
        size = rng.randrange(1, 40)
        events += decoder.feed(data[at : at + size])
        at += size
    return events


@given(st.lists(st.one_of(st.binary(max_size=600).map(Frame), TEXTS.map(Text))), st.integers())
def test_what_goes_in_comes_out_in_order(events: list[Frame | Text], seed: int) -> None:
    stream = b"".join(encode(event.body) if isinstance(event, Frame) else event.data for event in events)
    merged: list[Event] = []
    for event in in_pieces(stream, random.Random(seed)):
        if isinstance(event, Text) and merged and isinstance(merged[-1], Text):
            merged[-1] = Text(merged[-1].data + event.data)
        else:
            merged.append(event)
    wanted: list[Event] = []
    for event in events:
        if isinstance(event, Text) and wanted and isinstance(wanted[-1], Text):
            wanted[-1] = Text(wanted[-1].data + event.data)
        else:
            wanted.append(event)
    assert merged == wanted


@given(st.binary(max_size=1200))
def test_a_frame_has_zeros_only_at_its_ends_and_its_size(body: bytes) -> None:
    coded = encode(body)
    assert coded[0] == 0
    assert coded[-1] == 0
    assert 0 not in coded[1:-1]
    assert len(coded) <= encoded_bytes(len(body))


@given(st.binary(min_size=1, max_size=300), st.integers(0), st.integers(1, 255))
def test_one_wrong_byte_spoils_one_frame_only(body: bytes, at: int, change: int) -> None:
    coded = bytearray(encode(body))
    coded[at % len(coded)] ^= change
    events = Decoder().feed(bytes(coded) + encode(b"next") + encode(b"after"))
    found = [event for event in events if isinstance(event, Frame)]
    assert found[-1] == Frame(b"after")
    assert found[:-1] in ([Frame(b"next")], [Frame(body), Frame(b"next")], [])
    if 2 <= at % len(coded) < len(coded) - 1:  # neither a zero nor the mark
        assert Frame(body) not in found[:-2]


@pytest.mark.parametrize("size", range(6))
def test_a_frame_without_a_whole_crc_is_damaged(size: int) -> None:
    """The CRC-32 of nothing is 0, so that less than four zeros look like one."""
    events = Decoder().feed(b"\0\xfe" + cobs.encode(bytes(size)) + b"\0")
    assert events == [Frame(b"")] if size == CRC_BYTES else events == [Damaged()]


def test_the_crc_is_the_last_four_bytes_little_endian() -> None:
    body = b"123456789"
    assert zlib.crc32(body) == 0xCBF43926  # the check value of CRC-32
    assert encode(body) == b"\0\xfe" + cobs.encode(body + b"\x26\x39\xf4\xcb") + b"\0"
    swapped = b"\0\xfe" + cobs.encode(body + b"\xcb\xf4\x39\x26") + b"\0"
    assert Decoder().feed(swapped) == [Damaged()]


@pytest.mark.parametrize("size", [*range(9), *range(245, 260), *range(499, 514), 760, 1016])
def test_a_body_without_zeros_takes_the_largest_size(size: int) -> None:
    """COBS puts in a byte for each 254 and one more, which a last block of 254 bytes does without."""
    bodies = (bytes((k % 255 + 1,)) * size for k in range(40))
    assert max(len(encode(body)) for body in bodies) in (encoded_bytes(size), encoded_bytes(size) - (size % 254 == 250))


def test_the_largest_body_for_a_window() -> None:
    for window in range(9, 3000):
        body = most_body_bytes(window)
        assert encoded_bytes(body) <= window < encoded_bytes(body + 2)


def test_a_mark_without_a_zero_before_it_is_text() -> None:
    decoder = Decoder()
    assert decoder.feed(b"x\xfey") == [Text(b"x\xfey")]
    assert decoder.feed(b"\xfez") == [Text(b"\xfez")]
    assert decoder.feed(b"\0") == [] and decoder.feed(b"\xfe") == []


def test_a_frame_is_given_up_beyond_twice_the_largest_body() -> None:
    inside, beyond = Decoder(), Decoder()
    assert inside.feed(b"\0\xfe" + b"a" * (2 * MAX_BODY_BYTES)) == []
    assert beyond.feed(b"\0\xfe" + b"a" * (2 * MAX_BODY_BYTES)) == []
    assert inside.feed(b"\0") == [Damaged()] and beyond.feed(b"a") == [Damaged()]


def test_text_is_there_before_its_line_ends() -> None:
    decoder = Decoder()
    assert decoder.feed(encode(b"x") + b"*** FATAL") == [Frame(b"x"), Text(b"*** FATAL")]


def test_a_frame_without_an_end_is_given_up() -> None:
    decoder = Decoder()
    assert decoder.feed(b"\0\xfe" + b"a" * 70000) == [Damaged()]
    assert decoder.feed(b"\0" + encode(b"x")) == [Frame(b"x")]
