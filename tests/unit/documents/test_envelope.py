# SPDX-License-Identifier: Apache-2.0
"""The keys that every document has."""

from __future__ import annotations

import json

from tflm_zephyr import __version__
from tflm_zephyr.documents import enveloped


def test_its_keys_come_first() -> None:
    found = enveloped("flash", {"app": "a", "board": "b"}, ("flash", "a"))
    assert list(found) == ["document", "schema_version", "tool_version", "command", "app", "board"]
    assert (found["document"], found["tool_version"], found["command"]) == ("flash", __version__, ["flash", "a"])


def test_json_has_no_nan() -> None:
    plain = enveloped("x", {"a": [float("nan"), 1.0, (float("inf"),)], "b": None, "c": True})
    assert json.dumps(plain, allow_nan=False).endswith('"a": [null, 1.0, [null]], "b": null, "c": true}')
