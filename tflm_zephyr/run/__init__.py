# SPDX-License-Identifier: Apache-2.0
"""Gather results from a device or an emulator: links, records, and what drives both."""

from __future__ import annotations
