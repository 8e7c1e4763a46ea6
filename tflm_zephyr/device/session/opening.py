# SPDX-License-Identifier: Apache-2.0
"""DeviceTarget -> Session: opens the link and says hello."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tflm_zephyr.boards import Board
from tflm_zephyr.codegen import AppManifest
from tflm_zephyr.device.session.base import Session
from tflm_zephyr.device.session.device_session import DeviceSession
from tflm_zephyr.device.session.host_session import HostSession
from tflm_zephyr.device.transport.recording import RecordingLink
from tflm_zephyr.device.transport.routing import Route, route
from tflm_zephyr.device.transport.target import DeviceTarget
from tflm_zephyr.errors import AppError

OnText = Callable[[str], None]


def open_session(
    target: DeviceTarget, *, on_text: OnText | None = None, record: Path | None = None, force: bool = False
) -> Session:
    """An open session; `on_text` gets each line of text that the app prints beside the protocol.

    `record`: write all bytes of both ways there; with `force` also where a file is, which is kept as .orig. Raises
    DeviceError (nothing answers, another model or protocol), AppError, BoardError, ModelError.
    """
    found = route(target)
    if not found.transport.capabilities.carries_bytes:
        assert target.host_model is not None  # as the transport serves nothing else
        return HostSession(target.host_model, timeout_s=target.run_timeout_s)
    if found.manifest is not None and found.board is not None:
        _check_app(target, found, found.manifest, found.board)
    link = found.link()
    if record is not None:
        link = RecordingLink(link, record, force=force)
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


def _check_app(target: DeviceTarget, found: Route, manifest: AppManifest, board: Board) -> None:
    """AppError when the app has no host link, or nothing for the board."""
    if not manifest.host_link:
        raise AppError(
            "this app has no host link",
            where=str(target.app),
            hint="Generate it with host_link: true in its app file",
        )
    if not (target.port or board.name in manifest.boards or (found.elf is not None and found.elf.is_file())):
        raise AppError(
            f"is neither generated nor built for {board.name}",
            where=str(target.app),
            hint=f"It is for {', '.join(manifest.boards)}",
        )
