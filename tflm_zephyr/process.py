# SPDX-License-Identifier: Apache-2.0
"""The only module that imports subprocess: run a child to its end, or hold one and kill its whole tree."""

from __future__ import annotations

import atexit
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_GRACE_S = 0.7


# Reads a line for each process group or folder that begins ("+123", "+/tmp/x") and ends ("-123"). Its input ends with
# this process, however that was: then it kills the groups that are left and removes the folders.
_REAPER = r"""
set --
while IFS= read -r line; do
  case $line in
  +*) set -- "$@" "${line#+}" ;;
  -*) for each do shift; [ "$each" = "${line#-}" ] || set -- "$@" "$each"; done ;;
  esac
done
for each do case $each in /*) ;; *) kill -KILL "-$each" 2>/dev/null ;; esac; done
for each do case $each in /*) rm -rf -- "$each" ;; esac; done
"""


class _Reaper:
    """A shell that outlives this process, and ends what this process left when it was killed by SIGKILL.

    Nothing else could: no handler runs, and Linux's PR_SET_PDEATHSIG reaches no grandchild. A child that starts in the
    very millisecond in which this process is killed stays.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shell: subprocess.Popen[bytes] | None = None

    def begins(self, what: int | Path) -> None:
        """A process group, or a folder by its absolute path; not one of two lines: the first may be another's path."""
        if "\n" in str(what):
            return
        with self._lock:
            if self._shell is None:
                self._shell = subprocess.Popen(
                    ["sh", "-c", _REAPER],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
                atexit.register(self._close)
        self._tell(f"+{what}")

    def ends(self, what: int | Path) -> None:
        self._tell(f"-{what}")

    def _tell(self, line: str) -> None:
        """A write of less than PIPE_BUF bytes is whole, whichever threads write."""
        if self._shell is None or self._shell.stdin is None:
            return
        with suppress(OSError):  # somebody ended the shell
            os.write(self._shell.stdin.fileno(), os.fsencode(line + "\n"))

    def _close(self) -> None:
        assert self._shell is not None
        self._shell.communicate()


class _Children:
    """The running children, and whether this process is ending: the only state of a module, as signals are a process's.

    `on_start` gets the command line of each within `shown`, whichever thread starts it.
    """

    def __init__(self) -> None:
        self.running: set[subprocess.Popen[bytes]] = set()
        self.ending = False
        self.on_start: Callable[[str], None] | None = None
        self.reaper = _Reaper()


_CHILDREN = _Children()


def end_all(sig: signal.Signals = signal.SIGTERM) -> None:
    """Send `sig` to the groups of all children, whichever thread started them, and let no other start from now on.

    For a process that is ending: threads that wait for a child go on at once. Takes no lock, so that a signal handler
    may call it.
    """
    _CHILDREN.ending = True
    for child in list(_CHILDREN.running):
        _signal_group(child, sig)


@contextmanager
def removed_if_killed(folder: Path) -> Iterator[None]:
    """Within the block the end of this process, even by SIGKILL, removes `folder`."""
    _CHILDREN.reaper.begins(folder)
    try:
        yield
    finally:
        _CHILDREN.reaper.ends(folder)


@contextmanager
def shown(on_start: Callable[[str], None]) -> Iterator[None]:
    """Within the block `on_start` gets the command line of each child that starts, as for a shell: "$ git ..."."""
    before = _CHILDREN.on_start
    _CHILDREN.on_start = on_start
    try:
        yield
    finally:
        _CHILDREN.on_start = before


@dataclass(frozen=True)
class Finished:
    """A child's exit code and its output, stdout and stderr merged in order."""

    argv: tuple[str, ...]
    returncode: int
    output: str


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Finished:
    """Run `argv` to its end; `on_line` gets each line as it comes.

    Raises FileNotFoundError when the program does not exist and TimeoutError after `timeout_s`; the child and all its
    own children have ended when this returns or raises.
    """
    with spawn(argv, cwd=cwd, env=env, merge_stderr=True) as child:
        lines: list[str] = []
        timer = _Deadline(child, timeout_s)
        with timer:
            assert child.stdout is not None
            for raw in child.stdout:
                line = raw.decode("utf-8", "replace")
                lines.append(line)
                if on_line is not None:
                    on_line(line.rstrip("\r\n"))
            child.wait()
        if timer.fired:
            raise TimeoutError(f"{argv[0]} took longer than {timeout_s:g} s")
        return Finished(tuple(argv), child.returncode, "".join(lines))


@contextmanager
def spawn(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] | None = subprocess.DEVNULL,
    merge_stderr: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """A child in a process group of its own; leaving the block, or the end of this process, kills the whole group.

    Raises KeyboardInterrupt after `end_all`.
    """
    if _CHILDREN.on_start is not None:
        _CHILDREN.on_start(f"$ {shlex.join(argv)}")
    child = subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=None if env is None else dict(env),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merge_stderr else subprocess.PIPE,
        start_new_session=True,
    )
    _CHILDREN.running.add(child)
    try:
        _CHILDREN.reaper.begins(child.pid)
        if _CHILDREN.ending:  # another thread's child, started while `end_all` went through the table
            raise KeyboardInterrupt
        yield child
    finally:
        kill_tree(child)
        _CHILDREN.reaper.ends(child.pid)
        _CHILDREN.running.discard(child)  # not before: a second signal may interrupt the line above
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()


def kill_tree(child: subprocess.Popen[bytes]) -> None:
    """End the child's process group: SIGTERM, then SIGKILL for whatever is still there."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        if not _signal_group(child, sig):
            break
        try:
            child.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    child.wait()


def _signal_group(child: subprocess.Popen[bytes], sig: signal.Signals) -> bool:
    """Whether there is such a group still."""
    try:
        os.killpg(child.pid, sig)
    except (ProcessLookupError, PermissionError):
        return False
    return True


PIPE = subprocess.PIPE


class _Deadline:
    """Kills the child's group when its time is over; says so in `fired`."""

    def __init__(self, child: subprocess.Popen[bytes], timeout_s: float | None) -> None:
        self._child, self._timeout_s, self.fired = child, timeout_s, False

    def __enter__(self) -> None:
        self._timer = None
        if self._timeout_s is not None:
            self._timer = threading.Timer(self._timeout_s, self._fire)
            self._timer.daemon = True
            self._timer.start()

    def _fire(self) -> None:
        self.fired = True
        kill_tree(self._child)

    def __exit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
