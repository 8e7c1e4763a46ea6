# SPDX-License-Identifier: Apache-2.0
"""Numbers and foreign text as a page shows them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

LONGEST = 160
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def number(value: float) -> str:
    """A whole number with commas, another with up to four digits."""
    return f"{value:,}" if isinstance(value, int) or float(value).is_integer() else f"{value:,.4g}"


def size(value: int) -> str:
    """Bytes with a unit: 912 B, 53.7 KiB, 1.42 MiB."""
    if abs(value) < 1024:
        return f"{value:,} B"
    if abs(value) < 1024 * 1024:
        return f"{value / 1024:,.1f} KiB"
    return f"{value / 1024 / 1024:,.2f} MiB"


def short(value: float) -> str:
    """A count in at most four digits: 812, 7.19 M."""
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * factor or (abs(value) >= factor and unit != "k"):
            return f"{value / factor:.3g} {unit}"
    return number(value)


def signed(value: float) -> str:
    """A difference with its sign; the minus is a real one."""
    return f"{'+' if value > 0 else '−' if value < 0 else '±'}{number(abs(value))}"


def share(part: float, whole: float) -> str:
    """Percent with one decimal, "" of nothing."""
    return f"{100 * part / whole:.1f} %" if whole else ""


def seen(text: str, longest: int = LONGEST) -> str:
    """Foreign text in one line of at most `longest` characters.

    Characters that show nothing, or turn the direction of the text around them, are shown as their escapes.
    """
    cut = text[:longest]
    shown = "".join(c.encode("unicode_escape").decode() if unicodedata.category(c) in _UNSEEN else c for c in cut)
    return shown if len(text) <= longest else f"{shown}… ({len(text):,} characters)"


def typed(kind: str, shape: Sequence[int]) -> str:
    """A tensor's type and shape: int8 1×96×96×1."""
    return f"{kind} {'×'.join(map(str, shape)) or 'scalar'}"


def quantised(tensor: dict[str, object]) -> str:
    """A tensor's quantisation in words."""
    scales, zeros, kind = tensor["scales"], tensor["zero_points"], str(tensor["type"])
    assert isinstance(scales, list) and isinstance(zeros, list)
    if not scales:
        return "real values" if kind.startswith(("float", "bfloat")) else "not quantised"
    if len(scales) > 1:
        return f"{len(scales)} scales, one for each channel, from {min(scales):.4g} to {max(scales):.4g}"
    zero = zeros[0] if zeros else 0
    shifted = "q" if zero == 0 else f"(q {'−' if zero > 0 else '+'} {abs(zero)})"
    return f"real = {scales[0]:.4g} × {shifted}"
