# SPDX-License-Identifier: Apache-2.0
"""Whether an app fits a board: sums and bounds from tables made up here, then from the shipped ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tests.helpers.app_specs import changed, varied
from tflm_zephyr.boards.board import Board, known_boards, load_board
from tflm_zephyr.codegen.backends.interpreter_spec import (
    CallSpec,
    InterpreterSpec,
    PreallocatedSpec,
    ResolverSpec,
    StaticPlan,
)
from tflm_zephyr.codegen.spec import (
    AppSpec,
    ArenaSpec,
    CustomCode,
    GoldenSpec,
    ModelSpec,
    ProgramSpec,
    TensorSpec,
    TflmBuild,
)
from tflm_zephyr.footprint import board_sizes
from tflm_zephyr.footprint.board_sizes import BoardBase, dump_bases
from tflm_zephyr.footprint.estimate import (
    CLOSE,
    NO,
    UNKNOWN,
    YES,
    RegionEstimate,
    Runs,
    golden_bytes,
    verdict,
)
from tflm_zephyr.kernels import code_size
from tflm_zephyr.kernels.code_size import RESOLVER_ENTRY_BYTES, Bytes, KernelRow, KernelTable, dump_tables
from tflm_zephyr.options import ModelConfig
from tflm_zephyr.tflm.pins import PINNED_REVISION
from tflm_zephyr.tflm.zephyr_version import ZephyrVersion

DIV, EXP = "libgcc.a(_div.o).text", "libm.a(exp.o).text"
M3 = Board("one/m3", description="made up", core="cortex-m3", flash_kib=64, ram_kib=16)
M4 = Board("two/m4", description="made up", core="cortex-m4", flash_kib=64, ram_kib=16)
TENSOR = TensorSpec("x", "int8", "int8_t", "kTfLiteInt8", (1, 10), 10, 10)


def table(core: str, library: str, conv: int) -> KernelTable:
    return KernelTable(
        core,
        library,
        PINNED_REVISION,
        (Bytes(conv, 4), Bytes(300, 0), Bytes(9000, 64)),
        {DIV: Bytes(50, 0), EXP: Bytes(400, 0)},
        {
            "Register_CONV_2D": KernelRow((0, 1), (DIV,), 100),
            "Register_SOFTMAX": KernelRow((1,), (DIV, EXP), 100),
            "Register_HUGE": KernelRow((2,), (), 100),
        },
        40,
        90,
        600,
    )


BASE = BoardBase("one/m3", "cortex-m3", 20_000, 3_000, 1_024, 700, 80, (-10, 30), (0, 8), frozenset({DIV}), "4.1.0")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tables of two cores for each library, and of one board."""
    tables = [
        table("cortex-m3", "reference", 2000),
        table("cortex-m33", "reference", 2100),
        table("cortex-m3", "cmsis_nn", 5000),
        table("cortex-m33", "cmsis_nn", 5600),
    ]
    monkeypatch.setattr(code_size, "package_data", lambda name: dump_tables(tables))
    monkeypatch.setattr(board_sizes, "package_data", lambda name: dump_bases([BASE], PINNED_REVISION))
    code_size.all_tables.cache_clear()
    board_sizes.all_bases.cache_clear()
    yield
    code_size.all_tables.cache_clear()
    board_sizes.all_bases.cache_clear()


def model(ident: str = "net", *registrations: str, data: int = 1000, arena: int = 2000, runs: int = 0) -> ModelSpec:
    calls = tuple(CallSpec(f"Add{name}()") for name in registrations)
    run = GoldenSpec((bytes(10),), (bytes(10),))
    return ModelSpec(
        name=ident,
        ident=ident,
        sha256="0" * 64,
        inputs=(TENSOR,),
        outputs=(TENSOR,),
        arena=ArenaSpec(arena, "estimated", ""),
        runtime=InterpreterSpec(bytes(data), False, ResolverSpec(calls), registrations),
        golden=(run,) * runs,
    )


def app(*models: ModelSpec, board: Board = M3, **changes: object) -> AppSpec:
    spec = AppSpec(
        name="app",
        models=models,
        boards=(board,),
        kernels=("cmsis_nn",),
        tflm=TflmBuild("selected", PINNED_REVISION, {}),
        zephyr=ZephyrVersion("4.1.0"),
        main_stack_bytes=1536,
    )
    return varied(spec, **changes)


@pytest.mark.parametrize("name", sorted(set(known_boards()) - set(board_sizes.measured_boards())))
def test_a_described_board_without_a_row(name: str) -> None:
    """It is never shown as measured: another board stands in, the note names it, and the bound is wide."""
    board = load_board(name)
    found = verdict(app(model("net", "Register_CONV_2D"), board=board), board)
    if not (board.core).startswith("cortex-m"):  # no board of its architecture was measured
        assert (found.fits, found.flash, found.ram) == (UNKNOWN, None, None)
        return
    assert found.notes[0].startswith("this board was not measured: ") and found.flash is not None
    assert (found.flash.above_bytes or 0) > found.flash.used_bytes // 10


@pytest.mark.usefixtures("made")
def test_the_sum_of_parts() -> None:
    net = model("net", "Register_CONV_2D", "Register_SOFTMAX", runs=2)
    spec = app(net)
    found = verdict(spec, spec.boards[0])
    golden = 2 * (10 + 10) + 1 + 8 + 17 + 4
    assert golden_bytes(net, 2) == golden
    kernels = 5000 + 300 + 400  # what both share once, and nothing that the app has anyway
    assert found.library == "cmsis_nn" and found.flash is not None and found.ram is not None
    assert sum(part.flash_bytes for part in found.parts) == 20_000 + kernels + 1000 + golden
    assert sum(part.ram_bytes for part in found.parts) == 3_000 + 2 * RESOLVER_ENTRY_BYTES + 4 + 2000 + 32 + 1536
    # The estimate stands in the middle of what real apps took more or less; half of that is the bound.
    assert found.flash.used_bytes == 20_000 + kernels + 1000 + golden + 10
    assert found.flash.below_bytes == found.flash.above_bytes == 20 + 16 + 4 * 2 + kernels // 100
    assert found.ram.used_bytes == 3_000 + 2 * RESOLVER_ENTRY_BYTES + 4 + 2000 + 32 + 1536 + 4
    assert found.ram.below_bytes == 4 + 2 * 16
    assert (found.flash.available_bytes, found.ram.available_bytes) == (64 * 1024, 16 * 1024)
    assert found.fits == YES and found.notes == () and found.reason == ""


@pytest.mark.usefixtures("made")
def test_runs_are_those_given_where_the_app_has_none_yet() -> None:
    with_runs = verdict(app(model("net", "Register_CONV_2D", runs=3)), M3)
    without = verdict(app(model("net", "Register_CONV_2D")), M3, Runs((3,)))
    assert with_runs == without
    none = verdict(app(model("net", "Register_CONV_2D")), M3)
    assert none.flash is not None and without.flash is not None
    assert without.flash.used_bytes - none.flash.used_bytes == 3 * 20 + 1 + 8


@pytest.mark.usefixtures("made")
def test_a_further_model_adds_its_parts_and_its_share_of_code() -> None:
    one = verdict(app(model("a", "Register_CONV_2D")), M3)
    two = verdict(app(model("a", "Register_CONV_2D"), model("b", "Register_CONV_2D", data=500, arena=300)), M3)
    assert one.flash is not None and two.flash is not None and one.ram is not None and two.ram is not None
    assert two.flash.used_bytes - one.flash.used_bytes == 700 + 500 + 17 + 4
    assert two.ram.used_bytes - one.ram.used_bytes == 80 + RESOLVER_ENTRY_BYTES + 300 + 32


@pytest.mark.usefixtures("made")
def test_float_outputs_are_compared_by_code_of_their_own() -> None:
    net = model("net", "Register_CONV_2D")
    floats = replace(net, outputs=(replace(TENSOR, type="float32", c_type="float"),))
    plain, compared = verdict(app(net), M3), verdict(app(floats), M3)
    assert plain.flash is not None and compared.flash is not None
    assert compared.flash.used_bytes > plain.flash.used_bytes
    assert compared.flash.below_bytes > plain.flash.below_bytes  # this core has no FPU


@pytest.mark.usefixtures("made")
def test_reference_kernels_take_their_own_table() -> None:
    net = model("net", "Register_CONV_2D")
    cmsis, reference = (verdict(app(net, kernels=(name,)), M3) for name in ("cmsis_nn", "reference"))
    assert cmsis.flash is not None and reference.flash is not None
    assert cmsis.flash.used_bytes - reference.flash.used_bytes == 3000
    both = verdict(app(net, kernels=("cmsis_nn", "reference")), M3)
    assert both == cmsis  # a Cortex-M takes CMSIS-NN of the two


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(("data", "fits"), [(20_000, YES), (38_500, CLOSE), (60_000, NO)])
def test_words(data: int, fits: str) -> None:
    net = model("net", "Register_CONV_2D", data=data)
    found = verdict(app(net), M3)
    assert found.flash is not None and found.ram is not None
    if fits == CLOSE:
        data += 64 * 1024 - found.flash.used_bytes  # to the byte what there is
        found = verdict(app(changed(net, data=bytes(data))), M3)
        assert found.flash is not None
        assert found.flash.used_bytes == found.flash.available_bytes and found.flash.over_bytes == 0
    assert found.fits == fits and (found.flash.over_bytes > 0) == (fits == NO)


@pytest.mark.usefixtures("made")
def test_ram_alone_may_be_too_small() -> None:
    found = verdict(app(model("net", "Register_CONV_2D", arena=20_000)), M3)
    assert found.flash is not None and found.ram is not None
    assert (found.flash.fits, found.ram.fits, found.fits) == (YES, NO, NO)


@pytest.mark.usefixtures("made")
def test_what_was_not_measured_widens_the_bound_and_is_said() -> None:
    known = verdict(app(model("net", "Register_CONV_2D")), M3)
    own = verdict(app(model("net", "Register_CONV_2D", "Register_MINE()", "Register_LATER")), M3)
    assert known.flash is not None and own.flash is not None
    assert own.flash.used_bytes == known.flash.used_bytes and own.flash.below_bytes == known.flash.below_bytes
    assert known.flash.above_bytes is not None
    assert own.flash.above_bytes == known.flash.above_bytes + 2 * 9000  # the largest kernel of all, for each
    assert any("Register_MINE)" in note for note in own.notes) and any("Register_LATER" in note for note in own.notes)


@pytest.mark.usefixtures("made")
def test_another_core_or_board_stands_in() -> None:
    net = model("net", "Register_CONV_2D")
    here, there = verdict(app(net), M3), verdict(app(net, board=M4), M4)
    assert here.flash is not None and there.flash is not None
    assert there.flash.below_bytes >= here.flash.below_bytes + 600  # as much as measured cores differ
    assert any("one/m3 stands in" in note for note in there.notes)
    assert any("not measured for cortex-m4" in note for note in there.notes)
    revision = verdict(app(net), replace(M3, name="one@1.2/m3"))
    assert revision.flash == here.flash and revision.notes == ()


@pytest.mark.usefixtures("made")
def test_no_verdict_where_nothing_is_known() -> None:
    net = app(model("net", "Register_CONV_2D"))
    unknown = verdict(net, Board("any/board"))
    assert unknown.fits == UNKNOWN and unknown.flash is None and "size of its memory" in unknown.reason
    other = verdict(net, replace(M3, name="x/y", core="xtensa"))
    assert other.fits == UNKNOWN and other.ram is None and "xtensa" in other.reason
    riscv = verdict(net, Board("x/y", arch="riscv", flash_kib=64, ram_kib=16))
    assert riscv.fits == UNKNOWN and riscv.flash is None and "riscv" in riscv.reason


@pytest.mark.usefixtures("made")
def test_a_board_from_the_workspace_gets_a_wide_bound() -> None:
    net = app(model("net", "Register_CONV_2D"))
    here, there = verdict(net, M3), verdict(net, Board("x/y", arch="arm", flash_kib=64, ram_kib=16))
    assert here.flash is not None and there.flash is not None and there.fits == YES
    assert here.ram is not None and there.ram is not None
    assert there.ram.used_bytes == here.ram.used_bytes + 2048 - 768  # Zephyr's own interrupt stack
    assert there.flash.below_bytes >= here.flash.below_bytes + 600  # as much as measured cores differ
    assert any("stands in" in note for note in there.notes) and any("after a build" in note for note in there.notes)
    assert verdict(net, Board("x/y", arch="arm", flash_kib=20, ram_kib=16)).fits == NO


@pytest.mark.usefixtures("made")
def test_flash_that_the_app_cannot_have() -> None:
    net = app(model("net", "Register_CONV_2D"))
    whole, less = verdict(net, M3).flash, verdict(net, replace(M3, flash_reserved_bytes=749)).flash
    assert whole is not None and less is not None
    assert whole.available_bytes - less.available_bytes == 749
    # A non-secure image of nRF9160 is signed for TF-M's boot loader: 317 bytes of records, 432 of trailer.
    assert load_board("nrf9160dk/nrf9160/ns").flash_reserved_bytes == 317 + 432


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"tflm__revision": "f" * 40}, "TFLM ffff"),
        ({"tflm__revision": ""}, "TFLM of no"),
        ({"zephyr__version": "4.2.0"}, "Zephyr 4.2.0"),
        ({"tflm__cmsis_nn_revision": "e" * 40}, "CMSIS-NN eeee"),
    ],
)
def test_another_revision_than_was_measured(changes: dict[str, object], word: str) -> None:
    net = app(model("net", "Register_CONV_2D"))
    known, other = verdict(net, M3), verdict(varied(net, **changes), M3)
    assert known.flash is not None and other.flash is not None and known.ram is not None and other.ram is not None
    assert known.flash.above_bytes is not None and other.flash.above_bytes is not None
    assert other.flash.above_bytes >= known.flash.above_bytes + (20_000 + 5300) // 10
    assert other.flash.below_bytes - known.flash.below_bytes == other.flash.above_bytes - known.flash.above_bytes
    assert other.ram.below_bytes > known.ram.below_bytes
    assert any(word in note and "stands in" in note for note in other.notes) and not known.notes


@pytest.mark.usefixtures("made")
def test_an_arena_whose_need_is_not_known() -> None:
    net = model("net", "Register_CONV_2D")
    found = verdict(app(replace(net, arena=replace(net.arena, unknown=("MyOp",)))), M3)
    assert found.flash is not None and found.ram is not None
    assert found.flash.fits == YES and found.ram.above_bytes is None and found.fits == UNKNOWN
    assert any("MyOp" in note for note in found.notes)


@pytest.mark.usefixtures("made")
def test_reference_data_that_may_not_come_about() -> None:
    net = model("net", "Register_CONV_2D")
    sure, unsure = (verdict(app(net), M3, Runs((4,), (known,))) for known in (True, False))
    assert sure.flash is not None and unsure.flash is not None
    assert (sure.flash.used_bytes, sure.flash.above_bytes) == (unsure.flash.used_bytes, unsure.flash.above_bytes)
    golden = golden_bytes(net, 4) - golden_bytes(net, 0)
    assert unsure.flash.below_bytes == sure.flash.below_bytes + golden
    assert any(f"{golden} bytes less" in note for note in unsure.notes) and not sure.notes


def test_fewer_runs_but_none_that_are_not_there() -> None:
    asked = [ModelConfig(Path("a.tflite"), runs=runs) for runs in (1, 5)]
    assert Runs((3, 0), (True, False)).at_most(asked) == Runs((1, 0), (True, False))


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(("changes", "word"), [({"tflm__debug": True}, "debug"), ({"tflm__form": "module"}, "library")])
def test_builds_that_were_not_measured_have_a_lower_bound(changes: dict[str, object], word: str) -> None:
    found = verdict(app(model("net", "Register_CONV_2D"), **changes), M3)
    assert found.flash is not None and found.flash.above_bytes is None and found.fits == UNKNOWN
    assert any(word in note for note in found.notes)
    assert verdict(app(model("net", "Register_CONV_2D", data=70_000), **changes), M3).fits == NO


def test_use() -> None:
    assert RegionEstimate(100, 10, 10, 110).fits == YES
    assert RegionEstimate(100, 10, 10, 109).fits == CLOSE
    assert RegionEstimate(100, 10, 10, 90).fits == CLOSE
    assert RegionEstimate(100, 10, 10, 89).fits == NO
    assert RegionEstimate(100, 10, None, 89).fits == NO and RegionEstimate(100, 10, None, 1000).fits == UNKNOWN
    assert RegionEstimate(100, 10, 10, 89).over_bytes == 11 and RegionEstimate(100, 10, 10, 110).over_bytes == 0


@pytest.mark.parametrize("kernels", ["reference", "cmsis_nn"])
def test_the_shipped_tables(kernels: str) -> None:
    """A small model fits the non-secure nRF9160, one of 276,976 bytes does not, and is right for the larger target."""
    boards = {name: load_board(name) for name in ("nrf9160dk/nrf9160/ns", "nrf9160dk/nrf9160", "mps2/an385")}
    dense = "Register_FULLY_CONNECTED_INT8"
    small, large = (
        app(model("net", dense, data=size), kernels=(kernels,), tflm__revision=PINNED_REVISION)
        for size in (2704, 276_976)
    )
    for board in boards.values():
        found = verdict(small, board)
        assert found.fits == YES and found.notes == (), board.name
        assert found.flash is not None and found.flash.above_bytes is not None
        assert found.flash.above_bytes < 0.05 * found.flash.used_bytes
    assert [verdict(large, board).fits for board in boards.values()] == [NO, YES, YES]


SLOTS = StaticPlan(((16, 0), (32, 16)), 48)
BUFFER = PreallocatedSpec(0, "x", "frame", 512)
OTHERWISE: dict[str, object] = {
    "models": (),
    "kernels": ("reference",),
    "tflm__form": "module",
    "tflm__revision": "another",
    "tflm__cmsis_nn_revision": "another",
    "zephyr__version": "4.2.0",
    "main_stack_bytes": 2048,
    "tflm__debug": True,
    "shared_arena": ArenaSpec(3000, "estimated", ""),
    "program__measure": True,
    "program__stack_use": True,
    "program__record": True,
    "program__host_link": True,
}
"""Each field of an app that changes its size, and another value."""
MODEL_OTHERWISE: dict[str, object] = {
    "data": bytes(1200),
    "inputs": (replace(TENSOR, elements=20, bytes=20),),
    "outputs": (replace(TENSOR, elements=20, bytes=20),),
    "resolver": ResolverSpec((CallSpec("AddA()"), CallSpec("AddB()"))),
    "arena": ArenaSpec(3000, "given", ""),
    "golden": (),
    "registrations": ("Register_SOFTMAX",),
    "preallocated": (BUFFER,),
    "static_plan": SLOTS,
}
# Names and remarks, what is counted by another field (sources by registrations), and what does not change sizes.
NO_SIZE = {
    "name", "boards", "tflm__sources", "tflm__include_dirs", "west_modules", "zephyr__ncs", "zephyr__commit",
    "model_data", "tflm__cmsis_nn_sources", "custom__sources", "custom__sha256", "custom__include_dirs",
    "overlap_kernels", "backend", "library",
}  # fmt: skip
MODEL_NO_SIZE = {
    "name", "ident", "sha256", "planned", "golden_source", "resource_variables", "operators", "tensors",
    "custom_headers",
}  # fmt: skip


@pytest.mark.usefixtures("made")
def test_every_field_of_an_app_is_counted_or_has_no_size() -> None:
    net = model("net", "Register_CONV_2D", runs=1)
    plain = verdict(app(net), M3)
    for name, value in OTHERWISE.items():
        other = verdict(app(net, **{name: value}) if name != "models" else app(net, net), M3)
        assert (other.flash, other.ram) != (plain.flash, plain.ram), name
    for name, value in MODEL_OTHERWISE.items():
        other = verdict(app(changed(net, **{name: value})), M3)
        assert (other.flash, other.ram) != (plain.flash, plain.ram), name
    parts = {"tflm": TflmBuild, "zephyr": ZephyrVersion, "custom": CustomCode, "program": ProgramSpec}
    whole = {field.name for field in fields(AppSpec)} - parts.keys()
    of_parts = {f"{name}__{field.name}" for name, kind in parts.items() for field in fields(kind)}
    assert whole | of_parts == OTHERWISE.keys() | NO_SIZE
    of_model = {field.name for kind in (ModelSpec, InterpreterSpec) for field in fields(kind)} - {"runtime"}
    assert of_model == MODEL_OTHERWISE.keys() | MODEL_NO_SIZE


@pytest.mark.usefixtures("made")
def test_one_arena_for_all_counts_once() -> None:
    nets = model("a", "Register_CONV_2D"), model("b", "Register_CONV_2D")
    apart, shared = verdict(app(*nets), M3), verdict(app(*nets, shared_arena=ArenaSpec(2500, "estimated", "")), M3)
    assert apart.ram is not None and shared.ram is not None
    assert apart.ram.used_bytes - shared.ram.used_bytes == 2000 + 2000 - 2500 + 32


@pytest.mark.usefixtures("made")
def test_a_static_plan_and_buffers_of_the_apps_own() -> None:
    net = model("net", "Register_CONV_2D")
    plain, static, own = (
        verdict(app(one), M3)
        for one in (net, changed(net, static_plan=SLOTS), changed(net, preallocated=(replace(BUFFER, bytes=500),)))
    )
    assert plain.flash is not None and static.flash is not None and own.flash is not None
    assert plain.ram is not None and own.ram is not None
    assert static.flash.used_bytes - plain.flash.used_bytes == 2 * 4  # two entries of two 16-bit numbers
    assert static.flash.below_bytes > plain.flash.below_bytes  # TFLM's planner stays out
    assert own.ram.used_bytes - plain.ram.used_bytes == 512
    assert static.fits == own.fits == UNKNOWN
