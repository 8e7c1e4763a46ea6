# SPDX-License-Identifier: Apache-2.0
"""Model -> layers with constant parameters -> schedule -> kernel calls -> memory plan and its proof."""

from __future__ import annotations

from tflm_zephyr.compiler.compilation import why_not
from tflm_zephyr.compiler.fast_layers import FAST_KEYS
from tflm_zephyr.compiler.layer_builder import CMSIS_HEADER
from tflm_zephyr.compiler.program import (
    SCRATCH,
    Call,
    CompiledModel,
    ConstantArray,
    Layer,
    PixelRuns,
    Place,
    Pointer,
    Value,
)
from tflm_zephyr.compiler.search import CompilerOptions, FrontPoint, Search, compile_model
from tflm_zephyr.compiler.work import ModelWork, called_shapes, compiled_work, interpreter_work

__all__ = [
    "CMSIS_HEADER",
    "FAST_KEYS",
    "SCRATCH",
    "Call",
    "CompiledModel",
    "CompilerOptions",
    "ConstantArray",
    "FrontPoint",
    "Layer",
    "ModelWork",
    "PixelRuns",
    "Place",
    "Pointer",
    "Search",
    "Value",
    "called_shapes",
    "compile_model",
    "compiled_work",
    "interpreter_work",
    "why_not",
]
