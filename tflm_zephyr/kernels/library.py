# SPDX-License-Identifier: Apache-2.0
"""A kernel library: a set of kernels compiled for one core, their requests for arena memory and in-place distances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.in_place.rules import InPlaceDistance
from tflm_zephyr.kernels.in_place.runs import Run
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.spec import Kernel
from tflm_zephyr.model import Model, Operator, Subgraph

# The allowance of `persistent` for an operator whose kernel is not known. The largest of TFLM's own fixed structs
# is 912 bytes (the LSTM of CMSIS-NN); arrays that grow with tensors are not covered.
UNKNOWN_PERSISTENT_BYTES = 1024


@dataclass(frozen=True, eq=False)
class KernelLibrary:
    """A set of kernels by operator key, for one kind of core and TFLM revision.

    `cores` are the boards' cores of that kind by name, () where they are not known; `commit` is CMSIS-NN's, "" where
    that is not known or the kernels are others.
    """

    name: str
    core: Core
    kernels: Mapping[str, Kernel]
    cores: tuple[str, ...] = ()
    commit: str = ""

    def knows(self, key: str) -> bool:
        """Whether the requests of the operator's kernel are known. A user's own kernel is not known."""
        return key in self.kernels

    def without(self, names: Iterable[str]) -> KernelLibrary:
        """The library without the operators `names`, whose kernels the user brings."""
        left = {key: kernel for key, kernel in self.kernels.items() if key not in frozenset(names)}
        return replace(self, kernels=left)

    def scratch(self, model: Model, subgraph: Subgraph, operator: Operator) -> tuple[int, ...]:
        """Bytes of each RequestScratchBufferInArena() of the operator, in the order of the calls, unaligned.

        () for an operator that is not known. ModelError for one that its kernel would refuse or crash on.
        """
        kernel = self.kernels.get(operator.key)
        if kernel is None:
            return ()
        node = Node(model, subgraph, operator)
        return node.checked(kernel.scratch(node, self.core))

    def persistent(self, model: Model, subgraph: Subgraph, operator: Operator) -> tuple[int, ...]:
        """Bytes of each AllocatePersistentBuffer() of the operator.

        With 64 bits a bound: twice the bytes of 32 bits, as if all were pointers. Init's calls come before Prepare's.
        Each takes its size, rounded up to 16, from the tail. (UNKNOWN_PERSISTENT_BYTES,) for an operator that is not
        known, twice that with 64 bits. ModelError as for `scratch`.
        """
        kernel = self.kernels.get(operator.key)
        wider = self.core.pointer_bytes // 4
        if kernel is None:
            return (UNKNOWN_PERSISTENT_BYTES * wider,)
        node = Node(model, subgraph, operator)
        return tuple(size * wider for size in node.checked(kernel.persistent(node, self.core)))

    def in_place(self, node: Node) -> tuple[InPlaceDistance, ...]:
        """The places of inputs and outputs that may share bytes, for the planner; () where nothing is known."""
        kernel = self.kernels.get(node.operator.key)
        return () if kernel is None or kernel.in_place is None else kernel.in_place(node, self.core)

    def last_reads(self, node: Node, place: int, output: int) -> Iterable[Run] | None:
        """The last reads of input `place` against output number `output`, for the checker; None where not known."""
        kernel = self.kernels.get(node.operator.key)
        return (
            None if kernel is None or kernel.last_reads is None else kernel.last_reads(node, self.core, place, output)
        )
