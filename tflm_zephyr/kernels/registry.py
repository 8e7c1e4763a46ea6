# SPDX-License-Identifier: Apache-2.0
"""All operators' specs by TFLM revision, from the families' tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import chain
from types import MappingProxyType

from tflm_zephyr.kernels.operators import (
    activations,
    control_flow,
    convolution,
    custom,
    elementwise,
    fully_connected,
    joining,
    padding,
    pooling,
    recurrent,
    reductions,
    reshape,
    resize,
    signal,
    transposition,
)
from tflm_zephyr.kernels.revisions import REVISIONS
from tflm_zephyr.kernels.spec import Kernel, OperatorSpec, Specs
from tflm_zephyr.tflm import known_revision

FAMILIES: tuple[Mapping[str, Specs], ...] = (
    activations.OPERATORS,
    control_flow.OPERATORS,
    convolution.OPERATORS,
    custom.OPERATORS,
    elementwise.OPERATORS,
    fully_connected.OPERATORS,
    joining.OPERATORS,
    padding.OPERATORS,
    pooling.OPERATORS,
    recurrent.OPERATORS,
    reductions.OPERATORS,
    reshape.OPERATORS,
    resize.OPERATORS,
    signal.OPERATORS,
    transposition.OPERATORS,
)


def operator_specs(revision: str = "") -> Mapping[str, OperatorSpec]:
    """The spec of each operator by key at a TFLM commit; "" is the pinned one, see tflm.known_revision."""
    return _specs(known_revision(revision, REVISIONS))


@cache
def _specs(revision: str) -> Mapping[str, OperatorSpec]:
    found = {
        key: spec
        for key, specs in chain.from_iterable(family.items() for family in FAMILIES)
        for spec in specs
        if revision in spec.revisions
    }
    return MappingProxyType(found)


def kernels_of(library: str, revision: str) -> Mapping[str, Kernel]:
    """The kernel of each operator in the library "reference" or "cmsis_nn", by key."""
    return {
        key: spec.cmsis_nn.kernel if library == "cmsis_nn" and spec.cmsis_nn is not None else spec.reference
        for key, spec in operator_specs(revision).items()
    }
