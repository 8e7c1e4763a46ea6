# SPDX-License-Identifier: Apache-2.0
"""A data set through one device or several at once."""
