# SPDX-License-Identifier: Apache-2.0
"""Where templates/ and boards/ are: in a wheel, an editable install or a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_dir(name: str) -> Path:
    """Folder `name` ("templates" or "boards").

    A wheel carries it as `tflm_zephyr/_data/<name>`; a checkout, editable installs included, at its top.
    """
    for candidate in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"tflm_zephyr was installed without its {name} folder; reinstall it")


def package_data(name: str) -> str:
    """The text of the package's own data file `name`."""
    return (_PACKAGE / "data" / name).read_text(encoding="utf-8")


def has_package_data(name: str) -> bool:
    """Whether the package has the data file `name`."""
    return (_PACKAGE / "data" / name).is_file()


def manifest_text() -> str:
    """The text of this project's west.yml."""
    places = (_PACKAGE / "_data" / "west.yml", _PACKAGE.parent / "west.yml")
    return next(path for path in places if path.is_file()).read_text(encoding="utf-8")
