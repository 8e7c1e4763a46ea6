# SPDX-License-Identifier: Apache-2.0
"""Checks of a captured run: each pause names an operator and outputs that the model has, and the run ends in time."""

from __future__ import annotations

import time

from tflm_zephyr.device.protocol.messages import MalformedError, RunAnswer
from tflm_zephyr.device.session.base import Hello, OperatorInfo
from tflm_zephyr.errors import DeviceError


class PausedRun:
    """A captured run, which waits after each operator. Operators of the main subgraph end once each, in their order.

    Loops may run operators of other subgraphs many times; they end within `most_s` of the last main operator.
    """

    def __init__(self, hello: Hello, most_s: float) -> None:
        """The run begins now."""
        self._hello, self._most_s = hello, most_s
        self._position, self._ends = -1, time.monotonic() + most_s

    def after(self, state: RunAnswer) -> OperatorInfo:
        """The operator that just ended. Raises MalformedError, DeviceError."""
        if state.operator >= len(self._hello.operators):
            raise MalformedError(f"operator {state.operator} ended, there are {len(self._hello.operators)}")
        operator = self._hello.operators[state.operator]
        if operator.subgraph == 0:
            if operator.position <= self._position:
                raise MalformedError(f"operator {operator.position} ended after operator {self._position}")
            self._position, self._ends = operator.position, time.monotonic() + self._most_s
        elif time.monotonic() >= self._ends:
            raise DeviceError(
                f"no operator of the main subgraph ended within {self._most_s:g} s",
                where=self._hello.link,
                hint="Let a run take longer (--timeout), or is the model's loop one without an end?",
            )
        return operator

    def check_output(self, operator: OperatorInfo, tensor: int, size: int) -> None:
        """MalformedError for an impossible output; the hello describes only the main subgraph's tensors."""
        tensors, main = self._hello.tensors, operator.subgraph == 0
        most = self._hello.arena.size_bytes if not main else tensors[tensor].bytes if tensor < len(tensors) else -1
        if size > most:
            raise MalformedError(f"operator {operator.index} has {size} bytes of output in tensor {tensor}")
