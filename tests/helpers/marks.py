# SPDX-License-Identifier: Apache-2.0
"""Parameters of a test, a few of which are enough while working."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def rest_slow(values: Iterable[Any], fast: int = 1) -> list[Any]:
    """`values` as parameters: the first `fast` as they are, the others with the marker `slow`."""
    return [
        value
        if index < fast
        else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)
        for index, value in enumerate(values)
    ]
