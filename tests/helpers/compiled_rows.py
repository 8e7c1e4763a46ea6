# SPDX-License-Identifier: Apache-2.0
"""Segments of layers that run row by row, with each row that they compute, on this machine.

The generated code is compiled with a few lines more: the place of new rows is overwritten before each step, and behind
it the rows that it computed are copied to a log, and a function is called.
"""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

from tflm_zephyr.compiler import SegmentLayer

_LOG = """
#ifndef ROW_LOG
#define ROW_LOG
#include <vector>
#pragma GCC visibility push(default)
std::vector<uint8_t> g_log;
uint8_t *g_place;
int32_t g_bytes, g_poison = 0x5a;
extern "C" void clear_log(int32_t poison) { g_log.clear(); g_poison = poison; }
extern "C" const uint8_t *log_data() { return g_log.data(); }
extern "C" size_t log_size() { return g_log.size(); }
void (*g_behind_step)();
extern "C" void set_behind_step(void (*function)()) { g_behind_step = function; }
#pragma GCC visibility pop
#endif
"""
_PUSH = "\t\tvoid *const place = data + (next - first) * row_bytes;\n"
_PUSHED = (
    "\t\tg_place = static_cast<uint8_t *>(place);\n\t\tg_bytes = count * row_bytes;\n"
    "\t\tstd::memset(place, g_poison, count * row_bytes);\n"
)
_STEP = "\t\t\tif (!layers[next.layer](arena, rows, next.count)) {\n\t\t\t\treturn false;\n\t\t\t}\n"
_STEPPED = (
    "\t\t\tconst int32_t g_head[] = {next.layer, g_bytes};\n"
    "\t\t\tg_log.insert(g_log.end(), reinterpret_cast<const uint8_t *>(g_head), "
    "reinterpret_cast<const uint8_t *>(g_head + 2));\n"
    "\t\t\tg_log.insert(g_log.end(), g_place, g_place + g_bytes);\n\t\t\tg_bytes = 0;\n"
    "\t\t\tif (g_behind_step != nullptr) {\n\t\t\t\tg_behind_step();\n\t\t\t}\n"
)
_STREAM_STEP = "\t\t} else if (!layers[next.layer](arena, rows, next.count)) {\n\t\t\treturn false;\n\t\t}\n"
_STREAM_STEPPED = (
    "\t\t\tg_bytes = 0;\n\t\t} else {\n\t\t\tif (!layers[next.layer](arena, rows, next.count)) {\n"
    "\t\t\t\treturn false;\n\t\t\t}\n" + _STEPPED + "\t\t}\n"
)


def with_log(source: bytes) -> bytes:
    """The layers' source with the log; as it is where no layer runs row by row."""
    text = source.decode()
    if _PUSH not in text or "struct RowStep" not in text:
        return source
    assert text.count(_PUSH) == 1
    assert text.count(_STEP) + text.count(_STREAM_STEP) >= 1
    first = text.index("#include")
    text = text[:first] + "#include <cstdint>\n#include <cstddef>\n" + _LOG + text[first:]
    text = text.replace(_PUSH, _PUSH + _PUSHED).replace(_STEP, _STEP + _STEPPED)
    return text.replace(_STREAM_STEP, _STREAM_STEPPED).encode()


def read_log(library: ctypes.CDLL) -> dict[int, bytes]:
    """By the layer's number in its segment, the bytes of all rows that it computed, in their order."""
    library.log_data.restype = ctypes.c_void_p
    library.log_size.restype = ctypes.c_size_t
    data = ctypes.string_at(library.log_data(), library.log_size())
    found: dict[int, bytearray] = {}
    at = 0
    while at < len(data):
        layer, size = struct.unpack_from("<ii", data, at)
        found.setdefault(layer, bytearray()).extend(data[at + 8 : at + 8 + size])
        at += 8 + size
    return {layer: bytes(rows) for layer, rows in found.items()}


def rows_by_tensor(layer: SegmentLayer, library: ctypes.CDLL) -> dict[int, bytes]:
    """By tensor, the rows that the last run of a segment computed; not those of layers that gather."""
    forms = [layer.segment.forms[operator] for operator in layer.segment.operators]
    logged = read_log(library)
    return {form.output.tensor: logged[k] for k, form in enumerate(forms) if k in logged and not form.gathering}


def source_with_log(path: Path) -> None:
    """Change a generated source in place."""
    path.write_bytes(with_log(path.read_bytes()))
