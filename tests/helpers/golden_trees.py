# SPDX-License-Identifier: Apache-2.0
"""Generated trees kept in tests/golden: one is whole, another has what differs from its base, a tree of another name.

New files stand as they are, and so do files that have little in common with the base's. The rest is in `changes.diff`:
`absent PATH` for a file that the base alone has, `template PATH` for one that is a template of the package but for its
banner, and lines that go and come for files that changed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from functools import cache
from pathlib import Path

from tests.helpers.checkout import ROOT
from tflm_zephyr.files import write_atomically

GOLDEN = ROOT / "tests" / "golden"
CHANGES = "changes.diff"
_BANNER = '{{ banner("//") }}\n'


def files_below(folder: Path) -> dict[str, bytes]:
    """The content of each file by its path."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_tree(name: str, files: Mapping[str, bytes], *, update: bool = False) -> None:
    """Assert that tests/golden/`name` is `files`, a tree or its differences; with `update`, write that first."""
    if update:
        shutil.rmtree(GOLDEN / name, ignore_errors=True)
        for path, data in files.items():
            write_atomically(GOLDEN / name / path, data)
    kept = files_below(GOLDEN / name)
    assert set(files) == set(kept), f"{name} has other files: look at them, then pytest --update-golden"
    for path, data in files.items():
        got, want = (text.decode("utf-8", "backslashreplace") for text in (data, kept[path]))
        assert got == want, f"{name}/{path} differs: look at it, then pytest --update-golden"


def differences(files: Mapping[str, bytes], base: Mapping[str, bytes]) -> dict[str, bytes]:
    """What tells a tree from its base: files, and the lines that changed."""
    whole: dict[str, bytes] = {}
    lines = [f"absent {path}\n" for path in sorted(base.keys() - files.keys())]
    for path, data in sorted(files.items()):
        if base.get(path) == data:
            continue
        if is_template(path, data):
            lines.append(f"template {path}\n")
            continue
        changed = list(_changed(path, base[path], data)) if path in base and not path.endswith(".tflite") else []
        if changed and len(changed) <= data.count(b"\n") // 2:
            lines += changed
        else:
            whole[path] = data
    return whole | ({CHANGES: "".join(lines).encode()} if lines else {})


def _changed(path: str, old: bytes, new: bytes) -> Iterator[str]:
    """The lines that changed, without their numbers, which every line more above would change."""
    yield f"changed {path}\n"
    texts = (text.decode().splitlines(keepends=True) for text in (old, new))
    for line in list(unified_diff(*texts, n=1))[2:]:
        yield "@@\n" if line.startswith("@@") else line


def is_template(path: str, data: bytes) -> bool:
    """Whether the file is the one template of its name, with nothing filled in but the banner."""
    return any(text and data.endswith(text) for text in _plain_templates().get(Path(path).name, ()))


@cache
def _plain_templates() -> dict[str, list[bytes]]:
    """By name, what follows the banner in templates that have no other expression."""
    plain: dict[str, list[bytes]] = {}
    for path in sorted((ROOT / "templates").rglob("*.j2")):
        _, banner, rest = path.read_text(encoding="utf-8").partition(_BANNER)
        if banner and "{{" not in rest and "{%" not in rest:
            plain.setdefault(path.name.removesuffix(".j2"), []).append(rest.encode())
    return plain
