# SPDX-License-Identifier: Apache-2.0
"""Facts of operators, one file per family; `registry` collects their tables."""
