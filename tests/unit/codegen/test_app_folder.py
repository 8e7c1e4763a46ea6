# SPDX-License-Identifier: Apache-2.0
"""Apps on disk: whole or not at all, only what changed, never over an edit."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tflm_zephyr.codegen import app_folder
from tflm_zephyr.codegen.app_folder import (
    MANIFEST,
    AppManifest,
    FileChange,
    as_generated,
    compare_files,
    load_manifest,
    write_files,
)
from tflm_zephyr.codegen.model_facts import ModelFacts
from tflm_zephyr.errors import AppError

EMPTY = AppManifest("0.1.0", "net", "4.1.0", "8d40", "reference", ("mps2/an385",), {"net": ModelFacts("ab")})
FILES = {"a.txt": b"one\n", "src/b.txt": b"two\n", "src/deep/c.txt": b"three\n"}


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below `folder`, temporary ones included, the manifest left out."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found.pop(MANIFEST, None)
    return found


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An app just generated."""
    folder = tmp_path / "app"
    write_files(folder, FILES, EMPTY)
    return folder


def test_everything_is_written(tmp_path: Path) -> None:
    app = tmp_path / "new" / "app"
    assert write_files(app, FILES, EMPTY) == FileChange(written=("a.txt", "src/b.txt", "src/deep/c.txt"))
    assert tree(app) == FILES
    manifest = load_manifest(app)
    assert set(manifest.files) == set(FILES)
    assert replace(manifest, files={}) == EMPTY and manifest.yours == {}


def test_starters_are_written_once(app: Path) -> None:
    starters = {"prj.conf": b"first\n", "src/main.cpp": b"first\n", "own.txt": b"first\n"}
    (app / "own.txt").write_bytes(b"the user's own\n")
    change = write_files(app, FILES, EMPTY, starters)
    assert change.written == ("prj.conf", "src/main.cpp")
    assert list(load_manifest(app).yours) == sorted(starters) and change.outdated == ()
    (app / "prj.conf").write_bytes(b"mine\n")
    (app / "src/main.cpp").unlink()
    later = dict.fromkeys(starters, b"second\n") | {"boards/new.conf": b"second\n"}
    assert write_files(app, FILES, EMPTY, later, force=True).written == ("boards/new.conf",)
    assert tree(app) == {
        **FILES, "prj.conf": b"mine\n", "own.txt": b"the user's own\n", "boards/new.conf": b"second\n"
    }  # fmt: skip


def test_starters_that_options_change_are_named(app: Path) -> None:
    """Once, and not those that are gone, that are as the new options have them, or that only the user changed."""
    starters = {"prj.conf": b"first\n", "gone.txt": b"first\n", "same.txt": b"first\n", "edited.txt": b"first\n"}
    write_files(app, FILES, EMPTY, starters)
    (app / "gone.txt").unlink()
    (app / "same.txt").write_bytes(b"second\n")
    (app / "edited.txt").write_bytes(b"mine\n")
    assert write_files(app, FILES, EMPTY, starters).outdated == ()
    later = dict.fromkeys(starters, b"second\n") | {"edited.txt": b"first\n"}
    assert write_files(app, FILES, EMPTY, later).outdated == ("prj.conf",)
    assert (app / "prj.conf").read_bytes() == b"first\n"
    assert write_files(app, FILES, EMPTY, later).outdated == ()


@pytest.mark.parametrize("good", range(7))
def test_starters_are_completed_after_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: int) -> None:
    app, starters = tmp_path / "app", {"prj.conf": b"one\n", "src/main.cpp": b"two\n"}
    with monkeypatch.context() as patch:
        Interrupt(patch, "replace", good, KeyboardInterrupt())
        with suppress(KeyboardInterrupt):
            write_files(app, FILES, EMPTY, starters)
    write_files(app, FILES, EMPTY, starters)
    assert tree(app) == FILES | starters


def test_an_app_of_the_older_layout_is_one_line(tmp_path: Path) -> None:
    (tmp_path / ".tflm-zephyr.json").write_text(json.dumps({"generator": "0.1.0"}))
    for call in (lambda: load_manifest(tmp_path), lambda: write_files(tmp_path, FILES, EMPTY, force=True)):
        with pytest.raises(
            AppError, match=r"older tflm-zephyr.*generate --app .*/app\.yaml -o NEW.*take your edits"
        ) as found:
            call()
        assert "\n" not in str(found.value)
    assert tree(tmp_path).keys() == {".tflm-zephyr.json"}


def test_the_same_again_touches_nothing(app: Path) -> None:
    for path in app.rglob("*"):
        os.utime(path, (1_000_000, 1_000_000))
    assert write_files(app, FILES, EMPTY) == FileChange(unchanged=tuple(FILES))
    assert {path.stat().st_mtime for path in app.rglob("*")} == {1_000_000}


def test_the_manifest_is_the_same_for_the_same_app(app: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_files(other, dict(reversed(FILES.items())), EMPTY)
    assert (other / MANIFEST).read_bytes() == (app / MANIFEST).read_bytes()


def test_only_what_changed_is_written(app: Path) -> None:
    os.utime(app / "a.txt", (1_000_000, 1_000_000))
    change = write_files(app, {**FILES, "src/b.txt": b"2\n"}, EMPTY)
    assert change == FileChange(written=("src/b.txt",), unchanged=("a.txt", "src/deep/c.txt"))
    assert (app / "a.txt").stat().st_mtime == 1_000_000
    assert (app / "src/b.txt").read_bytes() == b"2\n"


def test_an_edit_is_never_overwritten(app: Path) -> None:
    (app / "src/b.txt").write_bytes(b"mine\n")
    new = {path: data + b"more\n" for path, data in FILES.items()}
    with pytest.raises(AppError, match=r"edited by hand: src/b\.txt\. Keep your edit"):
        write_files(app, new, EMPTY)
    assert tree(app) == {**FILES, "src/b.txt": b"mine\n"}


def test_an_edit_is_refused_even_in_an_unchanged_file(app: Path) -> None:
    (app / "a.txt").write_bytes(b"mine\n")
    with pytest.raises(AppError, match="edited by hand"):
        write_files(app, FILES, EMPTY)


def test_force_keeps_the_edit(app: Path) -> None:
    for n, orig in enumerate(["b.txt.orig", "b.txt.orig1", "b.txt.orig2"]):
        edit = f"mine {n}\n".encode()
        (app / "src/b.txt").write_bytes(edit)
        assert write_files(app, FILES, EMPTY, force=True).edited == ("src/b.txt",)
        assert (app / "src" / orig).read_bytes() == edit
        assert (app / "src/b.txt").read_bytes() == b"two\n"
    assert compare_files(app, FILES) == FileChange(unchanged=tuple(FILES))


def test_a_deleted_file_comes_back(app: Path) -> None:
    (app / "a.txt").unlink()
    assert write_files(app, FILES, EMPTY).written == ("a.txt",)
    assert tree(app) == FILES


def test_an_edit_that_equals_the_new_content_is_no_edit(app: Path) -> None:
    (app / "a.txt").write_bytes(b"new\n")
    assert write_files(app, {**FILES, "a.txt": b"new\n"}, EMPTY).edited == ()


def test_a_file_of_the_users_where_a_new_one_would_go(app: Path) -> None:
    (app / "new.txt").write_bytes(b"mine\n")
    with pytest.raises(AppError, match=r"edited by hand: new\.txt"):
        write_files(app, {**FILES, "new.txt": b"generated\n"}, EMPTY)


def test_files_no_longer_generated_go_unless_edited(app: Path) -> None:
    (app / "src/b.txt").write_bytes(b"mine\n")
    (app / "own.txt").write_bytes(b"the user's own\n")
    change = write_files(app, {"src/deep/c.txt": b"three\n"}, EMPTY)
    assert change == FileChange(removed=("a.txt",), unchanged=("src/deep/c.txt",))
    assert tree(app) == {"src/b.txt": b"mine\n", "src/deep/c.txt": b"three\n", "own.txt": b"the user's own\n"}


def test_permissions_are_kept_and_follow_the_umask(app: Path) -> None:
    (app / "a.txt").chmod(0o755)
    mask = os.umask(0o027)
    try:
        write_files(app, {**FILES, "a.txt": b"x", "new.txt": b"y"}, EMPTY)
    finally:
        os.umask(mask)
    assert (app / "a.txt").stat().st_mode & 0o777 == 0o755
    assert (app / "new.txt").stat().st_mode & 0o777 == 0o640


# -- what cannot be written over -----------------------------------------------------------------------------------


def test_a_folder_that_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("x")
    with pytest.raises(AppError, match=r"is not empty and was not generated by tflm-zephyr\. Choose another -o"):
        write_files(tmp_path, FILES, EMPTY, force=True)
    assert tree(tmp_path) == {"precious.txt": b"x"}


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    write_files(tmp_path, FILES, EMPTY)
    assert tree(tmp_path) == FILES


def dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


@pytest.mark.parametrize("make", [lambda path: path.write_text("x"), os.mkfifo, dangling])
def test_a_file_where_the_folder_should_be(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "app")
    with pytest.raises(AppError, match=r"app: is a file, not a folder\. Choose another -o"):
        write_files(tmp_path / "app", FILES, EMPTY)


def test_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(AppError, match="file"):
        write_files(tmp_path / "file" / "app", FILES, EMPTY)


def test_a_name_too_long(tmp_path: Path) -> None:
    with pytest.raises(AppError, match="File name too long"):
        write_files(tmp_path / ("x" * 300), FILES, EMPTY)


def test_a_folder_where_a_file_should_be(app: Path) -> None:
    (app / "a.txt").unlink()
    (app / "a.txt").mkdir()
    with pytest.raises(AppError, match=r"a\.txt: a folder stands where a file should be"):
        write_files(app, FILES, EMPTY)


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    app = tmp_path / "app"
    write_files(app, {"a.txt": b"one\n"}, EMPTY)
    (app / "src").write_text("mine")
    with pytest.raises(AppError, match="src: a file stands where a folder should be"):
        write_files(app, FILES, EMPTY)
    assert (app / "src").read_text() == "mine"


def test_a_symlinked_folder_is_written_through(tmp_path: Path, app: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(app)
    assert write_files(link, {**FILES, "a.txt": b"1\n"}, EMPTY).written == ("a.txt",)
    assert (app / "a.txt").read_bytes() == b"1\n" and link.is_symlink()


def test_a_symlink_to_the_users_file_does_not_lose_it(app: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_bytes(b"mine\n")
    (app / "a.txt").unlink()
    (app / "a.txt").symlink_to(mine)
    with pytest.raises(AppError, match="edited by hand"):
        write_files(app, FILES, EMPTY)
    write_files(app, FILES, EMPTY, force=True)
    assert mine.read_bytes() == b"mine\n" and (app / "a.txt").read_bytes() == b"one\n"


def test_a_folder_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # chmod does not stop root, so mkdir itself refuses.
    def refuse(self: Path, *args: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(AppError, match=r"app/tflm: cannot write \(Permission denied\)"):
        write_files(tmp_path / "app", FILES, EMPTY)


# -- interrupts ----------------------------------------------------------------------------------------------------


class Interrupt:
    """Lets `good` calls of a function pass, then raises."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, good: int, error: BaseException) -> None:
        self._real = getattr(Path, name)
        self._left, self._error = good, error
        monkeypatch.setattr(Path, name, lambda path, *args: self(path, *args))

    def __call__(self, path: Path, *args: object) -> object:
        if self._left == 0:
            raise self._error
        self._left -= 1
        return self._real(path, *args)


ERRORS = [OSError(28, "No space left on device"), KeyboardInterrupt()]


@pytest.mark.parametrize("error", ERRORS, ids=["full disk", "interrupt"])
@pytest.mark.parametrize("good", [0, 2])
def test_nothing_changes_when_staging_fails(
    app: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, good: int
) -> None:
    before, manifest = tree(app), (app / MANIFEST).read_bytes()
    Interrupt(monkeypatch, "chmod", good, error)
    with pytest.raises((AppError, KeyboardInterrupt)):
        write_files(app, {**{path: data + b"x" for path, data in FILES.items()}, "new/d.txt": b"four\n"}, EMPTY)
    assert tree(app) == before and (app / MANIFEST).read_bytes() == manifest
    assert not (app / "new").exists()


@pytest.mark.parametrize("error", ERRORS, ids=["full disk", "interrupt"])
def test_a_new_app_that_cannot_be_staged_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    Interrupt(monkeypatch, "chmod", 2, error)
    with pytest.raises((AppError, KeyboardInterrupt)):
        write_files(tmp_path / "deep" / "app", FILES, EMPTY)
    assert not (tmp_path / "deep").exists()


@pytest.mark.parametrize("good", [0, 1, 2, 3])
def test_the_next_run_repairs_an_interrupted_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: int) -> None:
    app = tmp_path / "app"
    with monkeypatch.context() as patch:
        Interrupt(patch, "replace", good, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            write_files(app, FILES, EMPTY)
    left = tree(app) if app.exists() else {}
    assert left.items() <= FILES.items()  # whole files only, no temporary ones
    write_files(app, FILES, EMPTY)
    assert tree(app) == FILES


@pytest.mark.parametrize("good", [0, 1, 2, 3])
def test_an_interrupted_update_is_fixed_by_the_next_run(app: Path, monkeypatch: pytest.MonkeyPatch, good: int) -> None:
    new = {path: data + b"x" for path, data in FILES.items()}
    with monkeypatch.context() as patch:
        Interrupt(patch, "replace", good, OSError(5, "Input/output error"))
        with pytest.raises(AppError, match=r"cannot write \(Input/output error\)"):
            write_files(app, new, EMPTY)
    assert all(data in (FILES[path], new[path]) for path, data in tree(app).items())
    assert set(tree(app)) == set(FILES)
    write_files(app, new, EMPTY)
    assert tree(app) == new


def test_as_generated(app: Path) -> None:
    assert as_generated(app, "src/b.txt")
    assert not as_generated(app, "src/none.txt")
    (app / "src/b.txt").write_bytes(b"mine\n")
    assert not as_generated(app, "src/b.txt")


# -- the manifest --------------------------------------------------------------------------------------------------


def test_no_app(tmp_path: Path) -> None:
    with pytest.raises(AppError, match="none: no such folder"):
        load_manifest(tmp_path / "none")
    with pytest.raises(AppError, match=r"not an app that tflm-zephyr generated\. `tflm-zephyr generate"):
        load_manifest(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(AppError, match="a file, not an app's folder"):
        load_manifest(tmp_path / "file")


GOOD = {
    "generator": "0.1.0", "name": "net", "zephyr_version": "4.1.0", "tflm_revision": "8d", "kernels": "reference",
    "boards": ["mps2/an385"], "models": {"net": {"sha256": "ab"}}, "files": {"a.txt": "cd"},
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "3",
        "[" * 5000,
        '{"boards": []}',
        *(
            json.dumps({**GOOD, **change})
            for change in (
                {"boards": "mps2/an385 "[:0]},
                {"boards": [1]},
                {"boards": None},
                {"models": []},
                {"models": {"net": 1}},
                {"files": ["a"]},
                {"files": {"a": 1}},
                {"files": {"../../a": "x"}},
                {"files": {"/etc/passwd": "x"}},
                {"name": 5},
                {"surprise": 5},
            )
        ),
    ],
)
def test_a_damaged_manifest(tmp_path: Path, text: str) -> None:
    written(tmp_path / MANIFEST, text)
    with pytest.raises(AppError, match=r"tflm/manifest\.json: unreadable .*Generate the app again"):
        load_manifest(tmp_path)


def test_the_good_manifest_is_good(tmp_path: Path) -> None:
    written(tmp_path / MANIFEST, json.dumps(GOOD))
    assert load_manifest(tmp_path).boards == ("mps2/an385",)


def test_a_damaged_manifest_makes_differences_edits(app: Path) -> None:
    (app / MANIFEST).write_text("{")
    with pytest.raises(AppError, match=r"edited by hand: a\.txt"):
        write_files(app, {**FILES, "a.txt": b"new\n"}, EMPTY)
    write_files(app, FILES, EMPTY)  # nothing differs: only the manifest is mended
    assert set(load_manifest(app).files) == set(FILES)


def test_a_manifest_cannot_reach_outside_the_app(tmp_path: Path) -> None:
    app = tmp_path / "app"
    write_files(app, FILES, EMPTY)
    outside = tmp_path / "precious.txt"
    outside.write_bytes(b"x")
    raw = json.loads((app / MANIFEST).read_text())
    raw["files"]["../precious.txt"] = app_folder._sha(b"x")
    raw["files"][str(outside)] = app_folder._sha(b"x")
    (app / MANIFEST).write_text(json.dumps(raw))
    write_files(app, FILES, EMPTY)
    assert outside.exists()
