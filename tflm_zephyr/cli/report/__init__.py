# SPDX-License-Identifier: Apache-2.0
"""Results as text for people and JSON for programs, from plain dataclasses."""
