# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for what tests do not have: a west workspace, west, QEMU, a device on a pseudo-terminal."""
