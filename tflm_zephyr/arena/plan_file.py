# SPDX-License-Identifier: Apache-2.0
"""A plan of the user's own, from a JSON file: `tflm-zephyr plan --json` prints one.

{"offsets": [0, -1, 64], "sha256": "...", "kernels": "reference"}

`offsets` has a number for each tensor of all subgraphs, constants included: bytes from the arena's start, or -1 where
TFLM places it; null leaves all to TFLM. `sha256` of the model and `kernels` (reference, cmsis_nn) are optional; if
present, they must match the model and the kernels that the plan is used with. `order` lists the main subgraph's
operators in the order in which they run, by their index in the file; without it they run in the file's order.
Other keys are ignored, as `plan --json` prints more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from tflm_zephyr.errors import PlanError
from tflm_zephyr.files import reading
from tflm_zephyr.model import Model
from tflm_zephyr.plain_values import Limits, NotInFile, OneOf, Rules, load_json, read_values

_OFFSET = Limits(-1, 2**31 - 1)
_HINT = "`tflm-zephyr plan MODEL --json` prints a plan"


@dataclass(frozen=True)
class PlanFile:
    """The plan in the file `where`.

    `sha256` and `kernels` are "" when absent; `offsets` is None where TFLM places everything, `order` None for the
    operators' order in the model.
    """

    offsets: tuple[Annotated[int, _OFFSET], ...] | None
    sha256: str = ""
    kernels: Annotated[str, OneOf(("", "reference", "cmsis_nn"))] = ""
    order: tuple[int, ...] | None = None
    where: Annotated[str, NotInFile()] = ""

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
    """Read a plan. Raises PlanError naming the file and the wrong value."""
    with reading(path, PlanError, missing="Give the path of a plan", hint=_HINT):
        found = read_values(PlanFile, load_json(path), Rules(ignore_unknown=True), name="the plan")
    return replace(found, where=str(path))
