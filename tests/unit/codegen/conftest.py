# SPDX-License-Identifier: Apache-2.0
"""Kernels of small models, chosen as those of large ones."""

from __future__ import annotations

import pytest

from tflm_zephyr.boards import kernel_choice


@pytest.fixture
def every_model_is_large_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """For CMSIS-NN, which would have too little to compute in the models of the tests."""
    monkeypatch.setattr(kernel_choice, "LEAST_WORK", 0)
