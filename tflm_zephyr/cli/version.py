# SPDX-License-Identifier: Apache-2.0
"""`--version`: the toolkit, the TFLM revisions whose tables it has, and the engines installed beside it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from tflm_zephyr import __version__
from tflm_zephyr.cli.output import write_out


class ShowVersion(argparse.Action):
    """Prints the lines of `version_lines` and ends; other modules are imported then, not before."""

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help="show the versions of all parts, and exit")

    def __call__(self, parser: argparse.ArgumentParser, *more: object) -> None:
        """See Action."""
        write_out("\n".join(version_lines()))
        parser.exit()


def version_lines() -> list[str]:
    """The toolkit's version first; then a line for each known TFLM revision and each engine."""
    from importlib.metadata import PackageNotFoundError, version

    from tflm_zephyr.host import NAMES, PACKAGES
    from tflm_zephyr.tflm import KNOWN_PINS

    lines = [f"tflm-zephyr {__version__}"]
    for revision, pins in KNOWN_PINS.items():
        lines.append(f"  tables of TFLM {revision[:8]}, pinned by Zephyr {pins.zephyr.version}")
    for engine, package in sorted(PACKAGES.items()):
        try:
            lines.append(f"  {NAMES[engine]}: {package} {version(package)}")
        except PackageNotFoundError:
            lines.append(f"  {NAMES[engine]}: {package} is not installed")
    return lines
