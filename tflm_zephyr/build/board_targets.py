# SPDX-License-Identifier: Apache-2.0
"""A board target in a workspace's Zephyr: its existence and its architecture."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

from tflm_zephyr import process
from tflm_zephyr.boards import Board, known_boards
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.errors import BoardError
from tflm_zephyr.plain_values import did_you_mean

_LISTING = "scripts/list_boards.py"  # Zephyr's own CMake runs it, and `west boards`
_FIELDS = re.compile(r"SOCS;(?P<socs>.*?);QUALIFIERS;(?P<qualifiers>.*)")
_PATIENCE_S = 60


def in_workspace(board: Board, workspace: Workspace) -> Board:
    """`board`, with its architecture and memory where boards/ does not describe it.

    Raises BoardError when Zephyr has no such board, or none with these qualifiers.
    """
    if board.known:
        return board
    if not workspace.knows_board(board.name):
        lists = "`west boards` lists Zephyr's, `tflm-zephyr boards` those described here"
        asked = did_you_mean(board.name, known_boards()) or did_you_mean(
            re.split("[@/]", board.name)[0], workspace.board_names()
        )
        raise BoardError(
            f"unknown board; Zephyr {workspace.zephyr_version} has none of that name",
            where=board.name,
            hint=f"{asked[:1].upper()}{asked[1:]} {lists}".lstrip(),
        )
    name, slash, qualifiers = re.sub(r"@[^/]*", "", board.name).partition("/")
    targets = _targets(name, workspace)
    if targets and f"{name}{slash}{qualifiers}" not in targets:
        raise BoardError(
            f"Zephyr {workspace.zephyr_version} has no such target of the board {name}",
            where=board.name,
            hint=f"It has {', '.join(target for target in targets if target != name)}",
        )
    facts = workspace.board_facts(board.name)
    return replace(board, arch=facts.arch, flash_kib=facts.flash_kib, ram_kib=facts.ram_kib)


def _targets(name: str, workspace: Workspace) -> tuple[str, ...]:
    """The targets of the board `name`, its name alone where it has one SoC; empty where Zephyr does not report them."""
    script = workspace.zephyr_base / _LISTING
    if not script.is_file():
        return ()
    roots = [str(root) for root in workspace.board_roots]
    argv = [sys.executable, str(script), "--board", name, "--cmakeformat", "{SOCS};{QUALIFIERS}"]
    for kind in ("arch", "soc", "board"):
        argv += [part for root in roots for part in (f"--{kind}-root", root)]
    try:
        done = process.run(argv, timeout_s=_PATIENCE_S)
    except (OSError, TimeoutError):
        return ()
    found = _FIELDS.search(done.output) if done.returncode == 0 else None
    if found is None:
        return ()
    targets = [f"{name}/{qualifiers}" for qualifiers in found["qualifiers"].split(";") if qualifiers]
    alone = [name] if targets and len(found["socs"].split(";")) == 1 else []
    return (*alone, *targets)
