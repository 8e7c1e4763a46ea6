# SPDX-License-Identifier: Apache-2.0
"""Imports point one way, through the rooms' public faces: the rooms are those of docs/architecture.md, read here."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "tflm_zephyr"
# host.child runs in a child process of its own, and talks to the parent that reads its output.
PRINTERS = {"cli.main", "host.child", "__main__"}
LONGEST_FUNCTION_LINES = 60


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
    """The room of a module: its first package, "root" for a module of none."""
    top = name.partition(".")[0]
    return top if (PACKAGE / top).is_dir() else "root"


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def imports_of(name: str) -> list[tuple[str, str]]:
    """Each name that the module imports from this package, at the top or inside a function: (from where, name)."""
    found = []
    for node in ast.walk(tree_of(name)):
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


def test_the_map_names_every_room_once() -> None:
    rooms = documented_rooms()
    assert len(rooms) == len(set(rooms))
    assert set(rooms) == {room_of(name) for name in MODULES}


def test_the_root_holds_a_handful() -> None:
    assert len([name for name in MODULES if room_of(name) == "root"]) <= 9


@pytest.mark.parametrize("name", [name for name in MODULES if room_of(name) != "root"])
def test_imports_point_down(name: str) -> None:
    order = {room: index for index, room in enumerate(documented_rooms())}
    room = room_of(name)
    above = {other for other in imported(name) if order[room_of(other)] > order[room]}
    assert not above, f"{name} imports from rooms above its own in docs/architecture.md: {sorted(above)}"


@pytest.mark.parametrize("name", MODULES)
def test_other_rooms_are_entered_by_their_face(name: str) -> None:
    faces = public_faces()
    for source, what in imports_of(name):
        if not source or room_of(source) in ("root", "cli", room_of(name)):
            continue
        assert source in faces, f"{name} reaches past the face of {room_of(source)}: {source}"
        face = tree_of(source)
        listed = next(node.value for node in face.body if isinstance(node, ast.Assign))
        assert what in ast.literal_eval(listed), f"{name} imports {what}, which {source} does not list in __all__"


@pytest.mark.parametrize("face", sorted(public_faces() - {"root", "cli", "device"}))
def test_a_face_lists_what_it_imports(face: str) -> None:
    (listed,) = (ast.literal_eval(node.value) for node in tree_of(face).body if isinstance(node, ast.Assign))
    assert set(listed) == {what for source, what in imports_of(face)}


def test_no_cycles() -> None:
    # A room's face gathers its modules, so none of them may import the face.
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
def test_only_the_command_line_prints(name: str) -> None:
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


@pytest.mark.parametrize("name", MODULES)
def test_functions_fit_a_screen(name: str) -> None:
    for node in ast.walk(tree_of(name)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= LONGEST_FUNCTION_LINES, f"{name}.{node.name} has {lines} lines: cut it by job"


def test_docstrings_say_what_the_thing_is() -> None:
    """The first line names the thing or what the function returns (see STYLE in CONTRIBUTING.md)."""
    for name in MODULES:
        for node in ast.walk(tree_of(name)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                first = (ast.get_docstring(node) or "").split(" ")[0]
                where = f"{name}, {getattr(node, 'name', 'the module')}"
                assert first not in ("What", "Of", "Whose", "Those"), f"{where}: a docstring begins with {first}"


def test_imports_are_found_where_they_are() -> None:
    assert {"cli.options", "errors"} <= imported("cli.main")
    assert {"codegen", "build"} <= imported("cli.commands.generate")  # inside functions
    assert "memory_planner" in imported("cli.report.plan")  # for types alone
