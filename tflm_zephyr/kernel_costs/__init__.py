# SPDX-License-Identifier: Apache-2.0
"""Instructions, estimated cycles and code bytes of kernels by shape, and the choice of kernels under a budget."""

from __future__ import annotations

from tflm_zephyr.kernel_costs.choice import Candidate, LayerOptions, choose
from tflm_zephyr.kernel_costs.table import (
    KERNEL_COSTS_FILE,
    CoreCosts,
    Costs,
    Fit,
    FitError,
    KernelFits,
    Table,
    Work,
    cost_table,
    costs_of,
)
from tflm_zephyr.kernel_costs.terms import FAST, Shape, code_terms, knows, work_terms

__all__ = [
    "FAST",
    "KERNEL_COSTS_FILE",
    "Candidate",
    "CoreCosts",
    "Costs",
    "Fit",
    "FitError",
    "KernelFits",
    "LayerOptions",
    "Shape",
    "Table",
    "Work",
    "choose",
    "code_terms",
    "cost_table",
    "costs_of",
    "knows",
    "work_terms",
]
