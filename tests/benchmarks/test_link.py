# SPDX-License-Identifier: Apache-2.0
"""benchmarks/link.py tells a link that is too slow, with the toy on either side."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from benchmarks import link
from tests.fakes.link import toy
from tests.fakes.link.toy import ToyLink
from tests.fakes.link.wire import HarmedLink
from tests.helpers.marks import rest_slow


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy device as a program of this host."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    return toy.compile_for_host(tmp_path_factory.mktemp("toy"))


def slowed(program: Path, *words: str) -> HarmedLink:
    def wait(data: bytes) -> bytes:
        time.sleep(0.05)
        return data

    return HarmedLink(ToyLink(program, *words), to_device=wait)


@pytest.mark.slow
@pytest.mark.parametrize("slow", rest_slow(["echo", "frames"]))
def test_a_missed_goal_is_reported_and_is_exit_code_1(
    program: Path, slow: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(link, "_LEAST_S", 0.01)
    quick = {"frames": lambda: ToyLink(program, "echo"), "echo": lambda: ToyLink(program)}[slow]

    def table(args: object, folder: Path) -> bool:
        if slow == "frames":
            return link.compare("toy", quick, lambda: slowed(program), 2)
        return link.compare("toy", lambda: slowed(program, "echo"), quick, 2)

    monkeypatch.setattr(link, "table", table)
    assert link.main([]) == (1 if slow == "frames" else 0)
    assert f"(goal 0.9: {'missed' if slow == 'frames' else 'ok'})" in capsys.readouterr().out
