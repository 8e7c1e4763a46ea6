# SPDX-License-Identifier: Apache-2.0
"""Bars of long commands: on a terminal alone."""

from __future__ import annotations

import io
import sys

import pytest

from tflm_zephyr.cli.progress import progress, reference_runs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def build(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *, quiet: bool = False) -> str:
    """Standard error of a build whose ninja does 12 of 345 steps."""
    monkeypatch.setattr(sys, "stderr", stream)
    with progress(None, "mps2/an385", "step", quiet=quiet) as bar:
        for line in (
            "-- Configuring done",
            "[1/345] Building C object a.c",
            "[12/345] Building C object b.c",
            "warning",
        ):
            bar.ninja(line)
    return stream.getvalue()


def test_a_build_shows_ninjas_steps_and_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = build(monkeypatch, Terminal())
    assert "mps2/an385" in shown and "12/345 [00:" in shown


@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO(), False), (Terminal(), True)], ids=["file", "quiet"])
def test_no_bar_in_a_file_or_when_quiet(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, quiet: bool) -> None:
    assert build(monkeypatch, stream, quiet=quiet) == ""


def test_the_runs_of_both_engines_in_one_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with reference_runs("references") as on_run:
        on_run("tflm", 30, 100)
        on_run("litert", 12, 100)
    assert "references" in stream.getvalue() and "42/200 [00:" in stream.getvalue()
