# SPDX-License-Identifier: Apache-2.0
"""An app's error codes as sentences: the firmware carries only the numbers.

Codes at "fault" are Zephyr's fatal error reasons (include/zephyr/fatal_types.h and, from 16 on, the
architecture's), all others the Status of the generated src/tensor.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

STATUS: Mapping[int, str] = MappingProxyType(
    {
        1: "the model's schema version is not the one TFLM reads",
        2: "the op resolver refused an operator",
        3: "the tensor arena is so small that TFLM would write through null pointers",
        4: "AllocateTensors failed, most often because the tensor arena is too small",
        5: "a kernel failed",
        6: "the model is not initialised",
        7: "an input or output tensor is not what the app was generated for",
        8: "TFLM aborted: a check in it failed",
        9: "TFLM requests other buffers than the app's static plan has; generate the app again",
        10: "a preallocated tensor's buffer is too small or not aligned, or the tensor is not preallocated",
        11: "rows of the streamed input are missing, are too many, or came in another order",
        12: "the model's constants are damaged: flash has other bytes than the app was generated with",
        13: "the table of the memory plan is damaged: flash has other bytes than the app was generated with",
        14: "bytes before or behind the tensor arena were written",
        15: "the thread's stack is used up; enlarge it (CONFIG_MAIN_STACK_SIZE)",
        16: "checks are off (CONFIG_TFLM_APP_CHECKS)",
    }
)
_FAULTS: Mapping[int, str] = MappingProxyType(
    {
        0: "CPU exception",
        1: "spurious interrupt",
        2: "stack overflow",
        3: "kernel oops",
        4: "kernel panic",
    }
)


def sentence(code: int, stage: str) -> str:
    """The meaning of error `code`, reported at `stage`."""
    if stage == "fault":
        return f"Zephyr's kernel met a fatal error: {_FAULTS.get(code, 'an exception of the architecture')}"
    return STATUS.get(code, "an error that this version does not know")
