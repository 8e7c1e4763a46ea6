# SPDX-License-Identifier: Apache-2.0
"""The sizes of functions and classes: cut by job where one is exceeded."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.helpers.rooms import MODULES
from tests.helpers.source_trees import nodes_of

LIMITS = {"lines": 60, "parameters": 7, "methods": 20, "fields": 15}
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def sizes(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str, int]]:
    """The name, the kind of size and the size of each function and class.

    `self` and `cls` are no parameters. Fields are those that a data class or a named tuple declares itself:
    what it inherits is a part of its own.
    """
    for node in nodes:
        if isinstance(node, _FUNCTION):
            given = node.args
            rest = [argument for argument in (given.vararg, given.kwarg) if argument is not None]
            names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs, *rest)]
            yield node.name, "lines", (node.end_lineno or node.lineno) - node.lineno + 1
            yield node.name, "parameters", len([name for name in names if name not in ("self", "cls")])
        elif isinstance(node, ast.ClassDef):
            yield node.name, "methods", sum(isinstance(item, _FUNCTION) for item in node.body)
            marks = [ast.unparse(mark) for mark in (*node.decorator_list, *node.bases)]
            if any(mark.startswith(("dataclass", "NamedTuple", "TypedDict")) for mark in marks):
                yield node.name, "fields", sum(isinstance(item, ast.AnnAssign) for item in node.body)


def above(sized: Iterable[tuple[str, str, int]]) -> list[str]:
    return [f"{name} has {size} {kind}, not {LIMITS[kind]}" for name, kind, size in sized if size > LIMITS[kind]]


def test_functions_and_classes_have_one_job() -> None:
    large = [f"{module}: {text}" for module in MODULES for text in above(sizes(nodes_of(MODULES[module])))]
    assert not large, "cut them by job:\n" + "\n".join(large)


def test_what_is_too_large_is_seen() -> None:
    names = [f"a{k}" for k in range(21)]
    text = "\n".join(
        [
            f"def f(self, {', '.join(names[:6])}, *args, k=0): ...",
            "@dataclass(frozen=True)\nclass Flat:",
            *(f"    {name}: int" for name in names[:16]),
            "class Many:",
            *(f"    def {name}(self): ..." for name in names),
            "def g():" + 60 * "\n    pass",
        ]
    )
    wide = ["f has 8 parameters", "Flat has 16 fields", "Many has 21 methods", "g has 61 lines"]
    found = above(sizes(ast.walk(ast.parse(text))))
    assert sorted(line.partition(",")[0] for line in found) == sorted(wide)
