# SPDX-License-Identifier: Apache-2.0
"""Derives tflm_zephyr/data/schema.json from the accessors of the `tflite` package.

`python -m scripts.schema_json` writes it anew; a unit test compares.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import tflite

PATH = Path(__file__).resolve().parents[1] / "tflm_zephyr" / "data" / "schema.json"
_ABOUT = "The TensorFlow Lite schema; `python -m scripts.schema_json` writes it, model/schema.py reads it."
_SCALARS = {
    "Bool": "bool", "Int8": "i8", "Uint8": "u8", "Int16": "i16", "Uint16": "u16", "Int32": "i32",
    "Uint32": "u32", "Int64": "i64", "Uint64": "u64", "Float32": "f32", "Float64": "f64",
}  # fmt: skip
_UNIONS = {
    "builtin_options": "BuiltinOptions",
    "builtin_options2": "BuiltinOptions2",
    "details": "QuantizationDetails",
    "array_segments": "SparseIndexVector",
    "array_indices": "SparseIndexVector",
}
# The package's BuiltinCode() answers from the deprecated field too, so its source has another form.
_BY_HAND = {("OperatorCode", "BuiltinCode"): "i32"}


def snake(name: str) -> str:
    """`DilationWFactor` -> `dilation_w_factor`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def text() -> str:
    """The whole file."""
    schema = {
        "about": _ABOUT,
        "tflite": tflite.__version__,
        "operators": _numbered(tflite.BuiltinOperator),
        "tensor_types": _numbered(tflite.TensorType),
        "unions": {name: _numbered(getattr(tflite, name)) for name in sorted(set(_UNIONS.values()))},
        "tables": {
            name: " ".join(_fields(name, cls))
            for name, cls in sorted(vars(tflite).items())
            if inspect.isclass(cls) and hasattr(cls, "Init")
        },
    }
    return json.dumps(schema, indent=0) + "\n"


def _fields(table: str, cls: Any) -> list[str]:
    slots: dict[int, str] = {}
    for name, method in vars(cls).items():
        if not inspect.isfunction(method) or name == "Init" or name.endswith(("AsNumpy", "Length", "IsNone")):
            continue
        source = inspect.getsource(method)
        slot = int(re.findall(r"_tab\.Offset\((\d+)\)", source)[0]) // 2 - 2
        slots[slot] = f"{snake(name)}:{_BY_HAND.get((table, name)) or _kind(name, source)}"
    return [slots.get(i, "-") for i in range(max(slots, default=-1) + 1)]


def _kind(name: str, source: str) -> str:
    vector = "_tab.Vector(" in source
    if "_tab.Union(" in source:
        return "|" + _UNIONS[snake(name)]
    if imported := re.search(r"from tflite\.(\w+) import", source):
        return f"[{imported[1]}]" if vector else imported[1]
    if "_tab.String(" in source:
        return "[str]" if vector else "str"
    flags = re.search(r"number_types\.(\w+)Flags, (?:o|a) \+", source)
    assert flags, source
    scalar = _SCALARS[flags[1]]
    if vector:
        return f"[{scalar}]"
    default = source.rstrip().rsplit("return ", 1)[1]
    if default in ("0", "0.0", "False"):
        return scalar
    return f"{scalar}={1 if default == 'True' else int(default)}"


def _numbered(cls: Any) -> list[str]:
    """An enumeration's names by number; the numbers have no gaps."""
    values = {v: k for k, v in vars(cls).items() if isinstance(v, int)}
    assert sorted(values) == list(range(len(values)))
    return [values[i] for i in range(len(values))]


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
