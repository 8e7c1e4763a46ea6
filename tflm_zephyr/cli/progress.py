# SPDX-License-Identifier: Apache-2.0
"""Progress of a long command, with its rate and the time left: on a terminal only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tflm_zephyr.cli.output import errors_on_terminal
from tflm_zephyr.host import OnRun

_STEP = re.compile(r"\[(\d+)/(\d+)\]")


class Bar:
    """Counts the finished items."""

    def __init__(self, shown: Any = None) -> None:
        """`shown` is tqdm's bar, None for none."""
        self._shown = shown

    def update(self) -> None:
        """One more is done."""
        if self._shown is not None:
            self._shown.update()

    def at(self, done: int, total: int) -> None:
        """`done` of `total` are done."""
        if self._shown is not None:
            self._shown.total, self._shown.n = total, done
            self._shown.refresh()

    def ninja(self, line: str) -> None:
        """Show the step that ninja's line "[12/345] ..." counts; other lines change nothing."""
        found = _STEP.match(line)
        if found is not None:
            self.at(int(found[1]), int(found[2]))

    def skip(self, count: int) -> None:
        """`count` were done before: they are not part of the rate."""
        if self._shown is None:
            return
        self._shown.initial += count
        self._shown.n += count
        self._shown.refresh()


@contextmanager
def progress(total: int | None, what: str, unit: str, *, quiet: bool = False) -> Iterator[Bar]:
    """A bar on standard error; without a terminal, or with `quiet`, it prints nothing. `total` None: not known."""
    if quiet or not errors_on_terminal():
        yield Bar()
        return
    from tqdm import tqdm

    with tqdm(total=total, desc=what, unit=unit, leave=False) as shown:
        yield Bar(shown)


@contextmanager
def reference_runs(what: str, *, quiet: bool = False) -> Iterator[OnRun]:
    """A bar for the runs of the reference engines, side by side, as `host.OnRun` gets them."""
    done: dict[str, int] = {}

    def on_run(engine: str, count: int, total: int) -> None:
        done[engine] = count
        bar.at(sum(done.values()), total * len(done))

    with progress(None, what, "run", quiet=quiet) as bar:
        yield on_run
