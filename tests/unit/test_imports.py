# SPDX-License-Identifier: Apache-2.0
"""Imports point one way, through the rooms' public faces: those of docs/architecture.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.helpers.checkout import ROOT
from tests.helpers.rooms import MODULES, documented_rooms, imported, imports_of, public_faces, room_of
from tests.helpers.source_trees import nodes_of, tree_of

# host.child runs in a child process of its own, and talks to the parent that reads its output.
PRINTERS = {"cli.main", "cli.output", "host.child", "__main__"}


def test_the_map_names_every_room_once() -> None:
    rooms = documented_rooms()
    assert len(rooms) == len(set(rooms))
    assert set(rooms) == {room_of(name) for name in MODULES}


def test_the_root_holds_a_handful() -> None:
    assert len([name for name in MODULES if room_of(name) == "root"]) <= 7


def test_imports_point_down() -> None:
    order = {room: index for index, room in enumerate(documented_rooms())}
    upward = [
        f"{name} imports {other}"
        for name in MODULES
        for other in sorted(imported(name))
        if order[room_of(other)] > order[room_of(name)]
    ]
    assert not upward, "rooms that are lower in docs/architecture.md:\n" + "\n".join(upward)


def test_other_rooms_are_entered_by_their_face() -> None:
    listed = {face: listed_in(face) for face in public_faces() - {"root", "cli"}}
    past = [
        f"{name} imports {what} from {source}"
        for name in MODULES
        for source, what in imports_of(name)
        if source and room_of(source) not in ("root", "cli", room_of(name)) and what not in listed.get(source, ())
    ]
    assert not past, "not imported by a room's face:\n" + "\n".join(past)


def test_a_face_imports_nothing_that_nobody_takes() -> None:
    """Neither another room, nor a test, a benchmark or a script."""
    taken = {
        (face, name)
        for folder in ("tflm_zephyr", "tests", "benchmarks", "docs")
        for path in (ROOT / folder).rglob("*.py")
        for face, names in re.findall(
            r"from tflm_zephyr\.([\w.]+) import (\([^)]*\)|.*)", path.read_text(encoding="utf-8")
        )
        for name in re.findall(r"\w+", names)
    }
    faces = sorted(public_faces() - {"root", "cli", "device", "pytest_plugin"})  # pytest takes the last one's
    unused = [f"{face}.{name}" for face in faces for name in sorted(listed_in(face)) if (face, name) not in taken]
    assert not unused, "take them out of the face: " + ", ".join(unused)


def listed_in(face: str) -> set[str]:
    """The names that a room's face imports, and the rest of the package may."""
    return {what for _, what in imports_of(face)}


def test_no_cycles() -> None:
    # A room's face gathers its modules, so none of them may import the face.
    try:
        list(TopologicalSorter({name: imported(name) for name in MODULES}).static_order())
    except CycleError as err:
        raise AssertionError(f"circular imports: {' -> '.join(err.args[1])}") from err


def test_only_process_starts_children() -> None:
    starting = [f"{name} line {line}" for name in MODULES for line in child_starts(name)]
    assert not starting, "child processes start in process alone:\n" + "\n".join(starting)


def child_starts(name: str) -> Iterator[int]:
    """The lines of a module that start child processes, or import a library that does."""
    starters = {"subprocess", "multiprocessing", "pty"} if name != "process" else set()
    for node in nodes_of(MODULES[name]):
        found: set[str] = set()
        if isinstance(node, ast.Import):
            found = starters & {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found = starters & {(node.module or "").partition(".")[0]}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            found = set(
                re.findall(r"^(?:system|popen|fork|forkpty|exec[lv]\w*|spawn[lv]\w*|posix_spawn\w*)$", node.attr)
            )
        if found:
            yield node.lineno


def test_only_the_command_line_prints() -> None:
    printing = [f"{name} line {line}" for name in sorted(set(MODULES) - PRINTERS) for line in prints(name)]
    assert not printing, "only the command line prints:\n" + "\n".join(printing)


def prints(name: str) -> Iterator[int]:
    """The lines of a module that print, read or name a standard stream."""
    streams = ("stdout", "stderr", "stdin")
    for node in nodes_of(MODULES[name]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "input"):
            yield node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in streams:
            yield from [node.lineno] if node.value.id == "sys" else []


def test_shared_test_code_lies_in_helpers() -> None:
    """Tests and benchmarks import helpers and fakes; only tests/benchmarks, which tests them, imports benchmarks."""
    may = {"tests/benchmarks": {"benchmarks"}, "benchmarks": {"benchmarks"}}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {source}"
        for folder in ("tests", "benchmarks", "docs", "samples")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, source in outer_imports(path)
        if source not in {"tests/helpers", "tests/fakes", *may.get(place(path.relative_to(ROOT).parts), set())}
    ]
    assert not wrong, "move what is shared to tests/helpers:\n" + "\n".join(wrong)


def outer_imports(path: Path) -> Iterator[tuple[int, str]]:
    """Each import of the repository's tests and benchmarks: its line, and the folder that it takes from."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if source := re.match(r"\s*(?:from|import) +((?:tests|benchmarks)\b[\w.]*)", line):
            yield number, place(source[1].split("."))
        assert not re.match(r"\s*from +\.", line), f"{path} has a relative import in line {number}"


def place(parts: Sequence[str]) -> str:
    """The folder that a module belongs to: one of tests/, or a folder of the checkout."""
    return "/".join(parts[:2]) if parts[0] == "tests" else parts[0]


def test_imports_of_test_code_are_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import tests.fakes.bridge\nfrom tests import conftest\ndef f():\n    from benchmarks.common import run\n"
    )
    assert list(outer_imports(tmp_path / "a.py")) == [(1, "tests/fakes"), (2, "tests"), (4, "benchmarks")]


def test_every_module_says_what_it_is() -> None:
    silent = [name for name in MODULES if not ast.get_docstring(tree_of(MODULES[name]))]
    assert not silent, "no docstring: " + ", ".join(silent)


def test_imports_are_found_where_they_are() -> None:
    assert {"cli.options", "errors"} <= imported("cli.main")
    assert {"codegen", "build"} <= imported("cli.commands.generate")  # inside functions
    assert "memory_planner" in imported("cli.report.plan")  # for types alone
