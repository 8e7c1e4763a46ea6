# SPDX-License-Identifier: Apache-2.0
"""Text from a device as it may be shown on a terminal: without what moves its cursor, colours or renames it."""

from __future__ import annotations

import re

# All but what is printed: control characters, those that turn the direction of writing, surrogates, non-characters.
NOISE = re.compile(
    "[^\x20-\x7e\t\u00a0-\u200d\u2010-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufffc\U00010000-\U0010ffff]+"
)


def readable(text: str) -> str:
    """`text` with a question mark for each stretch of what is not printed."""
    return NOISE.sub("?", text)
