# SPDX-License-Identifier: Apache-2.0
"""The parsers of the commands that drive a model on a device from this host."""

from __future__ import annotations

from pathlib import Path

from tflm_zephyr.cli.options import (
    CommandParser,
    Commands,
    add_command,
    count,
    jobs,
    natural,
    percentage,
    seconds,
    two_numbers,
)

# As in validation.inputs, which takes a second to import (a test compares them).
FORMATS = ("npy", "npz", "image", "wav", "csv", "bin")
RESAMPLINGS = ("nearest", "box", "bilinear", "bicubic", "lanczos")


def add_infer(commands: Commands) -> None:
    """`infer`."""
    parser = add_command(commands, "infer", "feed files to a model on a device, in QEMU or on this host")
    parser.add_argument("input", nargs="+", metavar="INPUT", help=".npy, .npz, PNG, BMP, WAV, CSV; - reads stdin")
    _model(parser)
    _labels(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write .json, .csv or .npz as well")


def add_verify(commands: Commands) -> None:
    """`verify`."""
    parser = add_command(commands, "verify", "compare a device with the reference on this host, byte for byte")
    parser.add_argument("input", nargs="*", metavar="INPUT", help="as for infer")
    _model(parser)
    parser.add_argument("--random", type=natural, metavar="N", help="seeded random inputs (default: 10 without INPUT)")
    parser.more.add_argument("--seed", type=natural, metavar="S", help="of the first of them (default: 0)")
    parser.more.add_argument("--tflite", type=Path, metavar="FILE", help="the model (default: the app's)")
    parser.more.add_argument(
        "--dump", type=Path, metavar="FILE", help="write the differing operator's tensors to an .npz"
    )


def add_evaluate(commands: Commands) -> None:
    """`evaluate`."""
    parser = add_command(commands, "evaluate", "run a labelled data set through a device, or through several at once")
    parser.add_argument("data", type=Path, metavar="DATA", help=".npz (x, y), or a folder with a folder for each class")
    _model(parser)
    parser.more.add_argument(
        "--float", type=Path, metavar="MODEL", help="a float .tflite to compare with, run on this host on the same .npz"
    )
    parser.more.add_argument("--truth", type=Path, metavar="FILE", help="the classes (.npy) beside an .npy of inputs")
    _labels(parser)
    parser.add_argument(
        "-j", "--jobs", type=jobs, metavar="N", help="as many emulators at once, up to 64 (boards: a --port for each)"
    )
    parser.more.add_argument(
        "--resume", type=Path, metavar="FILE", help="keep results there, and go on from those it has"
    )


def add_profile(commands: Commands) -> None:
    """`profile`."""
    parser = add_command(commands, "profile", "measure what each operator takes on a device")
    parser.add_argument("input", nargs="?", metavar="INPUT", help="as for infer, its first sample (default: random)")
    _model(parser)
    parser.add_argument("--runs", type=count, default=10, metavar="N", help="default: 10")
    parser.more.add_argument("--seed", type=natural, metavar="S", help="of the random input (default: 0)")
    parser.more.add_argument(
        "--tflite", type=Path, metavar="FILE", help="the model (default: the app's), for random input"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the profile as JSON, a later baseline")
    parser.more.add_argument("--trace", type=Path, metavar="FILE", help="write Chrome trace JSON, which Perfetto opens")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="a profile to compare with")
    parser.more.add_argument(
        "--max-regression", type=percentage, metavar="P", help="exit 1 when an operator takes more than that (2%%)"
    )


def _model(parser: CommandParser) -> None:
    _target(parser)
    _feed(parser)
    parser.add_argument("--force", action="store_true", help="replace files, keeping the old ones as .orig")


def _labels(parser: CommandParser) -> None:
    parser.add_argument("--labels", type=Path, metavar="FILE", help="the classes' names, one a line")


def _target(parser: CommandParser) -> None:
    group, more = parser.add_argument_group("where the model runs"), parser.more
    group.add_argument("--app", type=Path, metavar="APP", help="a generated app with host_link: true, in QEMU")
    group.add_argument("-b", "--board", metavar="BOARD", help="one of the app's boards")
    more.add_argument("-d", "--build-dir", type=Path, metavar="DIR", help="default: APP/build/<board>")
    group.add_argument(
        "--port",
        action="append",
        metavar="URL",
        help="a board's serial port: /dev/ttyACM0, socket://host:port, rfc2217://..., auto",
    )
    more.add_argument(
        "--dev-id", action="append", metavar="ID", help="a board on USB by its debug probe's serial number"
    )
    more.add_argument("--baudrate", type=count, metavar="N", help="default: the board's, 115200")
    group.add_argument("--host", type=Path, metavar="MODEL", help="a .tflite, in TFLM on this host")
    more.add_argument("--replay", type=Path, metavar="FILE", help="a file that --record wrote")
    more.add_argument("--record", type=Path, metavar="FILE", help="record all bytes on the link")
    group.add_argument("--model", metavar="NAME", help="one of the app's models")
    more.add_argument("--timeout", type=seconds, metavar="S", help="the longest that one run may take (default: 600)")
    more.add_argument(
        "--reply-timeout",
        type=seconds,
        metavar="S",
        help="the longest wait for an answer that needs no run, and three times that for tables (default: 10)",
    )


def _feed(parser: CommandParser) -> None:
    more = parser.more
    more.add_argument(
        "--raw",
        action="store_true",
        help="numbers, pixels and sound samples are the tensors' elements, not real values",
    )
    more.add_argument("--format", choices=FORMATS, default="", help="the files' format (default: by their content)")
    more.add_argument(
        "--pixels", type=two_numbers, metavar="LOW,HIGH", help="the values of black and white (default: by the tensor)"
    )
    more.add_argument("--resample", choices=RESAMPLINGS, default="bilinear", help="for images (default: bilinear)")
    parser.add_argument(
        "--frontend",
        metavar="MODEL",
        help="the model that makes features from sound: a .tflite, on this host, or another of the app's models",
    )
    more.add_argument(
        "--stride", type=count, metavar="N", help="sound samples from window to window (default: a whole window)"
    )
    more.add_argument("--rate", type=count, metavar="HZ", help="the model's rate of sound: a WAV of another is refused")
