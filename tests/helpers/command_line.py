# SPDX-License-Identifier: Apache-2.0
"""The command line inside the test's process, and the stand-in reference's name."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tflm_zephyr.cli import main
from tflm_zephyr.documents import checked

SOURCE = "LiteRT 0.0.0, reference kernels"


@dataclass(frozen=True)
class Outcome:
    """What a command line ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def one_line(self) -> str:
        """The error's line; asserts that it is all there is, and that the exit code is 1."""
        assert self.code == 1, self
        assert self.out == ""
        assert self.err.startswith("tflm-zephyr: error: ") and self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        return self.err


Tool = Callable[..., Outcome]


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Tool]:
    """Runs a command line as the console script does, with no workspace in the environment or around.

    Each document that --json prints is checked against the schema.
    """
    monkeypatch.chdir(tmp_path)
    for name in ("ZEPHYR_BASE", "ZEPHYR_TOOLCHAIN_VARIANT", "GNUARMEMB_TOOLCHAIN_PATH", "ZEPHYR_SDK_INSTALL_DIR"):
        monkeypatch.delenv(name, raising=False)

    def run(*argv: object) -> Outcome:
        capsys.readouterr()
        try:
            code = main.main([str(arg) for arg in argv])
        except SystemExit as err:
            code = err.code if isinstance(err.code, int) else 1
        said = capsys.readouterr()
        if "--json" in map(str, argv) and said.out:
            checked(json.loads(said.out), " ".join(map(str, argv)))
        return Outcome(code, said.out, said.err)

    handlers = {sig: signal.getsignal(sig) for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield run
    for sig, handler in handlers.items():
        signal.signal(sig, handler)
