# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and a closed terminal: one signal ends the command, its threads and its children."""

from __future__ import annotations

import os
import signal
import threading
import time

from tflm_zephyr import process

SIGNAL_EXIT = 128
_GRACE_S = 0.5  # for children, after which those that ignore SIGTERM are killed
_PATIENCE_S = 4.0  # for this process's own threads
_TWICE_S = 0.5  # `timeout` sends its signal to the command and then to the group: that is one


class _Ending:
    """The signal handler, and when it was called first."""

    def __init__(self) -> None:
        self._since: float | None = None

    def __call__(self, signum: int, frame: object) -> None:
        """End the children before this process unwinds: a thread that waits for one would hold the exit up."""
        now = time.monotonic()
        if self._since is not None:
            if now - self._since > _TWICE_S:
                _end_now(signum)
            return
        self._since = now
        process.end_all()
        threading.Thread(target=_guard, args=(signum,), daemon=True).start()
        raise KeyboardInterrupt if signum == signal.SIGINT else SystemExit(SIGNAL_EXIT + signum)


def catch_signals() -> None:
    """End on SIGINT, SIGTERM and SIGHUP, as `_Ending` does; a signal that the shell made this process ignore stays so.

    A second signal, or a thread that does not end within seconds, ends the process with no further cleaning up.
    """
    ending = _Ending()
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(sig) != signal.SIG_IGN:
            signal.signal(sig, ending)


def _guard(signum: int) -> None:
    """See to it that the process ends: threads may wait for a child that ignores SIGTERM, or for something else."""
    time.sleep(_GRACE_S)
    process.end_all(signal.SIGKILL)
    time.sleep(_PATIENCE_S)
    _end_now(signum)


def end_line(signum: int) -> str:
    """The line that a command ended by a signal leaves."""
    return f"tflm-zephyr: {'interrupted' if signum == signal.SIGINT else f'ended by {signal.Signals(signum).name}'}"


def _end_now(signum: int) -> None:
    process.end_all(signal.SIGKILL)
    os.write(2, f"{end_line(signum)}\n".encode())
    os._exit(SIGNAL_EXIT + signum)
