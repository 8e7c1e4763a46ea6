# SPDX-License-Identifier: Apache-2.0
"""A file for each family of operators; `registry` gathers their tables."""
