# SPDX-License-Identifier: Apache-2.0
"""Flags that would do nothing are refused."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tflm_zephyr.errors import AppError


def refuse_flags(args: argparse.Namespace, names: Sequence[str], why: str, hint: str = "Leave it out") -> None:
    """Raise AppError for the first flag of `names`, as attributes of `args`, that was given."""
    for name in names:
        value = getattr(args, name, None)
        if value is not None and value is not False and value not in ([], ""):  # 0 was given
            raise AppError(f"--{name.replace('_', '-')} {why}", where=args.tflm_command, hint=hint)
