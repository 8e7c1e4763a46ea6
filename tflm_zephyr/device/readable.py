# SPDX-License-Identifier: Apache-2.0
"""Text from a device made safe for a terminal: without control codes for its cursor, colours or title."""

from __future__ import annotations

import re

# Characters that are not printed: control characters, changes of writing direction, surrogates, non-characters.
NOISE = re.compile(
    "[^\x20-\x7e\t\u00a0-\u200d\u2010-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufffc\U00010000-\U0010ffff]+"
)


def readable(text: str) -> str:
    """`text` with a question mark for each run of unprintable characters."""
    return NOISE.sub("?", text)
