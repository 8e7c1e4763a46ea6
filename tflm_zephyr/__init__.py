# SPDX-License-Identifier: Apache-2.0
"""From a .tflite model to measured and verified Zephyr firmware with TensorFlow Lite Micro."""

__version__ = "0.1.0"
