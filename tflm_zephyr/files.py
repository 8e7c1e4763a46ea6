# SPDX-License-Identifier: Apache-2.0
"""Atomic writes that never replace other content unless `force` is given; failures of reading; temporary folders."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tflm_zephyr.errors import AppError, ToolError
from tflm_zephyr.process import removed_if_killed


@contextmanager
def reading(path: Path, error: type[ToolError], *, missing: str, hint: str = "") -> Iterator[None]:
    """Raises `error`, which names `path`, for an OSError or ValueError inside it.

    `missing` is the remedy when there is no such file, `hint` the remedy for any other failure.
    """
    try:
        yield
    except FileNotFoundError:
        raise error("no such file", where=str(path), hint=missing) from None
    except IsADirectoryError:
        raise error("is a directory, not a file", where=str(path), hint=missing) from None
    except OSError as err:
        raise error(f"cannot be read: {err.strerror or err}", where=str(path), hint=hint) from None
    except ValueError as err:
        raise error(str(err), where=str(path), hint=hint) from None


def check_new(path: Path, data: bytes, *, force: bool = False) -> None:
    """Raise AppError when a file with other content than `data` is at `path`, unless `force`."""
    if os.path.lexists(path) and read_if_there(path) != data and not force:
        raise AppError("is there already and differs", where=str(path), hint="Remove it, or use --force")


def write_new(path: Path, data: bytes, *, force: bool = False) -> None:
    """Write `data` to `path` after `check_new`; with `force` a different file there is kept as `<name>.orig`."""
    try:
        check_new(path, data, force=force)
        on_disk = read_if_there(path)
        if on_disk not in (None, data):
            write_atomically(free_name(path), on_disk)
        write_atomically(path, data)
    except OSError as err:
        raise AppError(f"cannot write ({err.strerror or err})", where=str(path)) from err


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path`, whole or not at all; a file that holds it already stays untouched. Folders are made."""
    if read_if_there(path) == data:
        return
    make_folders(path.parent)
    temporary = stage(path, data)
    try:
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def stage(path: Path, data: bytes) -> Path:
    """A new file beside `path` that holds `data`, with the mode that `path` has or will have."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".tflm-zephyr.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~umask)
    except BaseException as err:
        temporary.unlink(missing_ok=True)
        if isinstance(err, OSError) and err.filename in (None, name):
            err.filename = str(path)  # a full disk names no file
        raise
    return temporary


def make_folders(folder: Path) -> list[Path]:
    """Make `folder`; returns the folders that were made, outermost first."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return made[::-1]


def free_name(path: Path) -> Path:
    """`<name>.orig` beside `path`, with a number behind it where that is taken."""
    candidate, n = path.with_name(f"{path.name}.orig"), 1
    while os.path.lexists(candidate):
        candidate, n = path.with_name(f"{path.name}.orig{n}"), n + 1
    return candidate


def read_if_there(path: Path) -> bytes | None:
    """The file's bytes, None where there is none. Raises AppError for a folder, a pipe or a device in its place."""
    try:
        if not stat.S_ISREG(mode := path.stat().st_mode) and not stat.S_ISDIR(mode):
            raise AppError(  # reading it would wait for someone who writes
                "a pipe or a device stands where a file should be", where=str(path), hint="Name a file"
            )
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise AppError("a folder stands where a file should be", where=str(path), hint="Remove or rename it") from None
    except NotADirectoryError:
        raise AppError("a file stands where a folder should be", where=str(path.parent), hint="Remove it") from None


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A new folder of this user's alone, removed at the block's end or with this process, however that ends.

    Raises OSError where no folder can be made.
    """
    with tempfile.TemporaryDirectory(prefix="tflm-zephyr-") as name, removed_if_killed(Path(name).absolute()):
        yield Path(name)
