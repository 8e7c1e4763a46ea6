# SPDX-License-Identifier: Apache-2.0
"""Flash and RAM by part, on images that a real linker made: against its own table, and `size`."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.small_elf import (
    ARENA_BYTES,
    GOLDEN_BYTES,
    MODEL,
    MODEL_BYTES,
    STACK_BYTES,
    TABLE_BYTES,
    TOOLS,
    Small,
    Tools,
    link,
    tools,
)
from tflm_zephyr.build.log import MemoryRegion
from tflm_zephyr.cli import main
from tflm_zephyr.errors import BuildError, ToolError
from tflm_zephyr.footprint import attribution, kernel_origin
from tflm_zephyr.footprint.attribution import ObjectFiles, Owner, by_name, path_in_space
from tflm_zephyr.footprint.elf import load_elf, read_elf
from tflm_zephyr.footprint.kernel_origin import Kernel, LinkedKernels
from tflm_zephyr.footprint.link_map import FILL, Piece, Region, parse_map
from tflm_zephyr.footprint.measurement import (
    BY_MAP,
    BY_SYMBOLS,
    Footprint,
    changes,
    find_elf,
    load_footprint,
    measure_footprint,
)


@pytest.fixture(scope="module", params=sorted(TOOLS))
def kit(request: pytest.FixtureRequest) -> Tools:
    return tools(request.param)


@pytest.fixture(scope="module")
def small(kit: Tools, tmp_path_factory: pytest.TempPathFactory) -> Small:
    return link(tmp_path_factory.mktemp("small"), kit)


@pytest.fixture
def copy(small: Small, tmp_path: Path) -> Iterator[Small]:
    """A copy of the small image's ELF file and map, to do harm to."""
    other = Small(tmp_path, small.table, small.objects)
    other.elf.parent.mkdir()
    other.elf.write_bytes(small.elf.read_bytes())
    other.map.write_bytes(small.map.read_bytes())
    return other


def sizes_of(found: Footprint, part: str, region: str) -> dict[str, int]:
    return {row.detail: row.bytes[region] for row in found.rows if row.part == part and region in row.bytes}


def check_sums(found: Footprint, table: tuple[MemoryRegion, ...]) -> None:
    """Every region's rows add up to what the linker's table says, and no row is negative."""
    assert {use.name: use.used_bytes for use in found.regions if use.used_bytes} == {
        row.name: row.used_bytes for row in table if row.used_bytes
    }
    for use in found.regions:
        assert sum(row.bytes.get(use.name, 0) for row in found.rows) == use.used_bytes
    assert all(size > 0 for row in found.rows for size in row.bytes.values())


@pytest.mark.parametrize("with_map", [True, False])
def test_sums_are_the_linkers(small: Small, with_map: bool) -> None:
    found = load_footprint(small.elf, with_map=with_map)
    assert found.source == (BY_MAP if with_map else BY_SYMBOLS)
    assert len(small.table) == 3
    check_sums(found, small.table)
    if with_map:
        assert [(use.name, use.size_bytes) for use in found.regions] == [(r.name, r.size_bytes) for r in small.table]


def test_sections_are_those_of_size(small: Small, kit: Tools) -> None:
    rows = [line.split() for line in kit.run("size", "-A", str(small.elf), cwd=small.folder).splitlines()]
    theirs = {row[0]: (int(row[1]), int(row[2])) for row in rows if len(row) == 3 and row[1].isdigit()}
    ours = {section.name: (section.size, section.address) for section in load_elf(small.elf).sections}
    assert ours == {name: at for name, at in theirs.items() if not name.startswith(".debug")}


def test_data_counts_in_flash_and_ram(small: Small) -> None:
    datas = next(section for section in load_elf(small.elf).sections if section.name == "datas")
    assert datas.address == 0x20000000
    assert 0x8000 < datas.load_address < 0x8000 + 0x10000


def test_parts_have_the_sizes_of_their_objects(small: Small) -> None:
    """A part has the bytes that `size` gives for its object file, where the linker drops nothing."""
    found = load_footprint(small.elf)
    assert sizes_of(found, attribution.MODEL, "FLASH") == {"models::tiny::kModel": MODEL_BYTES}
    assert sizes_of(found, attribution.GOLDEN, "FLASH") == {"tiny": GOLDEN_BYTES}
    assert sizes_of(found, attribution.ARENA, "RAM") == {"models::tiny::g_arena": ARENA_BYTES}
    assert sizes_of(found, attribution.STACKS, "RAM") == {"z_main_stack": STACK_BYTES}
    main = small.objects["main"]
    assert sizes_of(found, attribution.APP, "RAM") == {"main.c.obj": main[1]}  # its variables
    init_variables = small.objects["init"][2] - STACK_BYTES
    assert sizes_of(found, attribution.ZEPHYR_KERNEL, "RAM") == {"init.c.obj": init_variables}
    stranger = sizes_of(found, attribution.OTHER, "FLASH")
    assert stranger == {"libstranger.a": stranger["libstranger.a"], "linker script": 8}
    assert TABLE_BYTES < stranger["libstranger.a"] <= sum(small.objects["odd"])
    assert attribution.UNATTRIBUTED not in found.by_part()


def test_kernels_are_named_by_what_they_register(small: Small) -> None:
    """conv.cc registers CONV_2D; conv_common.cc goes with it; the rest of TFLM is its core."""
    found = load_footprint(small.elf)
    assert set(sizes_of(found, attribution.KERNELS, "FLASH")) == {"CONV_2D"}
    assert set(sizes_of(found, attribution.TFLM, "FLASH")) == {"micro_interpreter.cc.obj"}


def test_merged_strings_count_once(small: Small) -> None:
    """Two files hold the same string: the image has it once, and one of them."""
    text = small.elf.read_bytes()
    assert text.count(b"shared words of two files\0") == 1
    found = load_footprint(small.elf)
    interpreter = sizes_of(found, attribution.TFLM, "FLASH")["micro_interpreter.cc.obj"]
    main = sizes_of(found, attribution.APP, "FLASH")["main.c.obj"]
    assert (main > 26) and interpreter < 26


def test_symbols_alone_leave_a_row_unattributed(small: Small) -> None:
    found = load_footprint(small.elf, with_map=False)
    assert sizes_of(found, attribution.MODEL, "FLASH") == {"models::tiny::kModel": MODEL_BYTES}
    assert sizes_of(found, attribution.ARENA, "RAM") == {"models::tiny::g_arena": ARENA_BYTES}
    assert sizes_of(found, attribution.STACKS, "RAM") == {"z_main_stack": STACK_BYTES}
    assert sum(sizes_of(found, attribution.UNATTRIBUTED, "FLASH").values()) > GOLDEN_BYTES + TABLE_BYTES
    assert attribution.APP not in found.by_part()


def test_an_included_binary_is_a_model_too(kit: Tools, tmp_path: Path) -> None:
    """A model by .incbin, whose symbol has no size, between other data of the same section."""
    (tmp_path / "tiny.tflite").write_bytes(MODEL)
    assembly = """#asm
        .section .rodata
        .global before, _ZN6models4tiny6kModelE, after
        .balign 16
        before: .long 1, 2, 3, 4
        _ZN6models4tiny6kModelE: .incbin "tiny.tflite"
        after: .byte 1, 2, 3
    """
    small = link(tmp_path, kit, {"tiny_data": assembly})
    for with_map in (True, False):
        found = load_footprint(small.elf, with_map=with_map)
        check_sums(found, small.table)
        assert sizes_of(found, attribution.MODEL, "FLASH") == {"models::tiny::kModel": MODEL_BYTES}
    assert sizes_of(load_footprint(small.elf), attribution.APP, "FLASH")["tiny_data.c.obj"] == 16 + 3


def test_a_mark_at_a_models_start_does_not_give_it_its_name(kit: Tools, tmp_path: Path) -> None:
    """Zephyr's linker scripts set marks without a size wherever a section of theirs is empty."""
    (tmp_path / "tiny.tflite").write_bytes(MODEL)
    assembly = """#asm
        .section .rodata
        .global a_list_end, _ZN6models4tiny6kModelE
        .balign 16
        a_list_end:
        _ZN6models4tiny6kModelE: .incbin "tiny.tflite"
        .size _ZN6models4tiny6kModelE, . - _ZN6models4tiny6kModelE
    """
    small = link(tmp_path, kit, {"tiny_data": assembly})
    for with_map in (True, False):
        found = load_footprint(small.elf, with_map=with_map)
        assert sizes_of(found, attribution.MODEL, "FLASH") == {"models::tiny::kModel": MODEL_BYTES}


@pytest.mark.parametrize(
    "flags",
    [
        ("-ffunction-sections", "-fdata-sections"),
        pytest.param(("-O0",), marks=pytest.mark.slow),
        pytest.param(("-O3", "-falign-functions=32"), marks=pytest.mark.slow),
    ],
)
def test_any_layout_adds_up(kit: Tools, tmp_path: Path, flags: tuple[str, ...]) -> None:
    small = link(tmp_path, kit, None, *flags)
    for with_map in (True, False):
        check_sums(load_footprint(small.elf, with_map=with_map), small.table)
    found = load_footprint(small.elf)
    assert sizes_of(found, attribution.MODEL, "FLASH") == {"models::tiny::kModel": MODEL_BYTES}
    assert sizes_of(found, attribution.ARENA, "RAM") == {"models::tiny::g_arena": ARENA_BYTES}


def test_changes_against_another_build(small: Small, kit: Tools, tmp_path: Path) -> None:
    arena = f'char arena[{ARENA_BYTES + 100}] __asm__("_ZN6models4tiny12_GLOBAL__N_17g_arenaE");\n'
    other = link(tmp_path, kit, {"tiny": arena})
    old, new = load_footprint(small.elf), load_footprint(other.elf)
    rows = {(row.part, row.detail): row.bytes for row in changes(new, old)}
    assert rows[attribution.ARENA, "models::tiny::g_arena"] == {"RAM": 100}
    assert {part for part, _ in rows} <= {attribution.ARENA, attribution.PADDING}
    total = sum(sizes.get("RAM", 0) for sizes in rows.values())
    assert total == other.table[1].used_bytes - small.table[1].used_bytes
    assert changes(new, new) == ()
    back = {(row.part, row.detail): {r: -n for r, n in row.bytes.items()} for row in changes(old, new)}
    assert back == rows


def test_the_table_that_build_kept_is_compared(copy: Small) -> None:
    text = "".join(f"{row.name} {row.used_bytes} {row.size_bytes}\n" for row in copy.table)
    kept = copy.folder / "memory_regions.txt"
    kept.write_text(text)
    found = load_footprint(copy.elf)
    assert [use.linker_bytes for use in found.regions] == [row.used_bytes for row in copy.table]
    assert not found.notes
    os.utime(kept, (1, 1))  # older than the ELF file: of another link
    assert {use.linker_bytes for use in load_footprint(copy.elf).regions} == {None}


def test_a_table_that_differs_is_reported(small: Small) -> None:
    image, link_map = load_elf(small.elf), parse_map(small.map.read_text(), where="map")
    flash, ram, _ = small.table
    more = MemoryRegion("FLASH", flash.used_bytes + 16, flash.size_bytes)  # an empty, aligned section at the end
    found = measure_footprint(image, link_map, (more, ram))
    check_sums(found, (more, ram))
    assert not found.notes
    found = measure_footprint(image, link_map, (MemoryRegion("FLASH", 5, flash.size_bytes), ram))
    check_sums(found, small.table)
    assert found.notes == ("The linker's table says 5 for FLASH.",)


def test_tf_m_is_not_included(copy: Small) -> None:
    (copy.folder / "tfm").mkdir()
    assert any("TF-M" in note for note in load_footprint(copy.elf).notes)


def test_source_folders_tell_kernels_from_core(copy: Small) -> None:
    """Without a Register_ function, the folder of a file's source decides, where CMake's list names one alone."""
    entries = [{"file": "/w/tensorflow/lite/micro/kernels/micro_interpreter.cc"}]
    (copy.folder / "compile_commands.json").write_text(json.dumps(entries))
    assert attribution.SHARED_KERNELS in sizes_of(load_footprint(copy.elf), attribution.KERNELS, "FLASH")
    entries.append({"file": "/w/tensorflow/lite/micro/micro_interpreter.cc"})
    (copy.folder / "compile_commands.json").write_text(json.dumps(entries))
    assert "micro_interpreter.cc.obj" in sizes_of(load_footprint(copy.elf), attribution.TFLM, "FLASH")
    for damaged in ("", "[", "{}", "[3]", '[{"file": 3}]', '[{"x": ""}]', "[" * 100_000):
        (copy.folder / "compile_commands.json").write_text(damaged)
        check_sums(load_footprint(copy.elf), copy.table)


def test_find_elf(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"no zephyr/zephyr\.elf there\. Build the app first"):
        find_elf(tmp_path)

    def make(name: str) -> Path:
        elf = tmp_path / name / "zephyr" / "zephyr.elf"
        elf.parent.mkdir(parents=True)
        elf.write_bytes(b"")
        return elf

    app = make("app")
    assert find_elf(tmp_path) == find_elf(tmp_path, "app") == app
    make("mcuboot")
    assert find_elf(tmp_path, "app") == app
    with pytest.raises(BuildError, match="several images"):
        find_elf(tmp_path)
    assert find_elf(app) == app


def one_line(err: ToolError, where: Path) -> str:
    text = str(err)
    assert "\n" not in text and str(where) in text
    return text


def test_bad_elf_files_are_one_line(tmp_path: Path, kit: Tools, small: Small) -> None:
    missing = tmp_path / "none.elf"
    with pytest.raises(BuildError, match="cannot be read") as caught:
        load_footprint(missing)
    one_line(caught.value, missing)
    bad = tmp_path / "bad.elf"
    for data in (b"", b"\x7fEL", b"MZ" * 99, small.map.read_bytes()):
        bad.write_bytes(data)
        with pytest.raises(BuildError, match="is no ELF file") as caught:
            load_footprint(bad)
        one_line(caught.value, bad)
    unlinked = next(small.folder.glob("src/main.c.obj"))
    with pytest.raises(BuildError, match="not linked"):
        load_footprint(unlinked)


def test_truncated_elf_files_are_one_line(small: Small) -> None:
    data = small.elf.read_bytes()
    for size in [*range(4, 400), *range(400, len(data), max(1, len(data) // 150))]:
        with pytest.raises(BuildError, match="damaged ELF file"):
            read_elf(data[:size], where="cut.elf")


@pytest.mark.slow
def test_damaged_elf_files_never_crash(small: Small) -> None:
    """Bytes changed anywhere in the headers: an error of ours, or sums that still add up."""
    data = bytearray(small.elf.read_bytes())
    link_map = parse_map(small.map.read_text(), where="map")
    dice = random.Random(0)
    first_header = int.from_bytes(data[32:36], "little") if data[4] == 1 else int.from_bytes(data[40:48], "little")
    refused = 0
    for _ in range(400):
        harmed = bytearray(data)
        for _ in range(dice.randint(1, 3)):
            place = dice.randrange(64) if dice.random() < 0.3 else dice.randrange(first_header, len(data))
            harmed[place] = dice.choice((0, 1, 0x7F, 0xFF, dice.randrange(256)))
        try:
            image = read_elf(bytes(harmed), where="harmed.elf")
            found = [
                measure_footprint(image, link_map, where="harmed.elf"),
                measure_footprint(image, None, where="harmed.elf"),
            ]
        except BuildError:
            refused += 1
            continue
        for footprint in found:
            for use in footprint.regions:
                assert sum(row.bytes.get(use.name, 0) for row in footprint.rows) == use.used_bytes
    assert 0 < refused < 400


def test_bad_maps_are_one_line(copy: Small, kit: Tools, tmp_path_factory: pytest.TempPathFactory) -> None:
    text = copy.map.read_text()
    for harmed, words in (
        ("", "is no map file of GNU ld"),
        ("\0\xff" * 50, "is no map file of GNU ld"),
        (text[: text.index("Linker script and memory map")], "is no map file of GNU ld"),
        (text[: text.index("OUTPUT(")], "cut short"),
        (text[: text.index("\nbss ")], "cut short"),
        (text.replace("\nnoinit ", "\nnoexit "), "is the map of another build"),
    ):
        copy.map.write_text(harmed)
        with pytest.raises(BuildError, match=words) as caught:
            load_footprint(copy.elf)
        one_line(caught.value, copy.map)
    other = link(
        tmp_path_factory.mktemp("other"), kit, {"odd": "int odd_table[9]; int unknown(void) { return *odd_table; }"}
    )
    copy.map.write_bytes(other.map.read_bytes())
    with pytest.raises(BuildError, match="is the map of another build") as caught:
        load_footprint(copy.elf)
    assert "delete it" in one_line(caught.value, copy.map)


@pytest.mark.slow
def test_damaged_maps_never_crash(small: Small) -> None:
    image, lines = load_elf(small.elf), small.map.read_text().splitlines()
    dice = random.Random(1)
    for _ in range(150):
        harmed = list(lines)
        for _ in range(dice.randint(1, 5)):
            place = dice.randrange(len(harmed))
            action = dice.randrange(3)
            if action == 0:
                del harmed[place]
            elif action == 1:
                harmed[place] = harmed[place][: dice.randrange(len(harmed[place]) + 1)]
            else:
                harmed.insert(place, harmed[dice.randrange(len(harmed))])
        try:
            found = measure_footprint(image, parse_map("\n".join(harmed), where="map"), where="x")
        except BuildError:
            continue
        for use in found.regions:
            assert sum(row.bytes.get(use.name, 0) for row in found.rows) == use.used_bytes


def test_a_map_of_long_lines_is_read_at_once() -> None:
    long = " " * 200_000 + "x"
    body = f"{long}\n {long}0x1\n0x{'0' * 99999}\n"
    text = f"Memory Configuration\n\n{long}\nLinker script and memory map\n{body}OUTPUT(a)\n"
    assert parse_map(text, where="map").sections == ()


def test_no_memory_regions(tmp_path: Path, kit: Tools) -> None:
    """A program of the host is no image of a device."""
    (tmp_path / "main.c").write_text("void _start(void) {}\n")
    kit.run("gcc", *kit.flags, "-nostdlib", "-static", "main.c", "-o", "prog.elf", cwd=tmp_path)
    with pytest.raises(BuildError, match="has no memory regions"):
        load_footprint(tmp_path / "prog.elf")


ISR_TABLES = "zephyr/CMakeFiles/zephyr_final.dir/isr_tables.c.obj"
MAP = """
Discarded input sections

 .text          0x00000000        0x0 app/libapp.a(main.cpp.obj)

Memory Configuration

Name             Origin             Length             Attributes
FLASH            0x00050000         0x00030000         xr
RAM              0x20016000         0x0002a000         xw
*default*        0x00000000         0xffffffff

Linker script and memory map

LOAD app/libapp.a
                0x00000020                        _region_min_align = 0x20

.rel.dyn
 *(SORT_BY_ALIGNMENT(.rel.*))

text            0x00050000       0x50
                0x00050000                        __text_region_start = .
 *(SORT_BY_ALIGNMENT(.text))
 .text          0x00050000        0x8 /usr/lib/some gcc/libgcc.a(_arm_fixsfsi.o)
                0x00050000                __fixsfsi
 *fill*         0x00050008        0x8 ff
 .text._ZN6digits6InvokeEv
                0x00050010       0x20 app/libapp.a(digits.cpp.obj)
                0x00050010                digits::Invoke()
 .noinit."WEST_TOPDIR/my zephyr/init.c".2
                0x00050030       0x10 zephyr/CMakeFiles/zephyr_final.dir/isr_tables.c.obj
 .rodata.a.str1.1
                0x00050040      0x108 app/libapp.a(a.cpp.obj)
                                  0x6 (size before relaxing)
 .rodata.b.str1.1
                0x00050040        0xc app/libapp.a(b.cpp.obj)
                0x0005004c        0x4 LONG 0xe015e015
                [!provide]                        PROVIDE (__rel_iplt_end = .)

k_p4wq_initparam_area
                0x00050050        0x0
                0x00050050                        _k_p4wq_initparam_list_start = .

_static_thread_data_area
                0x20016000        0x4 load address 0x00050050
 .data          0x20016000        0x4 linker stubs
OUTPUT(zephyr/zephyr.elf elf32-littlearm)
"""


def test_parse_map() -> None:
    found = parse_map(MAP, where="map")
    assert found.regions == (Region("FLASH", 0x50000, 0x30000), Region("RAM", 0x20016000, 0x2A000))
    text, empty, data = found.sections
    assert (text.name, text.address, text.size) == ("text", 0x50000, 0x50)
    assert text.pieces == (
        Piece(0x50000, 8, ".text", "/usr/lib/some gcc/libgcc.a", "_arm_fixsfsi.o"),
        Piece(0x50008, 8, FILL, "", ""),
        Piece(0x50010, 0x20, ".text._ZN6digits6InvokeEv", "app/libapp.a", "digits.cpp.obj"),
        Piece(0x50030, 16, '.noinit."WEST_TOPDIR/my zephyr/init.c".2', "", ISR_TABLES),
        Piece(0x50040, 0x108, ".rodata.a.str1.1", "app/libapp.a", "a.cpp.obj"),
        Piece(0x50040, 12, ".rodata.b.str1.1", "app/libapp.a", "b.cpp.obj"),
        Piece(0x5004C, 4, "", "", "linker script"),
    )  # fmt: skip
    assert (empty.name, empty.size) == ("k_p4wq_initparam_area", 0)
    assert (data.name, data.address, data.size) == ("_static_thread_data_area", 0x20016000, 4)
    assert data.pieces == (Piece(0x20016000, 4, ".data", "", "linker stubs"),)


GCC = "/usr/lib/gcc/arm-none-eabi/12.2.1/thumb/v7-m/nofp"
CMSIS_NN = "modules/cmsis-nn/libmodules__cmsis-nn.a"
FILES = ObjectFiles(
    {"conv": ("CONV_2D",), "depthwise_conv": ("DEPTHWISE_CONV_2D",), "activations": ("RELU", "RELU6")},
    {
        "common": frozenset({"tensorflow/lite/core/c", "tensorflow/lite/kernels/internal"}),
        "tensor_ctypes": frozenset({"tensorflow/lite/kernels/internal"}),
        "kiss_fft_int16": frozenset({"signal/src/kiss_fft_wrappers"}),
        "micro_context": frozenset({"tensorflow/lite/micro"}),
    },
    frozenset({"main", "sine", "sine_data", "sine_golden", "x_golden"}),
)


@pytest.mark.parametrize(
    ("archive", "member", "owner"),
    [
        (f"{GCC}/libgcc.a", "_udivmoddi4.o", Owner(attribution.LIBGCC, "_udivmoddi4.o")),
        ("/usr/lib/picolibc/arm-none-eabi/lib/thumb/v7-m/nofp/libc.a", "a.o", Owner(attribution.LIBC, "a.o")),
        ("/opt/lib/libm.a", "a.o", Owner(attribution.LIBC, "a.o")),
        (f"{GCC}/../../../libstdc++.a", "new.o", Owner(attribution.CXX, "new.o")),
        ("/opt/lib/libsupc++_nano.a", "new.o", Owner(attribution.CXX, "new.o")),
        ("zephyr/libzephyr.a", "cpp_dtors.c.obj", Owner(attribution.CXX, "cpp_dtors.c.obj")),
        ("zephyr/libzephyr.a", "printk.c.obj", Owner(attribution.ZEPHYR_OTHER, "printk.c.obj")),
        ("zephyr/kernel/libkernel.a", "sched.c.obj", Owner(attribution.ZEPHYR_KERNEL, "sched.c.obj")),
        ("zephyr/drivers/gpio/libdrivers__gpio.a", "g.c.obj", Owner(attribution.ZEPHYR_DRIVERS, "g.c.obj")),
        ("zephyr/soc/soc/nrf9160/libsoc__nordic.a", "soc.c.obj", Owner(attribution.ZEPHYR_ARCH, "soc.c.obj")),
        ("zephyr/lib/libc/picolibc/liblib__libc__picolibc.a", "s.c.obj", Owner(attribution.LIBC, "s.c.obj")),
        ("", ISR_TABLES, Owner(attribution.ZEPHYR_ARCH, "isr_tables.c.obj")),
        ("", f"{GCC}/crtbegin.o", Owner(attribution.LIBGCC, "crtbegin.o")),
        ("", "linker stubs", Owner(attribution.OTHER, "linker stubs")),
        ("", "tfm/api_ns/interface/lib/s_veneers.o", Owner(attribution.MODULES, "trusted-firmware-m")),
        ("modules/hal_nordic/nrfx/libm.a", "nrfx.c.obj", Owner(attribution.LIBC, "nrfx.c.obj")),
        ("modules/hal_nordic/nrfx/libmodules__hal_nordic__nrfx.a", "n.c.obj", Owner(attribution.MODULES, "hal_nordic")),
        ("app/libapp.a", "main.cpp.obj", Owner(attribution.APP, "main.cpp.obj")),
        ("app/libapp.a", "sine_golden.cpp.obj", Owner(attribution.GOLDEN, "sine")),
        ("app/libapp.a", "x_golden.cpp.obj", Owner(attribution.APP, "x_golden.cpp.obj")),  # a model called so
        ("libtflm.a", "conv.cc.obj", Owner(attribution.KERNELS, "CONV_2D")),
        (
            "modules/tflite-micro/libmodules__tflite-micro.a",
            "conv_common.cc.obj",
            Owner(attribution.KERNELS, "CONV_2D"),
        ),
        ("libtflm.a", "activations.cc.obj", Owner(attribution.KERNELS, "RELU, RELU6")),
        ("libtflm.a", "micro_context.cc.obj", Owner(attribution.TFLM, "micro_context.cc.obj")),
        ("libtflm.a", "common.cc.obj", Owner(attribution.TFLM, "common.cc.obj")),  # one of each
        ("libtflm.a", "tensor_ctypes.cc.obj", Owner(attribution.KERNELS, attribution.SHARED_KERNELS)),
        ("libtflm.a", "kiss_fft_int16.cc.obj", Owner(attribution.KERNELS, attribution.SHARED_KERNELS)),
        ("libtflm.a", "kernel_util.cc.obj", Owner(attribution.KERNELS, attribution.SHARED_KERNELS)),
        ("libtflm.a", "arm_convolve_s8.c.obj", Owner(attribution.KERNELS, "CONV_2D")),
        (CMSIS_NN, "arm_depthwise_conv_s8.c.obj", Owner(attribution.KERNELS, "DEPTHWISE_CONV_2D")),
        (CMSIS_NN, "arm_nn_mat_mult_s8.c.obj", Owner(attribution.KERNELS, attribution.SHARED_KERNELS)),
        (CMSIS_NN, "new_thing.c.obj", Owner(attribution.KERNELS, attribution.SHARED_KERNELS)),
        ("sensors/libsensors.a", "imu.c.obj", Owner(attribution.OTHER, "libsensors.a")),
    ],
)  # fmt: skip
def test_owner(archive: str, member: str, owner: Owner) -> None:
    assert FILES.owner(archive, member) == owner


@pytest.mark.parametrize(
    ("symbol", "names"),
    [
        ("main", ("main",)),
        ("_ZN6digits12_GLOBAL__N_17g_arenaE", ("digits", "g_arena")),
        ("_ZN6models4sine12_GLOBAL__N_1L8kInputs0E", ("models", "sine", "kInputs0")),
        ("_ZNK6tflite16MicroInterpreter5inputEj", ("tflite", "MicroInterpreter", "input")),
        ("_ZN12_GLOBAL__N_1E", ("_ZN12_GLOBAL__N_1E",)),
        ("_ZN", ("_ZN",)),
        ("_ZN99999999999999999999x", ("_ZN99999999999999999999x",)),
    ],
)
def test_path_in_space(symbol: str, names: tuple[str, ...]) -> None:
    assert path_in_space(symbol) == names


@pytest.mark.parametrize(
    ("symbol", "operator"),
    [
        ("_ZN6tflite16Register_CONV_2DEv", "CONV_2D"),
        ("_ZN6tflite21Register_CONV_2D_INT8Ev", "CONV_2D"),
        ("_ZN6tflite27Register_SOFTMAX_INT8_INT16Ev", "SOFTMAX"),
        ("_ZN6tflite11tflm_signal15Register_WINDOWEv", "WINDOW"),
        ("_ZN6tflite9RegisterMEv", None),
    ],
)
def test_registered_operator(symbol: str, operator: str | None) -> None:
    assert attribution.registered_operator(symbol) == operator


@pytest.mark.parametrize(
    ("name", "registered", "whose"),
    [
        ("arm_convolve_1x1_s8_fast", ("CONV_2D", "FULLY_CONNECTED"), "CONV_2D"),
        ("arm_convolve_1x1_s8_fast", ("FULLY_CONNECTED",), "FULLY_CONNECTED"),
        ("arm_vector_sum_s8", ("SVDF", "SOFTMAX"), "SVDF"),
        ("arm_fully_connected_get_buffer_sizes_s8", ("BATCH_MATMUL",), "BATCH_MATMUL"),
        (
            "arm_convolve_1x1_s8_fast",
            ("SOFTMAX",),
            attribution.SHARED_KERNELS,
        ),  # somebody here calls it, and not CONV_2D
        ("arm_convolve_1x1_s8_fast", (), "CONV_2D"),  # nothing is known of the app
    ],
)
def test_a_function_of_cmsis_nn_is_of_an_operator_that_is_there(
    name: str, registered: tuple[str, ...], whose: str
) -> None:
    files = attribution.ObjectFiles({f"file{i}": (operator,) for i, operator in enumerate(registered)}, {}, frozenset())
    for archive in (CMSIS_NN, "libtflm.a"):
        assert files.owner(archive, f"{name}.c.obj") == Owner(attribution.KERNELS, whose)


def test_by_name() -> None:
    assert by_name("_ZN6tflite16MicroInterpreter6InvokeEv") == Owner(attribution.TFLM_ALL)
    assert by_name("__aeabi_dmul") == Owner(attribution.LIBGCC, "__aeabi_dmul")
    assert by_name("arm_convolve_s8") == Owner(attribution.KERNELS, "CONV_2D")
    assert by_name("printk").part == attribution.UNATTRIBUTED


def test_command(small: Small, copy: Small, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["footprint", str(small.folder), "-d", str(small.folder), "--against", str(copy.folder)]
    assert main.main([*argv, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    used = {use["name"]: use["used_bytes"] for use in told["regions"]}
    assert used == {row.name: row.used_bytes for row in small.table}
    for region, size in used.items():
        assert sum(part.get(region, 0) for part in told["parts"].values()) == size
    assert told["source"] == BY_MAP
    assert told["against"]["changes"] == []
    assert main.main(argv) == 0
    text = capsys.readouterr().out
    assert "Nothing changed." in text
    row = next(line.split() for line in text.splitlines() if line.startswith("sum"))
    assert [int(cell) for cell in row[1:]] == [size for size in used.values() if size]
    copy.map.unlink()
    assert main.main([*argv, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["source"] == told["against"]["source"] == BY_SYMBOLS
    assert told["against"]["changes"] == []


def test_command_says_what_changed(
    small: Small, kit: Tools, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arena = f'char arena[{ARENA_BYTES * 2}] __asm__("_ZN6models4tiny12_GLOBAL__N_17g_arenaE");\n'
    other = link(tmp_path, kit, {"tiny": arena})
    assert main.main(["footprint", "x", "-d", str(other.folder), "--against", str(small.elf)]) == 0
    text = capsys.readouterr().out
    row = next(line.split() for line in text.splitlines() if line.startswith("arena: models::tiny::g_arena"))
    assert row[-2:] == ["-", f"+{ARENA_BYTES}"]


def test_command_tells_whose_kernels_beside_what_changed(
    small: Small, copy: Small, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = LinkedKernels(kernel_origin.CMSIS_NN, "", (Kernel("SOFTMAX", kernel_origin.CMSIS_NN, 1, {}),))
    monkeypatch.setattr("tflm_zephyr.footprint.linked_kernels", lambda elf: found)
    argv = ["footprint", str(small.folder), "-d", str(small.folder)]
    for against in ([], ["--against", str(copy.folder)]):
        assert main.main([*argv, *against]) == 0
        text = capsys.readouterr().out
        assert "Kernels, built for CMSIS-NN:\n  SOFTMAX: CMSIS-NN\n" in text
        assert ("Nothing changed." in text) == bool(against)


def test_command_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (
        ["footprint", str(tmp_path)],  # no app there
        ["footprint", str(tmp_path), "-d", str(tmp_path / "none")],
        ["footprint", str(tmp_path), "-d", str(tmp_path)],
    ):
        assert main.main(argv) == 1
        err = capsys.readouterr().err
        assert err.startswith("tflm-zephyr: error: ") and err.count("\n") == 1
