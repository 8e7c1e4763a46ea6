# SPDX-License-Identifier: Apache-2.0
"""`west tflm`: the commands of `tflm-zephyr` inside a workspace whose manifest is, or names, this repository."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from west.commands import WestCommand

# west loads this file by its path: in a workspace the package need not be installed, only its dependencies.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tflm_zephyr.cli import main


class Tflm(WestCommand):
    """The extension command that west-commands.yml names."""

    def __init__(self) -> None:
        super().__init__("tflm", "TensorFlow Lite Micro apps from .tflite models", main.DESCRIPTION)

    def do_add_parser(self, parser_adder: Any) -> argparse.ArgumentParser:
        """See WestCommand."""
        parser: argparse.ArgumentParser = parser_adder.add_parser(
            self.name, help=self.help, description=self.description
        )
        main.add_commands(parser)
        return parser

    def do_run(self, args: argparse.Namespace, unknown: list[str]) -> None:
        """See WestCommand."""
        code = main.run(args)
        if code:
            raise SystemExit(code)
