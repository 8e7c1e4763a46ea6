# SPDX-License-Identifier: Apache-2.0
"""Fixtures that all tests share."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.helpers.checkout import SHARED

_MODELS = sorted((SHARED / "models").glob("*.tflite")) if SHARED.is_dir() else []


def pytest_configure() -> None:
    """A shell's background job ignores Ctrl-C, and so would every child here, which tests send it to."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of stock models and inputs that stands beside a developer's checkout; a clone lacks it."""
    if not (SHARED / "models").is_dir():
        pytest.skip("no ../shared/models beside the checkout")
    return SHARED


@pytest.fixture(scope="session")
def shared_models(shared: Path) -> list[Path]:
    """Every .tflite in ../shared/models, sorted by name."""
    return sorted((shared / "models").glob("*.tflite"))


@pytest.fixture(
    params=_MODELS or [None],
    ids=[path.stem for path in _MODELS] or ["no-shared-models"],
)
def shared_model(request: pytest.FixtureRequest) -> Path:
    """One .tflite of ../shared/models: a test that asks for it runs once for each of them."""
    if request.param is None:
        pytest.skip("no ../shared/models beside the checkout")
    path: Path = request.param
    return path


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one switch that refreshes tests/golden."""
    parser.addoption("--update-golden", action="store_true", help="take over what is generated now as tests/golden")
    parser.addoption("--random-layers", type=int, default=25, metavar="N", help="random layers of each kind of kernel")
