# SPDX-License-Identifier: Apache-2.0
"""The facts of one operator: its kernels' memory, in-place distances and their check, types, Prepare's refusals, MACs.

`operators/` has a file for each family of operators, with the specs in its table OPERATORS. A spec holds for the TFLM
revisions that it names; where kernels changed, an operator has one spec for each set of revisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.in_place.rules import InPlaceDistance
from tflm_zephyr.kernels.in_place.runs import Run
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.revisions import REVISIONS
from tflm_zephyr.model import Tensor

Sizes = Callable[[Node, Core], tuple[int, ...]]
"""Bytes of each request, in the order of the calls."""

InPlaceRule = Callable[[Node, Core], tuple[InPlaceDistance, ...]]
"""The pairs of input and output that may share bytes, for the planner."""

LastReads = Callable[[Node, Core, int, int], "Iterable[Run] | None"]
"""When the kernel reads each byte of an input (by place) last, against an output (by number), for the checker.

None: not known. It shares no code with the rule, which tests/unit/kernels/in_place/test_checker.py keeps true function
by function; so both may stand in one file.
"""

Check = Callable[[Node], None]
"""Raises ModelError where Prepare refuses the operator, its types aside."""


def nothing(node: Node, core: Core) -> tuple[int, ...]:
    """No request."""
    return ()


def fixed(*sizes: int) -> Sizes:
    """The same requests for every operator of that key."""
    return lambda node, core: sizes


def dims_copy(tensor: Tensor) -> int:
    """Bytes of a TfLiteIntArray of the tensor's dimensions, which CreateWritableTensorDimsWithCopy() allocates."""
    return 4 * (1 + len(tensor.shape))


def output_dims(node: Node, core: Core) -> tuple[int, ...]:
    """A copy of the first output's dimensions, and no other request."""
    return (dims_copy(node.output()),)


@dataclass(frozen=True)
class Kernel:
    """One kernel: what it asks of the arena, and how far its output may overlap its inputs (None: not at all).

    scratch: RequestScratchBufferInArena() in Prepare. persistent: AllocatePersistentBuffer() in Init, then Prepare, on
    a 32-bit device; struct sizes as arm-none-eabi-g++ for Cortex-M3 has them without TF_LITE_STATIC_MEMORY, as Zephyr
    builds.
    """

    scratch: Sizes = nothing
    persistent: Sizes = nothing
    in_place: InPlaceRule | None = None
    last_reads: LastReads | None = None


@dataclass(frozen=True)
class TypeRule:
    """The tensor types that an operator's reference kernel takes, read in its Prepare and Eval.

    `slots` names the tensors (`i0` an input, `o0` an output, `i*` every input); each row of `accepts` gives their
    types: `=` is the first slot's type, `*` any, `|` separates alternatives. A type that a kernel would read as another
    one counts as refused. An absent optional tensor fits every row.
    """

    slots: tuple[str, ...]
    accepts: tuple[tuple[str, ...], ...]

    def also(self, *rows: str) -> TypeRule:
        """The rule with more rows."""
        return TypeRule(self.slots, self.accepts + tuple(tuple(row.split()) for row in rows))


def types(slots: str, *rows: str) -> TypeRule:
    """A TypeRule from words: types("i0 o0", "float32|int8 =")."""
    return TypeRule(tuple(slots.split()), tuple(tuple(row.split()) for row in rows))


def larger_side(node: Node) -> int:
    """Elements of its first output or first input, the larger: the work of what is no sum of products.

    0 without either, as CALL_ONCE has it.
    """
    ends = (node.optional_output(0), node.optional_input(0))
    return max((tensor.elements for tensor in ends if tensor is not None), default=0)


@dataclass(frozen=True)
class CmsisNn:
    """TFLM's CMSIS-NN kernel of an operator (micro/kernels/cmsis_nn).

    computes: the end of the name of the registration for single types ("INT8") -> the types of its slots; for other
    types the kernel calls the reference code. falls_back: why it calls the reference code for these shapes ("" when it
    does not). miscomputes: why its result is wrong ("" when it is right). typed_asserts_wrongly: its typed Evals assert
    types that they are not for, so that they serve only where asserts are compiled out.
    """

    kernel: Kernel
    computes: Mapping[str, str]
    falls_back: Callable[[Node], str] = field(default=lambda node: "")
    miscomputes: Callable[[Node, Core], str] = field(default=lambda node, core: "")
    typed_asserts_wrongly: bool = False


@dataclass(frozen=True)
class OperatorSpec:
    """One operator at the TFLM revisions `revisions`.

    cmsis_nn: None where that library has the reference kernel. checks: what Prepare refuses besides types. macs:
    multiply-accumulates of one Invoke() by the definition of TFLite's operator; elements for what is no sum of
    products. keeps_state: it shares a state with other operators, in resource variables or in a subgraph that runs
    once. looks_twice: Prepare gets its temporary tensors a second time, in the function that computes operator data.
    reads_positions: an integer input may hold positions in another input, which Eval does not check.
    """

    reference: Kernel = Kernel()
    cmsis_nn: CmsisNn | None = None
    types: TypeRule | None = None
    checks: tuple[Check, ...] = ()
    macs: Callable[[Node], int] = larger_side
    revisions: frozenset[str] = frozenset(REVISIONS)
    keeps_state: bool = False
    looks_twice: bool = False
    reads_positions: bool = False


Specs = tuple[OperatorSpec, ...]
