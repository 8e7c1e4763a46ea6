# SPDX-License-Identifier: Apache-2.0
"""The host link's wire format (docs/protocol.md): frames on a byte stream, messages in frames."""
