# SPDX-License-Identifier: Apache-2.0
"""Byte streams to an app: serial ports, QEMU."""

from __future__ import annotations

from tflm_zephyr.device.transport.link import Link
from tflm_zephyr.device.transport.ports import SerialPort, choose_port, find_ports
from tflm_zephyr.device.transport.qemu import QemuLink
from tflm_zephyr.device.transport.serial_port import SerialLink

__all__ = [
    "Link",
    "QemuLink",
    "SerialLink",
    "SerialPort",
    "choose_port",
    "find_ports",
]
