# SPDX-License-Identifier: Apache-2.0
"""Frames on a stream of bytes that carries text as well: 00 FE COBS(body CRC-32) 00. Pure; docs/protocol.md.

COBS, because a frame then has no zero in it: the next zero byte is where decoding starts again after damage, text
passes unchanged, and the overhead is one byte in 254. CRC-32 (IEEE 802.3, zlib's), because it detects every burst error
of up to 32 bits.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from cobs import cobs

MARK = 0xFE  # no byte of UTF-8 text, so that text between two zeros is never taken for a frame
CRC_BYTES = 4
MAX_BODY_BYTES = 1 << 15


@dataclass(frozen=True)
class Frame:
    """The body of a frame whose CRC-32 is right."""

    body: bytes


@dataclass(frozen=True)
class Damaged:
    """A damaged frame."""


@dataclass(frozen=True)
class Text:
    """Bytes that stand outside frames."""

    data: bytes


Event = Frame | Damaged | Text


def encode(body: bytes) -> bytes:
    """`body` as a frame."""
    coded: bytes = cobs.encode(body + zlib.crc32(body).to_bytes(CRC_BYTES, "little"))
    return b"\0\xfe" + coded + b"\0"


def most_body_bytes(encoded: int) -> int:
    """The largest body in bytes whose frame is never longer than `encoded` bytes."""
    inner = (encoded - 4) * 254 // 255
    return inner - CRC_BYTES


class Decoder:
    """Bytes in any pieces -> events in order."""

    def __init__(self) -> None:
        self._frame: bytearray | None = None
        self._after_zero = False

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes; text comes out at once."""
        events: list[Event] = []
        *ended, last = data.split(b"\0")
        for part in ended:
            self._part(part, events)
            if self._frame is not None:
                events.append(_decoded(bytes(self._frame)))
                self._frame = None
            self._after_zero = True
        self._part(last, events)
        return events

    def _part(self, part: bytes, events: list[Event]) -> None:
        if not part:
            return
        if self._frame is not None:
            self._frame += part
        elif self._after_zero and part[0] == MARK:
            self._frame = bytearray(part[1:])
        else:
            events.append(Text(part))
        if self._frame is not None and len(self._frame) > 2 * MAX_BODY_BYTES:
            self._frame = None
            events.append(Damaged())
        self._after_zero = False


def _decoded(coded: bytes) -> Event:
    try:
        body = cobs.decode(coded)
    except cobs.DecodeError:
        return Damaged()
    body, crc = body[:-CRC_BYTES], body[-CRC_BYTES:]
    return Frame(body) if len(crc) == CRC_BYTES and int.from_bytes(crc, "little") == zlib.crc32(body) else Damaged()
