# SPDX-License-Identifier: Apache-2.0
"""Ways to an app: serial ports, QEMU, recordings, this host; one router from a DeviceTarget to a link."""

from __future__ import annotations

from tflm_zephyr.device.transport.link import Capabilities, Link
from tflm_zephyr.device.transport.ports import SerialPort, choose_port, find_ports
from tflm_zephyr.device.transport.registry import TRANSPORTS
from tflm_zephyr.device.transport.routing import Route, default_board, digest_of, route
from tflm_zephyr.device.transport.target import DeviceTarget, Transport

__all__ = [
    "TRANSPORTS",
    "Capabilities",
    "DeviceTarget",
    "Link",
    "Route",
    "SerialPort",
    "Transport",
    "choose_port",
    "default_board",
    "digest_of",
    "find_ports",
    "route",
]
