# SPDX-License-Identifier: Apache-2.0
"""One model on one device, driven from this host: over a port, in QEMU, with TFLM here, or from a recording."""

from __future__ import annotations
