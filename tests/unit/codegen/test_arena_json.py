# SPDX-License-Identifier: Apache-2.0
"""Measured sizes: kept, taken where they hold, and given up with a reason where they do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.app_specs import app as app_spec
from tests.helpers.app_specs import changed, varied
from tests.helpers.app_specs import model as model_spec
from tests.helpers.command_line import Tool
from tflm_zephyr.boards.board import load_board
from tflm_zephyr.build.toolchain import compiler_here
from tflm_zephyr.codegen.arena_json import (
    ArenaMeasurement,
    Measurements,
    MeasurementTarget,
    StackMeasurement,
    applied,
    data_sha256,
    dump_measurements,
    load_measurements,
    measurements_path,
    target_of,
)
from tflm_zephyr.codegen.custom_operators import code_sha256
from tflm_zephyr.codegen.spec import AppSpec, ArenaSpec
from tflm_zephyr.errors import AppError
from tflm_zephyr.options import CustomOperatorConfig
from tflm_zephyr.tflm.pins import PINNED_ZEPHYR

M3, M33 = load_board("mps2/an385"), load_board("nrf9160dk/nrf9160")


def spec(*boards: str) -> AppSpec:
    models = tuple(model_spec(name, arena=ArenaSpec(2000, "estimated", "guess")) for name in ("a", "b"))
    found = tuple(load_board(name) for name in boards or ("mps2/an385",))
    return replace(app_spec(), models=models, boards=found, kernels=("reference",), main_stack_bytes=4096)


def measured(of: AppSpec, board: str = "mps2/an385", size: int = 1104, compiler: str = "") -> Measurements:
    target = target_of(of, load_board(board), compiler=compiler)
    assert target is not None
    arenas = tuple(
        ArenaMeasurement(item.ident, data_sha256(item), target, board, size, size // 2, 32, 740) for item in of.models
    )
    shas = tuple(sorted(data_sha256(item) for item in of.models))
    return Measurements(arenas, (StackMeasurement(shas, target, board, 1000),))


def test_what_holds_is_taken() -> None:
    app, notes = applied(spec(), measured(spec()), stack=True)
    assert notes == ()
    assert [(item.arena.bytes, item.arena.source, item.arena.floor_bytes) for item in app.models] == [
        (1104, "measured", 552)
    ] * 2
    note = app.models[0].arena.note
    assert "QEMU on mps2/an385 (cortex-m3, reference kernels, TFLM " in note and "1088 fails" in note
    assert app.main_stack_bytes == 1280  # (1000 + 104) * 9 / 8 = 1242, up to a multiple of 64
    assert applied(spec(), measured(spec()), stack=False)[0].main_stack_bytes == 4096


def test_nothing_measured_changes_nothing() -> None:
    assert applied(spec(), Measurements(), stack=True) == (spec(), ())


def test_a_size_that_the_user_gave_stays() -> None:
    given = replace(spec(), models=tuple(replace(m, arena=ArenaSpec(5, "given", "")) for m in spec().models))
    assert applied(given, measured(spec()), stack=True)[0].models == given.models


Change = Callable[[AppSpec], AppSpec]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda s: replace(s, models=tuple(changed(m, data=b"other") for m in s.models)), "stale (model or plan)"),
        (lambda s: varied(s, tflm__revision="f" * 40), "stale (TFLM revision)"),
        (lambda s: varied(s, tflm__debug=True), "stale (build options)"),
        (lambda s: varied(s, zephyr__version="9.9.9"), "stale (Zephyr version)"),
        (lambda s: varied(s, zephyr__version="4.1.99", zephyr__commit="f" * 40), "stale (Zephyr version)"),
        (lambda s: varied(s, custom__sha256="f" * 64), "stale (custom operators)"),
        (lambda s: varied(s, tflm__form="module", tflm__revision="f" * 40), "stale (TFLM revision, build options)"),
        (lambda s: replace(s, kernels=("cmsis_nn",)), "nothing was measured for cortex-m3 with cmsis_nn kernels"),
        (lambda s: replace(s, boards=(M33,)), "nothing was measured for cortex-m33 with reference kernels"),
        (lambda s: replace(s, boards=(M3, M33)), "nothing was measured for cortex-m33 with reference kernels"),
        (lambda s: replace(s, boards=(load_board("some/board"),)), "as the core is not known"),
    ],
)
def test_what_no_longer_holds_is_given_up_with_a_line(change: Change, why: str) -> None:
    app, notes = applied(change(spec()), measured(spec()), stack=True)
    assert [item.arena.source for item in app.models] == ["estimated"] * 2
    assert app.main_stack_bytes == 4096
    assert len(notes) == 2
    assert notes[0].startswith("a: ") and why in notes[0] and notes[0].endswith("measures it again")


def test_another_cmsis_nn_makes_what_was_measured_with_it_stale() -> None:
    app = varied(spec(), kernels=("cmsis_nn",), tflm__cmsis_nn_revision="a" * 40)
    found = measured(app)
    assert applied(app, found, stack=True)[1] == ()
    (note, *_) = applied(varied(app, tflm__cmsis_nn_revision="b" * 40), found, stack=True)[1]
    assert "stale (CMSIS-NN revision)" in note
    plain = varied(spec(), tflm__cmsis_nn_revision="a" * 40)  # an app for several boards may have both libraries
    assert applied(varied(plain, tflm__cmsis_nn_revision="b" * 40), measured(plain), stack=True)[1] == ()


def test_another_compiler_makes_what_was_measured_stale() -> None:
    """An older file tells none, which does not hold where one is known; where none is known, every one holds."""
    one, other = "GCC 12.2.1, picolibc", "GCC 12.2.1, newlib"
    found = measured(spec(), compiler=one)
    for here in (one, ""):
        app, notes = applied(spec(), found, stack=True, compiler=here)
        assert notes == () and app.models[0].arena.source == "measured" and app.main_stack_bytes == 1280
    for before in (other, ""):
        app, notes = applied(spec(), measured(spec(), compiler=before), stack=True, compiler=one)
        assert "stale (compiler or C library): estimated" in notes[0]
        assert app.models[0].arena.source == "estimated" and app.main_stack_bytes == 4096


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"arena_bytes": 5, "floor_bytes": 0, "head_bytes": 0},
            r"arenas\[1\].arena_bytes wants a multiple of 16, not 5",
        ),
        ({"head_bytes": 40}, r"arenas\[1\].head_bytes wants a multiple of 16, not 40"),
        ({"floor_bytes": 2000}, r"arenas\[1\]: floor_bytes is above the arena's 1104: 2000"),
        ({"head_bytes": 9792}, r"arenas\[1\]: head_bytes is above the arena's 1104: 9792"),
    ],
)
def test_sizes_that_nothing_can_have_measured(tmp_path: Path, change: dict[str, int], says: str) -> None:
    raw = json.loads(dump_measurements(measured(spec())))
    raw["arenas"][1].update(change)
    arena_file(tmp_path).write_text(json.dumps(raw))
    with pytest.raises(AppError, match=says):
        load_measurements(tmp_path)


def test_several_cores_get_the_largest() -> None:
    both = spec("mps2/an385", "nrf9160dk/nrf9160", "nrf9160dk/nrf9160/ns")
    found = measured(both)
    more = measured(both, "nrf9160dk/nrf9160", 1200)
    app, notes = applied(both, found.with_new(more.arenas, more.stacks), stack=True)
    assert notes == ()
    assert {item.arena.bytes for item in app.models} == {1200}
    assert {item.arena.floor_bytes for item in app.models} == {600}
    assert "the most of 2 boards' cores" in app.models[0].arena.note


def test_new_ones_replace_those_of_the_same_core_and_kernels() -> None:
    old = measured(spec())
    new = measured(varied(spec(), tflm__revision="f" * 40), size=1200)
    merged = old.with_new(new.arenas, new.stacks)
    assert merged == new
    other = replace(new.arenas[0], target=MeasurementTarget("cortex-m33", "cmsis_nn", "f" * 40, "selected"))
    assert len(old.with_new([other], []).arenas) == 3


def test_kept_in_a_file_and_read_again(tmp_path: Path) -> None:
    found = measured(spec())
    arena_file(tmp_path).write_bytes(dump_measurements(found))
    assert load_measurements(tmp_path) == found
    assert load_measurements(tmp_path / "none") == Measurements()
    assert dump_measurements(found) == dump_measurements(load_measurements(tmp_path))


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw["arenas"][0].update(arena_bytes="big"),
        lambda raw: raw["arenas"][0].update(arena_bytes=-1),
        lambda raw: raw["arenas"][0].update(arena_bytes=True),
        lambda raw: raw["arenas"][0].update(more=1),
        lambda raw: raw["arenas"][0].pop("model"),
        lambda raw: raw["arenas"][0].update(target=[]),
        lambda raw: raw["stacks"][0].update(models=3),
        lambda raw: raw.update(stack=raw.pop("stacks")),
        lambda raw: raw.update(arenas="x"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, change: Callable[[dict[str, object]], object]) -> None:
    raw = json.loads(dump_measurements(measured(spec())))
    change(raw)
    arena_file(tmp_path).write_text(json.dumps(raw))
    with pytest.raises(AppError, match=r"arena\.json: unreadable"):
        load_measurements(tmp_path)


def arena_file(app: Path) -> Path:
    """The path of the measurements in `app`, with its folder made."""
    measurements_path(app).parent.mkdir(exist_ok=True)
    return measurements_path(app)


@pytest.mark.usefixtures("fixed_reference")
def test_generate_takes_it_from_beside_the_app(tool: Tool, model_file: Path) -> None:
    assert tool("generate", model_file, "-o", "app", "-b", "mps2/an385", "--kernels", "reference").code == 0
    made = tool("generate", "-o", "app", "--json").json
    estimate = made["models"][0]["arena"]["bytes"]
    source = Path("app/tflm/src/models/net.cpp")
    assert "GetDefaultTailUsage" in source.read_text()
    data = Path("app/tflm/src/models/net.tflite").read_bytes()
    zephyr = PINNED_ZEPHYR.revision or PINNED_ZEPHYR.version
    compiler = compiler_here()
    target = MeasurementTarget(
        "cortex-m3", "reference", made["tflm_revision"], "selected", zephyr=zephyr, compiler=compiler
    )
    item = model_spec("net", data=data)
    one = ArenaMeasurement("net", data_sha256(item), target, "mps2/an385", estimate - 32, 400, 64, 200)
    Path("app/tflm/arena.json").write_bytes(dump_measurements(Measurements((one,), ())))
    assert tool("generate", "-o", "app", "--check").code == 1  # the app is older
    assert tool("generate", "-o", "app").code == 0
    text = source.read_text()
    assert f"kGeneratedArenaSize = {estimate - 32};" in text
    assert "// Measured: the smallest that allocates and runs" in text
    assert "if (kArenaSize < 400) {" in text and "GetDefaultTailUsage" not in text
    assert tool("generate", "-o", "app", "--check").code == 0
    Path("app/tflm/arena.json").write_bytes(dump_measurements(Measurements((replace(one, data_sha256="0" * 64),), ())))
    stale = tool("generate", "-o", "app")
    assert "note: net: the measured size is stale (model or plan): estimated" in stale.out
    assert f"kGeneratedArenaSize = {estimate};" in source.read_text()


def test_custom_operators_code_is_recognised_by_its_bytes(tmp_path: Path) -> None:
    source, header = tmp_path / "op.cc", tmp_path / "op.h"
    source.write_text("int a;")
    header.write_text("int b;")
    custom = CustomOperatorConfig("MyOp", "Register_MY_OP", "op.h", (source,))
    seen = {code_sha256(()), code_sha256([custom])}
    for path in (source, header):
        path.write_text("int c;")
        seen.add(code_sha256([custom]))
    assert len(seen) == 4 and "" in seen
