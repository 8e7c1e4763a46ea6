# SPDX-License-Identifier: Apache-2.0
"""A generated app on disk: written atomically, only changed files, never over a user's edit.

`.tflm-zephyr.json` beside the files remembers the SHA-256 of each as it was generated: a file that matches
neither that nor the new content was edited by hand.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

from tflm_zephyr.errors import AppError
from tflm_zephyr.files import free_name, make_folders, read_if_there, stage, write_atomically
from tflm_zephyr.plain_values import Check, load_json, read_values

MANIFEST = ".tflm-zephyr.json"


def _inside(path: str) -> bool:
    """Whether `path` stays below the app."""
    return all(part not in ("", ".", "..") for part in path.split("/"))


@dataclass(frozen=True)
class AppManifest:
    """The models, boards and revisions that an app was generated for, and its files' SHA-256 by path.

    `models` maps each model's identifier, as its results name it, to the SHA-256 of its .tflite file, and
    `scales` to its outputs' [scale, zero point], null for an output that is not quantised. `overlap` has the revisions
    of the kernels that the plans' in-place pairs are valid for, by name; empty without in-place pairs.
    `cmsis_nn_revision` is empty for an app without CMSIS-NN, or where it was not known.
    """

    generator: str
    name: str
    zephyr_version: str
    tflm_revision: str
    kernels: str
    boards: Annotated[tuple[str, ...], Check(bool, "at least one board")]
    models: Mapping[str, str]
    scales: Mapping[str, tuple[tuple[float, int] | None, ...]]
    files: Mapping[Annotated[str, Check(_inside, "a path inside the app")], str] = field(default_factory=dict)
    overlap: Mapping[str, str] = field(default_factory=dict)
    cmsis_nn_revision: str = ""

    def __post_init__(self) -> None:
        if set(self.models) != set(self.scales):
            raise ValueError("models and scales name different models")


@dataclass(frozen=True)
class FileChange:
    """The changes of `write_files`, or those that `compare_files` foresees: paths below the app, sorted."""

    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()

    @property
    def stale(self) -> bool:
        """Whether anything on disk differs from what would be generated."""
        return bool(self.written or self.removed or self.edited)


def load_manifest(app: Path) -> AppManifest:
    """The manifest of the app in folder `app`. Raises AppError when it is no generated app."""
    path = app / MANIFEST
    try:
        return read_values(AppManifest, load_json(path), name="the manifest")
    except (FileNotFoundError, NotADirectoryError):
        what = "not an app that tflm-zephyr generated"
        if not app.is_dir():
            what = "a file, not an app's folder" if app.exists() else "no such folder"
        raise AppError(what, where=str(app), hint="`tflm-zephyr generate MODEL -o APP` makes one") from None
    except (OSError, ValueError) as err:
        raise AppError(f"unreadable ({err})", where=str(path), hint="Generate the app again") from None


def compare_files(app: Path, files: Mapping[str, bytes]) -> FileChange:
    """The changes that writing `files` into `app` would make."""
    known = _known(app)
    written, unchanged, edited = [], [], []
    for path, data in files.items():
        on_disk = read_if_there(app / path)
        if on_disk == data:
            unchanged.append(path)
        elif on_disk is None or _sha(on_disk) == known.get(path):
            written.append(path)
        else:
            edited.append(path)
    removed = []
    for path, sha in known.items():
        if path not in files:
            on_disk = read_if_there(app / path)
            if on_disk is not None and _sha(on_disk) == sha:
                removed.append(path)
    return FileChange(*(tuple(sorted(paths)) for paths in (written, removed, unchanged, edited)))


def write_files(app: Path, files: Mapping[str, bytes], manifest: AppManifest, *, force: bool = False) -> FileChange:
    """Write `files` into the folder `app`; files generated before and no longer needed are deleted.

    Raises AppError, with nothing written, when that would overwrite a user's edit; with `force` the edited
    file is kept beside the new one as `<name>.orig`. Each file appears whole or not at all.
    """
    try:
        return _write(app, files, manifest, force=force)
    except OSError as err:
        raise AppError(f"cannot write ({err.strerror or err})", where=str(err.filename or app)) from err


def _write(app: Path, files: Mapping[str, bytes], manifest: AppManifest, *, force: bool) -> FileChange:
    if os.path.lexists(app) and not app.is_dir():
        raise AppError("is a file, not a folder", where=str(app), hint="Choose another -o")
    fresh = not (app / MANIFEST).is_file()
    if fresh and app.is_dir() and any(app.iterdir()):
        raise AppError("is not empty and was not generated by tflm-zephyr", where=str(app), hint="Choose another -o")
    change = compare_files(app, files)
    if change.edited and not force:
        raise AppError(
            f"edited by hand: {', '.join(change.edited)}",
            where=str(app),
            hint="Keep your edit elsewhere, or use --force, which keeps it as FILE.orig",
        )
    for path in change.edited:
        write_atomically(free_name(app / path), (app / path).read_bytes())
    recorded = {**asdict(manifest), "files": {path: _sha(data) for path, data in sorted(files.items())}}
    record = (MANIFEST, f"{json.dumps(recorded, indent=1)}\n".encode())
    wanted = [(path, files[path]) for path in (*change.written, *change.edited)]
    # The next `generate` completes an app that an interrupt left half-written. In a new app the manifest is written
    # first, as files that it lists may be missing. In an old app it is written last, as each file then has either the
    # old manifest's content or the new one.
    _replace_all(app, [record, *wanted] if fresh else [*wanted, record])
    for path in change.removed:
        (app / path).unlink()
    return change


def _replace_all(app: Path, files: Sequence[tuple[str, bytes]]) -> None:
    """Write every file beside its place, then move all of them there: a full disk or an interrupt changes nothing."""
    made: list[Path] = []
    staged: list[tuple[Path, Path]] = []
    try:
        for name, data in files:
            path = app / name
            if read_if_there(path) != data:
                made += make_folders(path.parent)
                staged.append((stage(path, data), path))
        for temporary, path in staged:
            temporary.replace(path)
    except BaseException:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)
        for folder in reversed(made):
            with suppress(OSError):  # not empty: some files are in place
                folder.rmdir()
        raise


def as_generated(app: Path, path: str) -> bool:
    """Whether the file `path` of the app exists and is unchanged since it was generated."""
    data = read_if_there(app / path) if (app / path).is_file() else None
    return data is not None and _sha(data) == _known(app).get(path)


def compare_one(change: FileChange, path: Path, data: bytes) -> FileChange:
    """`change`, and whether `data` is at `path`, which is outside the app."""
    if read_if_there(path) == data:
        return replace(change, unchanged=(*change.unchanged, str(path)))
    return replace(change, written=(*change.written, str(path)))


def _known(app: Path) -> Mapping[str, str]:
    """SHA-256 of the generated files by path; empty for a damaged manifest, so that all counts as edited."""
    try:
        files = json.loads((app / MANIFEST).read_text(encoding="utf-8"))["files"]
        return {str(path): str(sha) for path, sha in files.items() if _inside(path)}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
