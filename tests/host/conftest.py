# SPDX-License-Identifier: Apache-2.0
"""The command line, as the unit tests have it."""

from __future__ import annotations

from tests.helpers.command_line import tool

__all__ = ["tool"]
