# SPDX-License-Identifier: Apache-2.0
"""Documents from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tflm_zephyr.documents import checked, enveloped, load_documents
from tflm_zephyr.errors import ToolError

FLASH = enveloped("flash", {"app": "a", "board": "b"})


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ([], "is no document of tflm-zephyr"),
        ({"app": "a"}, "is no document of tflm-zephyr"),
        (FLASH | {"schema_version": 2}, "has the schema version 2, this toolkit reads 1"),
        (FLASH | {"board": 3}, r"\$.board is not what a document of the kind 'flash' has there"),
        (FLASH | {"more": 3}, r"\$ is not what a document of the kind 'flash' has there"),
        (FLASH | {"document": "nothing"}, r"\$.document is not what a document of the kind 'nothing' has"),
        (FLASH | {"document": ["flash"]}, "is not what a document"),
        (enveloped("report", {"title": "x", "documents": [{**FLASH, "board": 3}]}), r"\$.documents\[0\].board"),
    ],
)
def test_anything_else_is_refused(raw: Any, said: str) -> None:
    with pytest.raises(ToolError, match=said) as caught:
        checked(raw, "it.json")
    assert str(caught.value).startswith("it.json: ") and "\n" not in str(caught.value)


def test_a_report_is_its_documents(tmp_path: Path) -> None:
    inner = enveloped("report", {"title": "inner", "documents": [FLASH]})
    path = tmp_path / "r.json"
    path.write_text(json.dumps(enveloped("report", {"title": "outer", "documents": [FLASH, inner]})))
    assert load_documents(path) == [FLASH, FLASH]


def test_a_file_that_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[" * 100_000)
    for name, said in (("x.json", "no JSON"), ("y.json", "no such file")):
        with pytest.raises(ToolError, match=said):
            load_documents(tmp_path / name)
