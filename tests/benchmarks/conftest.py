# SPDX-License-Identifier: Apache-2.0
"""Real Zephyr for benchmarks that measure with it."""

from __future__ import annotations

from tests.helpers.workspaces import workspace

__all__ = ["workspace"]
