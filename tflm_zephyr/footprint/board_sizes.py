# SPDX-License-Identifier: Apache-2.0
"""Flash and RAM of a generated app on each described board, besides its models and kernels.

`benchmarks/board_sizes.py --update` builds an app without operators for every board and writes the table
data/board_sizes.json. Apps of real models are built too, and how far they are from the sum of base, models and
kernels is in the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tflm_zephyr.resources import package_data

_DATA = "board_sizes.json"


@dataclass(frozen=True)
class BoardBase:
    """An app with one model less that model's bytes, reference data, arena, kernels and main stack.

    core: the core that it is compiled for, as kernel_sizes names it. main_stack_bytes: what the main stack takes of
    RAM in that app, guard included. next_model_...: what each model after the first adds beside its own parts.
    off_...: the lowest and the highest of what apps of real models took more. linked: library sections in the app,
    for kernel_sizes.kernel_need.
    """

    board: str
    core: str
    flash_bytes: int
    ram_bytes: int
    main_stack_bytes: int
    next_model_flash_bytes: int
    next_model_ram_bytes: int
    off_flash_bytes: tuple[int, int]
    off_ram_bytes: tuple[int, int]
    linked: frozenset[str]


def board_base(board: str) -> BoardBase | None:
    """The base on `board` (a board target's full name); None when it was not measured."""
    return _bases().get(board)


def measured_boards() -> tuple[str, ...]:
    """The boards of the table, sorted."""
    return tuple(sorted(_bases()))


def dump_bases(bases: Mapping[str, BoardBase]) -> str:
    """The JSON text that `board_base` reads."""
    names = sorted({name for base in bases.values() for name in base.linked})
    at = {name: i for i, name in enumerate(names)}
    rows: dict[str, Any] = {}
    for board, base in sorted(bases.items()):
        row = {key: value for key, value in vars(base).items() if key not in ("board", "linked")}
        rows[board] = {**row, "linked": sorted(at[name] for name in base.linked)}
    listed = ",\n".join(f"{json.dumps(board)}: {json.dumps(row)}" for board, row in rows.items())
    return f'{{\n"library": {json.dumps(names, indent=1)},\n"boards": {{\n{listed}\n}}\n}}\n'


@cache
def _bases() -> Mapping[str, BoardBase]:
    raw = json.loads(package_data(_DATA))
    names = raw["library"]
    found = {}
    for board, row in raw["boards"].items():
        spans = {key: tuple(row[key]) for key in ("off_flash_bytes", "off_ram_bytes")}
        found[board] = BoardBase(board, **{**row, **spans, "linked": frozenset(names[i] for i in row["linked"])})
    return found
