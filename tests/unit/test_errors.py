# SPDX-License-Identifier: Apache-2.0
"""One line of what, where and what to do, whatever another tool's message ends in."""

from __future__ import annotations

import pytest

from tflm_zephyr.errors import ToolError


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("it broke", "here: it broke. Mend it"),
        ("it broke.", "here: it broke. Mend it"),
        ("it broke..", "here: it broke. Mend it"),
        ("cannot find: ", "here: cannot find. Mend it"),
        ("cut off...", "here: cut off... Mend it"),
        ("what is this?", "here: what is this? Mend it"),
    ],
)
def test_a_stop_is_not_doubled(what: str, line: str) -> None:
    error = ToolError(what, where="here", hint="Mend it")
    assert str(error) == line
    assert line.startswith(f"here: {error.what}")
    assert str(ToolError(what)) == error.what
