# SPDX-License-Identifier: Apache-2.0
"""The kernel library of each operator in a built app, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tflm_zephyr.footprint import CMSIS_NN, OWN, Kernel, LinkedKernels


def short(found: LinkedKernels) -> tuple[str, ...]:
    """Shown after `build`: operators that run reference code, with the reasons; empty if there are none."""
    if found.why_not:
        return (f"Reference kernels: {found.why_not}.",)
    reasons: dict[str, list[str]] = {}
    for row in found.fallbacks:
        for why, uses in row.why.items():
            some = "" if uses == row.uses else f" ({uses} of {row.uses})"
            reasons.setdefault(why, []).append(f"{row.operator}{some}")
    return tuple(f"Reference code computes {', '.join(names)}: {why}." for why, names in sorted(reasons.items()))


def table(found: LinkedKernels) -> tuple[str, ...]:
    """Shown after `footprint`: every operator."""
    if not found.rows:
        return ()
    title = "CMSIS-NN" if found.asked == CMSIS_NN else "TFLM's reference kernels"
    head = f"Kernels, built for {title}{f' ({found.why_not})' if found.why_not else ''}:"
    return (head, *(_line(row) for row in found.rows))


def kernels_json(found: LinkedKernels) -> dict[str, Any]:
    """The same as plain data; each row's `why` has uses by reason."""
    rows: list[Mapping[str, Any]] = [{**asdict(row), "fell_back": row.fell_back} for row in found.rows]
    return {"asked": found.asked, "why_not": found.why_not or None, "operators": rows}


def _line(row: Kernel) -> str:
    times = f" x{row.uses}" if row.uses > 1 else ""
    if row.why:
        whole = row.fell_back == row.uses
        reasons = "; ".join(
            why if whole and len(row.why) == 1 else f"{n} of {row.uses}: {why}" for why, n in row.why.items()
        )
        return f"  {row.operator}{times}: reference code, {reasons}" if whole else f"  {row.operator}{times}: {reasons}"
    name = {CMSIS_NN: "CMSIS-NN", OWN: "the app's own kernel"}.get(row.library, "reference kernel")
    return f"  {row.operator}{times}: {name}"
