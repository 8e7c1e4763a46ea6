# SPDX-License-Identifier: Apache-2.0
"""Scripts that complete the command line, and bash with one of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import Tool
from tflm_zephyr.cli.completion import SHELLS


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_all_commands(tool: Tool, shell: str) -> None:
    pytest.importorskip("shtab")
    done = tool("--print-completion", shell)
    assert done.code == 0 and done.err == ""
    assert all(word in done.out for word in ("generate", "budget", "doctor", "--json"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["bud"], {"budget"}),
        (["generate", "--ker"], {"--kernels"}),
        (["generate", "--kernels", "c"], {"cmsis_nn"}),
        (["build", "app", "--board", "mps2/an38"], {"mps2/an385", "mps2/an386"}),
        (["plan", "net.tf"], {"net.tflite"}),
    ],
)
def test_bash_completes(tool: Tool, tmp_path: Path, words: list[str], offered: set[str]) -> None:
    pytest.importorskip("shtab")
    (tmp_path / "script").write_text(tool("--print-completion", "bash").out)
    (tmp_path / "net.tflite").write_bytes(b"")
    line = ["tflm-zephyr", *words]
    code = f"""source ./script
COMP_WORDS=({" ".join(line)})
COMP_CWORD={len(words)}
"$(complete -p tflm-zephyr | sed 's/.*-F \\([^ ]*\\).*/\\1/')" tflm-zephyr {words[-1]} {line[-2]}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert {word.strip() for word in done.stdout.split("\n")} - {""} == offered, done


def test_without_shtab_it_says_what_to_install(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "shtab is not installed. Install the toolkit with its completion extra" in (
        tool("--print-completion", "bash").one_line()
    )
