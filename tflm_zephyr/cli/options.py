# SPDX-License-Identifier: Apache-2.0
"""Shared by the parsers of all commands: adding a command, and argument types."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = Any


def add_command(commands: Commands, name: str, text: str) -> argparse.ArgumentParser:
    """A parser for the command `name`, with the options that all commands have."""
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--traceback", action="store_true", help="show where an error arose")
    return parser


def size(text: str) -> int:
    """Bytes: 4096, 0x1000, 4k, 1M."""
    units = {"k": 1024, "m": 1024 * 1024}
    factor = units.get(text[-1:].lower(), 1)
    try:
        value = int(text[:-1] if factor > 1 else text, 0) * factor
    except ValueError:
        value = 0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size in bytes: write it as 4096 or 4k")
    return value


def count(text: str) -> int:
    """A positive whole number."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def natural(text: str) -> int:
    """A whole number of 0 or more."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def seconds(text: str) -> float:
    """A time in seconds, above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def two_numbers(text: str) -> tuple[float, float]:
    """Two numbers with a comma between: -1,1."""
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        low = high = 0.0
    if not abs(low) < 1e9 or not abs(high) < 1e9 or low == high:
        raise argparse.ArgumentTypeError(f"{text!r} is not two different numbers: write them as 0,1")
    return low, high


def percentage(text: str) -> float:
    """A share: 2% or 0.02 is 0.02. A share above 1 needs the percent sign, as a bare 4 is more likely to mean 4%."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage: write it as 2%")
    if value > 1 and not text.endswith("%"):
        raise argparse.ArgumentTypeError(f"{text} means {100 * value:g} %: write {text}% or {100 * value:g}%")
    return value
