# SPDX-License-Identifier: Apache-2.0
"""The smallest arenas that a measuring app reports, and the end of each self-test of a proving app.

The measuring app (templates/app/interpreter/src/measure.cpp.j2) runs every self-test in a roomy arena, then prints
once a model:

    TFLM:measured model= result=ok arena= allocates= floor= head= tail= odd= tries=
    TFLM:measured model= result=no-room room=       it does not run in all the room there is
    TFLM:measured model= result=unstable ...        it ran in the smallest arena once, and then not again

`arena`: the smallest size in bytes that allocated and ran with equal outputs; `allocates`: the smallest that
allocated; `floor`: the size below which TFLM would have written to memory that is not its own; `odd`: the number of
sizes near the smallest that ran although smaller, or failed although larger.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from tflm_zephyr.device.console.fields import DamagedError, Fields
from tflm_zephyr.device.console.reader import ConsoleReader, read_lines
from tflm_zephyr.device.console.records import PREFIX, RecordReader
from tflm_zephyr.device.console.result import RunResult
from tflm_zephyr.device.console.status import sentence
from tflm_zephyr.device.transport.link import Link, Opened
from tflm_zephyr.errors import DeviceError

_MARK = f"{PREFIX}measured "
_CRASHES = frozenset(("abort", "fault"))


@dataclass(frozen=True)
class MeasuredArena:
    """The smallest arena of a model, in bytes; see the module. `result` is the self-test in the roomy one."""

    model: str
    result: RunResult
    arena_bytes: int
    allocates_bytes: int
    floor_bytes: int
    head_bytes: int
    tail_bytes: int
    odd: int
    tries: int


@dataclass(frozen=True)
class SelfTestEnding:
    """The end of a model's self-test: `status` of its end record, and the error that was reported before."""

    model: str
    status: str
    code: int | None = None
    stage: str = ""

    @property
    def sentence(self) -> str:
        """The error in full; empty without one."""
        return "" if self.code is None else f"{sentence(self.code, self.stage)} (code {self.code}, at {self.stage})"


def measure_arenas(
    link: Link, models: Collection[str], *, timeout_s: float, on_line: Callable[[str], None] | None = None
) -> tuple[MeasuredArena, ...]:
    """The sizes of each of the app's `models`, in the order of the app.

    Raises DeviceError when the self-test fails even in the roomy arena, the app crashes, or it takes too long.
    """
    results: dict[str, RunResult] = {}
    found: dict[str, MeasuredArena] = {}
    reader = RecordReader(link.where, link.name)

    def take(line: str) -> bool:
        result = reader.feed(line)
        if result is not None:
            results[result.model] = result
        if line.startswith(_MARK):
            try:
                one = _measured(Fields(line[len(_MARK) :]), results, link.name)
            except DamagedError as err:
                raise DeviceError(f"{err} in {line[:80]!r}", where=link.name, hint="Run it again") from err
            found[one.model] = one
        return set(found) >= set(models)

    _read(link, take, timeout_s, on_line)
    return tuple(found.values())


def self_test_endings(
    link: Link, models: Collection[str], *, timeout_s: float, on_line: Callable[[str], None] | None = None
) -> tuple[SelfTestEnding, ...]:
    """The end of the self-test of each of the app's `models`, errors included. Raises DeviceError for a crash."""
    found: dict[str, SelfTestEnding] = {}
    now = SelfTestEnding("", "")

    def take(line: str) -> bool:
        nonlocal now
        kind, _, rest = line.removeprefix(PREFIX).partition(" ") if line.startswith(PREFIX) else ("", "", "")
        try:
            if kind == "begin":
                now = SelfTestEnding(Fields(rest).text("model"), "")
            elif kind == "error":
                now = replace(now, code=Fields(rest).number("code"), stage=Fields(rest).text("at"))
                if now.stage in _CRASHES:
                    raise _crash(now.sentence, link)
            elif kind == "end" and now.model:
                found[now.model] = replace(now, status=Fields(rest).text("status"))
        except DamagedError as err:
            raise DeviceError(f"{err} in {line[:80]!r}", where=link.name, hint="Run it again") from err
        return set(found) >= set(models)

    _read(link, take, timeout_s, on_line)
    return tuple(found.values())


def _read(link: Link, take: Callable[[str], bool], timeout_s: float, on_line: Callable[[str], None] | None) -> None:
    """Pass every line to `take` until it returns True."""
    reader = ConsoleReader(link.name, on_line)

    def late() -> DeviceError:
        return reader.error(f"the app was not done within {timeout_s:g} s", "Give it longer with --timeout")

    with Opened(link) as opened:
        read_lines(opened, reader, lambda line: take(line.strip()), timeout_s=timeout_s, silence_s=timeout_s, late=late)


def _crash(what: str, link: Link) -> DeviceError:
    return DeviceError(f"the app crashed: {what}", where=link.name)


def _measured(fields: Fields, results: dict[str, RunResult], where: str) -> MeasuredArena:
    model = fields.text("model")
    outcome = fields.choice("result", ("ok", "no-room", "unstable"))
    if outcome == "no-room":
        what = f"{model} does not run in {fields.number('room')} bytes of arena"
        raise DeviceError(what, where=where, hint="Give app.yaml a larger arena for it")
    if outcome == "unstable":
        what = f"{model} ran in {fields.number('arena')} bytes of arena once, and then not again"
        raise DeviceError(what, where=where, hint="Does a kernel keep state between runs?")
    if model not in results:
        raise DamagedError(f"no self-test of {model} before its size")
    names = ("arena", "allocates", "floor", "head", "tail", "odd", "tries")
    return MeasuredArena(model, results[model], *map(fields.number, names))
