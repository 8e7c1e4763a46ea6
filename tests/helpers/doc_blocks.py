# SPDX-License-Identifier: Apache-2.0
"""The fenced blocks of the README and of docs/: commands, their output, and files, in the order of the page.

A `sh` block holds commands. In a `console` block each line that begins with "$ " is a command, and the others are its
output, where a line "..." stands for any lines and "..." in a line for any characters. Any other block with a
`title="PATH"` is a file of that content. HTML comments right before a block say how it is to be run:

    <!-- needs: zephyr -->    what the machine has to have, several with commas; the words are those of NEEDS
    <!-- before: COMMAND -->  a command for the tests alone, run before the block
    <!-- exit: 1 -->          the exit code of the block's last command, 0 where this comment is absent
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.checkout import ROOT

NEEDS = {
    "zephyr": "a west workspace with Zephyr, a compiler and QEMU",
    "tensorflow": "TensorFlow and scikit-learn, the extra `train`",
    "nrf-connect-sdk": "a workspace of the nRF Connect SDK",
    "board": "a real board",
    "network": "the internet",
    "root": "rights to install packages on the machine",
    "workspace": "a workspace whose configuration may be changed",
    "files": "files that the repository does not have",
    "service": "a service that keeps running, as in ser2net",
}
"""The words after `needs:`. Blocks that need only `zephyr` or only `tensorflow` run in tests that ask for these."""
SHELLS = ("sh", "console")
PAGES = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "samples").glob("*/README.md")),
)
_NOT_COPIED = {".git", ".venv", "build", "dist", "tests", ".hypothesis"}
_BLOCK = re.compile(
    r"(?P<comments>(?:^<!-- [^\n]*? -->\n)*)^(?P<fence>```+)(?P<info>[^`\n]*)\n(?P<text>.*?)^(?P=fence)$", re.M | re.S
)


@dataclass(frozen=True)
class Step:
    """One command, the output that the page shows (None: none is shown), and its exit code."""

    command: str
    output: tuple[str, ...] | None = None
    code: int = 0


@dataclass(frozen=True)
class Block:
    """A fenced block. `notes` has the comments before it, by their first word; `title` is a file's path or ""."""

    page: Path
    line: int
    language: str
    text: str
    title: str = ""
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """File and line, for messages."""
        return f"{self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page}:{self.line}"

    @property
    def needs(self) -> frozenset[str]:
        """What the machine has to have."""
        return frozenset(word.strip() for word in self.notes.get("needs", "").split(",") if word.strip())

    @property
    def steps(self) -> tuple[Step, ...]:
        """The commands; a ```` ```sh ```` block is one."""
        code = int(self.notes.get("exit", "0"))
        if self.language == "sh":
            return (Step(self.text, code=code),)
        steps: list[Step] = []
        lines = iter(self.text.splitlines())
        for line in lines:
            if line.startswith("$ "):
                command = line[2:]
                while command.endswith("\\"):
                    command += "\n" + next(lines)
                steps.append(Step(command, ()))
            else:
                assert steps, f"{self.where}: a console block begins with `$ `"
                last = steps.pop()
                steps.append(Step(last.command, (*(last.output or ()), line)))
        steps = [Step(step.command, _without_blank_end(step.output or ())) for step in steps]
        return (*steps[:-1], Step(steps[-1].command, steps[-1].output, code))


def _without_blank_end(lines: tuple[str, ...]) -> tuple[str, ...]:
    """`lines` without the blank ones that separate a command's output from the next command."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        language, _, rest = match["info"].strip().partition(" ")
        title = re.search(r'title="([^"]+)"', rest)
        notes = dict(re.findall(r"<!-- (\w+)(?:: (.*?))? -->", match["comments"]))
        line = text[: match.start("fence")].count("\n") + 1
        found.append(Block(page, line, language, match["text"], title[1] if title else "", notes))
    return found


def runnable(page: Path, has: Collection[str] = ()) -> list[Block]:
    """The blocks of a page that a machine that `has` these can run, files included, in the page's order."""
    return [
        block
        for block in blocks_of(page)
        if (block.language in SHELLS or block.title) and not block.notes.keys() & {"first", "tests"}
        if block.needs <= set(has)
    ]


def copy_checkout(folder: Path) -> Path:
    """A copy of the checkout without its history, tests and builds; commands of the pages run at its top."""
    copy = folder / "tflm_zephyr"
    copy.mkdir()
    for path in ROOT.iterdir():
        if path.is_dir() and path.name not in _NOT_COPIED:
            shutil.copytree(path, copy / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.is_file() and path.name not in _NOT_COPIED:
            shutil.copy(path, copy)
    return copy


def run_blocks(
    blocks: list[Block], folder: Path, *, numbers: bool = True, environ: Mapping[str, str] | None = None
) -> int:
    """Run the blocks in `folder` with the variables `environ` besides; returns the number of commands.

    With `numbers` false the numbers of the output may be others.
    """
    count = 0
    for block in blocks:
        hidden = (Step(block.notes["before"]),) if "before" in block.notes else ()
        if block.language not in SHELLS:
            (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.title).write_text(block.text, encoding="utf-8")
        for step in (*hidden, *(block.steps if block.language in SHELLS else ())):
            printed = _run(step, block, folder, environ or {})
            count += 1
            if step.output:
                wrong = difference(step.output, printed.splitlines(), numbers=numbers)
                assert not wrong, f"{block.where}: {step.command}\n{wrong}\nall of the output:\n{printed}"
    return count


def _run(step: Step, block: Block, folder: Path, more: Mapping[str, str]) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, **more, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", step.command],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == step.code, f"{block.where}: exit code {done.returncode}: {step.command}\n{done.stdout}"
    return done.stdout


def difference(expected: Collection[str], printed: Collection[str], *, numbers: bool = True) -> str:
    """The first line that the page shows and the command did not print, in words; "" where all is as shown."""
    rows = [line.rstrip() for line in printed]
    lines = [line.rstrip() for line in expected]
    at, loose = 0, False
    for line in lines:
        if line.strip() == "...":
            loose = True
            continue
        pattern = _pattern(line, numbers)
        found = next((k for k in range(at, len(rows)) if pattern.fullmatch(rows[k])), None) if loose else at
        if found is None or found >= len(rows) or not pattern.fullmatch(rows[found]):
            return f"the page shows:  {line}\nprinted instead: {rows[at] if at < len(rows) else '(nothing more)'}"
        at, loose = found + 1, False
    return "" if loose or at == len(rows) else f"printed, but not on the page: {rows[at]}"


def _pattern(line: str, numbers: bool) -> re.Pattern[str]:
    """A line of the page as a pattern; without `numbers`, runs of digits and of hex digits match any others."""
    parts = []
    for part in re.split(r"(\.\.\.)", line):
        if part == "...":
            parts.append(".*")
        elif numbers:
            parts.append(re.escape(part))
        else:
            words = re.split(r"(-?\b[0-9a-f]*\d[0-9a-f]*(?:\.\d+)?)", part)
            parts += [r"-?[0-9a-f]+(?:\.\d+)?" if k % 2 else re.escape(word) for k, word in enumerate(words)]
    text = "".join(parts)
    return re.compile(text if numbers else re.sub(r"(?:\\ )+", " +", text))
