# SPDX-License-Identifier: Apache-2.0
"""`size`: measures an app's smallest arenas and main stack in QEMU, proves them, and generates the app with them."""

from __future__ import annotations

import argparse
from pathlib import Path

from tflm_zephyr.boards import Board, known_boards, load_board
from tflm_zephyr.build import Workspace, compiler_here, detect_toolchain, find_workspace, west
from tflm_zephyr.cli.commands.app_writing import write_app
from tflm_zephyr.cli.commands.configuration import boards_of, tflm_for
from tflm_zephyr.cli.commands.fit import board_fits
from tflm_zephyr.cli.commands.outcome import Done, Say
from tflm_zephyr.cli.progress import progress
from tflm_zephyr.cli.report import size as report
from tflm_zephyr.codegen import (
    AppRequest,
    dump_measurements,
    load_config,
    load_manifest,
    load_measurements,
    measurements_path,
    own_path,
    target_of,
)
from tflm_zephyr.device.transport import DeviceTarget, Link, route
from tflm_zephyr.errors import AppError
from tflm_zephyr.files import write_atomically
from tflm_zephyr.footprint import Runs, generate_within
from tflm_zephyr.options import app_file
from tflm_zephyr.validation import BuildApp, Emulation, MeasuredSizes, emulator_for, measure_app


def do_size(args: argparse.Namespace, say: Say) -> Done:
    """`size`: every board of the app, or those named; boards that would be measured alike only once."""
    app: Path = args.app
    load_manifest(app)
    config, file = load_config(app), str(own_path(app, app_file.NAME))
    if config.shared_arena:
        what = "the arena is shared by all models; only a model's own is measured"
        raise AppError(what, where=file, hint="Measure with shared_arena: false; its estimate stays")
    workspace = find_workspace(args.workspace, app=app)
    boards = boards_of(config, workspace)
    tflm = tflm_for(config, boards, workspace)
    spec = generate_within(AppRequest(config, app, tflm, boards=boards, keep_golden=True, measured=False)).spec
    asked = tuple(load_board(name) for name in dict.fromkeys(args.board)) if args.board else boards
    for board in asked:
        if board.name not in config.boards:
            raise AppError(f"the app is not for {board.name}", where=file, hint="Add it to boards")
    compiler = compiler_here()
    found: dict[object, MeasuredSizes] = {}
    emulators = [load_board(name) for name in known_boards()]
    for board in asked:
        key = target_of(spec, board) or board.name
        if key in found:
            continue
        emulated = emulator_for(board, emulators)
        like = "" if emulated == board else f" for {board.name}, which has the same core"
        say(f"Measuring on {emulated.name}{like}.")
        with progress(None, emulated.name, "step", quiet=args.quiet or args.verbose) as bar:
            build = _builder(workspace, say if args.verbose else bar.ninja)
            by = Emulation(emulated, build, _link, args.timeout, compiler, say if args.verbose else None)
            found[key] = measure_app(spec, board, app, by, keep_stack=config.main_stack_bytes is not None)
    sizes = tuple(found.values())
    measured = load_measurements(app).with_new(
        [size.arena for item in sizes for size in item.models], [item.stack for item in sizes]
    )
    path = measurements_path(app)
    write_atomically(path, dump_measurements(measured))
    made = generate_within(AppRequest(config, app, tflm, boards=boards, keep_golden=True, compiler=compiler))
    fits = board_fits(app, made, workspace, Runs(tuple(len(model.golden) for model in made.spec.models)))
    try:
        write_app(app, made, config, fits)
        note = f"Written to {path}, and to the app."
    except AppError as err:
        note = f"Written to {path}, not to the app: {err}"
    return Done("\n".join([*report.table(sizes), *made.notes, note]), report.sizes_json(sizes, made.spec))


def _link(board: Board, elf: Path) -> Link:
    """To `elf` on the emulated `board`, as fast as it runs."""
    return route(DeviceTarget(elf=elf, board=board.name, icount=False)).link()


def _builder(workspace: Workspace, on_line: Say | None) -> BuildApp:
    toolchain = detect_toolchain()

    def run(app: Path, board: Board) -> Path:
        request = west.BuildRequest(app, board.name, app / "build")
        return west.build(request, workspace, toolchain, on_line=on_line).elf

    return run
