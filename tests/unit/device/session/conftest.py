# SPDX-License-Identifier: Apache-2.0
"""The device's code, compiled once with sanitizers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fakes.link import toy


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy device as a program of this host, under ASan and UBSan."""
    _needs_compiler()
    return toy.compile_for_host(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session")
def mlperf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLPerf Tiny's dialect as a program of this host, under ASan and UBSan."""
    _needs_compiler()
    return toy.compile_mlperf(tmp_path_factory.mktemp("mlperf"))


def _needs_compiler() -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++")
