# SPDX-License-Identifier: Apache-2.0
"""Progress of a long command, with its rate and the time left: on a terminal only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Bar:
    """Counts the finished items."""

    def __init__(self, shown: Any) -> None:
        """`shown` is tqdm's bar."""
        self._shown = shown

    def update(self) -> None:
        """One more is done."""
        self._shown.update()

    def skip(self, count: int) -> None:
        """`count` were done before: they are not part of the rate."""
        if self._shown.disable:
            return
        self._shown.initial += count
        self._shown.n += count
        self._shown.refresh()


@contextmanager
def progress(total: int, what: str, unit: str) -> Iterator[Bar]:
    """A bar on standard error; without a terminal it prints nothing."""
    from tqdm import tqdm

    with tqdm(total=total, desc=what, unit=unit, disable=None, leave=False) as shown:
        yield Bar(shown)
