# SPDX-License-Identifier: Apache-2.0
"""C++ identifiers of models' names."""

from __future__ import annotations

import pytest

from tflm_zephyr.codegen.identifiers import identifier


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("Kws ref-model", "kws_ref_model"),
        ("digits", "digits"),
        ("2nd try.v2", "m_2nd_try_v2"),
        ("int", "int_model"),
        ("thread_local", "thread_local_model"),
        ("tflite", "tflite_model"),
        ("errno", "errno_model"),
        ("tensor", "tensor_model"),
        ("size_t", "size_t_model"),
        ("--", "model"),
        ("", "model"),
        ("模型", "model"),
        ("größe", "gr_e"),
        ("a\nb", "a_b"),
        ("__x__", "x"),
        ("x" * 300, "x" * 40),
    ],
)
def test_identifier(name: str, want: str) -> None:
    assert identifier(name) == want
