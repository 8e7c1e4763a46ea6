# SPDX-License-Identifier: Apache-2.0
"""A device against the reference: verification, divergence, accuracy, profiles, measured arena sizes."""

from tflm_zephyr.validation import profile
from tflm_zephyr.validation.accuracy import Accuracy, Deviation, deviate, evaluate_host, score
from tflm_zephyr.validation.arena_sizing import (
    STEP,
    BuildApp,
    Emulation,
    MeasuredSizes,
    ModelSize,
    emulator_for,
    measure_app,
)
from tflm_zephyr.validation.budget import ARENA, BUDGET_FILE, INSTRUCTIONS, Budget, Spending, load_budget, spendings
from tflm_zephyr.validation.divergence import DifferingOperator, DivergenceSearch, OperatorInput
from tflm_zephyr.validation.labels import SampleOutputs, check_labels, load_labels, ranked_classes, shown_values
from tflm_zephyr.validation.profile import Cost, CostChange, MeasuredProfile, as_json
from tflm_zephyr.validation.quantisation_loss import quantisation_loss, random_data
from tflm_zephyr.validation.verification import Failure, Verification, invoke_all, random_samples, verify
from tflm_zephyr.validation.worst_cases import WorstCase, worst_cases
