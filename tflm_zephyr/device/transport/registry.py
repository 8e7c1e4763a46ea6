# SPDX-License-Identifier: Apache-2.0
"""All transports. A new one is a module with a `TRANSPORT`, a line here, and its test."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tflm_zephyr.device.transport import native, qemu, recording, serial_port
from tflm_zephyr.device.transport.link import Capabilities
from tflm_zephyr.device.transport.target import Transport

# TFLM on this host: no bytes go anywhere; a session runs the model in a child process.
_HOST = Transport(
    "host",
    Capabilities(carries_bytes=False, counts_ticks=False),
    lambda target, board: target.host_model is not None,
    None,
)
_ALL = (
    recording.TRANSPORT,
    _HOST,
    serial_port.TRANSPORT,
    qemu.TRANSPORT,
    native.TRANSPORT,
)

TRANSPORTS: Mapping[str, Transport] = MappingProxyType({transport.name: transport for transport in _ALL})
"""By name. The first that serves a target is taken."""
