# SPDX-License-Identifier: Apache-2.0
"""Results of an app's self-test on any device: plain values for reports and comparisons."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from tflm_zephyr.host import TailSection

CheckVerdict = Literal["pass", "fail", "none"]


@dataclass(frozen=True)
class Arena:
    """The tensor arena in bytes: its size, and TFLM's use from the bottom (head) and from the top (tail).

    `source` is the origin of the size: "estimated", "measured" or "given".
    """

    size_bytes: int
    used_bytes: int
    head_bytes: int
    tail_bytes: int
    source: str


@dataclass(frozen=True)
class Stacks:
    """Bytes of the main thread's and the interrupts' stack, and the most that was ever used of each."""

    main_bytes: int
    main_used_bytes: int
    isr_bytes: int
    isr_used_bytes: int


@dataclass(frozen=True)
class Output:
    """An output tensor's raw bytes, little endian, in its own type ("int8", "float32", ...)."""

    index: int
    type: str
    data: bytes


@dataclass(frozen=True)
class Check:
    """The device's own comparison of output `index` with its reference.

    `first` is the first differing byte's offset, `got` and `want` its values; None where nothing differs.
    """

    index: int
    result: CheckVerdict
    first: int | None = None
    got: int | None = None
    want: int | None = None
    exact: bool | None = None


@dataclass(frozen=True)
class SelfTestRun:
    """One Invoke() of a self-test: outputs by index, and its ticks of `hz` a second (None when not counted)."""

    run: int
    outputs: tuple[Output, ...]
    checks: tuple[Check, ...] = ()
    ticks: int | None = None
    hz: int | None = None


@dataclass(frozen=True)
class RunResult:
    """The results of one self-test of one model.

    `sha256` is the start of the model file's SHA-256 in hex. `status` is "pass", "fail", or "none" when the
    app carries no reference. `where` is the transport's name ("qemu", "serial", "host"); `link` names
    the port or program. `stacks` is set when the app was built with CONFIG_INIT_STACKS=y, `sections` (of
    the arena's tail) when it was built with --record.
    """

    app: str
    board: str
    model: str
    sha256: str
    kernels: str
    tflm: str
    zephyr: str
    arena: Arena | None
    runs: tuple[SelfTestRun, ...]
    status: CheckVerdict
    where: str
    link: str = ""
    stacks: Stacks | None = None
    sections: tuple[TailSection, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON values: bytes become lower-case hex, tuples lists."""
        plain: dict[str, Any] = _plain(asdict(self))
        if not self.sections:
            del plain["sections"]
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value
