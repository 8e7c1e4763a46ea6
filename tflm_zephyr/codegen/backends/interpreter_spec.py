# SPDX-License-Identifier: Apache-2.0
"""A model as TFLM's MicroInterpreter runs it: flatbuffer, op resolver, plan and buffers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CallSpec:
    """One call on the op resolver, as C++: `AddConv2D()`."""

    expression: str

    @property
    def short(self) -> str:
        """The method, with its types where it is not for all types: "AddConv2D INT8"."""
        method, _, arguments = self.expression.partition("(")
        typed = re.fullmatch(r"tflite::Register_\w+?((?:_INT\d+)+)\(\)\)", arguments)
        if typed is not None:
            return f"{method} {typed[1].strip('_')}"
        return method if arguments == ")" else self.expression


@dataclass(frozen=True)
class ResolverSpec:
    """The calls, and N of `MicroMutableOpResolver<N>`."""

    calls: tuple[CallSpec, ...]

    @property
    def size(self) -> int:
        """N; TFLM refuses 0-sized arrays, so an operator-less model gets 1."""
        return max(1, len(self.calls))


@dataclass(frozen=True)
class PreallocatedSpec:
    """A tensor of the main subgraph (its index and name) that the app's buffer `symbol` holds: `bytes` of it.

    `section` "" for the linker's choice; `alignment` in bytes, a power of two.
    """

    tensor: int
    name: str
    symbol: str
    bytes: int
    section: str = ""
    alignment: int = 16


@dataclass(frozen=True)
class StaticPlan:
    """Size and offset of every buffer that TFLM asks for, in its order; the head's bytes. All multiples of 16."""

    slots: tuple[tuple[int, int], ...]
    head_bytes: int


@dataclass(frozen=True)
class InterpreterSpec:
    """A model in the MicroInterpreter. `data` is the flatbuffer that is compiled in, `planned` if with an offline plan.

    `registrations` are the functions ("Register_CONV_2D_INT8") that the resolver's calls take their kernels from.
    """

    data: bytes
    planned: bool
    resolver: ResolverSpec
    registrations: tuple[str, ...] = ()
    resource_variables: int = 0
    custom_headers: tuple[str, ...] = ()
    preallocated: tuple[PreallocatedSpec, ...] = ()
    static_plan: StaticPlan | None = None

    @property
    def flash_bytes(self) -> int:
        """Bytes of the flatbuffer."""
        return len(self.data)

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The op resolver's methods, with types where they are not for all: "AddConv2D INT8"."""
        return tuple(call.short for call in self.resolver.calls)

    @property
    def fixed_head_bytes(self) -> int | None:
        """Bytes of the static plan's head, None without one."""
        return None if self.static_plan is None else self.static_plan.head_bytes

    @property
    def extra_stack_bytes(self) -> int:
        """None: the kernels' needs have the interpreter's frames."""
        return 0

    @property
    def stream(self) -> None:
        """None: the interpreter's inputs are whole tensors."""
        return

    @property
    def own_memory(self) -> str:
        """The reason why TFLM's own planner and allocator do not serve this model, in words; "" where they do."""
        if self.static_plan is not None:
            return "a table of its own in place of the planner"
        return "preallocated tensors" if self.preallocated else ""

    def identity(self) -> bytes:
        """The data that a measured arena size depends on: flatbuffer, preallocated tensors, static plan."""
        outside = "".join(f" {item.tensor}" for item in self.preallocated)
        table = "" if self.static_plan is None else repr(self.static_plan.slots)
        return self.data + outside.encode() + table.encode()

    def report(self) -> dict[str, Any]:
        """The op resolver's calls and its N."""
        return {
            "operators": [call.expression for call in self.resolver.calls],
            "resolver_size": self.resolver.size,
        }
