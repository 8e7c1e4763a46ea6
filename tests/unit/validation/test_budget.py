# SPDX-License-Identifier: Apache-2.0
"""An app's limits, and what it takes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tflm_zephyr.errors import AppError
from tflm_zephyr.validation.budget import BoardLimits, Budget, Spending, load_budget, spendings

BOARDS = ("mps2/an385", "nrf9160dk/nrf9160/ns")


def budget(tmp_path: Path, text: str) -> Budget:
    (tmp_path / "budget.yaml").write_text(text)
    return load_budget(tmp_path / "budget.yaml", BOARDS)


def test_a_boards_limit_replaces_that_of_all(tmp_path: Path) -> None:
    found = budget(
        tmp_path, "all: {arena: 100, ram: 9}\nboards:\n  mps2/an385: {arena: 50, instructions: 7000000000}\n"
    )
    assert found.limits("mps2/an385") == {"arena": 50, "ram": 9, "instructions": 7_000_000_000}
    assert found.limits("nrf9160dk/nrf9160/ns") == {"arena": 100, "ram": 9}
    assert budget(tmp_path, "boards:\n  mps2/an385: {flash: 1}\n").limits("nrf9160dk/nrf9160/ns") == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1]", "the budget wants a mapping with the keys all, boards"),
        ("all: {flsh: 1}", r"all\.'flsh' is no key here; did you mean 'flash'\?"),
        ("all: {flash: 0}", r"all\.flash wants a whole number from 1 to"),
        ("all: {flash: 64k}", r"all\.flash wants a whole number.*, not '64k'"),
        ("boards: {mps2/an386: {ram: 1}}", r"the app is not for mps2/an386; did you mean 'mps2/an385'\?"),
        ("boards: {other: {ram: 1}}", "the app is not for other; it is for mps2/an385, nrf9160dk/nrf9160/ns"),
        ("{", "no YAML"),
    ],
)
def test_a_bad_budget_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(AppError, match=says) as caught:
        budget(tmp_path, text)
    assert str(tmp_path / "budget.yaml") in str(caught.value) and "\n" not in str(caught.value)


def test_no_budget(tmp_path: Path) -> None:
    with pytest.raises(AppError, match=r"budget\.yaml: no such file\. Write a budget"):
        load_budget(tmp_path / "budget.yaml", BOARDS)


def test_only_limits_are_measured() -> None:
    asked: list[str] = []

    def used(what: str) -> int:
        asked.append(what)
        return {"flash": 100, "ram": 101}[what]

    found = spendings(Budget(BoardLimits(flash=100, ram=100)), "mps2/an385", used)
    assert asked == ["flash", "ram"]
    assert found == (Spending("mps2/an385", "flash", 100, 100), Spending("mps2/an385", "ram", 101, 100))
    assert [item.over for item in found] == [0, 1]
