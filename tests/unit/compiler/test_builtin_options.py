# SPDX-License-Identifier: Apache-2.0
"""Options of operators as the C structs of TFLM's kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.helpers.operator_models import CASES
from tests.helpers.small_models import dense
from tflm_zephyr.compiler.builtin_options import builtin_options
from tflm_zephyr.compiler.ir.structs import Elements, Enumerator, FieldValue, Struct, zeroed
from tflm_zephyr.model import CALLERS, Operator, parse_model
from tflm_zephyr.tflm import KNOWN_PINS, cortex_m_sizes

REVISION = next(iter(KNOWN_PINS))


def operator(key: str) -> Operator:
    """An operator of that key, from the models of single operators."""
    data = next(case for case in CASES if case.key == key).typed("int8").build()
    return parse_model(data).main.operators[0]


def options(struct: str, **fields: FieldValue) -> Struct:
    """The struct with these fields."""
    return zeroed("kOptions", struct, fields)


def test_enumerations_have_their_names() -> None:
    found = builtin_options(operator("AVERAGE_POOL_2D"), REVISION)
    assert found is not None
    assert found.type == "TfLitePoolParams"
    assert found.field("padding") == Enumerator("kTfLitePaddingSame")  # 0 in the schema, 1 in TfLitePadding
    assert found.field("activation") == Enumerator("kTfLiteActNone")
    assert found.field("filter_width") == 2


def test_types_are_those_of_tflite() -> None:
    found = builtin_options(operator("ARG_MAX"), REVISION)
    assert found == options("TfLiteArgMaxParams", output_type=Enumerator("kTfLiteInt32"))


def test_arrays_are_written_element_by_element() -> None:
    found = builtin_options(operator("RESHAPE"), REVISION)
    assert found == options("TfLiteReshapeParams", shape=Elements((2, 2)), num_dimensions=2)


def test_an_operator_without_a_table_has_zeros() -> None:
    assert builtin_options(operator("CAST"), REVISION) == options("TfLiteCastParams")


def test_an_operator_without_a_struct_has_none() -> None:
    assert builtin_options(operator("ABS"), REVISION) is None
    custom = replace(operator("ADD"), custom_code="ADD")
    assert builtin_options(custom, REVISION) is None


def test_an_option_that_tflm_refuses_is_refused() -> None:
    dense_operator = parse_model(dense()).main.operators[0]
    wrong = replace(dense_operator, options={**dense_operator.options, "fused_activation_function": 9})
    with pytest.raises(ValueError, match="option 9 of 6"):
        builtin_options(wrong, REVISION)


@pytest.mark.parametrize("revision", KNOWN_PINS)
def test_every_struct_is_known(revision: str) -> None:
    here = operator("ABS")
    for key in cortex_m_sizes(revision).builtin_data.keys() - set(CALLERS) - {"VAR_HANDLE"}:
        assert builtin_options(replace(here, name=key, options={}), revision) is not None, key
