# SPDX-License-Identifier: Apache-2.0
"""Options as they were given, put into a config."""

from __future__ import annotations

from pathlib import Path

from tflm_zephyr.options import AppConfig, ModelConfig, with_given


def test_a_switch_that_is_not_given_changes_nothing() -> None:
    """`plan` has a --rows of its own, which is False where it is not given."""
    config = AppConfig((ModelConfig(Path("net.tflite")),))
    assert with_given(config, {"rows": False, "no_in_place": False}) == config
    assert with_given(config, {"rows": True}).rows
    assert not with_given(config, {"no_in_place": True}).models[0].in_place
