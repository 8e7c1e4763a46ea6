# SPDX-License-Identifier: Apache-2.0
"""Recorded sessions, and what answers from them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.fakes.link.toy import BYTES, ToyLink, expected
from tests.fakes.link.wire import HarmedLink, Noise
from tflm_zephyr.device.session.device_session import DeviceSession
from tflm_zephyr.device.session.opening import open_session
from tflm_zephyr.device.transport.recording import RecordingLink
from tflm_zephyr.device.transport.target import DeviceTarget
from tflm_zephyr.errors import DeviceError, ToolError

HEAD = json.dumps({"recording": 1, "link": "x", "where": "qemu", "instructions_per_tick": 40})
IMAGES = [random.Random(seed).randbytes(BYTES) for seed in range(3)]


def test_a_recording_gives_the_same_answers_text_and_all(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    heard: list[str] = []
    link = HarmedLink(ToyLink(program, "text"), to_device=Noise(1, flip=2e-4), to_host=Noise(2, drop=2e-4))
    session = DeviceSession(RecordingLink(link, path), model="toy", on_text=heard.append)
    session.open()
    with session:
        wanted = [session.invoke([image]) for image in IMAGES]
        captured, profile = session.capture([IMAGES[0]]), session.profile([IMAGES[0]], 2)
    before = path.read_bytes()
    again: list[str] = []
    for _ in range(2):
        again.clear()
        with open_session(DeviceTarget(recording=path, model="toy"), on_text=again.append) as replayed:
            assert [replayed.invoke([image]) for image in IMAGES] == wanted
            assert replayed.capture([IMAGES[0]]) == captured
            assert replayed.profile([IMAGES[0]], 2) == profile
            assert replayed.hello.where == "serial"
            with pytest.raises(DeviceError, match="the recording ends before this write: it was cut short, or has f"):
                replayed.invoke([bytes(BYTES)])
    assert wanted[0].outputs[0] == expected(IMAGES[0])
    assert again == heard[: len(again)]
    assert len(again) >= 4  # a line may have been hit
    assert path.read_bytes() == before


def test_other_inputs_and_a_short_recording_differ(program: Path, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    with DeviceSession(RecordingLink(ToyLink(program), whole), model="toy") as session:
        session.open()
        for image in IMAGES:
            session.invoke([image])
    with (
        open_session(DeviceTarget(recording=whole, model="toy")) as replayed,
        pytest.raises(DeviceError, match="the recording has no answer to this write: it has other inputs"),
    ):
        replayed.invoke([bytes(BYTES)])
    lines = whole.read_text().splitlines(keepends=True)
    for kept in (len(lines) // 2, len(lines) - 1):
        cut.write_text("".join(lines[:kept]))
        with (
            open_session(DeviceTarget(recording=cut, model="toy")) as replayed,
            pytest.raises(DeviceError, match=r"the recording ends before this \w+: it was cut short"),
        ):
            for image in IMAGES:
                replayed.invoke([image])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a whole recording .it is empty"),
        ("{", "not a whole recording"),
        ('{"recording": 2, "where": "qemu"}', "version 2, not 1"),
        ("[]", "not a whole recording"),
        *((f"{HEAD}\n{line}", "not a whole recording") for line in ("[]", '"a"', "5", '{"to": 5}', '{"x": "00"}')),
        ("[" * 200_000, "not a whole recording"),
        (HEAD.replace("qemu", "the moon"), "not a whole recording .recorded at 'the moon'"),
        (HEAD.replace("40", "-1"), "not a whole recording .-1 instructions per tick"),
        (HEAD.replace("40", '"40"'), "not a whole recording .'40' instructions per tick"),
        (HEAD, "the recording"),
    ],
)
def test_what_is_no_recording_is_reported(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(DeviceError, match=said):
        open_session(DeviceTarget(recording=path))


def test_a_recording_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"none.jsonl: No such file or directory"):
        open_session(DeviceTarget(recording=tmp_path / "none.jsonl"))


def test_a_recording_replaces_a_file_only_with_force(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text("mine")
    with pytest.raises(ToolError, match=r"session\.jsonl: is there already and differs\. .*--force"):
        DeviceSession(RecordingLink(ToyLink(program), path), model="toy").open()
    assert path.read_text() == "mine"
    with DeviceSession(RecordingLink(ToyLink(program), path, force=True), model="toy") as session:
        session.open()
    assert path.read_text().startswith('{"recording": 1') and (tmp_path / "session.jsonl.orig").read_text() == "mine"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
def test_a_disk_that_is_full_is_reported(program: Path) -> None:
    session = DeviceSession(RecordingLink(ToyLink(program), Path("/dev/full")), model="toy")
    with pytest.raises(DeviceError, match=r"^/dev/full: cannot write \(No space left on device\)"), session:
        session.open()
        for _ in range(3):
            session.invoke([IMAGES[0]])
    session.close()
