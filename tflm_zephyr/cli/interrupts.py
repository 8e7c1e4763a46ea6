# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and a closed terminal: one signal ends the command, its threads and its children."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from tflm_zephyr import process

SIGNAL_EXIT = 128
# Together less than a second, in which everything has ended.
_GRACE_S = 0.4  # for children, after which those that ignore SIGTERM are killed
_PATIENCE_S = 0.5  # for this process's own threads
_TWICE_S = 0.5  # `timeout` sends its signal to the command and then to the group: that is one


class Ending:
    """The signal handler, the first signal and its time, and whether the command's last line was written."""

    def __init__(self) -> None:
        self.signum: int | None = None
        self._since: float | None = None
        self._over = False
        self._lock = threading.Lock()

    def __call__(self, signum: int, frame: object) -> None:
        """End the children before this process unwinds: a thread that waits for one would hold the exit up."""
        if self._over:
            self._end_now(signum)
        now = time.monotonic()
        if self._since is not None:
            if now - self._since > _TWICE_S:
                self._end_now(signum)
            return
        self._since, self.signum = now, signum
        # Errors of a thread that the signal interrupts, or where nothing can be raised, are no news.
        sys.unraisablehook = threading.excepthook = _ignored
        process.end_all()
        threading.Thread(target=self._guard, args=(signum,), daemon=True).start()
        raise KeyboardInterrupt if signum == signal.SIGINT else SystemExit(SIGNAL_EXIT + signum)

    def over(self) -> None:
        """From now on a signal ends the process at once, as nobody is left to catch what the handler raises."""
        self._over = True

    def report(self, signum: int) -> None:
        """Write the command's last line on standard error, once."""
        if self._lock.acquire(blocking=False):
            what = "interrupted" if signum == signal.SIGINT else f"ended by {signal.Signals(signum).name}"
            os.write(2, f"tflm-zephyr: {what}\n".encode())

    def _guard(self, signum: int) -> None:
        """See to it that the process ends: threads may wait for a child that ignores SIGTERM, or for something else."""
        time.sleep(_GRACE_S)
        process.end_all(signal.SIGKILL)
        time.sleep(_PATIENCE_S)
        self._end_now(signum)

    def _end_now(self, signum: int) -> None:
        process.end_all(signal.SIGKILL)
        self.report(signum)
        os._exit(SIGNAL_EXIT + signum)


def _ignored(args: object) -> None:
    """A hook that shows nothing."""


def catch_signals() -> Ending:
    """End on SIGINT, SIGTERM and SIGHUP, as `Ending` does; a signal that the shell made this process ignore stays so.

    A second signal, or a thread that does not end at once, ends the process with no further cleaning up.
    """
    ending = Ending()
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(sig) != signal.SIG_IGN:
            signal.signal(sig, ending)
    return ending
