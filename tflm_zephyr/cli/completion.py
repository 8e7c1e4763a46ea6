# SPDX-License-Identifier: Apache-2.0
"""`--print-completion SHELL`: a script that completes commands, options, files and boards.

shtab makes it from the parser. A script costs nothing per key press; a completer that runs the tool, as argcomplete's
does, would take its start-up time on every one.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tflm_zephyr.boards import known_boards
from tflm_zephyr.cli.output import write_out
from tflm_zephyr.errors import ToolError

SHELLS = ("bash", "zsh")
_BOARDS = "_tflm_zephyr_boards"


class PrintCompletion(argparse.Action):
    """Prints the script for a shell, and ends."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: object, values: Any, option: str | None = None
    ) -> None:
        """See argparse.Action. Raises ToolError where shtab is not installed."""
        write_out(completion_script(parser, values))
        parser.exit()


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for one of SHELLS. Raises ToolError where shtab is not installed."""
    try:
        import shtab
    except ImportError:
        raise ToolError(
            "shtab is not installed",
            where="--print-completion",
            hint="Install the toolkit with its completion extra: pip install '.[completion]' in its checkout",
        ) from None
    boards = " ".join(known_boards())
    _complete(parser, {"bash": _BOARDS, "zsh": f"({boards})"}, shtab.FILE)
    preamble = {"bash": f"{_BOARDS}() {{ compgen -W '{boards}' -- \"$1\"; }}"}
    script: str = shtab.complete(parser, shell=shell, preamble=preamble)
    return script


def _complete(parser: argparse.ArgumentParser, boards: dict[str, str], files: dict[str, str]) -> None:
    """Tell shtab what the arguments of all commands are."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in dict.fromkeys(action.choices.values()):
                _complete(sub, boards, files)
        elif action.dest == "board":
            action.complete = boards  # type: ignore[attr-defined]
        elif action.type is Path:
            action.complete = files  # type: ignore[attr-defined]
