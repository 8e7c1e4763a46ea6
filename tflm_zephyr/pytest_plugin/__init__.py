# SPDX-License-Identifier: Apache-2.0
"""The plugin that pytest loads: options and fixtures."""

from __future__ import annotations

from tflm_zephyr.pytest_plugin.fixtures import _tflm_shared, pytest_addoption, tflm, tflm_session, tflm_target

__all__ = ["_tflm_shared", "pytest_addoption", "tflm", "tflm_session", "tflm_target"]
