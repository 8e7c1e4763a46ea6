# SPDX-License-Identifier: Apache-2.0
"""Output that cannot be written, colours, --quiet, --version, and questions about misspelt words."""

from __future__ import annotations

import io
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.west import make_workspace
from tests.helpers.checkout import ROOT
from tests.helpers.command_line import Tool
from tests.helpers.processes import start
from tflm_zephyr.cli import output
from tflm_zephyr.errors import AppError
from tflm_zephyr.files import write_new


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("argv", [("boards",), ("boards", "--json"), ("--help",), ("--version",)])
def test_a_full_standard_output_is_one_line(argv: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tflm_zephyr", *argv], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr == b"tflm-zephyr: error: standard output: No space left on device\n"


@pytest.mark.parametrize("argv", [("boards",), ("--help",)])
def test_a_reader_that_went_away_is_no_error(argv: tuple[str, ...]) -> None:
    with start(*argv) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 141


def test_a_full_disk_is_one_line_and_leaves_nothing(model_file: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for it."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

    argv = [sys.executable, "-m", "tflm_zephyr", "plan", str(model_file), "-o", str(tmp_path / "out.tflite")]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, cwd=ROOT, preexec_fn=limit, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert f"{tmp_path / 'out.tflite'}: cannot write (File too large)" in done.stderr
    assert list(tmp_path.iterdir()) == [model_file]


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_an_output_that_is_no_file_is_refused(tool: Tool, model_file: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "pipe"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path = Path("/dev/null")
    line = tool("plan", model_file, "-o", path).one_line()
    assert f"{path}: a pipe or a device stands where a file should be. Name a file" in line
    with pytest.raises(AppError, match="a pipe or a device"):
        write_new(path, b"")


WARNED = "warning: odd\nself-test passed\nself-test FAILED\nok       here"


def test_colours_are_for_terminals() -> None:
    shown = output.coloured(WARNED, Terminal(), {})
    assert "\x1b[33mwarning:\x1b[0m odd" in shown and "\x1b[31mFAILED\x1b[0m" in shown
    assert "\x1b[32mpassed\x1b[0m" in shown and "\x1b[32mok\x1b[0m " in shown
    assert output.coloured(WARNED, io.StringIO(), {}) == WARNED


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_may_want_no_colours(env: dict[str, str]) -> None:
    assert output.coloured(WARNED, Terminal(), env) == WARNED
    assert output.coloured(WARNED, Terminal(), {"NO_COLOR": ""}) != WARNED  # empty is not set: https://no-color.org


def test_version_names_tables_and_engines(tool: Tool) -> None:
    said = tool("--version").out
    for part in ("TFLM 8d404de7, pinned by Zephyr 4.1.0", "TFLM fcc760af", "tflite-micro ", "ai-edge-litert "):
        assert part in said


@pytest.mark.parametrize(
    ("argv", "question"),
    [
        (("biuld", "app"), "did you mean 'build'?"),
        (("plan", "m", "--bord", "x"), "did you mean '--board'?"),
        (("generate", "m", "--kernels", "cmsis-nn"), "did you mean 'cmsis_nn'?"),
    ],
)
def test_a_misspelt_word_is_asked_about(tool: Tool, argv: tuple[str, ...], question: str) -> None:
    done = tool(*argv)
    assert done.code == 2 and question in done.err and "Traceback" not in done.err


@pytest.mark.parametrize(
    "argv",
    [
        ("generate", "m", "--arena", "9" * 20),
        ("generate", "m", "--arena", "9" * 5000),
        ("generate", "m", "--arena", "4096M"),
        ("generate", "m", "--runs", "9" * 5000),
        ("generate", "m", "--runs", 2**31),
        ("plan", "p.csv", "--capacity", "4096M"),
        ("verify", "--host", "m", "--random", "9" * 5000),
        ("evaluate", "d", "--jobs", 65),
    ],
)
def test_numbers_have_limits(tool: Tool, argv: tuple[object, ...]) -> None:
    done = tool(*argv)
    assert done.code == 2 and len(done.err) < 4000
    assert re.search(r": wants a whole number from [01] to (2147483647|64), not ", done.err)


@pytest.mark.usefixtures("fixed_reference")
def test_quiet_prints_the_result_alone(tool: Tool, model_file: Path, tmp_path: Path) -> None:
    assert tool("generate", model_file, "-o", tmp_path / "app", "-q", "--json").err == ""
    assert json.loads(tool("boards", "-q", "--json").out)
    assert "--quiet and --verbose contradict" in tool("build", tmp_path / "app", "-q", "-v").one_line()


@pytest.mark.usefixtures("fixed_reference")
def test_verbose_shows_the_programs_that_are_run(tool: Tool, model_file: Path, tmp_path: Path) -> None:
    folder = make_workspace(tmp_path / "ws") / ".git"
    tflm = folder.parent.parent / "optional/modules/lib/tflite-micro"
    subprocess.run(["git", "init", "-q", tflm], check=True)
    asked = ("generate", model_file, "-o", tmp_path / "app", "-w", tmp_path / "ws")
    assert "$ git " not in tool(*asked).err
    assert f"{tflm} rev-parse HEAD" in tool(*asked, "-v").err
    assert tool("boards", "--verbose").code == 0  # every command takes it


@pytest.mark.slow
def test_verify_of_the_reference_itself_says_so(tool: Tool, model_file: Path) -> None:
    pytest.importorskip("tflite_micro")
    done = tool("verify", "--host", model_file, "--random", 1)
    assert done.code == 0 and "note: both sides are TFLM on this host" in done.out
    assert any("both sides are TFLM" in note for note in tool("verify", "--host", model_file, "--json").json["notes"])
