# SPDX-License-Identifier: Apache-2.0
"""One model on one device, driven from this host: over a port, in QEMU, with TFLM here, or from a recording."""

from tflm_zephyr.device.session import opening
from tflm_zephyr.device.session.base import (
    Captured,
    Hello,
    Invocation,
    Profile,
    Session,
    SessionCapabilities,
    TensorInfo,
)
from tflm_zephyr.device.session.opening import open_session
from tflm_zephyr.device.transport.target import DeviceTarget
