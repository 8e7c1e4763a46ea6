# SPDX-License-Identifier: Apache-2.0
"""One model on one device, driven from this host: over a port, in QEMU, with TFLM here, or from a recording."""

from __future__ import annotations

from tflm_zephyr.device.session import opening
from tflm_zephyr.device.session.base import Captured, Hello, Invocation, Profile, Session, TensorInfo
from tflm_zephyr.device.session.host_session import HostSession
from tflm_zephyr.device.session.opening import identity, open_session
from tflm_zephyr.device.session.target import DeviceTarget

__all__ = [
    "Captured",
    "DeviceTarget",
    "Hello",
    "HostSession",
    "Invocation",
    "Profile",
    "Session",
    "TensorInfo",
    "identity",
    "open_session",
    "opening",
]
