# SPDX-License-Identifier: Apache-2.0
"""`footprint`: a built app's flash and RAM by part."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from tflm_zephyr.boards import load_board, stem_of
from tflm_zephyr.cli.commands.outcome import Done, Say
from tflm_zephyr.cli.report import footprint as report
from tflm_zephyr.codegen import load_manifest
from tflm_zephyr.device.transport import DeviceTarget, default_board


def do_footprint(args: argparse.Namespace, say: Say) -> Done:
    """`footprint`: the parts of a build's ELF file, and changes since another. --build-dir takes any Zephyr app's."""
    from tflm_zephyr.cli.report import kernels as kernel_report
    from tflm_zephyr.footprint import BY_MAP, find_elf, linked_kernels, load_footprint

    folder = args.build_dir
    if folder is None:
        boards = [] if args.board else [load_board(name) for name in load_manifest(args.app).boards]
        name = args.board or default_board(DeviceTarget(app=args.app), boards).name
        folder = args.app / "build" / stem_of(name)
    app = args.app.absolute().name
    elf = find_elf(folder, app)
    new, kernels = load_footprint(elf), linked_kernels(elf)
    shown, plain = kernel_report.table(kernels), {"kernels": kernel_report.kernels_json(kernels)}
    if args.against is None:
        return _done("\n".join([report.footprint(new), *shown]), {**report.footprint_json(new), **plain})
    old = load_footprint(find_elf(args.against, app))
    if new.source != old.source:
        say("One of the two builds has no linker map: both are compared by ELF symbols.")
        new, old = (
            load_footprint(found.elf, with_map=False) if found.source == BY_MAP else found for found in (new, old)
        )
    return _done(
        "\n".join([report.footprint(new, old), "", *shown]).rstrip(), {**report.footprint_json(new, old), **plain}
    )


def _done(lines: str, plain: Mapping[str, Any]) -> Done:
    """The result; on a terminal a bar for each part stands in front of the lines."""
    return Done(lines, plain, terminal=lambda width: report.on_terminal(plain, lines))
