# SPDX-License-Identifier: Apache-2.0
"""Real Zephyr for the pages whose commands need it, as for tests/zephyr."""

from __future__ import annotations

from tests.helpers.workspaces import workspace

__all__ = ["workspace"]
