# SPDX-License-Identifier: Apache-2.0
"""The smallest arena: which apps are made to measure and prove it, and what must not pass for a proof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.scripted_link import ScriptedLink
from tests.helpers.app_specs import app as app_spec
from tests.helpers.app_specs import model as model_spec
from tests.helpers.app_specs import varied
from tests.helpers.sizing_device import Device, StackDevice
from tests.helpers.small_models import dense
from tflm_zephyr.boards.board import Board, load_board
from tflm_zephyr.cli.report import size as report
from tflm_zephyr.codegen.generation import AppRequest, generate
from tflm_zephyr.codegen.rendering import render
from tflm_zephyr.codegen.spec import AppSpec, ArenaSpec
from tflm_zephyr.errors import BoardError, DeviceError
from tflm_zephyr.options import AppConfig, ModelConfig
from tflm_zephyr.tflm import tflm_of
from tflm_zephyr.validation.arena_sizing import (
    Emulation,
    MeasuredSizes,
    emulator_for,
    measure_app,
    measuring_app,
    room_for,
)

M3, M33, NRF = (load_board(name) for name in ("mps2/an385", "mps2/an521/cpu0", "nrf9160dk/nrf9160/ns"))


def spec(*arenas: int) -> AppSpec:
    names = ("sine", "cosine")[: len(arenas)]
    models = [
        model_spec(name, arena=ArenaSpec(size, "estimated", "")) for name, size in zip(names, arenas, strict=True)
    ]
    return varied(app_spec(*models), custom__sources=("../my_op.cc",))


def sized(device: Device, app: Path, *arenas: int, board: Board = M3, emulated: Board = M3) -> MeasuredSizes:
    return measure_app(spec(*arenas), board, app, Emulation(emulated, device.build, device.link, 0.5))


def test_measured_then_proven_both_ways(tmp_path: Path) -> None:
    device = Device({"sine": 1104, "cosine": 2208})
    found = sized(device, tmp_path / "app", 1200, 2400)
    folder = tmp_path / "app" / "build" / "size" / "mps2_an385"
    assert [path for path, _ in device.built] == [folder / "measure", folder / "prove", folder / "prove"]
    sine, cosine = found.models
    assert (sine.arena.arena_bytes, sine.arena.floor_bytes, sine.estimate_bytes) == (1104, 544, 1200)
    assert (cosine.arena.arena_bytes, cosine.arena.model) == (2208, "cosine")
    assert all("AllocateTensors failed" in size.refusal for size in found.models)
    assert found.stack.used_bytes == 1000
    assert (found.target.core, found.target.kernels) == ("cortex-m3", "reference")
    source = (folder / "prove" / "tflm" / "src" / "models" / "sine.cpp").read_text()
    assert "kGeneratedArenaSize = 1088;" in source and "if (kArenaSize < 544)" in source
    assert "default 1280\n" in (folder / "prove" / "tflm" / "Kconfig").read_text()
    assert "src/measure.cpp" not in (folder / "prove" / "tflm" / "app.cmake").read_text()
    said = "\n".join(report.table([found]))
    assert "sine: arena 1104 (head 32, tail 740; the app had 1200)" in said
    assert "passes in 1104; with 16 less: AllocateTensors failed" in said
    assert report.sizes_json([found], spec(1, 1))["boards"][0]["models"][1]["less"]["bytes"] == 2192


def test_a_board_without_qemu_is_measured_on_one_with_its_core(tmp_path: Path) -> None:
    device = Device({"sine": 1104})
    found = sized(device, tmp_path / "app", 1200, board=NRF, emulated=M33)
    assert {board for _, board in device.built} == {"mps2/an521/cpu0"}
    assert found.target.core == "cortex-m33"
    assert found.models[0].arena.board == "mps2/an521/cpu0"
    assert "measured on mps2/an521/cpu0" in report.table([found])[0]


@pytest.mark.parametrize(
    ("device", "tells"),
    [
        (Device({"sine": 1104}, tight_fails=True), "sine failed in the arena that was measured"),
        (Device({"sine": 1104}, stacks=False), "does not report how much of its stacks was used"),
    ],
)
def test_what_is_no_proof(tmp_path: Path, device: Device, tells: str) -> None:
    with pytest.raises(DeviceError, match=tells):
        sized(device, tmp_path / "app", 1200)


def test_a_smaller_arena_that_runs_too_is_an_error(tmp_path: Path) -> None:
    device = Device({"sine": 1104})
    real: Callable[[Board, Path], ScriptedLink] = device.link

    def link(board: Board, app: Path) -> ScriptedLink:
        if app.name == "prove":
            device.needs["sine"] = 1000
        return real(board, app)

    device.link = link  # type: ignore[method-assign]
    with pytest.raises(DeviceError, match="sine also runs in 1088 bytes, 16 less than the smallest"):
        sized(device, tmp_path / "app", 1200)


def test_emulators_by_core() -> None:
    known = [NRF, M3, M33]
    assert emulator_for(M3, known) is M3
    assert emulator_for(NRF, known) is M33
    with pytest.raises(BoardError, match="QEMU has its core, cortex-m7"):
        emulator_for(Board("a/b", core="cortex-m7"), known)
    with pytest.raises(BoardError, match="its core is not known"):
        emulator_for(Board("a/b"), known)


def test_the_measuring_app_has_room_and_the_users_sources(tmp_path: Path) -> None:
    app, folder = tmp_path / "app", tmp_path / "app" / "build" / "size" / "x" / "measure"
    made = measuring_app(spec(1000, 200_000), M3, app, folder)
    assert [item.arena.bytes for item in made.models] == [66528, 400_000]
    assert made.boards == (M3,)
    assert made.custom.sources == ("../../../../../my_op.cc",)
    assert (made.program.measure, made.main_stack_bytes) == (True, 8192)
    files = render(made)
    assert {"src/measure.cpp", "src/measure.hpp"} <= set(files)
    assert b"models::cosine::UseArena(0), 400000," in files["src/run.cpp"]


def test_room_is_what_the_board_has() -> None:
    small = replace(M3, ram_kib=256)
    assert [m.arena.bytes for m in room_for(spec(1000, 90_000), small).models] == [66528, 98_304]
    with pytest.raises(BoardError, match="too little RAM to measure these models"):
        room_for(spec(1000, 190_000), small)


def test_other_apps_have_nothing_of_it() -> None:
    files = render(spec(1000))
    assert not any("measure" in path for path in files)
    assert not any(b"UseArena" in data or b"measure.hpp" in data for data in files.values())
    assert b"INIT_STACKS" not in files["Kconfig"]


def compiled_app(folder: Path) -> AppSpec:
    model = folder / "dense.tflite"
    model.write_bytes(dense())
    config = AppConfig((ModelConfig(model),), "app", (M3.name,), kernels="reference", backend="compiled")
    return generate(AppRequest(config, folder / "app", tflm_of(None), golden=False)).spec


def test_a_planned_arena_leaves_the_stack_to_measure(tmp_path: Path) -> None:
    """Compiled code needs no search: one build with a roomy stack, one with the stack found."""
    compiled = compiled_app(tmp_path)
    device = StackDevice(used=600)
    found = measure_app(compiled, M3, tmp_path / "app", Emulation(M3, device.build, device.link, 0.5))
    assert found.models == ()
    assert found.stack.used_bytes == 600
    assert device.stacks == [8192, found.stack.stack_bytes]
    assert "planned to the byte" in "\n".join(report.table([found]))
    assert report.sizes_json([found], compiled)["arenas"]["dense"]["source"] == "planned"


def test_a_stack_that_does_not_hold_is_no_proof(tmp_path: Path) -> None:
    compiled = compiled_app(tmp_path)
    device = StackDevice(used=600, fails_below=8192)
    with pytest.raises(DeviceError, match="dense failed with a main stack of"):
        measure_app(compiled, M3, tmp_path / "app", Emulation(M3, device.build, device.link, 0.5))
