# SPDX-License-Identifier: Apache-2.0
"""How far a long command is, with its rate and the time left: on a terminal only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Bar(Protocol):
    """What counts."""

    def update(self, n: int = 1) -> object:
        """`n` more are done."""


@contextmanager
def progress(total: int, what: str, unit: str, *, done: int = 0) -> Iterator[Bar]:
    """A bar on standard error; nothing at all where that is no terminal. `done` were done before."""
    from tqdm import tqdm

    with tqdm(total=total, initial=done, desc=what, unit=unit, disable=None, leave=False) as bar:
        yield bar
