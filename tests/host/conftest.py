# SPDX-License-Identifier: Apache-2.0
"""The command line, as the unit tests have it."""

from tests.unit.conftest import tool  # noqa: F401
