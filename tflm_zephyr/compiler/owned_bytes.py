# SPDX-License-Identifier: Apache-2.0
"""The owner of each byte of an arena, for proofs that follow a program."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

NOTHING = -2
"""The owner of bytes that hold no value."""


class OwnedBytes:
    """The owner of each byte, as intervals: starts[i] <= b < starts[i + 1] belongs to owners[i]."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._starts, self._owners = [0], [NOTHING]

    def give(self, first: int, end: int, owner: int) -> None:
        """Bytes first <= b < end now hold `owner`."""
        if first >= end:
            return
        after = self._owners[bisect_right(self._starts, end) - 1] if end < self.size else None
        low, high = bisect_right(self._starts, first - 1), bisect_right(self._starts, end)
        if self._starts[low - 1 : low] == [first]:
            low -= 1
        starts, owners = [first], [owner]
        if after is not None:
            starts.append(end)
            owners.append(after)
        self._starts[low:high] = starts
        self._owners[low:high] = owners

    def copy(self) -> OwnedBytes:
        """The same owners, on their own."""
        found = OwnedBytes(self.size)
        found._starts, found._owners = self._starts[:], self._owners[:]
        return found

    def merge(self, other: OwnedBytes) -> bool:
        """Bytes that `other` gives to someone else now hold nothing; whether there were any."""
        changed = False
        edges = sorted({*self._starts, *other._starts, self.size})
        mine, theirs = self.copy(), other
        for first, end in pairwise(edges):
            owner = mine.owner(first)
            if owner not in (NOTHING, theirs.owner(first)):
                self.give(first, end, NOTHING)
                changed = True
        return changed

    def owner(self, byte: int) -> int:
        """The owner of a byte."""
        return self._owners[bisect_right(self._starts, byte) - 1]

    def pieces(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """The interval in pieces of one owner each: first byte, end, owner."""
        at = bisect_right(self._starts, first) - 1
        while at < len(self._starts) and self._starts[at] < end:
            behind = self._starts[at + 1] if at + 1 < len(self._starts) else self.size
            yield max(first, self._starts[at]), min(end, behind), self._owners[at]
            at += 1

    def other(self, first: int, end: int, owner: int) -> tuple[int, int] | None:
        """The first byte in the interval that does not hold `owner`, and what it holds; None where all do."""
        if first >= end:
            return None
        at = bisect_right(self._starts, first) - 1
        while at < len(self._starts) and self._starts[at] < end:
            if self._owners[at] != owner:
                return max(first, self._starts[at]), self._owners[at]
            at += 1
        return None
