# SPDX-License-Identifier: Apache-2.0
"""One family of errors: each is one line that says what is wrong, where, and what to do."""

from __future__ import annotations


class ToolError(Exception):
    """An error that the user can fix. The command line prints the message and exits with 1."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        """`what`: the problem. `where`: a file, tensor or port. `hint`: the remedy."""
        what = _without_stop(what)
        self.what, self.where, self.hint = what, where, hint
        text = f"{where}: {what}" if where else what
        stop = "" if text.endswith(("?", "!", "...")) else "."
        super().__init__(f"{text}{stop} {hint}" if hint else text)


def _without_stop(text: str) -> str:
    """`text`, which may be another tool's, as one that something may follow; an ellipsis stays."""
    plain = text.rstrip()
    return plain if plain.endswith("...") else plain.rstrip(" .:;,")


class ModelError(ToolError):
    """The .tflite file is malformed, or holds something that TFLM does not take."""


class PlanError(ToolError):
    """A memory plan is wrong, stale or impossible."""


class BoardError(ToolError):
    """An unknown or ill-described board."""


class AppError(ToolError):
    """The generated app or its app file is wrong, stale, or was edited by hand."""


class BuildError(ToolError):
    """No workspace, no toolchain, or a failing west command."""


class DeviceError(ToolError):
    """The device, the emulator or the port failed or did not answer."""


class ModelFailedError(DeviceError):
    """The model fails on a working device; with these inputs it would fail on any other."""
