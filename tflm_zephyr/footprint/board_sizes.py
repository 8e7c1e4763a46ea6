# SPDX-License-Identifier: Apache-2.0
"""Flash and RAM of a generated app on each described board, besides its models and kernels.

`benchmarks/board_sizes.py --update` builds an app without operators for every board and writes board_sizes.json in the
data folder of the workspace's TFLM revision, beside the rows of other Zephyr series. It builds apps of real models as
well, and records their deviation in bytes from the sum of base, models and kernels.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from tflm_zephyr.resources import package_data
from tflm_zephyr.tflm import BOARD_SIZES_FILE, PINNED_REVISION, ZephyrVersion, data_folder


@dataclass(frozen=True)
class BoardBase:
    """Flash and RAM of an app with one model, less that model's bytes, golden data, arena, kernels and main stack.

    core: the core that it is compiled for, as kernels.code_size names it. main_stack_bytes: RAM for the main stack in
    that app, guard included. next_model_...: added by each model after the first, besides its own parts. off_...: the
    lowest and the highest deviation of real models' apps from the sum of the parts. linked: library sections in the
    app, for kernels.kernel_need. zephyr: the version of Zephyr that it was measured with ("4.1.0").
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
    zephyr: str


def board_base(board: str, revision: str = PINNED_REVISION, series: str = "") -> BoardBase | None:
    """The base on `board` (a board target's full name) with a known TFLM revision; None when it was not measured.

    series: Zephyr's ("4.1"); one that was not measured gets the newest measured one.
    """
    found = [base for base in all_bases(revision) if base.board == board]
    same = [base for base in found if ZephyrVersion(base.zephyr).series == series]
    return (same or found)[-1] if found else None


def measured_boards(revision: str = PINNED_REVISION) -> tuple[str, ...]:
    """The boards of the revision's table, sorted."""
    return tuple(sorted({base.board for base in all_bases(revision)}))


def dump_bases(bases: Iterable[BoardBase], revision: str) -> str:
    """The JSON text that `all_bases` reads."""
    ordered = sorted(bases, key=lambda base: (base.zephyr, base.board))
    names = sorted({name for base in ordered for name in base.linked})
    at = {name: i for i, name in enumerate(names)}
    rows = [{**vars(base), "linked": sorted(at[name] for name in base.linked)} for base in ordered]
    listed = ",\n".join(json.dumps(row) for row in rows)
    head = f'"revision": {json.dumps(revision)},\n"library": {json.dumps(names, indent=1)}'
    return f'{{\n{head},\n"bases": [\n{listed}\n]\n}}\n'


@cache
def all_bases(revision: str = PINNED_REVISION) -> tuple[BoardBase, ...]:
    """Every measured base of a known TFLM revision, by version of Zephyr and board."""
    raw: dict[str, Any] = json.loads(package_data(f"{data_folder(revision)}/{BOARD_SIZES_FILE}"))
    names = raw["library"]
    found = []
    for row in raw["bases"]:
        spans = {key: tuple(row[key]) for key in ("off_flash_bytes", "off_ram_bytes")}
        found.append(BoardBase(**{**row, **spans, "linked": frozenset(names[i] for i in row["linked"])}))
    return tuple(found)
