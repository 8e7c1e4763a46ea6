# SPDX-License-Identifier: Apache-2.0
"""A plan of the user's own, from a JSON file: `tflm-zephyr plan --json` prints one.

{"offsets": [0, -1, 64], "sha256": "...", "kernels": "reference"}

`offsets` has a number for each tensor of all subgraphs, constants included: bytes from the arena's start, or -1 where
TFLM places it; null leaves all to TFLM. `sha256` of the model and `kernels` (reference, cmsis_nn) may be left out;
where they are there they must be those that the plan is used with. `order` lists the main subgraph's operators as they
are to run, by their index in the file; without it they run in the file's order. Other keys are of no account.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tflm_zephyr.errors import PlanError
from tflm_zephyr.model import Model

_LIMIT = 2**31
_KERNELS = ("reference", "cmsis_nn")
_HINT = "`tflm-zephyr plan MODEL --json` prints a plan"


@dataclass(frozen=True)
class PlanFile:
    """What the file `where` says; `sha256` and `kernels` are "" where it does not, `offsets` None where TFLM is to
    place everything."""

    where: str
    offsets: tuple[int, ...] | None
    sha256: str = ""
    kernels: str = ""
    order: tuple[int, ...] | None = None

    def check_use(self, model: Model, kernels: Collection[str]) -> None:
        """PlanError when the plan was made for another model, or for other kernels than those of `kernels`."""
        if self.sha256 and self.sha256 != model.sha256:
            what = f"the plan is for a model with SHA-256 {self.sha256[:16]}, {model.where} has {model.sha256[:16]}"
            raise PlanError(what, where=self.where, hint="Plan the model again")
        others = [name for name in sorted(kernels) if self.kernels and name != self.kernels]
        if others:
            what = f"the plan is for the {self.kernels} kernels, but is to run with {' and '.join(others)}"
            raise PlanError(what, where=self.where, hint=f"Plan again, or take --kernels {self.kernels}")


def load_plan(path: Path) -> PlanFile:
    """Read a plan; PlanError naming the file and what is wrong."""
    where = str(path)
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PlanError("no such file", where=where, hint="Give the path of a plan") from None
    except (OSError, ValueError, RecursionError) as error:
        raise PlanError(f"no JSON: {' '.join(str(error).split())}", where=where, hint=_HINT) from None
    offsets = raw.get("offsets", "") if isinstance(raw, dict) else ""
    if not isinstance(offsets, list) and offsets is not None:
        raise PlanError("has no list of offsets", where=where, hint=_HINT)
    for index, offset in enumerate(offsets or ()):
        if not isinstance(offset, int) or isinstance(offset, bool) or not -1 <= offset < _LIMIT:
            what = f"tensor {index} has {json.dumps(offset)[:40]} for an offset"
            raise PlanError(what, where=where, hint="An offset is a number of bytes, or -1 for TFLM's choice")
    texts = {key: raw.get(key, "") for key in ("sha256", "kernels")}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise PlanError(f"{key} is no text", where=where, hint=_HINT)
    if texts["kernels"] not in ("", *_KERNELS):
        what = f"kernels are {json.dumps(texts['kernels'])[:40]}, not {' or '.join(_KERNELS)}"
        raise PlanError(what, where=where, hint=_HINT)
    order = raw.get("order")
    if order is not None and not (isinstance(order, list) and all(type(index) is int for index in order)):
        raise PlanError("order is no list of operators", where=where, hint=_HINT)
    return PlanFile(
        where, None if offsets is None else tuple(offsets), **texts, order=None if order is None else tuple(order)
    )
