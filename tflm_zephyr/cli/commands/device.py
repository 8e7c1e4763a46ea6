# SPDX-License-Identifier: Apache-2.0
"""`build`, `flash` and `run`: an app through west onto a board or into QEMU, and its results back."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tflm_zephyr.boards import Board, load_board
from tflm_zephyr.build import Workspace, detect_toolchain, find_workspace, in_workspace, west
from tflm_zephyr.cli.commands.outcome import Done, Say, refuse_flags
from tflm_zephyr.cli.progress import progress
from tflm_zephyr.cli.report import text
from tflm_zephyr.codegen import AppManifest, AppRequest, load_manifest
from tflm_zephyr.device.console import RunResult, gather_results
from tflm_zephyr.device.transport import DeviceTarget, Link, Route, default_board, route
from tflm_zephyr.errors import AppError, BuildError, DeviceError
from tflm_zephyr.files import read_if_there

DEFAULT_TIMEOUT_S = 60.0
_OF_BOARDS = ("board", "build_dir", "port", "dev_id", "baudrate", "flash_first", "record", "no_icount", "timeout")


def do_build(args: argparse.Namespace, say: Say) -> Done:
    """`build`: west build, checked against the revisions that the app was generated for; then the kernels in it."""
    from tflm_zephyr.cli.commands.fit_into import overflow
    from tflm_zephyr.cli.report import kernels as kernel_report
    from tflm_zephyr.footprint import linked_kernels

    manifest = load_manifest(args.app)
    board = _board(args, manifest)
    workspace = find_workspace(args.workspace, app=args.app)
    board = in_workspace(board, workspace)
    differences = west.check_workspace(manifest, board, workspace, force=args.force)
    for difference in differences:
        say(f"warning: {difference}")
    toolchain = detect_toolchain(arch=board.arch)
    say(f"Building {manifest.name} for {board.name} with {toolchain.describe} and Zephyr {workspace.zephyr_version}.")
    defines = (*(west.FORCED if differences else ()), *(f"-D{define}" for define in args.defines))
    pristine: west.Pristine = "always" if args.pristine else "auto"
    app = _allocation_recording_app(args, board, workspace) if args.record else args.app
    request = west.BuildRequest(app, board.name, _build_dir(args, board), pristine, defines)
    with progress(None, board.name, "step", quiet=args.quiet or args.verbose) as bar:
        try:
            built = west.build(request, workspace, toolchain, on_line=say if args.verbose else bar.ninja)
        except BuildError as err:
            if "overflowed by" in err.what:
                say("\n".join(overflow(request.build_dir)))
            raise
    lines, plain = [text.built(built)], text.built_json(built)
    if board.arch == "posix":  # zephyr.elf is half linked there, and zephyr.exe, the program, has no linker's map
        return Done("\n".join(lines), plain)
    try:
        linked = linked_kernels(built.elf)
        lines += kernel_report.short(linked)
        plain["kernels"] = kernel_report.kernels_json(linked)
    except BuildError as err:  # a linker's map of another kind; the app is built all the same
        say(f"note: which kernels were linked is not known: {err}")
    return Done("\n".join(lines), plain)


def _allocation_recording_app(args: argparse.Namespace, board: Board, workspace: Workspace) -> Path:
    """Written beside the app's builds, from its app file."""
    from tflm_zephyr.cli.commands.configuration import boards_of, tflm_for
    from tflm_zephyr.codegen import load_config, write_recording_app
    from tflm_zephyr.footprint import generate_within

    config = load_config(args.app)
    boards = boards_of(config, workspace)
    tflm = tflm_for(config, boards, workspace)
    made = generate_within(AppRequest(config, args.app, tflm, boards=boards, keep_golden=True))
    return write_recording_app(made.spec, board, args.app)


def do_flash(args: argparse.Namespace, say: Say) -> Done:
    """`flash`: west flash."""
    manifest = load_manifest(args.app)
    board = _board(args, manifest, plugged_in=True)
    _flash(args, board, say)
    return Done(f"Flashed {manifest.name} onto {board.name}.", {"app": manifest.name, "board": board.name})


def do_run(args: argparse.Namespace, say: Say) -> Done:
    """`run`: the app's self-test in QEMU, on a board, or with TFLM on this host."""
    if args.data is not None and args.target != "host":
        raise AppError("--data runs on this host", where=str(args.data), hint="Add --target host")
    if args.target == "host":
        from tflm_zephyr.cli.commands.host import run_host

        refuse_flags(args, _OF_BOARDS, "is for boards and QEMU, not for this host")
        return run_host(args, say)
    manifest = load_manifest(args.app)
    if manifest.host_link:
        refuse_host_link(args.app, _build_dir(args, _board(args, manifest)))
    found = _route(args)
    board = found.board
    assert board is not None  # as an app is always for a board
    results = self_test(
        found.link(),
        manifest,
        board,
        timeout_s=args.timeout or DEFAULT_TIMEOUT_S,
        action=(lambda: _flash(args, board, say)) if args.flash_first else None,
        on_line=say if args.verbose else None,
    )
    failed = any(result.status == "fail" for result in results)
    return Done(text.results(results, manifest.scales), text.results_json(results, manifest.scales), 1 if failed else 0)


def self_test(
    link: Link,
    manifest: AppManifest,
    board: Board,
    *,
    timeout_s: float,
    action: Callable[[], None] | None = None,
    on_line: Say | None = None,
) -> list[RunResult]:
    """The results of the app's self-test behind `link`, one for each model; `action` is done once it listens.

    Raises DeviceError when another app, model or board answers.
    """
    models = len(manifest.models)
    results = gather_results(
        link, models=models, timeout_s=timeout_s, silence_s=timeout_s, action=action, on_line=on_line
    )
    for result in results:
        _check(result, manifest, board)
    return list(results)


def refuse_host_link(app: Path, build_dir: Path) -> None:
    """Raise AppError for an app with a host link, unless its build in `build_dir` leaves it out and has a self-test."""
    config = read_if_there(build_dir / "zephyr" / ".config")
    if config is None or b"CONFIG_TFLM_APP_HOST_LINK=y" in config.splitlines():
        raise AppError(
            "the app answers a host (host_link: true) and has no self-test to run",
            where=str(app),
            hint=f"Use `tflm-zephyr infer INPUT --app {app}` or `tflm-zephyr verify --app {app}`",
        )


def _route(args: argparse.Namespace) -> Route:
    """The route to the app: a port, or the emulator of the first board that has one."""
    on_board = args.target == "serial" or args.port is not None or args.dev_id is not None or args.flash_first
    if args.target == "qemu" and on_board:
        raise AppError("--port and --flash-first are for boards, not QEMU", where="run", hint="Leave --target qemu out")
    target = DeviceTarget(
        app=args.app,
        board=args.board or "",
        build_dir=args.build_dir,
        port=(args.port or "auto") if on_board else "",
        usb_serial=args.dev_id or "",
        baudrate=args.baudrate,
        transport="qemu" if args.target == "qemu" else "",
        icount=not args.no_icount,
    )
    found = route(target)
    if found.transport.capabilities.can_flash:
        refuse_flags(args, ["no_icount"], "is for QEMU, not for a board")
    elif not on_board:
        refuse_flags(args, ["baudrate"], "is for boards, not for QEMU")
    if args.flash_first and not found.transport.capabilities.can_flash:
        raise AppError("is not flashed", where=found.transport.name, hint="Leave --flash-first out")
    if args.record and found.board is not None:  # its build folder depends on the board
        found = route(replace(target, board=found.board.name, build_dir=_build_dir(args, found.board)))
    return found


def _flash(args: argparse.Namespace, board: Board, say: Say) -> None:
    workspace = find_workspace(args.workspace, app=args.app)
    request = west.FlashRequest(
        _build_dir(args, board), getattr(args, "runner", None) or "", getattr(args, "dev_id", None) or ""
    )
    toolchain = detect_toolchain(arch=in_workspace(board, workspace).arch)
    west.flash(request, workspace, toolchain, on_line=say if args.verbose else None)


def _board(args: argparse.Namespace, manifest: AppManifest, *, plugged_in: bool = False) -> Board:
    if args.board:
        return load_board(args.board)
    target = DeviceTarget(app=args.app, port="auto" if plugged_in else "")
    return default_board(target, [load_board(name) for name in manifest.boards])


def _build_dir(args: argparse.Namespace, board: Board) -> Path:
    app: Path = args.app
    if getattr(args, "record", False):
        from tflm_zephyr.codegen import folder_of

        return args.build_dir or folder_of(app, board) / "build"
    return args.build_dir or app / "build" / board.file_stem


def _check(result: RunResult, manifest: AppManifest, board: Board) -> None:
    """Refuse results of another app, model or board than the requested one."""
    if result.app != manifest.name or result.model not in manifest.models:
        raise DeviceError(
            f"app {result.app} with model {result.model} answered, not {manifest.name}",
            where=result.link,
            hint="Build and flash this app",
        )
    wanted = manifest.sha256[result.model]
    if not wanted.startswith(result.sha256):
        raise DeviceError(
            f"the device runs model {result.model} with SHA-256 {result.sha256}, the app has {wanted[:16]}",
            where=result.link,
            hint="Build and flash the app again",
        )
    asked, answered = (re.sub(r"@[^/]*", "", name) for name in (board.name, result.board))
    if answered != asked and not answered.startswith(f"{asked}/"):  # a name alone stands for its one target
        raise DeviceError(
            f"the app there was built for {result.board}, not {board.name}",
            where=result.link,
            hint="Build and flash it for this board, or name the other with --board",
        )
