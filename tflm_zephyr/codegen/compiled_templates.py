# SPDX-License-Identifier: Apache-2.0
"""Jinja's cache of compiled templates, kept from one run to the next: compiling all takes longer than the rest.

The cache is a folder of this user's alone below the user's cache folder ($XDG_CACHE_HOME, or ~/.cache). Code that is
read from it runs, so neither a folder nor a file of somebody else's is trusted, no symbolic link is followed, and each
file begins with the SHA-256 of the rest: a damaged one is made anew. Jinja finds a template by its path and the
checksum of its source; the options of the environment and Jinja's version, which decide what it is compiled to as well,
are in the file's name.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket

from tflm_zephyr.errors import ToolError
from tflm_zephyr.files import write_atomically

_DIGEST_BYTES = hashlib.sha256().digest_size


class _CompiledTemplates(jinja2.BytecodeCache):
    """A cache in `folder` that is done without where it cannot be read or written, as on a full disk."""

    def __init__(self, folder: Path, key: str) -> None:
        self._folder, self._key = folder, key

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read a template's code, none from a damaged file or one of somebody else's."""
        with suppress(OSError):
            data = _own_file(self._path(bucket))
            if hashlib.sha256(data[_DIGEST_BYTES:]).digest() == data[:_DIGEST_BYTES]:
                bucket.bytecode_from_string(data[_DIGEST_BYTES:])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write a template's code, if possible."""
        code = bucket.bytecode_to_string()
        with suppress(OSError, ToolError):
            write_atomically(self._path(bucket), hashlib.sha256(code).digest() + code)

    def _path(self, bucket: Bucket) -> Path:
        return self._folder / f"{self._key}_{bucket.key}"


def compiled_templates(options: Mapping[str, object]) -> jinja2.BytecodeCache | None:
    """The cache for an environment with `options`; None where no folder is the user's alone."""
    key = hashlib.sha256(repr((metadata.version("jinja2"), sorted(options.items()))).encode()).hexdigest()[:16]
    try:
        return _CompiledTemplates(_own_folder(), key)
    except (OSError, RuntimeError):  # no home folder
        return None


def _own_folder() -> Path:
    """The folder, made where it is missing. OSError where it cannot be made, or is somebody else's.

    What lies in a folder that is open to others may be theirs: it is made anew.
    """
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    home = given if given.is_absolute() else Path.home() / ".cache"
    folder = home / "tflm-zephyr" / "templates"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=stat.S_IRWXU)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not this user's folder")
    if stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        shutil.rmtree(folder)
        folder.mkdir(mode=stat.S_IRWXU)
    return folder


def _own_file(path: Path) -> bytes:
    """The bytes of this user's file, not through a link. OSError for any other."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError(f"{path} is not this user's file")
        return file.read()
