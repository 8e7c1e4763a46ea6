# SPDX-License-Identifier: Apache-2.0
"""`budget`: a built app against the limits of its budget.yaml, for a merge to fail on."""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path

from tflm_zephyr.boards import Board, load_board
from tflm_zephyr.cli.commands.device import DEFAULT_TIMEOUT_S, refuse_host_link, self_test
from tflm_zephyr.cli.commands.outcome import Done, Say, refuse_flags
from tflm_zephyr.cli.report import budget as report
from tflm_zephyr.codegen import AppManifest, load_manifest
from tflm_zephyr.device.transport import DeviceTarget, route
from tflm_zephyr.errors import AppError
from tflm_zephyr.footprint import Footprint, attribution, find_elf, load_footprint
from tflm_zephyr.validation import ARENA, BUDGET_FILE, INSTRUCTIONS, Budget, Spending, load_budget, spendings


def do_budget(args: argparse.Namespace, say: Say) -> Done:
    """`budget`: flash, RAM and arena of the builds, instructions in QEMU. Exit code 1 when a limit is exceeded."""
    manifest = load_manifest(args.app)
    path = args.file or args.app / BUDGET_FILE
    budget = load_budget(path, manifest.boards)
    wanted = tuple(dict.fromkeys(args.board or manifest.boards))
    for name in wanted:
        if name not in manifest.boards:
            raise AppError(f"the app is not for {name}", where=str(args.app), hint="Add it to the app file's boards")
    limited = [name for name in wanted if budget.limits(name)]
    if not limited:
        raise AppError(f"has no limit for {' or '.join(wanted)}", where=str(path), hint="Add one under boards, or all")
    if len(limited) > 1:
        refuse_flags(args, ["build_dir"], "is for one board", "Name the board with --board")
    if not any(INSTRUCTIONS in budget.limits(name) for name in limited):
        refuse_flags(args, ["timeout"], "is for a limit on instructions, and there is none")
    found = tuple(item for name in limited for item in _spendings(args, manifest, budget, name, say))
    return Done(report.budget(found), report.budget_json(found), 1 if any(item.over for item in found) else 0)


def _spendings(
    args: argparse.Namespace, manifest: AppManifest, budget: Budget, name: str, say: Say
) -> tuple[Spending, ...]:
    board = load_board(name)
    build_dir = args.build_dir or args.app / "build" / board.file_stem

    @cache
    def footprint() -> Footprint:
        return load_footprint(find_elf(build_dir, args.app.absolute().name))

    def used(what: str) -> int:
        if what == INSTRUCTIONS:
            return _instructions(args, manifest, board, build_dir, say)
        return _bytes(footprint(), what)

    return spendings(budget, name, used)


def _bytes(found: Footprint, what: str) -> int:
    if what == ARENA:
        return found.by_part().get(attribution.ARENA, {}).get("RAM", 0)
    return next((region.used_bytes for region in found.regions if region.name == what.upper()), 0)


def _instructions(args: argparse.Namespace, manifest: AppManifest, board: Board, build_dir: Path, say: Say) -> int:
    """The most that an inference of the self-test takes in QEMU."""
    where, hint = board.name, "Take the limit on instructions out for this board"
    if manifest.host_link:
        refuse_host_link(args.app, build_dir)
    found = route(DeviceTarget(app=args.app, board=board.name, build_dir=build_dir))
    link = found.link() if found.transport.capabilities.starts_app else None
    if link is None or link.instructions_per_tick is None:
        raise AppError("no emulator counts instructions there", where=where, hint=hint)
    results = self_test(
        link, manifest, board, timeout_s=args.timeout or DEFAULT_TIMEOUT_S, on_line=say if args.verbose else None
    )
    failed = next((result.model for result in results if result.status == "fail"), None)
    if failed is not None:
        raise AppError(f"the self-test of {failed} failed", where=where, hint="See `tflm-zephyr run`")
    ticks = [run.ticks for result in results for run in result.runs if run.ticks is not None]
    if not ticks:
        raise AppError("the self-test counted no ticks", where=where, hint=hint)
    return max(ticks) * link.instructions_per_tick
