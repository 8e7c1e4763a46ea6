# SPDX-License-Identifier: Apache-2.0
"""A generated app on disk: written atomically, only changed files, never over a user's edit.

An app has two owners. The folder `tflm/` is the toolkit's: `tflm/manifest.json` remembers the SHA-256 of each file in
it as it was generated, and a file that matches neither that nor the new content was edited by hand. All other files are
the user's: those that the toolkit wrote first are listed in the manifest, and are never written again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from tflm_zephyr.codegen.model_facts import ModelFacts
from tflm_zephyr.errors import AppError
from tflm_zephyr.files import free_name, make_folders, read_if_there, stage, write_atomically
from tflm_zephyr.plain_values import Check, load_json, plain_values, read_values

OWN = "tflm"
"""The toolkit's folder in an app."""
MANIFEST = f"{OWN}/manifest.json"
_OLD_MANIFEST = ".tflm-zephyr.json"


def _inside(path: str) -> bool:
    """Whether `path` stays below the app."""
    return all(part not in ("", ".", "..") for part in path.split("/"))


@dataclass(frozen=True)
class AppManifest:
    """The models, boards and revisions that an app was generated for, and the toolkit's files' SHA-256 by path.

    `models` has each model by its identifier, as its results name it. `overlap` has the revisions of the kernels that
    the plans' in-place pairs are valid for, by name; empty without in-place pairs. `cmsis_nn_revision` is empty for an
    app without CMSIS-NN, or where it was not known. `flash` has the estimated bytes by board, as far as they are known.
    `yours`: the SHA-256, by path, of the user's files as they would be written first with the options of this app.
    """

    generator: str
    name: str
    zephyr_version: str
    tflm_revision: str
    kernels: str
    boards: Annotated[tuple[str, ...], Check(bool, "at least one board")]
    models: Mapping[str, ModelFacts]
    files: Mapping[Annotated[str, Check(_inside, "a path inside the app")], str] = field(default_factory=dict)
    overlap: Mapping[str, str] = field(default_factory=dict)
    cmsis_nn_revision: str = ""
    flash: Mapping[str, int] = field(default_factory=dict)
    yours: Mapping[Annotated[str, Check(_inside, "a path inside the app")], str] = field(default_factory=dict)

    @property
    def host_link(self) -> bool:
        """Whether the app takes a host's requests."""
        return any(path.startswith(f"{OWN}/src/link/") for path in self.files)

    @property
    def sha256(self) -> dict[str, str]:
        """The SHA-256 of each model's .tflite file."""
        return {ident: model.sha256 for ident, model in self.models.items()}

    @property
    def scales(self) -> dict[str, tuple[tuple[float, int] | None, ...]]:
        """Each model's outputs' (scale, zero point), None for an output that is not quantised."""
        return {
            ident: tuple(None if t.scale is None else (t.scale, t.zero_point) for t in model.outputs)
            for ident, model in self.models.items()
        }


@dataclass(frozen=True)
class FileChange:
    """The changes of `write_files`, or those that `compare_files` foresees: paths below the app, sorted.

    `outdated`: the user's files that were left as they are, and that other options than before would write otherwise.
    """

    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()

    @property
    def stale(self) -> bool:
        """Whether anything on disk differs from what would be generated."""
        return bool(self.written or self.removed or self.edited)


def own_path(app: Path, name: str = "") -> Path:
    """The path of `name` in the toolkit's folder of `app`; that folder without a name."""
    return app / OWN / name if name else app / OWN


def app_around(app_file: Path) -> Path | None:
    """The folder of the generated app that the app file `app_file` is of; None for an app file elsewhere."""
    path = app_file.absolute()
    app = path.parent.parent
    return app if path.parent.name == OWN and (app / MANIFEST).is_file() else None


def owned(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """`files` by their paths below the app, given those below the toolkit's folder; sorted."""
    return {f"{OWN}/{path}": data for path, data in sorted(files.items())}


def load_manifest(app: Path) -> AppManifest:
    """The manifest of the app in folder `app`. Raises AppError when it is no generated app."""
    path = app / MANIFEST
    try:
        return read_values(AppManifest, load_json(path), name="the manifest")
    except (FileNotFoundError, NotADirectoryError):
        refuse_old_layout(app)
        what = "not an app that tflm-zephyr generated"
        if not app.is_dir():
            what = "a file, not an app's folder" if app.exists() else "no such folder"
        raise AppError(what, where=str(app), hint="`tflm-zephyr generate MODEL -o APP` makes one") from None
    except (OSError, ValueError) as err:
        raise AppError(f"unreadable ({err})", where=str(path), hint="Generate the app again") from None


def load_manifest_if_any(app: Path) -> AppManifest | None:
    """The manifest of the app in folder `app`; None for a folder without one, or with a damaged one."""
    try:
        return load_manifest(app)
    except AppError:
        refuse_old_layout(app)
        return None


def refuse_old_layout(app: Path) -> None:
    """Raise AppError for an app that was generated before the folder tflm/ had all that the toolkit owns."""
    if (app / _OLD_MANIFEST).is_file() and not (app / MANIFEST).is_file():
        raise AppError(
            f"its generated files are not in a folder {OWN}/ of their own, as an older tflm-zephyr wrote it",
            where=str(app),
            hint=f"Generate it into a new folder, `tflm-zephyr generate --app {app / 'app.yaml'} -o NEW`, and take "
            "your edits of main.cpp, prj.conf and CMakeLists.txt over",
        )


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


def write_files(
    app: Path,
    files: Mapping[str, bytes],
    manifest: AppManifest,
    starters: Mapping[str, bytes] | None = None,
    *,
    force: bool = False,
) -> FileChange:
    """Write `files` into the folder `app`; files generated before and no longer needed are deleted.

    `starters` are written where they never were before and nothing is at their paths; from then on they are the user's.
    Raises AppError, with nothing written, when a user's edit of one of `files` would be overwritten; with `force` the
    edited file is kept beside the new one as `<name>.orig`. Each file appears whole or not at all.
    """
    try:
        return _write(app, files, manifest, starters or {}, force=force)
    except OSError as err:
        raise AppError(f"cannot write ({err.strerror or err})", where=str(err.filename or app)) from err


def _write(
    app: Path, files: Mapping[str, bytes], manifest: AppManifest, starters: Mapping[str, bytes], *, force: bool
) -> FileChange:
    if os.path.lexists(app) and not app.is_dir():
        raise AppError("is a file, not a folder", where=str(app), hint="Choose another -o")
    refuse_old_layout(app)
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
    known = _known_starters(app)
    new = {path: data for path, data in starters.items() if path not in known and not os.path.lexists(app / path)}
    recorded = replace(manifest, files=_shas(files), yours=known)
    first = (MANIFEST, _json(recorded))
    last = (MANIFEST, _json(replace(recorded, yours={**known, **_shas(starters)})))
    wanted = [*((path, files[path]) for path in (*change.written, *change.edited)), *new.items()]
    # The next `generate` completes an app that an interrupt left half-written. In a new app the manifest is written
    # first, as files that it lists may be missing. In an old app it is written last, as each file then has either the
    # old manifest's content or the new one. It lists the user's files once they are there.
    _replace_all(app, [first, *wanted, last] if fresh else [*wanted, last])
    for path in change.removed:
        (app / path).unlink()
    return replace(change, written=(*change.written, *new), outdated=_outdated(app, starters, known))


def _outdated(app: Path, starters: Mapping[str, bytes], known: Mapping[str, str]) -> tuple[str, ...]:
    """The user's files that differ from `starters`, where these are not those of the last time, `known`."""
    changed = (path for path, data in starters.items() if path in known and known[path] != _sha(data))
    return tuple(sorted(path for path in changed if read_if_there(app / path) not in (None, starters[path])))


def _json(manifest: AppManifest) -> bytes:
    return f"{json.dumps(plain_values(manifest), indent=1)}\n".encode()


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


def compare_manifest(change: FileChange, app: Path, manifest: AppManifest) -> FileChange:
    """`change`, and whether the app's manifest says the same as `manifest` of models, boards and revisions.

    Raises AppError when `app` is no generated app.
    """
    compared = [replace(item, generator="", files={}, flash={}, yours={}) for item in (load_manifest(app), manifest)]
    return change if compared[0] == compared[1] else replace(change, written=(*change.written, MANIFEST))


def compare_one(change: FileChange, path: Path, data: bytes) -> FileChange:
    """`change`, and whether `data` is at `path`, which is outside the app."""
    if read_if_there(path) == data:
        return replace(change, unchanged=(*change.unchanged, str(path)))
    return replace(change, written=(*change.written, str(path)))


def _known(app: Path) -> Mapping[str, str]:
    """SHA-256 of the generated files by path; empty for a damaged manifest, so that all counts as edited."""
    return _shas_recorded(app, "files")


def _known_starters(app: Path) -> Mapping[str, str]:
    """SHA-256 of the user's files as they were last offered, by path; empty for a damaged manifest."""
    return _shas_recorded(app, "yours")


def _shas_recorded(app: Path, key: str) -> dict[str, str]:
    found = _recorded(app, key)
    return {str(path): str(sha) for path, sha in found.items() if _inside(path)} if isinstance(found, dict) else {}


def _recorded(app: Path, key: str) -> object:
    """The manifest's value of `key`, None where there is none."""
    try:
        return json.loads((app / MANIFEST).read_text(encoding="utf-8"))[key]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _shas(files: Mapping[str, bytes]) -> dict[str, str]:
    return {path: _sha(data) for path, data in sorted(files.items())}


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
