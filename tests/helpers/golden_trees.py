# SPDX-License-Identifier: Apache-2.0
"""Generated trees kept in tests/golden: a tree is whole, or has what differs from another one, its base.

A tree with a base has a file `files.txt`: the line `base NAME`, a line `absent PATH` for each file of the base that it
lacks, and `template PATH` for each file that is a template of the package but for its banner, and stands there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.helpers.checkout import ROOT
from tflm_zephyr.files import write_atomically

GOLDEN = ROOT / "tests" / "golden"
LIST = "files.txt"
_BANNER = '{{ banner("//") }}\n'


def files_below(folder: Path) -> dict[str, bytes]:
    """The content of each file by its path."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_tree(name: str, base: str, files: Mapping[str, bytes], *, update: bool = False) -> None:
    """Assert that `files` are tests/golden/`name`; with `update`, write that first, on `base`."""
    if update:
        _write(name, base, files)
    want, copies = golden_tree(name)
    assert set(files) == {*want, *copies}, f"{name} has other files: look at them, then pytest --update-golden"
    for path, data in files.items():
        if path in copies:
            assert is_template(path, data), f"{name}/{path} is no template: pytest --update-golden"
        else:
            got, kept = (text.decode("utf-8", "backslashreplace") for text in (data, want[path]))
            assert got == kept, f"{name}/{path} differs: look at it, then pytest --update-golden"


def golden_tree(name: str) -> tuple[dict[str, bytes], set[str]]:
    """The files of a kept tree, and the paths of those that are templates."""
    own = files_below(GOLDEN / name)
    words = [line.split(" ", 1) for line in own.pop(LIST, b"").decode().splitlines()]
    bases, absent, copies = ({path for word, path in words if word == kind} for kind in ("base", "absent", "template"))
    below: dict[str, bytes] = {}
    for base in bases:
        below, inherited = golden_tree(base)
        copies |= inherited - absent - own.keys()
    return {path: data for path, data in (below | own).items() if path not in absent | copies}, copies


def _write(name: str, base: str, files: Mapping[str, bytes]) -> None:
    below, inherited = golden_tree(base) if base else ({}, set())
    copies = {path for path, data in files.items() if base and below.get(path) != data and is_template(path, data)}
    shutil.rmtree(GOLDEN / name, ignore_errors=True)
    for path, data in files.items():
        if path not in copies and below.get(path) != data:
            write_atomically(GOLDEN / name / path, data)
    lines = [f"base {base}\n"] if base else []
    lines += [f"absent {path}\n" for path in sorted((below.keys() | inherited) - files.keys())]
    lines += [f"template {path}\n" for path in sorted(copies - inherited)]
    if lines:
        write_atomically(GOLDEN / name / LIST, "".join(lines).encode())


def is_template(path: str, data: bytes) -> bool:
    """Whether the file is the one template of its name, with nothing filled in but the banner."""
    return any(text and data.endswith(text) for text in _plain_templates().get(Path(path).name, ()))


@cache
def _plain_templates() -> dict[str, list[bytes]]:
    """By name, what follows the banner in templates that have no other expression."""
    found: dict[str, list[bytes]] = {}
    for path, text in _templates():
        _, banner, rest = text.partition(_BANNER)
        if banner and "{{" not in rest and "{%" not in rest:
            found.setdefault(path.name.removesuffix(".j2"), []).append(rest.encode())
    return found


def _templates() -> Iterator[tuple[Path, str]]:
    for path in sorted((ROOT / "templates").rglob("*.j2")):
        yield path, path.read_text(encoding="utf-8")
