# SPDX-License-Identifier: Apache-2.0
"""The result of a command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Say = Callable[[str], None]


@dataclass(frozen=True)
class Done:
    """A command's result for people and for programs, and its exit code."""

    text: str
    json: Any
    code: int = 0
