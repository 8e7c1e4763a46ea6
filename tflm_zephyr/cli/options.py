# SPDX-License-Identifier: Apache-2.0
"""Shared by the parsers of all commands: adding a command, argument types, questions about misspelt words."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from tflm_zephyr.cli.output import write_out
from tflm_zephyr.plain_values import MOST_PERCENT, did_you_mean, read_percent, read_size

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = Any


_CHOICE = re.compile(r"invalid choice: '(?P<given>.*?)' \(choose from (?P<known>.*)\)$", re.S)
_MOST = 2**31 - 1
_DIGITS = 20  # Python refuses to read thousands of them
MOST_JOBS = 64

_N = TypeVar("_N", int, float)


class Parser(argparse.ArgumentParser):
    """A parser that asks about a misspelt command, choice or option."""

    def print_help(self, file: Any = None) -> None:
        """See ArgumentParser, which would hide that the help cannot be written. Raises OSError."""
        write_out(self.format_help().rstrip("\n"), file)

    def error(self, message: str) -> NoReturn:
        """See ArgumentParser."""
        found = _CHOICE.search(message)
        hint = "" if found is None else did_you_mean(found["given"], re.findall(r"[\w./-]+", found["known"]))
        super().error(f"{message}; {hint}" if hint else message)


class CommandParser(Parser):
    """The parser of one command, which refuses what it does not know by itself, with its own usage."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """See ArgumentParser."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = [option for action in self._actions for option in action.option_strings]
            hints = [did_you_mean(word.partition("=")[0], options) for word in unknown if word.startswith("-")]
            hint = next(filter(None, hints), "")
            self.error(f"unrecognized arguments: {' '.join(unknown)}{f'; {hint}' if hint else ''}")
        return found, unknown


def add_command(commands: Commands, name: str, text: str) -> argparse.ArgumentParser:
    """A parser for the command `name`, with the options that all commands have."""
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show the programs that are run, and what they and the app print"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print the result, warnings and errors alone")
    parser.add_argument("--traceback", action="store_true", help="show where an error arose")
    return parser


def add_workspace(parser: argparse.ArgumentParser) -> None:
    """The option --workspace."""
    parser.add_argument(
        "-w",
        "--workspace",
        type=Path,
        metavar="DIR",
        help="the west workspace (default: ZEPHYR_BASE's, or the one around this folder)",
    )


def size(text: str) -> int:
    """Bytes: 4096, 0x1000, 4k, 4KiB, 1M."""
    try:
        return _limited(text, read_size(text), _MOST)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{_short(text)} is not {error}") from None


def count(text: str) -> int:
    """A positive whole number of 31 bits."""
    if not (text.isascii() and text.isdigit() and text.strip("0")):
        raise argparse.ArgumentTypeError(f"{_short(text)} is not a positive whole number")
    return _limited(text, int(text[:_DIGITS]), _MOST)


def percent(text: str) -> float:
    """A percentage, with or without the sign: 3, 0.5, 10%."""
    try:
        value = read_percent(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{_short(text)} is not {error}") from None
    return _limited(text, value, MOST_PERCENT)


def jobs(text: str) -> int:
    """A number of emulators that one machine can be asked for."""
    return _limited(text, count(text), MOST_JOBS)


def natural(text: str) -> int:
    """A whole number of 0 or more, of 31 bits."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{_short(text)} is not a whole number of 0 or more")
    return _limited(text, int(text[:_DIGITS]), _MOST)


def _limited(text: str, value: _N, most: _N) -> _N:
    if value > most:
        raise argparse.ArgumentTypeError(f"{_short(text)} is too large: the largest is {most}")
    return value


def _short(text: str) -> str:
    return repr(text if len(text) <= 2 * _DIGITS else f"{text[:_DIGITS]}...")


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
