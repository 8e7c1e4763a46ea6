# SPDX-License-Identifier: Apache-2.0
"""Values of tensors: quantisation, arrays and data sets in files, comparison."""

from tflm_zephyr.tensors.array_files import LIMIT_BYTES, parse_npy, parse_npz
from tflm_zephyr.tensors.comparison import Difference, compare_tensors
from tflm_zephyr.tensors.dataset import Dataset, dataset_of, load_dataset, quantise, suits, with_class_numbers
from tflm_zephyr.tensors.quantisation import (
    TensorLike,
    element_type,
    elements,
    form_of,
    input_forms,
    limits,
    output_forms,
    raw_elements,
    real_values,
)
