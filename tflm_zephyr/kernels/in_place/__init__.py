# SPDX-License-Identifier: Apache-2.0
"""In-place distances: how far an operator's output may overlap its input, and the independent check of that."""
