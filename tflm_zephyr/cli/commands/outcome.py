# SPDX-License-Identifier: Apache-2.0
"""The result of a command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tflm_zephyr.cli.report.terminal import Drawn

Say = Callable[[str], None]


@dataclass(frozen=True)
class Done:
    """A command's result for people and for programs, and its exit code.

    `json` has the keys of a document of the kind `document`; "" for the kind that is named as the command. `terminal`
    draws the result for a terminal of so many columns, in place of the text.
    """

    text: str
    json: Mapping[str, Any]
    code: int = 0
    document: str = ""
    terminal: Callable[[int], Drawn] | None = None
