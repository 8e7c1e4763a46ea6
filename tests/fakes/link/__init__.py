# SPDX-License-Identifier: Apache-2.0
"""The device's side of the link, compiled for this host and for a bare Cortex-M3, and links to it that do harm."""
