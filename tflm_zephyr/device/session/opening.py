# SPDX-License-Identifier: Apache-2.0
"""Target -> Session: finds or builds the ELF, finds the port, and says hello."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tflm_zephyr.boards import Board, QemuSpec, known_boards, load_board
from tflm_zephyr.build import detect_toolchain, find_workspace, in_workspace, west
from tflm_zephyr.codegen import MANIFEST, AppManifest, load_manifest
from tflm_zephyr.device.session.base import Session
from tflm_zephyr.device.session.device_session import DeviceSession
from tflm_zephyr.device.session.host_session import HostSession
from tflm_zephyr.device.session.replay import RecordingLink, ReplayLink
from tflm_zephyr.device.session.target import DeviceTarget
from tflm_zephyr.device.transport.link import Link
from tflm_zephyr.device.transport.ports import SerialPort, choose_port, find_ports
from tflm_zephyr.device.transport.qemu import QemuLink
from tflm_zephyr.device.transport.serial_port import SerialLink
from tflm_zephyr.errors import AppError, BoardError, DeviceError

_NANOSECONDS = 1_000_000_000
_DEFAULT_BAUDRATE = 115200
OnText = Callable[[str], None]


@dataclass(frozen=True)
class _Route:
    """A link, what is known of its ticks, and what is expected behind it."""

    link: Link
    instructions_per_tick: int | None = None
    expect: Mapping[str, str] = field(default_factory=dict)
    reopen: bool = False


def open_session(target: DeviceTarget, *, on_text: OnText | None = None, on_build: OnText | None = None) -> Session:
    """An open session; `on_text` gets each line of text that the app prints beside the protocol.

    `on_build` gets the lines of west when an app is built. Raises DeviceError (nothing answers, another model or
    protocol), AppError, BoardError, BuildError, ModelError.
    """
    named = [
        name
        for name, value in (
            ("app", target.app),
            ("elf", target.elf),
            ("port", "" if target.app is not None else target.port),
            ("recording", target.recording),
            ("host_model", target.host_model),
        )
        if value
    ]
    if len(named) != 1:
        what = f"{' and '.join(named)} at once" if named else "nothing"
        raise DeviceError(f"{what} to open", hint="Name an app, an ELF, a port, a recording or a model on the host")
    if target.host_model is not None:
        return HostSession(target.host_model, timeout_s=target.run_timeout_s)
    route = _route(target, on_build)
    link = route.link
    if target.record is not None:
        link = RecordingLink(link, target.record, route.instructions_per_tick, force=target.force)
    session = DeviceSession(
        link,
        model=target.model,
        expect=target.expect or route.expect,
        instructions_per_tick=route.instructions_per_tick,
        on_text=on_text,
        reopen=route.reopen,
        reply_timeout_s=target.reply_timeout_s,
        run_timeout_s=target.run_timeout_s,
    )
    session.open()
    return session


def identity(target: DeviceTarget) -> str:
    """A digest of the files that `target` runs, as far as it names any: ELF, generated app, recording.

    Of an app both its manifest and its ELF count, the latter also for a board, onto which it is taken to be flashed.
    "" for a port alone. Raises AppError, BoardError.
    """
    files = [path for path in (target.elf, target.recording) if path is not None]
    if target.app is not None:
        board = _board(target, load_manifest(target.app))
        files += [target.app / MANIFEST, _elf(target, board)]
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "" for path in files]
    return " ".join(digests)


def _route(target: DeviceTarget, on_build: OnText | None) -> _Route:
    if target.recording is not None:
        replay = ReplayLink(target.recording)
        return _Route(replay, replay.instructions_per_tick)
    if target.app is not None:
        return _app(target, load_manifest(target.app), on_build)
    if target.elf is not None:
        board = load_board(target.board) if target.board else None
        if board is None or board.qemu is None:
            raise BoardError(
                "QEMU does not emulate this board" if board else "no board is named",
                where=target.board or str(target.elf),
                hint="Name one that it does, such as mps2/an385",
            )
        return _qemu(target, board.qemu, {})
    return _serial(target, load_board(target.board) if target.board else None, {})


def _app(target: DeviceTarget, manifest: AppManifest, on_build: OnText | None) -> _Route:
    assert target.app is not None
    if not any(path.startswith("src/link/") for path in manifest.files):
        raise AppError(
            "this app has no host link",
            where=str(target.app),
            hint="Generate it with host_link: true in its app file",
        )
    board = _board(target, manifest)
    if target.build:
        _build(target, manifest, board, on_build)
    elif not (target.port or board.name in manifest.boards or _elf(target, board).is_file()):
        raise AppError(
            f"is neither generated nor built for {board.name}",
            where=str(target.app),
            hint=f"It is for {', '.join(manifest.boards)}",
        )
    if board.qemu is not None and not target.port:
        return _qemu(target, board.qemu, manifest.models, board)
    return _serial(target, board, manifest.models)


def _board(target: DeviceTarget, manifest: AppManifest) -> Board:
    boards = [load_board(name) for name in ((target.board,) if target.board else manifest.boards)]
    wanted = [board for board in boards if (board.qemu is None) == bool(target.port)]
    return (wanted or boards)[0]


def _build_dir(target: DeviceTarget, board: Board) -> Path:
    assert target.app is not None
    return target.build_dir or target.app / "build" / board.file_stem


def _elf(target: DeviceTarget, board: Board) -> Path:
    return target.elf or _build_dir(target, board) / "zephyr" / "zephyr.elf"


def _qemu(target: DeviceTarget, spec: QemuSpec, expect: Mapping[str, str], board: Board | None = None) -> _Route:
    elf = target.elf
    if elf is None:
        assert board is not None
        elf = _elf(target, board)
    link = QemuLink(spec, elf, icount=target.icount)
    # With -icount shift=0 an instruction is a nanosecond; the clock is the machine's, whatever Zephyr takes it for.
    return _Route(link, _NANOSECONDS // spec.clock_hz if target.icount else None, expect)


def _serial(target: DeviceTarget, board: Board | None, expect: Mapping[str, str]) -> _Route:
    baudrate = target.baudrate or (board.serial.baudrate if board is not None else _DEFAULT_BAUDRATE)
    if target.port not in ("", "auto"):
        return _Route(SerialLink(target.port, baudrate), None, expect, reopen=True)
    first = _on_usb(target.usb_serial, board)

    def found_again() -> str:
        """The same console of the same board, whose ports come back one by one, where it was or elsewhere."""
        told = (first.vid, first.pid, first.serial_number, first.interface)
        ports = [port for port in find_ports() if (port.vid, port.pid, port.serial_number, port.interface) == told]
        here = [port for port in ports if port.place == first.place]
        return choose_port(here or (ports if first.serial_number else [])).device

    link = SerialLink(first.device, baudrate, found_again)
    return _Route(link, None, expect, reopen=True)


def _on_usb(serial_number: str, board: Board | None) -> SerialPort:
    """The console of the one board, which is of the vendor of `board`; without, of one that boards here have.

    Where none of those is plugged in, any port on USB will do.
    """
    ports = [port for port in find_ports() if port.vid is not None]
    vid = board.serial.usb_vid if board is not None else None
    if vid is None and not serial_number:
        known = {other.serial.usb_vid for other in map(load_board, known_boards())}
        ports = [port for port in ports if port.vid in known] or ports
    return choose_port(ports, usb_vid=vid, serial_number=serial_number or None, dev_id=True)


def _build(target: DeviceTarget, manifest: AppManifest, board: Board, on_build: OnText | None) -> None:
    assert target.app is not None
    workspace = find_workspace(target.workspace, app=target.app)
    board = in_workspace(board, workspace)
    kernels = manifest.kernels if manifest.kernels != "auto" else "cmsis_nn" if board.cortex_m else "reference"
    workspace.require(board.name, kernels, board.arch)
    west.check_revisions(west.recorded(manifest, kernels), workspace)
    folder = _build_dir(target, board)
    toolchain = detect_toolchain(arch=board.arch)
    west.build(west.BuildRequest(target.app, board.name, folder), workspace, toolchain, on_line=on_build)
