# SPDX-License-Identifier: Apache-2.0
"""The revision and modules that an app's manifest pins of a Zephyr, release or not."""

from __future__ import annotations

import pytest

from tflm_zephyr.tflm.pins import PINNED_ZEPHYR
from tflm_zephyr.tflm.zephyr_version import ZephyrVersion

COMMIT = "0123456789" * 4


@pytest.mark.parametrize(
    ("version", "revision", "listed"),
    [
        ("4.1.0", "v4.1.0", True),
        ("4.1.2", "v4.1.2", True),
        ("4.2.0-rc1", "v4.2.0-rc1", False),
        ("4.1.99", COMMIT, False),  # what comes after 4.1, and no tag
        ("4.1.0-ours", COMMIT, True),
    ],
)
def test_revision_and_modules(version: str, revision: str, listed: bool) -> None:
    found = ZephyrVersion(version, COMMIT)
    assert found.revision == revision
    assert found.modules == (PINNED_ZEPHYR.modules if listed else ())
    assert "tflite-micro" in PINNED_ZEPHYR.modules


def test_without_its_commit_the_version_has_to_do() -> None:
    assert ZephyrVersion("4.1.99").revision == "v4.1.99"


def test_mbed_tls_4_is_two_modules() -> None:
    assert set(ZephyrVersion("4.4.1").modules) == {*PINNED_ZEPHYR.modules, "tf-psa-crypto"}
