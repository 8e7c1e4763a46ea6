# SPDX-License-Identifier: Apache-2.0
"""Escaping of text from a model or an app file for C++, CMake and YAML."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from tflm_zephyr.errors import AppError

_BYTES_PER_LINE = 16
_COMMENT_CHARS = 200
_HEX = tuple(f"0x{value:02x}," for value in range(256))


def c_array(data: bytes) -> str:
    """The elements of an array initialiser, 16 a line; a lone 0 for no bytes, as C++ has no empty array."""
    lines: Sequence[str] = [
        "".join(map(_HEX.__getitem__, data[i : i + _BYTES_PER_LINE])) for i in range(0, len(data), _BYTES_PER_LINE)
    ]
    return "\n".join(f"\t{line}" for line in lines) or "\t0,"


def c_float(value: float) -> str:
    """A C++ float literal that reads back as the same float."""
    if not math.isfinite(value):
        raise AppError("a quantisation scale is not finite", hint="Convert the model again")
    text = f"{value:.9g}"
    return f"{text}f" if re.search(r"[.e]", text) else f"{text}.0f"


def pointer_to(address: str, c_type: str) -> str:
    """`address`, of bytes that are aligned for it, as a pointer to `c_type`, which may be const.

    Through void where a value has several bytes, as -Wcast-align=strict wants it of an address that is known to do.
    """
    if c_type.removeprefix("const ") in ("int8_t", "uint8_t", "bool"):
        return f"reinterpret_cast<{c_type} *>({address})"
    void = "const void" if c_type.startswith("const ") else "void"
    return f"static_cast<{c_type} *>(static_cast<{void} *>({address}))"


def comment(text: str) -> str:
    """`text` in one line that cannot end or continue a comment."""
    plain = re.sub(r"[^\x20-\x7e]", "?", text).replace("\\", "/")
    plain = re.sub(r"\?(?=\?)", "? ", plain.replace("*/", "* /"))
    return plain if len(plain) <= _COMMENT_CHARS else f"{plain[:_COMMENT_CHARS]}..."


def c_string(text: str) -> str:
    """A C++ string literal, quotes included."""
    out = []
    for byte in text.encode():
        char = chr(byte)
        out.append(char if 32 <= byte < 127 and char not in '"\\?' else f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def yaml_string(text: str) -> str:
    """A YAML string in double quotes."""
    out = []
    for char in text:
        code = ord(char)
        if 32 <= code < 127:
            out.append(f"\\{char}" if char in '"\\' else char)
        else:
            out.append(f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}")
    return '"' + "".join(out) + '"'


def cmake_path(path: str) -> str:
    """A path as one CMake argument."""
    if re.search(r'[\x00-\x1f"\\;$]', path):
        raise AppError("a path that CMake cannot take", where=repr(path), hint="Rename the file")
    return f'"{path}"' if re.search(r"[^\w./+-]", path) else path
