# SPDX-License-Identifier: Apache-2.0
"""The checker's rule for in-place operators. It reads the model and the kernels' check, and shares no code with the
planner.

An operator may overwrite a tensor when it is the last operator to read it, and every kernel library that will run the
plan is safe at that distance.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tflm_zephyr.kernels import KernelLibrary, untried, why_unsafe
from tflm_zephyr.model import Model, Subgraph

Key = tuple[int, int]
"""Subgraph and tensor."""


class InPlaceCheck:
    """The rule of `check_plan` for a plan's buffers; `keys` gives the tensor of each buffer, None for scratch.

    kept: tensors of the main subgraph that must hold their values to the end of the run.
    """

    def __init__(
        self, model: Model, libraries: Sequence[KernelLibrary], keys: Sequence[Key | None], kept: Collection[int] = ()
    ) -> None:
        self._model, self._libraries, self._keys, self._kept = model, libraries, keys, kept
        self._uses = [_uses(subgraph) for subgraph in model.subgraphs]

    def __call__(self, source: int, result: int, distance: int) -> str | None:
        """The reason why buffer `result` may not start `distance` bytes below buffer `source`; None if it may."""
        given, taken = self._keys[source], self._keys[result]
        if given is None or taken is None or given[0] != taken[0]:
            return "only tensors of one subgraph can overlap"
        subgraph = self._model.subgraphs[given[0]]
        label = subgraph.tensors[given[1]].label
        written, read = self._uses[subgraph.index]
        if given[1] in subgraph.outputs or (given[0] == 0 and given[1] in self._kept):
            return f"{label} is needed after the run"
        if taken[1] in subgraph.inputs or len(written.get(taken[1], ())) != 1:
            return f"{subgraph.tensors[taken[1]].label} is not written by one operator alone"
        (writer,) = written[taken[1]]
        if max((*read.get(given[1], ()), *written.get(given[1], ())), default=-1) != writer:
            return f"{label} is used by other operators later on"
        operator = subgraph.operators[writer]
        if not self._libraries:
            return "overlap is off, or allowed for other kernels only"
        for library in self._libraries:
            if untried(library):
                return "no overlap has been tried with CMSIS-NN on Helium"
            reason = why_unsafe(library, self._model, subgraph, operator, given[1], taken[1], distance)
            if reason is not None:
                return f"{reason}, with the {library.name} kernels"
        return None


def _uses(subgraph: Subgraph) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """The operators that write and that read each tensor."""
    written: dict[int, list[int]] = {}
    read: dict[int, list[int]] = {}
    for operator in subgraph.operators:
        for tensor in operator.outputs:
            written.setdefault(tensor, []).append(operator.index)
        for tensor in operator.inputs:
            read.setdefault(tensor, []).append(operator.index)
    return written, read
