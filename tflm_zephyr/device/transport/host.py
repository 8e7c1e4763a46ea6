# SPDX-License-Identifier: Apache-2.0
"""TFLM on this host as a transport: no bytes go anywhere; a session runs the model in a child process."""

from __future__ import annotations

from tflm_zephyr.boards import Board
from tflm_zephyr.device.transport.link import Capabilities
from tflm_zephyr.device.transport.target import DeviceTarget, Transport


def _serves(target: DeviceTarget, board: Board | None) -> bool:
    return target.host_model is not None


TRANSPORT = Transport("host", Capabilities(carries_bytes=False, counts_ticks=False), _serves, None)
