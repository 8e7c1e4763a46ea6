# SPDX-License-Identifier: Apache-2.0
"""The repository's workflows: what they name exists, and only the jobs that publish may write."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.checkout import ROOT

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAY_WRITE = {("release", "publish"): {"id-token": "write"}, ("release", "release"): {"contents": "write"}}


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def commands(workflow: Any) -> str:
    return "\n".join(step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_rights_and_time_are_limited(path: Path) -> None:
    workflow = loaded(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job.get("permissions") == MAY_WRITE.get((path.stem, name)), name
        assert job["timeout-minutes"] <= 90, name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_a_workflow_names_exists(path: Path) -> None:
    run = commands(loaded(path))
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w/])(?:tests|samples|requirements|\.ci)/[\w./-]+", run))
    assert [name for name in named if not (ROOT / name).exists()] == []
    for extras in re.findall(r"\.\[([\w,]+)\]", run):
        assert [extra for extra in extras.split(",") if not re.search(rf"^{extra} = \[", settings, re.M)] == []
    for expression in re.findall(r'-m "?((?:not )?\w+(?: and (?:not )?\w+)*)"?', run.replace("python -m", "")):
        words = set(expression.split()) - {"not", "and"}
        assert [word for word in words if f'"{word}: ' not in settings] == [], expression


def test_the_matrix_has_each_python_that_the_package_names() -> None:
    lowest = re.search(r'^requires-python = ">=3\.(\d+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.M)
    assert lowest
    linux = loaded(ROOT / ".github" / "workflows" / "matrix.yml")["jobs"]["linux"]["strategy"]["matrix"]
    assert linux["python"] == [f"3.{minor}" for minor in range(int(lowest[1]), 15)]


def test_nothing_is_published_that_was_not_built_twice() -> None:
    jobs = loaded(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert jobs["publish"]["needs"] == ["build", "sbom"] and jobs["release"]["needs"] == "publish"
    assert "diff -r dist ../second" in commands({"jobs": {"build": jobs["build"]}})
    assert not any("run" in step for step in jobs["publish"]["steps"])
