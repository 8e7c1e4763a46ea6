# SPDX-License-Identifier: Apache-2.0
"""How far a long command is, with its rate and the time left: on a terminal only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Bar:
    """Counts what is done."""

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
def progress(total: int | None, what: str, unit: str, *, quiet: bool = False) -> Iterator[Bar]:
    """A bar on standard error; nothing at all where that is no terminal, or with `quiet`. `total` None: not known."""
    from tqdm import tqdm

    with tqdm(total=total, desc=what, unit=unit, disable=quiet or None, leave=False) as shown:
        yield Bar(shown)
