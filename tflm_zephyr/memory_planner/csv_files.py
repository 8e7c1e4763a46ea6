# SPDX-License-Identifier: Apache-2.0
"""minimalloc's CSV files: problems in, problems with an offset column out.

Format: https://github.com/google/minimalloc, README and src/converter.cc: a header line with the columns
id, lower, upper (half-open), size in any order; `offset` and further columns are optional. An `alignment` other than
1 and `gaps` in a buffer's life are refused, as they would change the problem; other columns are ignored.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

from tflm_zephyr.errors import PlanError
from tflm_zephyr.memory_planner.problem import Buffer, Plan, Problem

_NEEDED = ("id", "lower", "upper", "size")
# Far above any memory that a buffer may need, so that a hostile file cannot make numbers of a megabyte.
_LONGEST_NUMBER = 18


def load_problem(path: Path) -> Problem:
    """`read_problem` from a file; PlanError when it cannot be read."""
    try:
        return read_problem(path.read_text(encoding="utf-8-sig"), name=str(path))
    except FileNotFoundError:
        raise PlanError("no such file", where=str(path), hint="Give the path of a CSV file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"cannot be read as text: {error}", where=str(path)) from None


def read_problem(text: str, *, alignment: int = 1, name: str = "problem") -> Problem:
    """The problem in a minimalloc CSV; sizes in bytes, lifespans half-open. `name` is shown in errors.

    The column `offset` of a solution is ignored.
    Raises PlanError naming the line for a missing column, a bad number, or an id that is there twice.
    """
    reader = csv.reader(io.StringIO(text))
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except csv.Error as error:
        raise PlanError(f"not a CSV file: {error}", where=f"{name}, line {reader.line_num}") from None
    header = rows[0][1] if rows else []
    missing = [column for column in _NEEDED if column not in header]
    if missing:
        what = f"the header has no column {', '.join(missing)}"
        raise PlanError(what, where=f"{name}, line 1", hint="Expected id,lower,upper,size.")
    twice = sorted({column for column in header if header.count(column) > 1})
    if twice:
        raise PlanError(f"the header has the column {twice[0]} more than once", where=f"{name}, line 1")
    buffers, seen = [], set()
    for line, cells in rows[1:]:
        where = f"{name}, line {line}"
        if len(cells) != len(header):
            raise PlanError(f"{len(cells)} cells under {len(header)} columns", where=where)
        row = dict(zip(header, cells, strict=True))
        if row["id"] in seen:
            raise PlanError(f"the id {row['id']} is there twice", where=where)
        seen.add(row["id"])
        if row.get("gaps") or row.get("alignment", "") not in ("", "1"):
            column = "gaps" if row.get("gaps") else "alignment"
            what = f"{column} {row[column][:40]!r} cannot be planned"
            raise PlanError(what, where=where, hint="Leave gaps empty, and alignment at 1")
        lower, upper, size = (_number(row[column], column, where) for column in _NEEDED[1:])
        buffers.append(Buffer(row["id"], lower, upper, size))
    return Problem(tuple(buffers), alignment, name)


def dump_plan(plan: Plan) -> str:
    """The plan as minimalloc writes solutions: the problem's columns and `offset`, one line a buffer."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_NEEDED, "offset"])
    for buffer, offset in zip(plan.problem.buffers, plan.offsets, strict=True):
        writer.writerow([buffer.id, buffer.lower, buffer.upper, buffer.size, offset])
    return out.getvalue()


def _number(cell: str, column: str, where: str) -> int:
    digits = cell[1:] if cell[:1] == "-" else cell
    if not (digits.isascii() and digits.isdigit()):
        raise PlanError(f"{column} {cell[:40]!r} is not a whole number", where=where)
    if len(digits) > _LONGEST_NUMBER:
        what = f"{column} {cell[:40]!r} is too large: more than {_LONGEST_NUMBER} digits"
        raise PlanError(what, where=where)
    return int(cell)
