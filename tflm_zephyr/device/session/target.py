# SPDX-License-Identifier: Apache-2.0
"""What a session is opened on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class DeviceTarget:
    """Just one of `app`, `elf`, `port`, `recording` and `host_model` says where the model runs.

    - `app`: a generated app with `host_link: true`, on `board` (default: its first board that QEMU emulates, else
      the first): QEMU with the ELF in `build_dir` (default: build/<board> in the app), or the board's port when QEMU
      does not emulate it. `build`: west builds it first. With `port` as well, the app is only what is expected there.
    - `elf`: an ELF in QEMU; `board` names the machine.
    - `port`: a serial device, a pyserial URL, or "auto" for the one board on USB (`usb_serial`, the debug probe's
      serial number, picks one of several).
      `baudrate` None: the board's, else 115200.
    - `recording`: a file that a session with `record` made.
    - `host_model`: a .tflite file, run by TFLM on this host (PyPI's tflite-micro).

    `model` selects one of several models. `expect` maps names of models to SHA-256: another model there is an error
    (with `app`, its manifest is used). `record`: write all bytes of both ways there; with `force`
    also where a file is, which is kept as .orig. `reply_timeout_s`: silence after
    which a request that the device answers at once has failed; `run_timeout_s`: the same for a whole invocation.
    """

    app: Path | None = None
    board: str = ""
    build_dir: Path | None = None
    build: bool = False
    elf: Path | None = None
    port: str = ""
    usb_serial: str = ""
    baudrate: int | None = None
    recording: Path | None = None
    host_model: Path | None = None
    model: str = ""
    expect: Mapping[str, str] = field(default_factory=dict)
    record: Path | None = None
    force: bool = False
    icount: bool = True
    workspace: Path | None = None
    reply_timeout_s: float = 10.0
    run_timeout_s: float = 600.0
