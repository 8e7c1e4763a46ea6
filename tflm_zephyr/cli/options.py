# SPDX-License-Identifier: Apache-2.0
"""Shared by the parsers of all commands: adding a command and its options, argument types, misspelt words."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeAlias

from tflm_zephyr.cli.output import write_out
from tflm_zephyr.options import RENAMED, ModelConfig, Row, options_of, rows_of
from tflm_zephyr.plain_values import Limits, OneOf, ValuesError, did_you_mean, read_word

Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"

_CHOICE = re.compile(r"invalid choice: '(?P<given>.*?)' \(choose from (?P<known>.*)\)$", re.S)
_PERIOD = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(us|ms|s)", re.ASCII)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_MOST = 2**31 - 1
MOST_JOBS = 64


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
    """The parser of one command, which refuses what it does not know by itself, with its own usage.

    `more` is the group of the options that --help leaves out and --help-all has. Options are written out: an
    abbreviation would mean another option as soon as there is one.
    """

    def __init__(self, **values: Any) -> None:
        super().__init__(**values, allow_abbrev=False)
        self.add_argument("--help-all", action=_HelpAll, nargs=0, help="show all options")
        self.more = self.add_argument_group("more options")
        self.whole_help = False

    def format_usage(self) -> str:
        """See ArgumentParser; without `more`, unless `whole_help`."""
        with self._without_more():
            return super().format_usage()

    def format_help(self) -> str:
        """See ArgumentParser; without `more`, unless `whole_help`."""
        self._action_groups.sort(key=lambda group: group is self.more)
        self.epilog = None if self.whole_help else f"--help-all shows {len(self.more._group_actions)} more options."
        with self._without_more():
            return super().format_help()

    @contextmanager
    def _without_more(self) -> Iterator[None]:
        helps = {action: action.help for action in self.more._group_actions if not self.whole_help}
        for action in helps:
            action.help = argparse.SUPPRESS
        yield
        for action, text in helps.items():
            action.help = text

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """See ArgumentParser."""
        found, unknown = super().parse_known_args(args, namespace)
        for word in (word.partition("=")[0] for word in unknown):
            if word in RENAMED:
                self.error(f"{word} is now {RENAMED[word]}")
        if unknown:
            options = [option for action in self._actions for option in action.option_strings]
            hints = [did_you_mean(word.partition("=")[0], options) for word in unknown if word.startswith("-")]
            hint = next(filter(None, hints), "")
            self.error(f"unrecognized arguments: {' '.join(unknown)}{f'; {hint}' if hint else ''}")
        return found, unknown


class _HelpAll(argparse.Action):
    """Shows the help with all options, and ends."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: object, values: Any, option: str | None = None
    ) -> None:
        """See argparse.Action."""
        assert isinstance(parser, CommandParser)
        parser.whole_help = True
        parser.print_help()
        parser.exit()


def add_command(commands: Commands, name: str, text: str) -> CommandParser:
    """A parser for the command `name`, with the options that all commands have, and those of options.table."""
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.more.add_argument(
        "-v", "--verbose", action="store_true", help="show the programs that are run, and what they and the app print"
    )
    parser.more.add_argument("-q", "--quiet", action="store_true", help="print the result, warnings and errors alone")
    parser.more.add_argument("--traceback", action="store_true", help="show where an error arose")
    for row in options_of(name):
        _add_option(parser if name in row.option.basic.split() else parser.more, row)
    return parser


def _add_option(parser: argparse._ActionsContainer, row: Row) -> None:
    """The flag of an option; without it, its attribute is None."""
    option = row.option
    names = [*filter(None, [option.short]), row.flag]
    text = f"{'without ' * (row.default is True)}{option.help}"
    text += f"; implies --{option.implies.replace('_', '-')}" if option.implies else ""
    how: dict[str, Any] = {"dest": row.dest, "help": text.replace("%", "%%")}
    choices = [mark.choices for mark in row.hint.__metadata__ if isinstance(mark, OneOf)]
    if row.kind is bool:
        parser.add_argument(*names, action="store_const", const=True, **how)
    elif choices:
        parser.add_argument(*names, choices=choices[0], **how)
    elif isinstance(row.default, tuple):
        parser.add_argument(*names, action="append", metavar=option.metavar, **how)
    else:
        kind = Path if row.kind is Path else partial(word, row.hint)
        parser.add_argument(*names, type=kind, metavar=option.metavar or None, **how)


def word(hint: Any, text: str) -> Any:
    """A word of the command line as a value of the type `hint`."""
    try:
        return read_word(hint, text)
    except ValuesError as error:
        raise argparse.ArgumentTypeError(str(error).strip()) from None


def add_workspace(parser: CommandParser) -> None:
    """The option --workspace."""
    parser.more.add_argument(
        "-w",
        "--workspace",
        type=Path,
        metavar="DIR",
        help="the west workspace (default: ZEPHYR_BASE's, or the one around this folder)",
    )


count = partial(word, Annotated[int, Limits(1, _MOST)])
"""A positive whole number of 31 bits."""
jobs = partial(word, Annotated[int, Limits(1, MOST_JOBS)])
"""A number of emulators that one machine can be asked for."""
natural = partial(word, Annotated[int, Limits(0, _MOST)])
"""A whole number of 0 or more, of 31 bits."""
size = partial(word, rows_of(ModelConfig)["arena"].hint)
"""Bytes: 4096, 0x1000, 4k, 4KiB, 1M."""


def seconds(text: str) -> float:
    """A time in seconds, above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def period(text: str) -> float:
    """A time with its unit, as in 20ms, in seconds."""
    found = _PERIOD.fullmatch(text)
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write it as 20ms, 500us or 1s")
    return float(found[1]) * _SECONDS[found[2]]


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
