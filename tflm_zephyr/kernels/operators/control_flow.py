# SPDX-License-Identifier: Apache-2.0
"""Control flow, variables and the circular buffer: operators with state or with subgraphs of their own.

Sources: if.cc, while.cc, call_once.cc, var_handle.cc, assign_variable.cc, read_variable.cc, circular_buffer.cc
(tensorflow/lite/micro/kernels). They were not read for in-place distances.
"""

from __future__ import annotations

from collections.abc import Mapping

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.spec import Kernel, OperatorSpec, Specs, fixed, types


def _variable(node: Node, core: Core) -> tuple[int, ...]:
    """The variable itself, at its first assignment."""
    return (node.input(1).size_bytes,)


_EIGHT = Kernel(persistent=fixed(8))

OPERATORS: Mapping[str, Specs] = {
    "ASSIGN_VARIABLE": (
        OperatorSpec(Kernel(persistent=_variable), types=types("i0", "resource|int32"), keeps_state=True),
    ),
    "CALL_ONCE": (OperatorSpec(_EIGHT, keeps_state=True),),
    "CIRCULAR_BUFFER": (OperatorSpec(_EIGHT, types=types("i0 o0", "int8 int8")),),
    "IF": (OperatorSpec(_EIGHT, types=types("i0", "bool")),),
    "READ_VARIABLE": (OperatorSpec(keeps_state=True),),
    "VAR_HANDLE": (OperatorSpec(Kernel(persistent=fixed(4)), keeps_state=True),),
    "WHILE": (OperatorSpec(_EIGHT),),
}
