# SPDX-License-Identifier: Apache-2.0
"""Operators as kernel calls: a module a family, each with a table EMITTERS by the operator's key."""
