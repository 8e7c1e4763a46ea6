# SPDX-License-Identifier: Apache-2.0
"""The schema of the commands' documents, and the page that lists them."""

from __future__ import annotations

import argparse
import re

from jsonschema import Draft202012Validator

from tests.helpers.checkout import ROOT
from tflm_zephyr.cli.main import build_parser
from tflm_zephyr.documents import kinds, schema_text
from tflm_zephyr.documents.schema import load

OTHERS = {"shared_plan", "front", "hops", "packing", "check", "run_data", "app", "layers", "comparison"}


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(load())
    assert schema_text().endswith("}\n")


def test_every_command_has_its_document() -> None:
    parser = build_parser("tflm-zephyr")
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    assert set(commands.choices) | OTHERS == set(kinds())


def test_all_that_is_defined_is_used() -> None:
    text = schema_text()
    assert {name for name in load()["$defs"] if f'"#/$defs/{name}"' not in text} == set()


def test_the_page_lists_every_kind() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", (ROOT / "docs" / "json.md").read_text(encoding="utf-8"), re.M)
    assert [(name, f"{what}.") for name, what in rows if name in kinds()] == list(kinds().items())
