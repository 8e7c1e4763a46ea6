# SPDX-License-Identifier: Apache-2.0
"""One price: instructions, estimated cycles and code bytes of kernels by shape, and the fastest ones under a budget."""

from tflm_zephyr.costs.choice import Candidate, LayerOptions, choose
from tflm_zephyr.costs.counts import HELIUM, code_counts, knows, work_counts
from tflm_zephyr.costs.mean_prices import Costs, costs_of, has_rivals, millions
from tflm_zephyr.costs.prices import EVAL, INVOKE, ROW_BYTES, ROW_STEP, Price, Prices
from tflm_zephyr.costs.shapes import FAST, OwnForm, Shape
from tflm_zephyr.costs.table import (
    CMSIS_NN,
    OWN,
    REFERENCE,
    CoreTable,
    Fit,
    FitError,
    KernelFits,
    LibraryTable,
    core_table,
    dump,
    file_of,
    is_measured,
)
