# SPDX-License-Identifier: Apache-2.0
"""A device or an emulator: transport (bytes), console (lines), session (requests)."""
