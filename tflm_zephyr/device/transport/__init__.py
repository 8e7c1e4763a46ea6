# SPDX-License-Identifier: Apache-2.0
"""Ways to an app: serial ports, QEMU, recordings, this host; one router from a DeviceTarget to a link."""

from tflm_zephyr.device.transport.link import Capabilities, Link
from tflm_zephyr.device.transport.ports import SerialPort, find_ports
from tflm_zephyr.device.transport.routing import Route, default_board, digest_of, route
from tflm_zephyr.device.transport.target import DeviceTarget
