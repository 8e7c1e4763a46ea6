# SPDX-License-Identifier: Apache-2.0
"""DeviceTarget (an app, an ELF, a port, a URL, a recording, a model) -> the transport that leads there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tflm_zephyr.boards import Board, load_board
from tflm_zephyr.codegen import MANIFEST, AppManifest, load_manifest
from tflm_zephyr.device.transport.link import Link
from tflm_zephyr.device.transport.registry import TRANSPORTS
from tflm_zephyr.device.transport.target import DeviceTarget, Transport
from tflm_zephyr.errors import BoardError, DeviceError


@dataclass(frozen=True)
class Route:
    """The transport that leads to `target`; nothing is opened yet.

    `board`: None where it is not known. `manifest`: the manifest of the target's app. `build_dir`: the folder of the
    app's build for the board. `program`: the file that the transport runs (it need not exist yet).
    `expect`: SHA-256 of the expected models, by name.
    """

    target: DeviceTarget
    transport: Transport
    board: Board | None = None
    manifest: AppManifest | None = None
    build_dir: Path | None = None
    program: Path | None = None
    expect: Mapping[str, str] = field(default_factory=dict)

    @property
    def elf(self) -> Path | None:
        """The ELF that results depend on: the transport's program, or the one that was flashed onto the board."""
        if self.program is not None or self.build_dir is None:
            return self.program
        return self.build_dir / "zephyr" / "zephyr.elf"

    def link(self) -> Link:
        """The link, not opened. Raises DeviceError when no port is found or the recording cannot be read."""
        if self.transport.link is None:
            raise DeviceError("no bytes go over a link there", where=self.transport.name)
        return self.transport.link(self.target, self.board, self.program)


def route(target: DeviceTarget) -> Route:
    """The route to `target`. Raises DeviceError unless exactly one kind of target is named, AppError, BoardError."""
    _check_one_is_named(target)
    if target.app is not None:
        return _to_app(target, target.app)
    board = load_board(target.board) if target.board else None
    transport = _transport(target, board)
    if transport is None:
        raise BoardError(
            "no board is named" if board is None else "this board is not emulated as far as boards/ says",
            where=target.board or str(target.elf or target.build_dir),
            hint="Name one that is, such as mps2/an385",
        )
    return Route(target, transport, board, None, target.build_dir, _program(target, transport, target.build_dir))


def default_board(target: DeviceTarget, boards: Sequence[Board]) -> Board:
    """The board of all commands where none is named: the first that runs on this host, with a port the first other.

    The first of all where there is none such.
    """
    emulated = {board.name: _transport(replace(target, port=""), board) is not None for board in boards}
    return next((board for board in boards if emulated[board.name] != bool(target.port)), boards[0])


def digest_of(target: DeviceTarget) -> str:
    """A digest of the files that `target` names: program, generated app, recording.

    An app's manifest and its ELF count; the ELF is assumed to be flashed when the app runs on a board. "" for a port
    without an app. Raises as `route`.
    """
    found = route(target)
    files = [] if target.recording is None else [target.recording]
    if target.app is not None:
        files.append(target.app / MANIFEST)
    if found.elf is not None:
        files.append(found.elf)
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "" for path in files]
    return " ".join(digests)


def _check_one_is_named(target: DeviceTarget) -> None:
    alone = target.app is None
    candidates = {
        "app": target.app,
        "elf": target.elf,
        "build_dir": target.build_dir if alone else None,
        "port": target.port if alone else "",
        "recording": target.recording,
        "host_model": target.host_model,
    }
    named = [name for name, value in candidates.items() if value]
    if len(named) != 1:
        what = f"{' and '.join(named)} at once" if named else "nothing"
        raise DeviceError(f"{what} to open", hint="Name an app, an ELF, a port, a recording or a model on the host")


def _transport(target: DeviceTarget, board: Board | None) -> Transport | None:
    """The first transport that serves `target`."""
    wanted = [TRANSPORTS[target.transport]] if target.transport else TRANSPORTS.values()
    return next((transport for transport in wanted if transport.serves(target, board)), None)


def _to_app(target: DeviceTarget, app: Path) -> Route:
    manifest = load_manifest(app)
    names = (target.board,) if target.board else manifest.boards
    boards = [load_board(name) for name in names]
    board = default_board(target, boards)
    transport = _transport(target, board)
    if transport is None:
        if target.transport:
            raise BoardError(
                f"transport {target.transport} leads to none of these boards as far as boards/ says",
                where=", ".join(names),
                hint="Use --port for a real board, or --target host",
            )
        target = replace(target, port="auto")
        transport = _transport(target, board)
        assert transport is not None  # every board may have a port
    build_dir = target.build_dir or app / "build" / board.file_stem
    program = _program(target, transport, build_dir)
    return Route(target, transport, board, manifest, build_dir, program, manifest.sha256)


def _program(target: DeviceTarget, transport: Transport, build_dir: Path | None) -> Path | None:
    if not transport.program:
        return None
    if target.elf is not None:
        return target.elf
    return None if build_dir is None else build_dir / "zephyr" / transport.program
