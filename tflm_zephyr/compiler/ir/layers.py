# SPDX-License-Identifier: Apache-2.0
"""Layers by kind: kernel calls, a fallback kernel of TFLM's, control, a tiled segment, a layer inside of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tflm_zephyr.compiler.ir.calls import KernelCall, View
from tflm_zephyr.compiler.ir.kernels import Kernel, Library
from tflm_zephyr.compiler.ir.rows import RowForm
from tflm_zephyr.compiler.ir.structs import LocalStruct, Parameter, Pointer, Struct
from tflm_zephyr.compiler.row_program import RowSegment
from tflm_zephyr.model import TensorType

_SEGMENT_HEADERS = frozenset({"<algorithm>", "<cstring>"})


@dataclass(frozen=True, kw_only=True)
class Layer:
    """An operator of the main subgraph.

    `operator` is its index in the running order. `title` names operator, types and shapes. `cycles` are estimated.
    `not_fast`: why it has none of our own kernels, where that was asked for.
    """

    operator: int
    key: str
    title: str
    calls: tuple[KernelCall, ...] = ()
    views: tuple[View, ...] = ()
    scratch_bytes: int = 0
    cycles: float = 0.0
    not_fast: str = ""

    @property
    def has_code(self) -> bool:
        """Whether the layer has a function."""
        return bool(self.calls)

    @property
    def runs(self) -> bool:
        """Whether that function runs the layer at its turn."""
        return self.has_code

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that its code calls."""
        return tuple(call.kernel for call in self.calls)

    @property
    def headers(self) -> frozenset[str]:
        """The headers that its code includes."""
        return frozenset(header for kernel in self.kernels for header in kernel.headers)

    @property
    def fast(self) -> bool:
        """Whether the operator has one of our own kernels."""
        return any(kernel.library is Library.OWN for kernel in self.kernels)

    @property
    def rows(self) -> RowForm | None:
        """Its form for some rows; None where it has none."""
        return None

    @property
    def no_rows(self) -> str:
        """Why it has no form for rows; "" where it has one, or is of another kind."""
        return ""

    @property
    def leaner(self) -> tuple[KernelLayer, ...]:
        """Layers of the same outputs that need less memory, at more work each."""
        return ()


@dataclass(frozen=True, kw_only=True)
class KernelLayer(Layer):
    """A layer of kernel calls. All of its copies may be views; then it has none.

    `pointers` are locals of its function, `parameters` its constants, `locals` structs of its scratch buffer. `rows` is
    its form for some rows, or else `no_rows` says why it has none. `leaner` are layers of the same outputs that need
    less scratch, or may have them nearer to their input, at `extra_cycles` each. A run of pixels beyond the first one
    takes `run_cycles` more.
    """

    pointers: tuple[Pointer, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    locals: tuple[LocalStruct, ...] = ()
    rows: RowForm | None = None
    no_rows: str = ""
    leaner: tuple[KernelLayer, ...] = ()
    extra_cycles: float = 0.0
    run_cycles: float = 0.0


@dataclass(frozen=True)
class FallbackTensor:
    """A tensor as TFLM's own kernel sees it. `constant`, `scales` and `zero_points` name constant arrays, "" for none.

    `tensor` is its index in the main subgraph. The arrays of scales and zero points begin with their number.
    """

    tensor: int
    type: TensorType
    shape: tuple[int, ...]
    size_bytes: int
    constant: str
    scales: str
    zero_points: str
    dimension: int
    variable: bool


@dataclass(frozen=True)
class FallbackKernel:
    """TFLM's own kernel of an operator, named by its registration.

    `inputs`, `outputs` and `intermediates` are places in `tensors`, -1 for an absent one. `options`: the C struct of a
    builtin operator's options; `custom_options` names the array of a custom operator's.
    `scratch_bytes` are the buffers that it requests, in its order, `persistent_bytes` all that it allocates, each
    rounded up to 16; where its kernel is not `known`, the latter is an allowance for both. `options_copy_bytes` is the
    size of the copy of the options in the arena, rounded up to 16, for a kernel whose Prepare changes them; else 0.
    """

    registration: Kernel
    tensors: tuple[FallbackTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    intermediates: tuple[int, ...]
    options: Struct | None
    custom_options: str
    custom_bytes: int
    is_custom: bool
    scratch_bytes: tuple[int, ...]
    persistent_bytes: int
    known: bool
    options_copy_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class FallbackLayer(Layer):
    """An operator that keeps TFLM's own kernel, which its one call is of."""

    kernel: FallbackKernel


@dataclass(frozen=True)
class Copy:
    """`size` bytes from a tensor, or the array `constant` where it has a name, to the tensor `target`."""

    source: int
    constant: str
    target: int
    size: int


@dataclass(frozen=True)
class Branch:
    """A run of a subgraph, with the copies before and after it."""

    before: tuple[Copy, ...]
    subgraph: int
    after: tuple[Copy, ...]


@dataclass(frozen=True)
class Control:
    """An operator that runs subgraphs. `kind` is its key, `condition` the tensor whose one byte decides.

    IF: the first branch where the condition holds, else the second. WHILE: `start`, the first branch, and as long as
    the condition holds the second and the first again. CALL_ONCE: the branch, unless the byte is set, which it then is.
    """

    kind: str
    condition: int
    start: tuple[Copy, ...]
    branches: tuple[Branch, ...]


@dataclass(frozen=True, kw_only=True)
class ControlLayer(Layer):
    """An operator that runs subgraphs."""

    control: Control

    @property
    def has_code(self) -> bool:
        """See Layer."""
        return True


@dataclass(frozen=True, kw_only=True)
class InsideLayer(Layer):
    """A layer whose code a segment has."""

    member: KernelLayer

    @property
    def fast(self) -> bool:
        """See Layer."""
        return self.member.fast


@dataclass(frozen=True, kw_only=True)
class SegmentLayer(Layer):
    """The last layer of a tiled segment, which has the code of all `members`; its scratch buffer has their rows."""

    segment: RowSegment
    members: tuple[KernelLayer, ...]

    @property
    def has_code(self) -> bool:
        """See Layer."""
        return True

    @property
    def runs(self) -> bool:
        """See Layer; the function of a segment with streamed input takes in rows."""
        return self.segment.stream is None or self.segment.hop is not None

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """See Layer."""
        return tuple(kernel for form in self.segment.forms.values() for kernel in form.kernels)

    @property
    def headers(self) -> frozenset[str]:
        """See Layer; those of the members' calls for whole tensors as well."""
        whole = (header for member in self.members for header in member.headers)
        return _SEGMENT_HEADERS.union(super().headers, whole)

    @property
    def fast(self) -> bool:
        """See Layer."""
        return self.members[-1].fast


def why_whole(layer: Layer) -> str:
    """Why a layer that is in no segment runs on whole tensors."""
    if isinstance(layer, FallbackLayer):
        return "keeps TFLM's own kernel, which takes whole tensors"
    if isinstance(layer, ControlLayer):
        return "runs other layers"
    return layer.no_rows or "would not make the model smaller"


def members_of(layer: Layer) -> tuple[Layer, ...]:
    """The members of a segment, the layer itself where it is none; none for a layer inside of one."""
    if isinstance(layer, InsideLayer):
        return ()
    return layer.members if isinstance(layer, SegmentLayer) else (layer,)


def more_work(layers: Sequence[Layer]) -> float:
    """The estimated cycles of segments, runs of pixels and leaner layers, as a share of those of whole layers."""
    total = 0.0
    for layer in layers:
        if isinstance(layer, KernelLayer):
            runs = sum(len(call.runs.counts) - 1 for call in layer.calls if call.runs is not None)
            total += layer.extra_cycles + runs * layer.run_cycles
        if isinstance(layer, SegmentLayer):
            total += layer.segment.cost
    cycles = cycles_of(layers)
    return total / cycles if cycles else 0.0


def cycles_of(layers: Sequence[Layer]) -> float:
    """The estimated cycles of the layers on whole tensors."""
    return sum(layer.cycles for layer in layers)
