# SPDX-License-Identifier: Apache-2.0
"""Work that the ways of one app share: models that are read, arenas that are planned, searches of compiled code."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

_Made = TypeVar("_Made")


class SharedWork:
    """Results by what they were made from; each is made once.

    It belongs to one app: keys name what ways of the app differ in. `counts` says how often each kind was made.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, object] = {}
        self.counts: dict[str, int] = {}

    def once(self, kind: str, key: Hashable, make: Callable[[], _Made]) -> _Made:
        """The result of `make`, or that of the first call with this kind and key."""
        place = (kind, key)
        if place not in self._made:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self._made[place] = make()
        return cast(_Made, self._made[place])
