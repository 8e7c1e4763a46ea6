# SPDX-License-Identifier: Apache-2.0
"""The command line of `tflm-zephyr` and `west tflm`, which alone prints (by `output`).

Exit codes: 0 done, 1 an error, reported in one line, 2 a wrong command line, 129 the terminal was closed,
130 interrupted, 143 ended by SIGTERM.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import TextIO

from tflm_zephyr import process
from tflm_zephyr.cli import app_options, device_options, machine_options
from tflm_zephyr.cli.commands.outcome import Done
from tflm_zephyr.cli.completion import SHELLS, PrintCompletion
from tflm_zephyr.cli.interrupts import SIGNAL_EXIT, catch_signals
from tflm_zephyr.cli.options import CommandParser, Parser, add_workspace
from tflm_zephyr.cli.options import Commands as _Commands
from tflm_zephyr.cli.options import add_command as _command
from tflm_zephyr.cli.options import count as _count
from tflm_zephyr.cli.options import seconds as _seconds
from tflm_zephyr.cli.output import output_failed, write_error, write_out
from tflm_zephyr.cli.version import ShowVersion
from tflm_zephyr.documents import enveloped
from tflm_zephyr.errors import ToolError

_BOARD_HELP = (
    "one of the app's boards (default: the first that QEMU emulates; to flash, or with --port, the first other)"
)
DESCRIPTION = "From a .tflite model to measured and verified Zephyr firmware with TensorFlow Lite Micro."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # no failure for a character that the encoding lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        args = build_parser("tflm-zephyr").parse_args(argv)
        args.command_line = sys.argv[1:] if argv is None else argv
    except OSError as err:  # of --help or --version
        return output_failed(err)
    except ToolError as err:  # of --print-completion
        write_error(str(err))
        return 1
    return run(args)


def run(args: argparse.Namespace) -> int:
    """Execute a parsed command line and return its exit code: of the first signal, whatever was raised after it."""
    ending = catch_signals()
    code = 0
    try:
        code = _execute(args)
    except BaseException:
        if ending.signum is None:
            raise
    finally:
        ending.over()
    if ending.signum is None:
        return code
    ending.report(ending.signum)
    return SIGNAL_EXIT + ending.signum


def _execute(args: argparse.Namespace) -> int:
    """Execute a parsed command line; its exit code."""
    handler = _handler(args.tflm_command)
    args.confirm = _confirm
    args.command_line = getattr(args, "command_line", [])
    try:
        if args.quiet and args.verbose:
            raise ToolError("--quiet and --verbose contradict each other", where=args.tflm_command, hint="Give one")
        children = process.shown(lambda line: write_out(line, sys.stderr)) if args.verbose else nullcontext()
        with children:
            done = handler(args, _say(sys.stderr if args.json else sys.stdout, quiet=args.quiet))
        write_out(_document(args, done) if args.json else _shown(done), sys.stdout)
        return done.code
    except ToolError as err:
        if args.traceback:
            raise
        write_error(str(err))
        return 1
    except OSError as err:  # user files: a name too long, a folder without permission, a full disk
        if args.traceback and not isinstance(err, BrokenPipeError):
            raise
        return output_failed(err)


def _handler(command: str) -> Callable[[argparse.Namespace, Callable[[str], None]], Done]:
    """The function that executes `command`; modules of other commands are not imported."""
    name = {"flash": "device", "build": "device", "run": "device", "ports": "boards"}.get(command, command)
    handler: Callable[[argparse.Namespace, Callable[[str], None]], Done]
    handler = getattr(import_module(f"tflm_zephyr.cli.commands.{name}"), f"do_{command}")
    return handler


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = Parser(prog=prog, description=DESCRIPTION)
    parser.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=SHELLS,
        help="print the script that completes commands, options, files and boards in a shell",
    )
    add_commands(parser)
    return parser


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add all commands to `parser`, of `tflm-zephyr` or of `west tflm`."""
    parser.add_argument("--version", action=ShowVersion)
    commands: _Commands = parser.add_subparsers(
        dest="tflm_command", required=True, metavar="COMMAND", parser_class=CommandParser
    )
    for add in (
        machine_options.add_doctor,
        machine_options.add_setup,
        machine_options.add_inspect,
        app_options.add_generate,
        app_options.add_library,
        app_options.add_fit,
        app_options.add_plan,
        _build,
        _footprint,
        _budget,
        _size,
        _flash,
        _run,
        device_options.add_infer,
        device_options.add_verify,
        device_options.add_evaluate,
        device_options.add_profile,
        app_options.add_report,
        _boards,
        _ports,
    ):
        add(commands)


def _build(commands: _Commands) -> None:
    parser = _command(commands, "build", "build a generated app with west")
    _app_and_board(parser)
    parser.add_argument("-p", "--pristine", action="store_true", help="build from scratch")
    parser.add_argument(
        "-D",
        dest="defines",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a CMake setting such as CONFIG_INIT_STACKS=y; may be repeated",
    )
    parser.add_argument(
        "--record", action="store_true", help="build an app that prints TFLM's allocations, for run --record"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="build even if the workspace has other Zephyr or TFLM revisions than the app was generated for",
    )
    add_workspace(parser)


def _footprint(commands: _Commands) -> None:
    parser = _command(commands, "footprint", "show a built app's flash and RAM by part")
    _app_and_board(parser)
    parser.add_argument("--against", type=Path, metavar="OLD", help="a build folder or ELF file to compare with")


def _app_and_boards(parser: CommandParser, *, default: str) -> None:
    parser.add_argument("app", type=Path, metavar="APP", help="the app's folder")
    help_text = f"one of the app's boards; may be repeated (default: {default})"
    parser.add_argument("-b", "--board", action="append", metavar="BOARD", help=help_text)


def _budget(commands: _Commands) -> None:
    parser = _command(commands, "budget", "compare a built app with the limits in its budget.yaml; exit 1 if over")
    _app_and_boards(parser, default="all that have a limit")
    parser.add_argument("--file", type=Path, metavar="FILE", help="the limits (default: APP/budget.yaml)")
    parser.add_argument(
        "-d", "--build-dir", type=Path, metavar="DIR", help="the board's build folder (default: APP/build/<board>)"
    )
    parser.add_argument("--timeout", type=_seconds, metavar="S", help="time limit of a run in seconds (default: 60)")


def _size(commands: _Commands) -> None:
    parser = _command(commands, "size", "measure the smallest arena of each model in QEMU, prove it, and use it")
    _app_and_boards(parser, default="all")
    parser.add_argument(
        "--timeout", type=_seconds, default=600.0, metavar="S", help="time limit of each run in seconds (default: 600)"
    )
    add_workspace(parser)


def _flash(commands: _Commands) -> None:
    parser = _command(commands, "flash", "flash a built app onto a board with west")
    _app_and_board(parser)
    parser.add_argument("--runner", help="west's flash runner: nrfjprog, nrfutil, jlink, ...")
    parser.add_argument("--dev-id", metavar="ID", help="the debug probe's serial number, if several are connected")
    add_workspace(parser)


def _run(commands: _Commands) -> None:
    parser = _command(commands, "run", "run an app's self-test in QEMU, on a board, or on this host, and report")
    _app_and_board(parser)
    parser.add_argument(
        "--target",
        choices=("qemu", "serial", "host"),
        help="where the app runs (default: serial with --port, QEMU if it emulates the board, else the board on USB)",
    )
    parser.add_argument("--port", metavar="URL", help="serial port: /dev/ttyACM0, socket://host:port, rfc2217://...")
    parser.add_argument("--dev-id", metavar="ID", help="the board on USB by its debug probe's serial number")
    parser.add_argument("--baudrate", type=_count, metavar="N", help="baud rate (default: the board's, 115200)")
    parser.add_argument("--flash-first", action="store_true", help="flash the board first")
    parser.add_argument(
        "--record", action="store_true", help="run the app of build --record and show the arena's tail by section"
    )
    parser.add_argument("--timeout", type=_seconds, metavar="S", help="time limit in seconds (default: 60)")
    parser.more.add_argument(
        "--no-icount", action="store_true", help="QEMU at full speed; its ticks then have no meaning"
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FILE",
        help="with --target host: a labelled .npz (x, y); all of it is run, for the accuracy",
    )
    add_workspace(parser)


def _boards(commands: _Commands) -> None:
    _command(commands, "boards", "list the boards that this tool describes")


def _ports(commands: _Commands) -> None:
    _command(commands, "ports", "list serial ports, with what is connected to them")


def _app_and_board(parser: CommandParser) -> None:
    parser.add_argument("app", type=Path, metavar="APP", help="the app's folder")
    parser.add_argument("-b", "--board", metavar="BOARD", help=_BOARD_HELP)
    parser.add_argument(
        "-d", "--build-dir", type=Path, metavar="DIR", help="the build folder (default: APP/build/<board>)"
    )


def _document(args: argparse.Namespace, done: Done) -> str:
    """The command's result as a JSON document."""
    kind = done.document or args.tflm_command
    return json.dumps(enveloped(kind, done.json, args.command_line), indent=2)


def _shown(done: Done) -> str:
    """The result as text, drawn for the terminal where there is one."""
    if done.terminal is None or not sys.stdout.isatty():
        return done.text
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(done.terminal(console.width))
    return captured.get().rstrip("\n")


def _say(stream: TextIO, *, quiet: bool) -> Callable[[str], None]:
    """Shows a line on `stream`; with `quiet` a warning's alone."""

    def say(line: str) -> None:
        if not quiet or line.startswith("warning:"):
            write_out(line, stream)

    return say


def _confirm(question: str) -> bool | None:
    """The user's answer at the terminal, "no" for an empty one; None where there is no terminal."""
    if not sys.stdin.isatty():
        return None
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
