# SPDX-License-Identifier: Apache-2.0
"""Model -> layers with constant parameters -> schedule -> kernel calls -> memory plan and its proof."""

from tflm_zephyr.compiler.advice import layer_costs
from tflm_zephyr.compiler.compilation import why_not
from tflm_zephyr.compiler.hop_work import HopWork, hop_work
from tflm_zephyr.compiler.ir import operands, row_operands, structs
from tflm_zephyr.compiler.ir.calls import SCRATCH, KernelCall
from tflm_zephyr.compiler.ir.kernels import Geometry, Kernel, Library, Rounding, TemplateArgument
from tflm_zephyr.compiler.ir.layers import (
    ControlLayer,
    FallbackLayer,
    InsideLayer,
    KernelLayer,
    Layer,
    SegmentLayer,
    members_of,
)
from tflm_zephyr.compiler.ir.rows import RowForm
from tflm_zephyr.compiler.program import CompiledModel
from tflm_zephyr.compiler.registry import FAST_KEYS, OPERATORS, runs_legacy
from tflm_zephyr.compiler.search import CompilerOptions, FrontPoint, Search, compile_model
from tflm_zephyr.compiler.work import ModelWork, called_shapes, compiled_work, interpreter_work
