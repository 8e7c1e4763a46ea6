# SPDX-License-Identifier: Apache-2.0
"""The result of a command, and the refusal of flags that would do nothing."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tflm_zephyr.errors import AppError

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


def refuse_flags(args: argparse.Namespace, names: Sequence[str], why: str, hint: str = "Leave it out") -> None:
    """Raise AppError for the first flag of `names`, as attributes of `args`, that was given."""
    for name in names:
        value = getattr(args, name, None)
        if value is not None and value is not False and value not in ([], ""):  # 0 was given
            raise AppError(f"--{name.replace('_', '-')} {why}", where=args.tflm_command, hint=hint)
