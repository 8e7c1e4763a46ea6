# SPDX-License-Identifier: Apache-2.0
"""A board: its core, its memory, its emulation in QEMU, its serial port.

A board described under boards/ is named as Zephyr's hardware model v2 names it (`soc` and `cpucluster`
qualifiers after slashes); its folder has the slashes replaced by underscores, like Zephyr's own
`boards/<normalised board target>.conf` in an application. Any other board builds with Zephyr's own description.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated

from tflm_zephyr.errors import BoardError
from tflm_zephyr.plain_values import Key, Limits, NotInFile, parse_yaml, read_values, shown
from tflm_zephyr.resources import data_dir

_GPIO_OFF = re.compile(r"(?:^#.*\n)?^CONFIG_GPIO=n\n", re.M)  # with the comment above it
_NAME = re.compile(r"[a-z0-9][a-z0-9_]*(@[0-9A-Za-z.]+)?(/[a-z0-9_]+)*")

_LONGEST_NAME = 200  # it becomes file names, of at most 255 bytes
_KIB = Limits(1, 2**21)
_HALS = {"nrf": "hal_nordic", "nucleo_": "hal_stm32", "rpi_pico": "hal_rpi_pico"}  # by the beginning of a board's name


@dataclass(frozen=True)
class QemuSpec:
    """A machine of QEMU: values for -machine and -cpu, and `extra` further arguments.

    `clock_hz` is the rate of the machine's cycle counter; 0 where a tick is no whole number of nanoseconds.
    """

    machine: str
    cpu: str
    extra: tuple[str, ...] = ()
    binary: str = "qemu-system-arm"
    clock_hz: int = 0

    @property
    def package(self) -> str:
        """Debian 12's package with the binary."""
        return "qemu-system-misc" if "riscv" in self.binary else self.binary


@dataclass(frozen=True)
class Serial:
    """The console port of a real board: baud rate, and the USB vendor of its debug probe."""

    baudrate: Annotated[int, Limits(1, 2**31 - 1)] = 115200
    usb_vid: Annotated[int, Limits(0, 0xFFFF)] | None = None


@dataclass(frozen=True)
class Board:
    """A Zephyr board target.

    `core` is one of kernels.CORES, or the name of another kind. `extensions_known` is False where the chip's maker may
    have left out DSP or Helium, which CORES gives that core: devicetree does not tell. `flash_kib` and `ram_kib` are
    the application's share; None when only Zephyr knows; `flash_note` says why it cannot get more flash.
    `flash_reserved_bytes` of that flash hold something else. `files` are the Kconfig fragment and devicetree overlay
    for the app's boards/ folder, by file name. `selects` are Kconfig symbols for features of the core that Zephyr's
    description omits. `arch` is Zephyr's name of the architecture, for a board that is not described here but known to
    the workspace. `pins_by_gpio_from` is the first version of Zephyr whose pin controller driver for it needs GPIO.
    """

    name: Annotated[str, Key("board")]
    description: str = ""
    core: str = ""
    flash_kib: Annotated[int, _KIB] | None = None
    ram_kib: Annotated[int, _KIB] | None = None
    twister: bool = False
    qemu: QemuSpec | None = None
    serial: Serial = Serial()
    files: Annotated[Mapping[str, str] | None, NotInFile()] = None
    selects: tuple[str, ...] = ()
    arch: Annotated[str, NotInFile()] = ""
    extensions_known: Annotated[bool, NotInFile()] = True
    flash_note: str = ""
    flash_reserved_bytes: Annotated[int, Limits(0, 2**31 - 1)] = 0
    pins_by_gpio_from: str = ""

    @property
    def kconfig(self) -> str:
        """Zephyr's Kconfig symbol of the board target: "BOARD_MPS2_AN521_CPU0"."""
        return f"BOARD_{self.file_stem.upper()}"

    @property
    def file_stem(self) -> str:
        """The name that Zephyr looks for under an application's boards/: "nrf9160dk_nrf9160_ns"."""
        return stem_of(self.name)

    @property
    def hal(self) -> str:
        """See hal_of."""
        return hal_of(self.name)

    @property
    def known(self) -> bool:
        """Whether boards/ describes it."""
        return bool(self.description)

    def files_for(self, zephyr: str) -> dict[str, str]:
        """`files` for an app on that version of Zephyr ("4.1.0"): GPIO stays on where the pin controller needs it."""
        needed = self.pins_by_gpio_from and _numbers(zephyr) >= _numbers(self.pins_by_gpio_from)
        return {name: _GPIO_OFF.sub("", text) if needed else text for name, text in (self.files or {}).items()}

    @property
    def cortex_m(self) -> bool | None:
        """Whether its core is a Cortex-M; None where only a build can tell."""
        if self.core:
            return self.core.startswith("cortex-m")
        return None if self.arch in ("", "arm") else False


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def hal_of(name: str) -> str:
    """Zephyr's module with the chip maker's code for the board target `name`; "" for none, or where not known."""
    return next((hal for start, hal in _HALS.items() if name.startswith(start)), "")


def stem_of(name: str) -> str:
    """ "nrf9160dk/nrf9160/ns" -> "nrf9160dk_nrf9160_ns"; a board revision ("@0.14.0") is left out."""
    return re.sub(r"@[^/]*", "", name).replace("/", "_")


def known_boards(root: Path | None = None) -> tuple[str, ...]:
    """The names of all boards described under boards/, sorted."""
    folder = root or data_dir("boards")
    return tuple(sorted(_board(path).name for path in folder.glob("*/board.yaml")))


def load_board(name: str, root: Path | None = None) -> Board:
    """The board called `name`; one that boards/ does not describe comes back with just its name.

    Raises BoardError when `name` is no board target's name, or differs from a known one in spelling only.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise BoardError(
            "not a board target's name",
            where=shown(name),
            hint="Zephyr writes them board/soc/variant, as in nrf9160dk/nrf9160/ns; `west boards` lists them",
        )
    folder = (root or data_dir("boards")) / stem_of(name)
    if not (folder / "board.yaml").is_file():
        described = [board for board in known_boards(root) if board.startswith(f"{name}/")]
        if len({board.split("/")[1] for board in described}) > 1:
            raise BoardError("names a board, not one of its targets", where=name, hint=f"Name {' or '.join(described)}")
        return Board(name=name)
    board = _board(folder / "board.yaml")
    if re.sub(r"@[^/]*", "", name) != board.name:
        raise BoardError("unknown board", where=name, hint=f"Did you mean {board.name}?")
    return replace(board, name=name)


def _board(path: Path) -> Board:
    """The board that a board.yaml describes, with the files beside it. Raises BoardError."""
    try:
        found = _described(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise BoardError(str(err), where=str(path), hint="Fix the board's description") from None
    lacking = [key for key in ("description", "core") if not getattr(found, key)]
    if lacking:
        raise BoardError(f"the board wants the key {lacking[0]}", where=str(path), hint="Add it")
    beside = sorted(file for file in path.parent.iterdir() if file.suffix in (".conf", ".overlay"))
    return replace(found, files={file.name: file.read_text(encoding="utf-8") for file in beside})


@cache
def _described(text: str) -> Board:
    """The board that the text of a board.yaml describes; commands load each many times. Raises ValueError."""
    return read_values(Board, parse_yaml(text), name="the board")
