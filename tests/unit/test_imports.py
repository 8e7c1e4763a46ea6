# SPDX-License-Identifier: Apache-2.0
"""Imports point one way: the order is the table in docs/architecture.md, read here."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "tflm_zephyr"
# host_child runs in a child of its own and talks to the parent that reads its output.
PRINTERS = {"cli", "host_child", "__main__"}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def imported(name: str) -> set[str]:
    """Every module of the package that `name` imports, at the top or inside a function."""
    found = set()
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import in line {node.lineno}"
            source = node.module or ""
            for alias in node.names:
                whole = f"{source}.{alias.name}".removeprefix("tflm_zephyr.")
                found.add(f"tflm_zephyr.{whole}" if source.startswith("tflm_zephyr") and whole in MODULES else source)
    ours = {full.removeprefix("tflm_zephyr").lstrip(".") or "__init__" for full in found if is_ours(full)}
    assert ours <= set(MODULES), f"{name} imports modules that are not there: {ours - set(MODULES)}"
    return ours - {"__init__"}


def is_ours(full: str) -> bool:
    return full == "tflm_zephyr" or full.startswith("tflm_zephyr.")


def documented_order() -> list[str]:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| *\w+ *\| *((?:`[\w.]+` *)+)\|", text, re.M)
    return [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]


def test_the_order_names_every_module_once() -> None:
    order = documented_order()
    assert len(order) == len(set(order))
    assert set(order) == {name.partition(".")[0] for name in MODULES} - {"__init__"}


@pytest.mark.parametrize("name", [name for name in MODULES if name != "__init__"])
def test_imports_point_up(name: str) -> None:
    place = {module: index for index, module in enumerate(documented_order())}
    top = name.partition(".")[0]
    below = {other for other in imported(name) if place[other.partition(".")[0]] > place[top]}
    assert not below, f"{name} imports what comes after it in docs/architecture.md: {sorted(below)}"


def test_no_circles() -> None:
    # A package's __init__ runs before its modules; it may gather them as long as none needs it back.
    try:
        list(TopologicalSorter({name: imported(name) for name in MODULES}).static_order())
    except CycleError as err:
        raise AssertionError(f"circular imports: {' -> '.join(err.args[1])}") from err


@pytest.mark.parametrize("name", MODULES)
def test_only_process_starts_children(name: str) -> None:
    starters = {"subprocess", "multiprocessing", "pty"}
    for node in ast.walk(tree_of(name)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "").partition(".")[0]]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            starting = re.match(r"(system|popen|fork|forkpty|exec[lv]\w*|spawn[lv]\w*|posix_spawn\w*)$", node.attr)
            assert not starting, f"{name} line {node.lineno}: os.{node.attr}"
        if name != "process":
            assert not starters & set(names), f"{name} line {node.lineno}"


@pytest.mark.parametrize("name", sorted(set(MODULES) - PRINTERS))
def test_only_cli_prints(name: str) -> None:
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("print", "input"), f"{name} line {node.lineno}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sys":
            assert node.attr not in ("stdout", "stderr", "stdin"), f"{name} line {node.lineno}"


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is(name: str) -> None:
    lines = MODULES[name].read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# SPDX-License-Identifier: Apache-2.0"
    assert ast.get_docstring(tree_of(name)), f"{name} has no docstring"
    assert len(lines) <= 330, f"{name} has {len(lines)} lines: two jobs?"


def test_imports_are_found_where_they_are() -> None:
    assert {"commands", "errors"} <= imported("cli")
    assert {"generate", "workspace", "report.text"} <= imported("commands.generate")  # inside functions, and by name
    assert "plan.problem" in imported("report.plan")  # for types alone
