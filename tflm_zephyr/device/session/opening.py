# SPDX-License-Identifier: Apache-2.0
"""DeviceTarget -> Session: builds the app where asked, opens the link, and says hello."""

from __future__ import annotations

from collections.abc import Callable

from tflm_zephyr.boards import Board
from tflm_zephyr.build import detect_toolchain, find_workspace, in_workspace, west
from tflm_zephyr.codegen import AppManifest
from tflm_zephyr.device.session.base import Session
from tflm_zephyr.device.session.device_session import DeviceSession
from tflm_zephyr.device.session.host_session import HostSession
from tflm_zephyr.device.transport.recording import RecordingLink
from tflm_zephyr.device.transport.routing import Route, route
from tflm_zephyr.device.transport.target import DeviceTarget
from tflm_zephyr.errors import AppError

OnText = Callable[[str], None]


def open_session(target: DeviceTarget, *, on_text: OnText | None = None, on_build: OnText | None = None) -> Session:
    """An open session; `on_text` gets each line of text that the app prints beside the protocol.

    `on_build` gets the lines of west when an app is built. Raises DeviceError (nothing answers, another model or
    protocol), AppError, BoardError, BuildError, ModelError.
    """
    found = route(target)
    if not found.transport.capabilities.carries_bytes:
        assert target.host_model is not None  # as the transport serves nothing else
        return HostSession(target.host_model, timeout_s=target.run_timeout_s)
    if found.manifest is not None and found.board is not None:
        _prepare(target, found, found.manifest, found.board, on_build)
    link = found.link()
    if target.record is not None:
        link = RecordingLink(link, target.record, force=target.force)
    session = DeviceSession(
        link,
        model=target.model,
        expect=target.expect or found.expect,
        on_text=on_text,
        reply_timeout_s=target.reply_timeout_s,
        run_timeout_s=target.run_timeout_s,
    )
    session.open()
    return session


def _prepare(target: DeviceTarget, found: Route, manifest: AppManifest, board: Board, on_build: OnText | None) -> None:
    """Build the app if requested. Raises AppError when it has no host link, or nothing for the board."""
    if not manifest.host_link:
        raise AppError(
            "this app has no host link",
            where=str(target.app),
            hint="Generate it with host_link: true in its app file",
        )
    if target.build:
        _build(found, manifest, board, on_build)
    elif not (target.port or board.name in manifest.boards or (found.elf is not None and found.elf.is_file())):
        raise AppError(
            f"is neither generated nor built for {board.name}",
            where=str(target.app),
            hint=f"It is for {', '.join(manifest.boards)}",
        )


def _build(found: Route, manifest: AppManifest, board: Board, on_build: OnText | None) -> None:
    target = found.target
    assert target.app is not None and found.build_dir is not None  # as it has a manifest
    workspace = find_workspace(target.workspace, app=target.app)
    board = in_workspace(board, workspace)
    west.check_workspace(manifest, board, workspace)
    toolchain = detect_toolchain(arch=board.arch)
    west.build(west.BuildRequest(target.app, board.name, found.build_dir), workspace, toolchain, on_line=on_build)
