# SPDX-License-Identifier: Apache-2.0
"""Packing buffers with lifespans into one arena; knows nothing of models, tensors or TFLM's files."""
