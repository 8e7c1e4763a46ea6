# SPDX-License-Identifier: Apache-2.0
"""The CMSIS-NN sources that a kernel needs: the functions that it names, the functions that these name, and so on.

The names of CMSIS-NN's functions all begin with `arm_`; its tables may have any name. Such a name in a source leads to
the source that defines it; inline functions in headers are followed in the same way.
Nothing here depends on the revision of CMSIS-NN.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

INCLUDE_DIR = "Include"
_SUPPORT = "NNSupportFunctions"

_NAME = re.compile(r"\b[A-Za-z_]\w*")
_FUNCTION = re.compile(r"^[A-Za-z_][\w \t*]*?\b(arm_\w+)\s*\([^;{]*\)\s*\{", re.M)
_ARRAY = re.compile(r"^const\s+\w+\s+(\w+)\s*\[[^;]*?=\s*\{", re.M)
_INLINE = re.compile(r"^__STATIC_(?:FORCE)?INLINE\b[^;{]*?\b(arm_\w+)\s*\(", re.M)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


class CmsisNnTree:
    """A CMSIS-NN checkout, read on demand."""

    def __init__(self, root: Path) -> None:
        """`root` is the top of the checkout."""
        self._root = root

    def closure(self, source: Path) -> tuple[str, ...]:
        """The C sources (paths in the checkout, sorted) for all that `source` names."""
        return self._closure(self._named(_text(source)))

    def entry_points(self) -> dict[str, tuple[str, ...]]:
        """The C sources (paths in the checkout, sorted) of each function by name, support functions left out."""
        return {
            name: self._closure({name})
            for name, path in sorted(self._defined.items())
            if name.startswith("arm_") and _SUPPORT not in path
        }

    def _closure(self, names: Iterable[str]) -> tuple[str, ...]:
        found: set[str] = set()
        seen: set[str] = set()
        todo = set(names)
        while todo:
            name = todo.pop()
            seen.add(name)
            path = self._defined.get(name)
            if path is not None and path not in found:
                found.add(path)
                todo |= self._names[path] - seen
            todo |= self._inline.get(name, frozenset()) - seen
        return tuple(sorted(found))

    def _named(self, text: str) -> frozenset[str]:
        """The functions and tables that `text` may name."""
        return frozenset(name for name in _NAME.findall(text) if name.startswith("arm_") or name in self._tables)

    @cached_property
    def _texts(self) -> dict[str, str]:
        paths = sorted((self._root / "Source").rglob("*.c"))
        return {path.relative_to(self._root).as_posix(): _text(path) for path in paths}

    @cached_property
    def _tables(self) -> frozenset[str]:
        return frozenset(name for text in self._texts.values() for name in _ARRAY.findall(text))

    @cached_property
    def _names(self) -> dict[str, frozenset[str]]:
        return {path: self._named(text) for path, text in self._texts.items()}

    @cached_property
    def _defined(self) -> dict[str, str]:
        """Function or table -> the source that defines it."""
        defined: dict[str, str] = {}
        for path, text in self._texts.items():
            for name in (*_FUNCTION.findall(text), *_ARRAY.findall(text), Path(path).stem):
                defined.setdefault(name, path)
        return defined

    @cached_property
    def _inline(self) -> dict[str, frozenset[str]]:
        """Inline function -> the names in its body."""
        bodies: dict[str, frozenset[str]] = {}
        for path in sorted((self._root / INCLUDE_DIR).glob("*.h")):
            text = _text(path)
            starts = list(_INLINE.finditer(text))
            ends = [match.start() for match in starts[1:]]
            for match, end in zip(starts, [*ends, len(text)], strict=False):
                bodies[match[1]] = self._named(text[match.end() : end])
        return bodies


def _text(path: Path) -> str:
    return _COMMENT.sub(" ", path.read_text(encoding="utf-8", errors="replace"))
