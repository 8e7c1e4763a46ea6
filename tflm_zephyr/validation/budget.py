# SPDX-License-Identifier: Apache-2.0
"""An app's budget: limits on its arena, flash, RAM and instructions by board, and what a build takes of them.

budget.yaml, in the folder of the app:

    all: {arena: 12000}
    boards:
      mps2/an385: {flash: 98304, ram: 32768, instructions: 4000000}

`all` holds for every board; a board's own limit replaces it. Bytes, except `instructions`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

from tflm_zephyr.errors import AppError
from tflm_zephyr.files import reading
from tflm_zephyr.plain_values import Limits, Rules, did_you_mean, load_yaml, read_values

BUDGET_FILE = "budget.yaml"
ARENA, FLASH, RAM, INSTRUCTIONS = "arena", "flash", "ram", "instructions"

_Limit = Annotated[int | None, Limits(1, 2**53)]


@dataclass(frozen=True)
class BoardLimits:
    """The most that an app may take on a board; None for no limit.

    `arena`: bytes of all its arenas. `flash`, `ram`: the linker's used bytes. `instructions`: of the longest inference
    of its self-test, in QEMU.
    """

    arena: _Limit = None
    flash: _Limit = None
    ram: _Limit = None
    instructions: _Limit = None

    def given(self) -> dict[str, int]:
        """The limits that there are, by name."""
        return {name: limit for name, limit in asdict(self).items() if limit is not None}


@dataclass(frozen=True)
class Budget:
    """Limits for all boards, and by board target."""

    all: BoardLimits = BoardLimits()
    boards: Mapping[str, BoardLimits] = field(default_factory=dict)

    def limits(self, board: str) -> dict[str, int]:
        """The limits on `board`, by name."""
        own = self.boards.get(board, BoardLimits())
        return {**self.all.given(), **own.given()}


@dataclass(frozen=True)
class Spending:
    """The app's use of one limit on a board."""

    board: str
    what: str
    used: int
    limit: int

    @property
    def over(self) -> int:
        """By how much the limit is exceeded; 0 where it is kept."""
        return max(0, self.used - self.limit)


def load_budget(path: Path, boards: Collection[str]) -> Budget:
    """Read a budget.yaml of an app for `boards`. Raises AppError naming the file, the key, and its accepted values."""
    hint = "Fix the budget: docs/ci.md describes it"
    with reading(path, AppError, missing="Write a budget: docs/ci.md shows one", hint=hint):
        budget = read_values(Budget, load_yaml(path), Rules(null_is_default=True), name="the budget")
    for board in budget.boards:
        if board not in boards:
            asked = did_you_mean(board, boards) or f"it is for {', '.join(boards)}"
            raise AppError(f"the app is not for {board}; {asked}", where=str(path), hint=hint)
    return budget


def spendings(budget: Budget, board: str, used: Callable[[str], int]) -> tuple[Spending, ...]:
    """The app's use of each limit on `board`; `used` measures one, by name, and is called for limits alone."""
    return tuple(Spending(board, what, used(what), limit) for what, limit in budget.limits(board).items())
