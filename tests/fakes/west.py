# SPDX-License-Identifier: Apache-2.0
"""A west workspace on disk, and `python -m west` that only records what it was asked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_MODULE = Path(__file__).parent / "west_module"
_OPTIONAL = "tflite-micro"
PROJECTS = {
    "cmsis": "modules/hal/cmsis",
    "cmsis_6": "modules/lib/cmsis_6",
    "cmsis-nn": "modules/lib/cmsis-nn",
    "hal_nordic": "modules/hal/nordic",
    "mbedtls": "modules/crypto/mbedtls",
    "trusted-firmware-m": "modules/tee/tf-m/trusted-firmware-m",
    _OPTIONAL: "optional/modules/lib/tflite-micro",
}


def make_workspace(
    topdir: Path, *, version: str = "4.1.0", optional: bool = True, without: tuple[str, ...] = ()
) -> Path:
    """A workspace whose manifest is Zephyr's; `optional` sets its group filter. Returns ZEPHYR_BASE."""
    zephyr = topdir / "zephyr"
    zephyr.mkdir(parents=True)
    major, minor, patch = version.partition("-")[0].split(".")
    (zephyr / "VERSION").write_text(
        f"VERSION_MAJOR = {major}\nVERSION_MINOR = {minor}\nPATCHLEVEL = {patch}\nVERSION_TWEAK = 0\n"
        f"EXTRAVERSION = {version.partition('-')[2]}\n"
    )
    (zephyr / "Kconfig.zephyr").write_text("")
    lines = [
        "manifest:",
        "  defaults:",
        "    remote: r",
        "  remotes:",
        "    - name: r",
        "      url-base: file:///none",
    ]
    lines += ["  group-filter: [-optional]", "  projects:"]
    for name, path in PROJECTS.items():
        lines += [f"    - name: {name}", "      revision: main", f"      path: {path}"]
        if name == _OPTIONAL:
            lines.append("      groups: [optional]")
        if name not in without:
            (topdir / path).mkdir(parents=True)
    (zephyr / "west.yml").write_text("\n".join([*lines, "  self:", "    path: zephyr", ""]))
    (topdir / ".west").mkdir()
    group = "group-filter = +optional\n" if optional else ""
    (topdir / ".west" / "config").write_text(f"[manifest]\npath = zephyr\nfile = west.yml\n{group}")
    return zephyr


@dataclass
class FakeWest:
    """What west was asked, and what it shall say; see west_module."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch

    def __post_init__(self) -> None:
        self.monkeypatch.setenv("PYTHONPATH", str(_MODULE))
        self.monkeypatch.setenv("FAKE_WEST_RECORD", str(self.folder / "west.jsonl"))

    def says(self, output: str, exit_code: int = 0) -> None:
        """From now on, west prints `output` and ends with `exit_code`."""
        path = self.folder / "west_output.txt"
        path.write_text(output)
        self.monkeypatch.setenv("FAKE_WEST_OUTPUT", str(path))
        self.monkeypatch.setenv("FAKE_WEST_EXIT", str(exit_code))

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The calls so far: argv (without `python -m west`), cwd, env."""
        path = self.folder / "west.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
