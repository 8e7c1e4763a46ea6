# SPDX-License-Identifier: Apache-2.0
"""The code of a model as values: kernels, their operands and calls, layers by kind; codegen/backends prints it."""
