# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from tflm_zephyr.errors import PlanError
from tflm_zephyr.memory_planner.csv_files import dump_plan, load_problem, read_problem
from tflm_zephyr.memory_planner.problem import Buffer, Plan, Problem

TEXT = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\n"


def test_a_problem_is_read() -> None:
    assert read_problem(TEXT, name="p") == Problem((Buffer("b1", 0, 3, 4), Buffer("b2", 3, 9, 4)), 1, "p")


def test_columns_stand_in_any_order_and_others_are_let_be() -> None:
    problem = read_problem("size, id ,extra,upper,lower\r\n4, b1 ,?,3,-1\r\n")
    assert problem.buffers == (Buffer("b1", -1, 3, 4),)


def test_a_plan_goes_out_and_comes_back() -> None:
    plan = Plan(read_problem(TEXT), (0, 4), "packed")
    assert dump_plan(plan) == "id,lower,upper,size,offset\nb1,0,3,4,0\nb2,3,9,4,4\n"
    assert read_problem(dump_plan(plan)) == read_problem(TEXT)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the header has no column id, lower, upper, size"),
        ("id,lower,size\n", "the header has no column upper"),
        (TEXT + "b3,0,1\n", "line 4: 3 cells under 4 columns"),
        (TEXT + "b3,0,1,big\n", "line 4: size 'big' is not a whole number"),
        (TEXT + "b3,0,1,1.5\n", "size '1.5'"),
        (TEXT + "b3,0,1," + "9" * 5000 + "\n", "size '9999.*' is too large: more than 18 digits"),
        (TEXT + "b3,0,1,²\n", "size '²'"),
        (TEXT + "b1,0,1,1\n", "the id b1 is there twice"),
        (TEXT + "b3,4,4,1\n", "buffer b3 has an empty lifespan"),
        (TEXT + "b3,4,5,-1\n", "buffer b3 has the negative size"),
        (TEXT + '"b3,4,5,1\n', "line 4"),
        ("id,lower,upper,size,alignment\nb1,0,3,4,1\nb2,0,3,4,64\n", "line 3: alignment '64' cannot be planned"),
        ("id,lower,upper,size,gaps\nb1,0,3,4,\nb2,0,9,4,3-5\n", "line 3: gaps '3-5' cannot be planned"),
        ("id,lower,upper,size,size\nb1,0,3,4,5\n", "the header has the column size more than once"),
        (TEXT + "b\0,4,5\n", "line 4"),
    ],
)
def test_bad_text_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        read_problem(text)


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(TEXT, encoding="utf-8-sig")
    assert load_problem(path) == read_problem(TEXT, name=str(path))


def test_columns_that_change_nothing() -> None:
    text = "id,lower,upper,size,alignment,gaps\nb1,0,3,4,1,\nb2,3,9,4,,\n"
    assert read_problem(text) == read_problem(TEXT)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no such file"):
        load_problem(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanError, match="cannot be read as text"):
        load_problem(tmp_path / "binary.csv")
    (tmp_path / "good.csv").write_text(TEXT)
    assert load_problem(tmp_path / "good.csv").buffers == read_problem(TEXT).buffers
