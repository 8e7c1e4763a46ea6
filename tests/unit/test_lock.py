# SPDX-License-Identifier: Apache-2.0
"""The lock requirements/ci.txt: it has all that CI installs, each package by version and hash."""

from __future__ import annotations

import re
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.helpers.checkout import ROOT

LOCK = (ROOT / "requirements" / "ci.txt").read_text(encoding="utf-8")
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
LINUX = {"sys_platform": "linux", "platform_system": "Linux", "platform_python_implementation": "CPython", "extra": ""}


def locked() -> list[tuple[Requirement, list[str]]]:
    """Each entry of the lock with its hashes."""
    entries = re.sub(r"^ *#.*\n", "", LOCK, flags=re.M).replace("\\\n", " ").splitlines()
    cut = [line.split(" --hash=") for line in entries]
    return [(Requirement(line[0].strip()), [digest.strip() for digest in line[1:]]) for line in cut]


def pinned(entries: list[tuple[Requirement, list[str]]], python: str) -> dict[str, str]:
    """Package -> version that the lock installs on Linux with this Python."""
    machine = {**LINUX, "python_version": python, "python_full_version": f"{python}.9"}
    return {
        canonicalize_name(entry.name): str(entry.specifier).removeprefix("==")
        for entry, _ in entries
        if entry.marker is None or entry.marker.evaluate(machine)
    }


@pytest.fixture(scope="module")
def project() -> Any:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 or newer reads pyproject.toml")
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_each_package_has_a_version_and_hashes() -> None:
    entries = locked()
    assert len(entries) > 50
    for entry, hashes in entries:
        assert re.fullmatch(r"==[^,*]+", str(entry.specifier)), f"{entry} has no single version"
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in hashes), entry


def test_the_lock_names_no_place_to_install_from() -> None:
    assert not re.search(r"^ *--(?!hash=)|://| @ ", LOCK, re.M)


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_has_what_ci_installs(project: Any, python: str) -> None:
    versions = pinned(locked(), python)
    extras = re.findall(r"--extra (\w+)", LOCK.splitlines()[1])
    assert sorted(extras) == ["browser", "docs", "host", "test"]
    optional = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for text in [*wanted, *(line for extra in extras for line in optional[extra])]:
        requirement = Requirement(text)
        version = versions.get(canonicalize_name(requirement.name))
        assert version, f"{text} is not in the lock: run the command in its second line"
        assert requirement.specifier.contains(version, prereleases=True), f"{text}, but the lock has {version}"
