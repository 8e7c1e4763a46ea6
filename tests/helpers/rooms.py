# SPDX-License-Identifier: Apache-2.0
"""The rooms of docs/architecture.md, and the imports of the package's modules, read with `ast`."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.helpers.checkout import ROOT
from tests.helpers.source_trees import nodes_of

PACKAGE = ROOT / "tflm_zephyr"


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def documented_rooms() -> list[str]:
    """Rooms in the order in which they may import each other, lowest first; "root" stands for the package itself."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return re.findall(r"^\| (\w+) \|", text.split("## Rooms")[1].split("\n## ")[0], re.M)[1:]


def public_faces() -> set[str]:
    """Packages whose `__init__` other rooms may import from: each room, and the sub-packages named in the table."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("## Rooms")[1]
    return {*documented_rooms(), *re.findall(r"`((?:device|validation)\.\w+)`", text)}


def room_of(name: str) -> str:
    """The room of a module: its first package; "root" for a module of none, but `__main__` runs the command line."""
    top = "cli" if name == "__main__" else name.partition(".")[0]
    return top if (PACKAGE / top).is_dir() else "root"


@cache
def imports_of(name: str) -> list[tuple[str, str]]:
    """Each name that the module imports from this package, at the top or inside a function: (from where, name)."""
    found = []
    for node in nodes_of(MODULES[name]):
        if isinstance(node, ast.Import):
            ours = [alias.name for alias in node.names if alias.name.partition(".")[0] == "tflm_zephyr"]
            assert not ours, f"{name} line {node.lineno}: import names from a room's face instead of {ours}"
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import in line {node.lineno}"
            top, _, source = (node.module or "").partition(".")
            if top == "tflm_zephyr":
                found += [(source, alias.name) for alias in node.names]
    return found


def imported(name: str) -> set[str]:
    """Every module of the package that `name` imports."""
    whole = {f"{source}.{what}".lstrip("."): source for source, what in imports_of(name)}
    ours = {module if module in MODULES else source or "__init__" for module, source in whole.items()}
    assert ours <= set(MODULES), f"{name} imports modules that are not there: {ours - set(MODULES)}"
    return ours - {"__init__"}
