# SPDX-License-Identifier: Apache-2.0
"""Python files as syntax trees, each parsed once and walked once in a run of the tests."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file's tree, in the order of ast.walk()."""
    return tuple(ast.walk(tree_of(path)))
