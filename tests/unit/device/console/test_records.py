# SPDX-License-Identifier: Apache-2.0
"""The line protocol: whole self-tests are read as sent; every loss and damage is an error, never a result."""

from __future__ import annotations

import json
import random

import pytest

from tests.fakes.records import BANNER, begin, self_test, with_end
from tflm_zephyr.device.console.reader import is_crash
from tflm_zephyr.device.console.records import RecordReader
from tflm_zephyr.device.console.result import Arena, Check, RunResult
from tflm_zephyr.errors import DeviceError


def read(lines: list[str], reader: RecordReader | None = None) -> RunResult | None:
    """The last result of `lines`."""
    reader = reader or RecordReader("serial", "port")
    result = None
    for line in lines:
        result = reader.feed(line) or result
    return result


def test_reads_a_self_test() -> None:
    outputs = (bytes(range(200)), b"\xff")
    result = read([BANNER, *self_test(outputs, ticks=77)])
    assert result is not None
    assert (result.app, result.model, result.board) == ("demo", "sine", "mps2/an385")
    assert (result.kernels, result.tflm, result.zephyr) == ("reference", "8d404de7", "4.1.0")
    assert (result.sha256, result.status, result.where, result.link) == (
        "0123456789abcdef",
        "pass",
        "serial",
        "port",
    )
    assert result.arena == Arena(2048, 1500, 1000, 500, "measured")
    (run,) = result.runs
    assert tuple(output.data for output in run.outputs) == outputs
    assert [output.index for output in run.outputs] == [0, 1]
    assert (run.ticks, run.hz) == (77, 25_000_000)
    assert run.checks == (Check(0, "pass", exact=True), Check(1, "pass", exact=True))


def test_json_has_hex_and_is_plain() -> None:
    result = read(self_test((b"\x00\xab",)))
    assert result is not None
    again = json.loads(json.dumps(result.to_json()))
    assert again["runs"][0]["outputs"][0] == {"index": 0, "type": "int8", "data": "00ab"}
    assert again["where"] == "serial"


def test_other_text_between_and_before_records_is_passed_over() -> None:
    lines = [x for line in self_test() for x in ("[00:01] log text", f"uart:~$ {line}\r", "", "TFLM:debug hello")]
    result = read(lines)
    assert result is not None and result.runs[0].outputs[0].data == b"\x01\x02\x03"


def test_an_app_without_reference_says_none() -> None:
    result = read(self_test(status="none"))
    assert result is not None and result.status == "none" and result.runs[0].checks == ()


def test_a_failed_check_keeps_where_it_differs() -> None:
    lines = self_test()[:-2]
    lines.append("TFLM:check run=0 index=0 result=fail first=2 got=255 want=3")
    result = read(with_end(lines, "fail"))
    assert result is not None and result.status == "fail"
    assert result.runs[0].checks == (Check(0, "fail", 2, 255, 3),)


def test_an_empty_output_needs_no_data() -> None:
    result = read(self_test((b"",)))
    assert result is not None and result.runs[0].outputs[0].data == b""


@pytest.mark.parametrize("outputs", [(bytes(300),), (b"\x01\x02\x03", b"\x04" * 65)])
def test_any_lost_line_is_an_error(outputs: tuple[bytes, ...]) -> None:
    lines = self_test(outputs)
    for lost in range(1, len(lines) - 1):
        with pytest.raises(DeviceError):
            read(lines[:lost] + lines[lost + 1 :])
    assert read(lines[1:]) is None  # without begin there is no run
    assert read(lines[:-1]) is None  # nor without its end


def test_any_doubled_line_is_an_error() -> None:
    lines = self_test((bytes(100),))
    for twice in range(1, len(lines) - 1):
        with pytest.raises(DeviceError):
            read(lines[: twice + 1] + lines[twice:])


def test_swapped_data_lines_are_an_error() -> None:
    lines = self_test((bytes(range(128)),))
    lines[3], lines[4] = lines[4], lines[3]
    with pytest.raises(DeviceError, match="gap"):
        read(lines)


def test_with_a_sum_any_damaged_character_is_seen() -> None:
    lines = self_test((b"\x01\x02\x03\x04",), checksum=True)
    good = read(lines)
    rng = random.Random(0)
    for number, line in enumerate(lines):
        for at in range(len(line)):
            other = rng.choice([c for c in "0123456789abcdefxyz= " if c != line[at]])
            damaged = [*lines[:number], line[:at] + other + line[at + 1 :], *lines[number + 1 :]]
            try:
                result = read(damaged)
            except DeviceError:
                continue
            # None: the begin or end was lost, and the host goes on waiting.
            assert result is None or result == good, (line, damaged[number])


@pytest.mark.parametrize(
    "line",
    [
        "TFLM:output run=0 index=0 type=int8 bytes=99999999999 crc32=00000000",
        "TFLM:output run=0 index=0 type=int8 bytes=-1 crc32=00000000",
        "TFLM:output run=0 index=0 type=int8 bytes=4 crc32=0",
        "TFLM:output run=0 index=0 type= bytes=4 crc32=00000000",
        "TFLM:data run=0 index=0 offset=0 hex=00",
        "TFLM:ticks run=0 ticks=12 ticks=13 hz=1",
        "TFLM:ticks run=0 ticks=1e3 hz=1",
        "TFLM:check run=0 index=0 result=maybe",
        "TFLM:arena size=1 used=1 head=1 tail",
        "TFLM:end status=good records=1",
        "TFLM:end status=pass",
    ],
)
def test_malformed_records_are_errors(line: str) -> None:
    with pytest.raises(DeviceError) as caught:
        read([begin(), line])
    assert "\n" not in str(caught.value) and str(caught.value).startswith("port: ")


def test_a_begin_without_all_its_fields_is_an_error() -> None:
    with pytest.raises(DeviceError, match="sha256"):
        read([begin().replace("sha256=", "sha=")])


def test_another_protocol_version_is_named() -> None:
    with pytest.raises(DeviceError, match=r"version 2.*version 1"):
        read([begin(proto=2)])


def test_a_pass_with_a_failed_check_is_damage() -> None:
    lines = [*self_test()[:-2], "TFLM:check run=0 index=0 result=fail first=0 got=1 want=2"]
    with pytest.raises(DeviceError, match="check failed"):
        read(with_end(lines, "pass"))


def test_an_error_of_the_app_names_stage_and_arena() -> None:
    lines = [begin(), "TFLM:arena size=512 used=0 head=0 tail=0 source=given"]
    with pytest.raises(DeviceError, match=r"AllocateTensors failed.*at init.*512 bytes"):
        read([*lines, "TFLM:error code=4 at=init"])


def test_an_error_of_the_app_comes_with_what_it_said_before() -> None:
    lines = ["boot", begin(), "Failed to allocate temp memory. Requested: 512", "", "*** abort"]
    with pytest.raises(DeviceError, match=r"Before that it printed: Failed to allocate .* 512 \| \*\*\* abort$"):
        read([*lines, "TFLM:error code=4 at=fault"])


def test_a_restart_in_the_middle_gives_the_second_run_whole() -> None:
    reader = RecordReader("serial")
    result = read([*self_test((b"\x09",))[:4], BANNER, *self_test((b"\x01",))], reader)
    assert result is not None and result.runs[0].outputs[0].data == b"\x01"
    assert reader.restarts == 1


def test_joining_in_the_middle_waits_for_the_next_begin() -> None:
    reader = RecordReader("serial")
    tail = self_test((bytes(500),))[5:]
    assert read(tail, reader) is None
    assert reader.stray == len(tail)
    assert read(self_test(), reader) is not None


def test_after_an_error_the_next_run_is_read() -> None:
    reader = RecordReader("serial")
    with pytest.raises(DeviceError):
        read([begin(), "TFLM:ticks run=x"], reader)
    assert read(self_test(), reader) is not None


@pytest.mark.parametrize(
    "line",
    [
        "E: >>> ZEPHYR FATAL ERROR 0: CPU exception on CPU 0",
        "E: ***** HARD FAULT *****",
        "E: ***** USAGE FAULT *****",
        "ASSERTION FAIL [ptr != NULL] @ WEST_TOPDIR/x.c:12",
        "E: Halting system",
    ],
)
def test_crashes_are_known(line: str) -> None:
    assert is_crash(line)


@pytest.mark.parametrize("line", [BANNER, "TFLM:error code=1 at=FATAL ERROR", "all is well", ""])
def test_other_lines_are_no_crashes(line: str) -> None:
    assert not is_crash(line)


def test_an_error_before_the_first_run_is_reported() -> None:
    with pytest.raises(DeviceError, match=r"TFLM aborted.*code 8, at abort"):
        read(["boot", "TFLM:error code=8 at=abort"])
    with pytest.raises(DeviceError, match=r"fatal error: kernel oops \(code 3, at fault\)"):
        read(["TFLM:error code=3 at=fault"])
    assert read(["TFLM:error code=x at=fault"]) is None
