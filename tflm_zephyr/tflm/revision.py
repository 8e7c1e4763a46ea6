# SPDX-License-Identifier: Apache-2.0
"""TFLM at one revision, as a value: its commits, its tables, and the place of its measured facts.

Facts of kernels (scratch, persistent bytes, in-place distances, types) and struct sizes are keyed by `facts`, a known
revision: the revision itself or, for a checkout at any other commit, the newest. Tables of sizes (code, boards, stacks)
are keyed by pins.sized_revision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from tflm_zephyr.tflm.op_resolver import OperatorTable, operator_table_for, shipped_operator_table
from tflm_zephyr.tflm.pins import KNOWN_PINS, PINNED_REVISION, Pins, known_revision
from tflm_zephyr.tflm.sources import SourceTable, shipped_source_table, source_table_for
from tflm_zephyr.tflm.struct_sizes import StructSizes, cortex_m_sizes
from tflm_zephyr.tflm.typed_registrations import shipped_typed, typed_for
from tflm_zephyr.tflm.zephyr_version import ZephyrVersion

LIBRARIES = ("cmsis_nn", "reference")


@dataclass(frozen=True)
class TflmRevision:
    """A TFLM that apps are generated for, and the Zephyr around it.

    revision: the commit of tflite-micro; "" when git cannot tell. cmsis_nn_revision: the commit of the CMSIS-NN that
    its kernels call, "" when not known. sources: source tables of the available kernel libraries. typed: registration
    functions for single tensor types, see typed_registrations. facts: the known revision whose facts hold or stand in.
    """

    revision: str
    cmsis_nn_revision: str
    zephyr: ZephyrVersion
    operators: OperatorTable
    sources: Mapping[str, SourceTable]
    typed: tuple[str, ...]
    facts: str

    @property
    def pins(self) -> Pins:
        """The commits that the facts were read in and measured with."""
        return KNOWN_PINS[self.facts]

    @property
    def tried(self) -> bool:
        """Whether apps were built and run with the facts' revision in a Zephyr of this series."""
        return self.zephyr.series in self.pins.tried_zephyrs

    def struct_sizes(self, *, static_memory: bool) -> StructSizes:
        """The structs of a build with or without TF_LITE_STATIC_MEMORY."""
        return cortex_m_sizes(self.facts, static_memory=static_memory)

    def revisions(self, kernels: Iterable[str]) -> dict[str, str]:
        """The commit of each repository that these kernel libraries come from, by name: "TFLM", "CMSIS-NN"."""
        cmsis_nn = {"CMSIS-NN": self.cmsis_nn_revision} if "cmsis_nn" in kernels else {}
        return {"TFLM": self.revision, **cmsis_nn}


def shipped_revision(pins: Pins) -> TflmRevision:
    """A known revision from its shipped tables, in the Zephyr that pins it."""
    return TflmRevision(
        pins.tflm,
        pins.cmsis_nn,
        pins.zephyr,
        shipped_operator_table(pins.tflm),
        {name: shipped_source_table(name, pins.tflm) for name in LIBRARIES},
        shipped_typed(pins.tflm),
        pins.tflm,
    )


KNOWN_REVISIONS: Mapping[str, Callable[[], TflmRevision]] = MappingProxyType(
    {commit: partial(shipped_revision, pins) for commit, pins in KNOWN_PINS.items()}
)
"""A function for each known revision, by its commit, oldest first."""


def tflm_of(
    tflm_dir: Path | None,
    revision: str = "",
    libraries: Iterable[str] = LIBRARIES,
    library_dir: Path | None = None,
    library_revision: str = "",
    zephyr: ZephyrVersion | None = None,
) -> TflmRevision:
    """TFLM in the checkout `tflm_dir` at `revision`; without one the known `revision`, or the pinned one for "".

    libraries: the available kernel libraries. library_dir, library_revision: the checkout of CMSIS-NN and its commit.
    zephyr: the workspace's Zephyr, None for the one that pins the facts' revision. Raises BuildError for a checkout
    without TFLM's op resolver or, if its kernels are requested, without CMSIS-NN.
    """
    if tflm_dir is None:
        shipped = KNOWN_REVISIONS[revision or PINNED_REVISION]()
        return replace(shipped, zephyr=zephyr or shipped.zephyr)
    facts = known_revision(revision)
    return TflmRevision(
        revision,
        library_revision,
        zephyr or KNOWN_PINS[facts].zephyr,
        operator_table_for(tflm_dir, revision),
        {name: source_table_for(tflm_dir, revision, name, library_dir, library_revision) for name in libraries},
        typed_for(tflm_dir),
        facts,
    )
