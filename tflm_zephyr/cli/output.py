# SPDX-License-Identifier: Apache-2.0
"""Standard output and error: colours on a terminal, one line where they cannot be written."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from collections.abc import Mapping
from typing import TextIO

from tflm_zephyr.cli.interrupts import SIGNAL_EXIT

_STDOUT = "standard output"
_RED, _GREEN, _YELLOW = 31, 32, 33
_COLOURS = (
    (re.compile(r"^(tflm-zephyr: error:)", re.M), _RED),
    (re.compile(r"^( *warning:)", re.M), _YELLOW),
    (re.compile(r"\b(FAILED|DIFFERS)\b"), _RED),
    (re.compile(r"^(missing|broken)(?=  )", re.M), _RED),
    (re.compile(r"\b(does not fit|over budget)\b"), _RED),
    (re.compile(r"(?<=self-test )(passed)\b"), _GREEN),
    (re.compile(r"^(ok)(?=  )", re.M), _GREEN),
)


def coloured(text: str, stream: TextIO, environ: Mapping[str, str] | None = None) -> str:
    """`text` with verdicts and warnings in colour where `stream` is a terminal that wants it (https://no-color.org)."""
    env = os.environ if environ is None else environ
    if env.get("NO_COLOR") or env.get("TERM") == "dumb" or not stream.isatty():
        return text
    for words, colour in _COLOURS:
        text = words.sub(f"\x1b[{colour}m\\1\x1b[0m", text)
    return text


def errors_on_terminal() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr.isatty()


def write_out(text: str, stream: TextIO | None = None) -> None:
    """Print `text` on `stream`, by default standard output, at once. Raises OSError with the stream's name."""
    stream = stream or sys.stdout
    try:
        print(coloured(text, stream), file=stream, flush=True)
    except OSError as err:
        raise _named(err, stream) from None


def output_failed(err: OSError) -> int:
    """The exit code after an OSError, reported in a line; a reader that went away, as `head` does, is no error.

    Raises it again when it neither names a file nor is about a full disk, as that is a bug.
    """
    if isinstance(err, BrokenPipeError) or err.filename == _STDOUT:  # what is still to be written is dropped
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(err, BrokenPipeError):
        return SIGNAL_EXIT + signal.SIGPIPE
    if err.filename is None and err.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        raise err
    where = "" if err.filename is None else f"{err.filename}: "
    write_error(f"{where}{err.strerror}")
    return 1


def write_error(text: str) -> None:
    """Print an error's line; control characters are escaped, as names of files and tensors may hold any."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    print(coloured(f"tflm-zephyr: error: {line}", sys.stderr), file=sys.stderr)


def _named(err: OSError, stream: TextIO) -> OSError:
    err.filename = _STDOUT if stream is sys.stdout else "standard error"
    return err
