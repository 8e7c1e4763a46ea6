# SPDX-License-Identifier: Apache-2.0
"""WAV files made in memory."""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence


def wav(sound: Sequence[int], *, channels: int = 1, width: int = 2) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(16000)
        file.writeframes(b"".join(int(v).to_bytes(width, "little", signed=width > 1) for v in sound))
    return out.getvalue()
