# SPDX-License-Identifier: Apache-2.0
"""The keys that every document has, in front of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tflm_zephyr import __version__

Document = Mapping[str, Any]

SCHEMA_VERSION = 1
"""Version of tflm_zephyr/data/documents.schema.json. A key that goes, or means something else, makes a new one."""


def enveloped(kind: str, result: Mapping[str, Any], command: Sequence[str] = ()) -> dict[str, Any]:
    """The document of `kind` with the keys of `result`; `command`: the words of the command line that made it.

    Infinities and NaN, which JSON lacks, are None in it.
    """
    head = {
        "document": kind,
        "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
        "command": list(command),
    }
    return {**head, **_finite(result)}


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
