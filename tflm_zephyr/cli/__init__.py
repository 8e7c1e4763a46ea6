# SPDX-License-Identifier: Apache-2.0
"""The command line: `tflm-zephyr` and `west tflm`."""
