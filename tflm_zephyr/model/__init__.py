# SPDX-License-Identifier: Apache-2.0
"""A .tflite file as frozen dataclasses, and back: the only room that knows the schema."""

from tflm_zephyr.model.lifetimes import NEVER, Graph, Lifespan, PlannedScratch, PlannedTensor, analyse, resource_handles
from tflm_zephyr.model.reader import CALLERS, load_model, parse_model
from tflm_zephyr.model.schema import operator_name, type_name
from tflm_zephyr.model.types import Model, Operator, Quantization, Subgraph, Tensor, TensorType, shown
from tflm_zephyr.model.writer import (
    conversion_bytes,
    in_operator_order,
    normalised_for_litert,
    planned,
    without_conversions,
    without_offline_plan,
)
