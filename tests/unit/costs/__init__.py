# SPDX-License-Identifier: Apache-2.0
"""Unit tests of tflm_zephyr.costs."""
