# SPDX-License-Identifier: Apache-2.0
"""The app's line protocol -> RunResult. Pure: lines in, values out; a lost or damaged line is an error.

Every record is a line that holds "TFLM:" followed by a kind and `key=value` fields; other text may stand
before it and between records.

    TFLM:begin app= proto=1 board= model= sha256= kernels= tflm= zephyr=
    TFLM:arena size= used= head= tail= source=
    TFLM:output run= index= type= bytes= crc32=       followed by its data records, without gaps
    TFLM:data run= index= offset= hex=
    TFLM:ticks run= ticks= hz=
    TFLM:check run= index= result=pass|fail|none [first= got= want=] [exact=yes|no]
    TFLM:stacks main= main_used= isr= isr_used=       with CONFIG_INIT_STACKS=y
    TFLM:error code= at=                              `status` has the sentences
    TFLM:end status=pass|fail|none records= [crc32=]  records: how many came before it, begin included

`crc32` of an end record covers every record since begin, each followed by a newline, and the end record's
own text before " crc32=". It protects the numbers that no other checksum covers.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tflm_zephyr.device.console.fields import DamagedError, Fields
from tflm_zephyr.device.console.result import Arena, Check, CheckVerdict, Output, RunResult, SelfTestRun, Stacks
from tflm_zephyr.device.console.status import sentence
from tflm_zephyr.errors import DeviceError
from tflm_zephyr.host import recorded_sections

PREFIX = "TFLM:"
PROTOCOL = 1
MAX_OUTPUT_BYTES = 1 << 26
_RECORDED = "[RecordingMicroAllocator]"
_KEPT_LINES, _KEPT_CHARS = 3, 160

_LOST = "Run it again; over a serial port, try a lower baud rate or a shorter cable"


@dataclass
class _UnfinishedRun:
    """The run being read."""

    header: Mapping[str, str]
    records: int = 0
    crc32: int = 0
    arena: Arena | None = None
    outputs: dict[tuple[int, int], Output] = field(default_factory=dict)
    checks: dict[tuple[int, int], Check] = field(default_factory=dict)
    ticks: dict[int, tuple[int, int]] = field(default_factory=dict)
    part: _PartialOutput | None = None
    stacks: Stacks | None = None
    allocations: str = ""  # the lines of RecordingMicroAllocator
    printed: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))  # lines between the records


@dataclass
class _PartialOutput:
    """An output whose data records are not complete yet."""

    key: tuple[int, int]
    type: str
    size: int
    crc32: int
    data: bytearray = field(default_factory=bytearray)


class RecordReader:
    """Reads lines; returns a RunResult at each end record. Lines before the first begin record are ignored."""

    def __init__(self, where: str, link: str = "") -> None:
        """`where` and `link` go into the results; `link` names the port in errors."""
        self._where, self._link = where, link
        self._pending: _UnfinishedRun | None = None
        self.restarts = 0  # begin records that came before the present run had ended
        self.stray = 0  # records outside a run: reading began in the middle of one

    @property
    def running(self) -> bool:
        """Whether a begin record came, and its end record did not."""
        return self._pending is not None

    def feed(self, line: str) -> RunResult | None:
        """Take a line without its newline; returns the result that it completes.

        Raises DeviceError for an error that the device reports, and for a lost or damaged record.
        """
        at = line.find(PREFIX)
        if at < 0:
            run = self._pending
            if run is not None and _RECORDED in line:
                run.allocations += f"{line}\n"
            elif run is not None and line.strip() and not line.startswith(f"{run.header['model']}: "):
                run.printed.append(line.strip()[:_KEPT_CHARS])
            return None
        text = line[at:].rstrip("\r\n")
        kind, _, rest = text[len(PREFIX) :].partition(" ")
        if kind == "begin":
            self._begin(text, rest)
            return None
        handler = _HANDLERS.get(kind)
        if handler is None and kind != "end":
            return None  # log text, or a record so damaged that the count at the end will miss it
        if self._pending is None:
            self.stray += 1
            if kind == "error":  # before the first run or between two: nothing more will come
                self._stray_error(rest)
            return None
        try:
            if kind == "end":
                return self._end(text, rest)
            assert handler is not None
            handler(self._pending, rest)
            self._count(text)
        except DamagedError as err:
            self._pending = None
            raise DeviceError(f"{err} in {text[:80]!r}", where=self._link, hint=_LOST) from err
        except DeviceError as err:
            self._pending = None
            raise DeviceError(err.what, where=self._link, hint=err.hint) from err
        return None

    def _begin(self, text: str, rest: str) -> None:
        if self._pending is not None:
            self.restarts += 1
        self._pending = None
        try:
            fields = Fields(rest)
            proto = fields.number("proto")
            if proto == PROTOCOL:
                self._pending = _UnfinishedRun({key: fields.text(key) for key in _HEADER})
        except DamagedError as err:
            raise DeviceError(f"{err} in {text[:80]!r}", where=self._link, hint=_LOST) from err
        if proto != PROTOCOL:
            raise DeviceError(
                f"the app speaks version {proto} of the record protocol, this tool version {PROTOCOL}",
                where=self._link,
                hint="Generate and flash the app again with this version of the tool",
            )
        self._count(text)

    def _stray_error(self, rest: str) -> None:
        try:
            fields = Fields(rest)
            at, code = fields.text("at"), fields.number("code")
        except DamagedError:
            return
        what = f"the app reports: {sentence(code, at)} (code {code}, at {at})"
        raise DeviceError(what, where=self._link, hint="Generate with --debug to see more")

    def _count(self, text: str) -> None:
        assert self._pending is not None
        self._pending.records += 1
        self._pending.crc32 = zlib.crc32(f"{text}\n".encode("utf-8", "replace"), self._pending.crc32)

    def _end(self, text: str, rest: str) -> RunResult:
        run = self._pending
        assert run is not None
        _check_output_is_whole(run)
        fields = Fields(rest)
        records, status = fields.number("records"), fields.choice("status", _STATUS)
        if records != run.records:
            raise DamagedError(f"{records} records were sent and {run.records} arrived whole; lost records")
        if "crc32" in fields:
            covered = text.rpartition(" crc32=")[0].encode("utf-8", "replace")
            if zlib.crc32(covered, run.crc32) != fields.hex32("crc32"):
                raise DamagedError("a record was damaged on its way: wrong CRC-32")
        failed = any(check.result == "fail" for check in run.checks.values())
        if failed and status == "pass":
            raise DamagedError("a check failed and the end says pass: damaged record")
        self._pending = None
        runs = tuple(_self_test_run(run, number) for number in _numbers(run))
        return RunResult(
            **run.header,
            arena=run.arena,
            runs=runs,
            status=status,
            where=self._where,
            link=self._link,
            stacks=run.stacks,
            sections=recorded_sections(run.allocations),
        )


_HEADER = ("app", "board", "model", "sha256", "kernels", "tflm", "zephyr")
_STATUS: tuple[CheckVerdict, ...] = ("pass", "fail", "none")


def _on_arena(run: _UnfinishedRun, rest: str) -> None:
    fields = Fields(rest)
    size, used, head, tail = map(fields.number, ("size", "used", "head", "tail"))
    run.arena = Arena(size, used, head, tail, fields.text("source"))


def _on_stacks(run: _UnfinishedRun, rest: str) -> None:
    fields = Fields(rest)
    run.stacks = Stacks(*map(fields.number, ("main", "main_used", "isr", "isr_used")))


def _on_output(run: _UnfinishedRun, rest: str) -> None:
    _check_output_is_whole(run)
    fields = Fields(rest)
    key, size = _key(fields), fields.number("bytes")
    if key in run.outputs or size > MAX_OUTPUT_BYTES:
        raise DamagedError("an output twice, or of an impossible size")
    run.part = _PartialOutput(key, fields.text("type"), size, fields.hex32("crc32"))
    _finish_output(run)


def _on_data(run: _UnfinishedRun, rest: str) -> None:
    fields = Fields(rest)
    part = run.part
    if part is None or part.key != _key(fields) or fields.number("offset") != len(part.data):
        raise DamagedError("a gap in an output's data")
    data = fields.data("hex")
    if not data or len(part.data) + len(data) > part.size:
        raise DamagedError("more data than the output has")
    part.data += data
    _finish_output(run)


def _finish_output(run: _UnfinishedRun) -> None:
    part = run.part
    if part is None or len(part.data) < part.size:
        return
    if zlib.crc32(part.data) != part.crc32:
        raise DamagedError("wrong CRC-32 of an output")
    run.outputs[part.key] = Output(part.key[1], part.type, bytes(part.data))
    run.part = None


def _on_ticks(run: _UnfinishedRun, rest: str) -> None:
    _check_output_is_whole(run)
    fields = Fields(rest)
    number = fields.number("run")
    if number in run.ticks:
        raise DamagedError("ticks twice")
    run.ticks[number] = fields.number("ticks"), fields.number("hz")


def _on_check(run: _UnfinishedRun, rest: str) -> None:
    _check_output_is_whole(run)
    fields = Fields(rest)
    key, result = _key(fields), fields.choice("result", _STATUS)
    if key in run.checks:
        raise DamagedError("a check twice")
    first, got, want = map(fields.optional_number, ("first", "got", "want"))
    exact = fields.choice("exact", ("yes", "no")) == "yes" if "exact" in fields else None
    run.checks[key] = Check(key[1], result, first, got, want, exact)


def _on_error(run: _UnfinishedRun, rest: str) -> None:
    fields = Fields(rest)
    at, code = fields.text("at"), fields.number("code")
    hint = f"Before that it printed: {' | '.join(run.printed)}" if run.printed else "Generate with --debug to see more"
    if not run.printed and at == "init" and run.arena is not None:
        hint = f"Its arena has {run.arena.size_bytes} bytes; give it more if that is too few"
    raise DeviceError(f"the app reports: {sentence(code, at)} (code {code}, at {at})", hint=hint)


_HANDLERS: Mapping[str, Callable[[_UnfinishedRun, str], None]] = {
    "arena": _on_arena,
    "stacks": _on_stacks,
    "output": _on_output,
    "data": _on_data,
    "ticks": _on_ticks,
    "check": _on_check,
    "error": _on_error,
}


def _check_output_is_whole(run: _UnfinishedRun) -> None:
    if run.part is not None:
        raise DamagedError(f"output {run.part.key[1]} has {len(run.part.data)} of {run.part.size} bytes")


def _numbers(run: _UnfinishedRun) -> list[int]:
    return sorted({key[0] for key in (*run.outputs, *run.checks)} | set(run.ticks))


def _self_test_run(run: _UnfinishedRun, number: int) -> SelfTestRun:
    ticks, hz = run.ticks.get(number, (None, None))
    return SelfTestRun(
        number,
        tuple(output for key, output in sorted(run.outputs.items()) if key[0] == number),
        tuple(check for key, check in sorted(run.checks.items()) if key[0] == number),
        ticks,
        hz,
    )


def _key(fields: Fields) -> tuple[int, int]:
    return fields.number("run"), fields.number("index")
