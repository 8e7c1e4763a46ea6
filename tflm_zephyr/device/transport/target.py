# SPDX-License-Identifier: Apache-2.0
"""DeviceTarget: the place where a model runs. Transport: one way to reach it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tflm_zephyr.boards import Board
from tflm_zephyr.device.transport.link import Capabilities, Link


@dataclass(frozen=True)
class DeviceTarget:
    """The place where an app runs: one of `app`, `elf`, `port`, `recording` and `host_model`, or `build_dir` alone.

    - `app`: a generated app on `board` (default: its first board that is emulated, else the first): the program in
      `build_dir` (default: build/<board> in the app), or the board's USB port when it is not emulated. With `port` as
      well, the app only says which models are expected there.
    - `elf`, or `build_dir` alone: a program to emulate, or the build folder that has it; `board` names the machine.
    - `port`: a serial device, a pyserial URL, or "auto" for the one board on USB (`usb_serial`, the debug probe's
      serial number, picks one of several). `baudrate` None: the board's, else 115200.
    - `recording`: a file that open_session with `record` made.
    - `host_model`: a .tflite file, run by TFLM on this host (PyPI's tflite-micro).

    `transport` is the name of the required transport, "" for any. `icount`: QEMU's ticks count instructions.
    `model` selects one of several models. `expect` maps names of models to SHA-256: another model there is an error
    (with `app`, its manifest is used). `reply_timeout_s`: the longest wait for an answer that needs no run, whatever
    else the device sends; `run_timeout_s`: the same for a whole invocation.
    """

    app: Path | None = None
    board: str = ""
    build_dir: Path | None = None
    elf: Path | None = None
    port: str = ""
    usb_serial: str = ""
    baudrate: int | None = None
    recording: Path | None = None
    host_model: Path | None = None
    transport: str = ""
    model: str = ""
    expect: Mapping[str, str] = field(default_factory=dict)
    icount: bool = True
    reply_timeout_s: float = 10.0
    run_timeout_s: float = 600.0


@dataclass(frozen=True)
class Transport:
    """One way to an app.

    `serves` says whether it leads to a target, whose board is given where one is known. `link` makes the link from
    the target, its board and its program; None for a transport that carries no bytes. `program` is the file under
    zephyr/ in a build folder that the transport runs; "" when the app runs elsewhere.
    """

    name: str
    capabilities: Capabilities
    serves: Callable[[DeviceTarget, Board | None], bool]
    link: Callable[[DeviceTarget, Board | None, Path | None], Link] | None
    program: str = ""
