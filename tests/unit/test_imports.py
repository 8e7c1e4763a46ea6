# SPDX-License-Identifier: Apache-2.0
"""Imports point one way, through the rooms' public faces: those of docs/architecture.md."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.helpers.rooms import MODULES, documented_rooms, imported, imports_of, public_faces, room_of, tree_of

# host.child runs in a child process of its own, and talks to the parent that reads its output.
PRINTERS = {"cli.main", "cli.output", "host.child", "__main__"}
LONGEST_FUNCTION_LINES = 60


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


def test_imports_are_found_where_they_are() -> None:
    assert {"cli.options", "errors"} <= imported("cli.main")
    assert {"codegen", "build"} <= imported("cli.commands.generate")  # inside functions
    assert "memory_planner" in imported("cli.report.plan")  # for types alone
