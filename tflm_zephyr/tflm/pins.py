# SPDX-License-Identifier: Apache-2.0
"""Commits of tflite-micro that Zephyr releases pin, and whose kernels were read."""

from __future__ import annotations

PINNED_REVISION = "8d404de73acf7687831e16d88e86e4f73cfddf8e"
"""The pin of Zephyr 4.1 (February 2025)."""

ZEPHYR_4_4_REVISION = "fcc760af130f3a595b5802cdebcc77461e54f382"
"""The pin of Zephyr 4.4 and nRF Connect SDK 3.4 (March 2026).

Branch zephyr-v4.4.0 of zephyrproject-rtos/tflite-micro.
"""
