# SPDX-License-Identifier: Apache-2.0
"""The app that prints TFLM's allocations by section, and the parser of its output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.records import begin, self_test, with_end
from tests.helpers.app_specs import app as app_spec
from tests.helpers.app_specs import model as model_spec
from tflm_zephyr.boards.board import load_board
from tflm_zephyr.cli.report import text
from tflm_zephyr.codegen.backends.interpreter_spec import PreallocatedSpec, StaticPlan
from tflm_zephyr.codegen.recording_app import folder_of, recording_app, write_recording_app
from tflm_zephyr.codegen.rendering import render
from tflm_zephyr.device.console.records import RecordReader
from tflm_zephyr.errors import AppError

M3 = load_board("mps2/an385")
PRINTED = [
    "[RecordingMicroAllocator] Arena allocation total 1500 bytes",
    "[RecordingMicroAllocator] 'TfLiteEvalTensor data' used 240 bytes with alignment overhead "
    "(requested 240 bytes for 20 allocations)",
    "[RecordingMicroAllocator] 'Persistent buffer data' used 160 bytes with alignment overhead "
    "(requested 150 bytes for 4 allocations)",
]


def test_sections_come_with_the_result() -> None:
    lines = self_test()
    reader = RecordReader("qemu")
    told = [lines[0], *PRINTED, *lines[1:]]
    results = [result for line in told if (result := reader.feed(line)) is not None]
    assert len(results) == 1
    assert [(s.name, s.used_bytes, s.requested_bytes, s.count) for s in results[0].sections] == [
        ("TfLiteEvalTensor data", 240, 240, 20),
        ("Persistent buffer data", 160, 150, 4),
    ]
    assert results[0].to_json()["sections"][1]["used_bytes"] == 160
    said = text.results(results, {"sine": [None]})
    assert "240 TfLiteEvalTensor data (20 for 240)" in said
    assert "100 not recorded" in said  # of a tail of 500
    assert [reader.feed(line) for line in with_end([begin()])][-1].to_json().get("sections") is None  # type: ignore[union-attr]


def test_the_app_that_records(tmp_path: Path) -> None:
    folder = write_recording_app(app_spec(), M3, tmp_path / "app")
    assert folder == folder_of(tmp_path / "app", M3)
    source = (folder / "tflm" / "src" / "models" / "net.cpp").read_text()
    assert "RecordingMicroAllocator::Create(g_arena, kArenaSize)" in source and "PrintAllocations()" in source
    assert "kGeneratedArenaSize = 1536;" in source
    cmake = (folder / "tflm" / "cmake" / "tflm.cmake").read_text()
    assert "recording_micro_allocator.cc" in cmake and "STRIP_ERROR_STRINGS" not in cmake
    plain = render(app_spec())
    assert not any(b"Recording" in data or b"recording_" in data for data in plain.values())


def test_zephyrs_library_has_the_sources_itself(tmp_path: Path) -> None:
    made = recording_app(app_spec(tflm__form="module"), M3, tmp_path, tmp_path / "x")
    assert made.tflm.sources == app_spec().tflm.sources


@pytest.mark.parametrize(
    "changes",
    [
        {"static_plan": StaticPlan(((16, 0),), 16)},
        {"preallocated": (PreallocatedSpec(0, "x", "frame", 64),)},
    ],
)
def test_what_cannot_be_recorded(tmp_path: Path, changes: dict[str, object]) -> None:
    spec = app_spec(model_spec(**changes))
    with pytest.raises(AppError, match="net: TFLM's recording allocator needs TFLM's planner"):
        recording_app(spec, M3, tmp_path, tmp_path / "x")
