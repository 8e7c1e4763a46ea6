# SPDX-License-Identifier: Apache-2.0
"""`size`: measures an app's smallest arenas and main stack in QEMU, proves them, and generates the app with them."""

from __future__ import annotations

import argparse
from pathlib import Path

from tflm_zephyr import app_files, appfile, build
from tflm_zephyr.app import render
from tflm_zephyr.app_files import load_manifest
from tflm_zephyr.board import Board, known_boards, load_board
from tflm_zephyr.commands.asked import boards_of, tflm_for
from tflm_zephyr.commands.done import Done, Say
from tflm_zephyr.errors import AppError
from tflm_zephyr.measurements import NAME, dump, load, target_of
from tflm_zephyr.report import size as report
from tflm_zephyr.run.qemu_link import QemuLink
from tflm_zephyr.size import BuildApp, Sizes, emulator_for, measure_app
from tflm_zephyr.toolchain import compiler_here, detect_toolchain
from tflm_zephyr.workspace import Workspace, find_workspace


def do_size(args: argparse.Namespace, say: Say) -> Done:
    """`size`: every board of the app, or those named; boards that would be measured alike only once."""
    from tflm_zephyr.generate import generate

    app: Path = args.app
    load_manifest(app)
    config = appfile.load(app / appfile.NAME)
    if config.shared_arena:
        what = "the arena is shared by all models; only a model's own is measured"
        raise AppError(what, where=str(app / appfile.NAME), hint="Measure with shared_arena: false; its estimate stays")
    workspace = find_workspace(args.workspace, app=app)
    boards = boards_of(config, workspace)
    tflm = tflm_for(config, boards, workspace)
    spec = generate(config, app, tflm, boards=boards, keep_golden=True, measured=False).spec
    asked = tuple(load_board(name) for name in dict.fromkeys(args.board)) if args.board else boards
    for board in asked:
        if board.name not in config.boards:
            raise AppError(f"the app is not for {board.name}", where=str(app / appfile.NAME), hint="Add it to boards")
    compiler = compiler_here()
    found: dict[object, Sizes] = {}
    emulators = [load_board(name) for name in known_boards()]
    for board in asked:
        key = target_of(spec, board) or board.name
        if key in found:
            continue
        emulated = emulator_for(board, emulators)
        like = "" if emulated == board else f" for {board.name}, which has the same core"
        say(f"Measuring on {emulated.name}{like}.")
        found[key] = measure_app(
            spec,
            board,
            emulated,
            app,
            build=_builder(workspace, say if args.verbose else None),
            link=_link,
            timeout_s=args.timeout,
            keep_stack=config.main_stack_bytes is not None,
            compiler=compiler,
            on_line=say if args.verbose else None,
        )
    sizes = tuple(found.values())
    measured = load(app).with_new(
        [size.arena for item in sizes for size in item.models], [item.stack for item in sizes]
    )
    app_files.write_atomically(app / NAME, dump(measured))
    made = generate(config, app, tflm, boards=boards, keep_golden=True, compiler=compiler)
    files = {**render(made.spec), **made.golden_files, appfile.NAME: (app / appfile.NAME).read_bytes()}
    try:
        app_files.write(app, dict(sorted(files.items())), made.manifest)
        note = f"Written to {app / NAME}, and to the app."
    except AppError as err:
        note = f"Written to {app / NAME}, not to the app: {err}"
    return Done("\n".join([*report.table(sizes), *made.notes, note]), report.sizes_json(sizes, made.spec))


def _link(board: Board, elf: Path) -> QemuLink:
    assert board.qemu is not None  # as emulator_for gives it
    return QemuLink(board.qemu, elf, icount=False)


def _builder(workspace: Workspace, on_line: Say | None) -> BuildApp:
    toolchain = detect_toolchain()

    def run(app: Path, board: Board) -> Path:
        request = build.BuildRequest(app, board.name, app / "build")
        return build.build(request, workspace, toolchain, on_line=on_line).elf

    return run
