# SPDX-License-Identifier: Apache-2.0
"""What a kernel library is, and the cores it is compiled for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tflm_zephyr.kernels.node import Node
from tflm_zephyr.model import Model, Operator, Subgraph

Sizes = Callable[[Node], tuple[int, ...]]

# What `persistent` allows for an operator whose kernel is not known. The largest of TFLM's own fixed structs
# is 912 bytes (the LSTM of CMSIS-NN); arrays that grow with tensors are not covered.
UNKNOWN_PERSISTENT_BYTES = 1024


@dataclass(frozen=True)
class Core:
    """What a kernel's sizes depend on besides its tensors; `get` explains the fields."""

    dsp: bool = False
    mve: bool = False
    pointer_bytes: int = 4
    optimise_for: str = ""
    transpose_conv: bool = False
    later: bool = False


# Extensions by core, which CMSIS-NN reads from __ARM_FEATURE_DSP and __ARM_FEATURE_MVE. A Cortex-M33 has DSP
# where its maker chose it (nRF9160: yes; QEMU's mps2/an521 CPU 0: only when told).
CORES: Mapping[str, Core] = MappingProxyType(
    {
        "cortex-m0": Core(),
        "cortex-m0plus": Core(),
        "cortex-m23": Core(),
        "cortex-m3": Core(),
        "cortex-m33": Core(dsp=True),
        "cortex-m33+nodsp": Core(),
        "cortex-m4": Core(dsp=True),
        "cortex-m55": Core(dsp=True, mve=True),
        "cortex-m7": Core(dsp=True),
        "cortex-m85": Core(dsp=True, mve=True),
    }
)


@dataclass(frozen=True, eq=False)
class KernelLibrary:
    """A set of kernels by operator key. An operator of `keys` without sizes asks for nothing."""

    name: str
    core: Core
    keys: frozenset[str]
    scratch_sizes: Mapping[str, Sizes]
    persistent_sizes: Mapping[str, Sizes]

    def knows(self, key: str) -> bool:
        """Whether what the operator's kernel asks for is known. It is not for a kernel that a user brings."""
        return key in self.keys

    def without(self, names: Iterable[str]) -> KernelLibrary:
        """The library, not knowing the operators `names`, whose kernels a user brings."""
        return replace(self, keys=self.keys - frozenset(names))

    def scratch(self, model: Model, subgraph: Subgraph, operator: Operator) -> tuple[int, ...]:
        """Bytes of each RequestScratchBufferInArena() of the operator, in the order of the calls, unaligned.

        () for an operator that is not known. ModelError for one that its kernel would refuse or crash on.
        """
        if not self.knows(operator.key):
            return ()
        return _sizes(self.scratch_sizes, Node(model, subgraph, operator))

    def persistent(self, model: Model, subgraph: Subgraph, operator: Operator) -> tuple[int, ...]:
        """Bytes of each AllocatePersistentBuffer() of the operator on a 32-bit device.

        Init's come before Prepare's. Each takes its size rounded up to 16 from the tail.
        (UNKNOWN_PERSISTENT_BYTES,) for an operator that is not known. ModelError as for `scratch`.
        """
        if not self.knows(operator.key):
            return (UNKNOWN_PERSISTENT_BYTES,)
        return _sizes(self.persistent_sizes, Node(model, subgraph, operator))


def _sizes(table: Mapping[str, Sizes], node: Node) -> tuple[int, ...]:
    sizes = table.get(node.operator.key)
    return node.checked(sizes(node)) if sizes is not None else ()
