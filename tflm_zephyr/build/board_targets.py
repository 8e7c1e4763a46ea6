# SPDX-License-Identifier: Apache-2.0
"""A board target in a workspace's Zephyr: its existence, its core and its memories."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace

from tflm_zephyr import process
from tflm_zephyr.boards import Board, known_boards
from tflm_zephyr.build.devicetree import devicetree_facts
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.errors import BoardError
from tflm_zephyr.plain_values import did_you_mean

_LISTING = "scripts/list_boards.py"  # Zephyr's own CMake runs it, and `west boards`
_FIELDS = re.compile(r"SOCS;(?P<socs>.*?);QUALIFIERS;(?P<qualifiers>.*)")
_PATIENCE_S = 60
# A maker may order these cores without DSP, or without Helium; all others have theirs by architecture.
_OPTIONAL_EXTENSIONS = ("cortex-m33", "cortex-m55", "cortex-m85")


def in_workspace(board: Board, workspace: Workspace) -> Board:
    """`board` with the memories of this Zephyr's devicetree, and its core and architecture where boards/ lacks them.

    Raises BoardError when Zephyr has no such board, or none with these qualifiers.
    """
    if board.known:
        return _with_memories_there(board, workspace)
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
    tree = devicetree_facts(_names(f"{name}{slash}{qualifiers}", targets), workspace)
    return replace(
        board,
        core=tree.core,
        extensions_known=tree.core not in _OPTIONAL_EXTENSIONS,
        arch=facts.arch,
        flash_kib=_kib(tree.flash_bytes) or facts.flash_kib,
        ram_kib=_kib(tree.ram_bytes) or facts.ram_kib,
    )


def _with_memories_there(board: Board, workspace: Workspace) -> Board:
    """A described board with the flash and RAM that this Zephyr and the app's overlay give it; the architecture of one
    that is no Cortex-M."""
    overlay = "".join(text for name, text in (board.files or {}).items() if name.endswith(".overlay"))
    tree = devicetree_facts((re.sub(r"@[^/]*", "", board.name),), workspace, overlay)
    return replace(
        board,
        arch=board.arch if board.cortex_m else workspace.board_facts(board.name).arch,
        flash_kib=_kib(tree.flash_bytes) or board.flash_kib,
        ram_kib=_kib(tree.ram_bytes) or board.ram_kib,
    )


def _kib(size_bytes: int | None) -> int | None:
    return None if size_bytes is None else size_bytes // 1024


def _names(target: str, targets: Sequence[str]) -> tuple[str, ...]:
    """`target` and its other name, which leaves out, or has, the one SoC of a board."""
    name, *rest = target.split("/")
    if name not in targets:  # several SoCs, or Zephyr does not report its targets
        return (target,)
    soc = next(full.split("/")[1] for full in targets if "/" in full)
    other = [name, *rest[1:]] if rest[:1] == [soc] else [name, soc, *rest]
    return (target, "/".join(other))


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
