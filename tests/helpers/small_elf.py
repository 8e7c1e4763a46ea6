# SPDX-License-Identifier: Apache-2.0
"""A small image laid out as Zephyr lays out an app, linked by a real GNU ld: an ELF file, its map and ld's table."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tflm_zephyr.build.log import MemoryRegion, memory_regions

SCRIPT = """
MEMORY
{
  FLASH (rx) : ORIGIN = 0x8000, LENGTH = 64K
  RAM (rw) : ORIGIN = 0x20000000, LENGTH = 32K
  SPARE (rw) : ORIGIN = 0x30000000, LENGTH = 1K
  IDT_LIST (rw) : ORIGIN = 0xFFFF7FFF, LENGTH = 32K
}
ENTRY(main)
SECTIONS
{
  __rom_region_start = ORIGIN(FLASH);
  text : { *(.text .text.*) } > FLASH
  .tdata : ALIGN(64) { *(.tdata) } > FLASH
  rodata : ALIGN(64) { *(.rodata .rodata.*) LONG(0xe015e015) } > FLASH
  datas : { _image_ram_start = .; *(.data .data.*) } > RAM AT> FLASH
  bss (NOLOAD) : ALIGN(32) { *(.bss .bss.* COMMON) } > RAM
  noinit (NOLOAD) : ALIGN(64) { *(.noinit .noinit.*) } > RAM
  .last_section : { LONG(0xe015e015) } > FLASH
  .tbss : ALIGN(16) { *(.tbss .tbss.*) } > FLASH
  /DISCARD/ : { *(.eh_frame) *(.comment) *(.note*) *(.ARM*) *(.gnu*) }
}
"""
MODEL_BYTES, GOLDEN_BYTES, ARENA_BYTES, STACK_BYTES, TABLE_BYTES = 1001, 40, 2048, 512, 24
MODEL = bytes([16, 0, 0, 0]) + b"TFL3" + bytes(range(1, 200)) * 5
MODEL = MODEL[:MODEL_BYTES].ljust(MODEL_BYTES, b"\x55")

_C_MODEL = 'const unsigned char kModel[%d] __asm__("_ZN6models4tiny6kModelE") = {%s};\n' % (  # noqa: UP031
    MODEL_BYTES,
    ",".join(map(str, MODEL)),
)
SOURCES: Mapping[str, tuple[str, str]] = {
    "app/libapp.a(main.c)": (
        "main",
        """
        extern const unsigned char model[] __asm__("_ZN6models4tiny6kModelE");
        extern const unsigned char golden[];
        extern int conv(void) __asm__("_ZN6tflite16Register_CONV_2DEv");
        extern int invoke(void) __asm__("_ZN6tflite16MicroInterpreter6InvokeEv");
        extern int stack_top(void), unknown(void);
        extern char arena[] __asm__("_ZN6models4tiny12_GLOBAL__N_17g_arenaE");
        int counter = 7;
        const char *volatile word = "shared words of two files";
        int main(void) {
            return model[3] + golden[1] + conv() + invoke() + stack_top() + unknown() + arena[0] + counter;
        }
        """,
    ),
    "app/libapp.a(tiny.c)": (
        "tiny",
        f"""
        char arena[{ARENA_BYTES}] __asm__("_ZN6models4tiny12_GLOBAL__N_17g_arenaE") __attribute__((aligned(16)));
        """,
    ),
    "app/libapp.a(tiny_data.c)": ("tiny_data", _C_MODEL),
    "app/libapp.a(tiny_golden.c)": ("tiny_golden", f"const unsigned char golden[{GOLDEN_BYTES}] = {{1, 2, 3}};\n"),
    "libtflm.a(conv.cc)": (
        "conv",
        """
        extern int shared(int);
        int conv(void) __asm__("_ZN6tflite16Register_CONV_2DEv");
        int conv(void) { return shared(3); }
        """,
    ),
    "libtflm.a(conv_common.cc)": ("conv_common", "int shared(int x) { return x * 3 + 1; }\n"),
    "libtflm.a(micro_interpreter.cc)": (
        "micro_interpreter",
        """
        static _Thread_local int last;
        const char *volatile said = "shared words of two files";
        int invoke(void) __asm__("_ZN6tflite16MicroInterpreter6InvokeEv");
        int invoke(void) { return ++last; }
        """,
    ),
    "zephyr/kernel/libkernel.a(init.c)": (
        "init",
        f"""
        char z_main_stack[{STACK_BYTES}] __attribute__((section(".noinit.a"), aligned(64)));
        static int unused_yet[3];
        void *__aeabi_read_tp(void) {{ return z_main_stack; }}
        int stack_top(void) {{ return z_main_stack[1] + unused_yet[2]++; }}
        """,
    ),
    "extra/libstranger.a(odd.c)": (
        "odd",
        f"""
        const volatile int odd_table[{TABLE_BYTES // 4}] = {{1, 2, 3}};
        int unknown(void) {{ return odd_table[1]; }}
        """,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Tools:
    """A compiler, with the binutils of its prefix. On a host the thread-local variable is addressed as Arm's is."""

    prefix: str
    flags: tuple[str, ...]

    def run(self, tool: str, *args: str | Path, cwd: Path) -> str:
        argv = [self.prefix + tool, *map(str, args)]
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


TOOLS = {
    "arm": Tools("arm-none-eabi-", ("-mcpu=cortex-m3", "-mthumb")),
    "host": Tools("", ("-fno-pie", "-fno-stack-protector", "-fcf-protection=none", "-mcmodel=large")),
}


def tools(name: str) -> Tools:
    """The tools of that name; skips the test where they are not there."""
    found = TOOLS[name]
    missing = [tool for tool in ("gcc", "ar", "size") if shutil.which(found.prefix + tool) is None]
    if missing:
        pytest.skip(f"needs {found.prefix}{missing[0]}")
    return found


@dataclass(frozen=True)
class Small:
    """A linked image in `folder`/zephyr. `table` is ld's own; `objects`: (text, data, bss) bytes by source."""

    folder: Path
    table: tuple[MemoryRegion, ...]
    objects: Mapping[str, tuple[int, int, int]]

    @property
    def elf(self) -> Path:
        return self.folder / "zephyr" / "zephyr.elf"

    @property
    def map(self) -> Path:
        return self.folder / "zephyr" / "zephyr.map"


def link(folder: Path, kit: Tools, replace: Mapping[str, str] | None = None, *flags: str) -> Small:
    """Compile SOURCES (with some replaced; *.S are assembled) and link them in `folder`."""
    archives: dict[str, list[str]] = {}
    objects = {}
    changed = dict(replace or {})
    for key, (name, text) in SOURCES.items():
        archive, _, member = key.partition("(")
        member = member.rstrip(")")
        source = folder / "src" / member
        text = changed.get(name, text)
        assembler = text.startswith("#asm")
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        out = source.with_name(f"{member}.obj")
        language = ("-x", "assembler-with-cpp") if assembler else ("-x", "c")
        common = ("-c", "-Os", "-g", "-fno-common", "-ftls-model=local-exec", *kit.flags, *flags)
        kit.run("gcc", *common, *language, source, "-o", out, cwd=folder)
        sizes = kit.run("size", out, cwd=folder).splitlines()[1].split()
        objects[name] = (int(sizes[0]), int(sizes[1]), int(sizes[2]))
        archives.setdefault(archive, []).append(str(out))
    for archive, members in archives.items():
        (folder / archive).parent.mkdir(parents=True, exist_ok=True)
        (folder / archive).unlink(missing_ok=True)
        kit.run("ar", "rcs", archive, *members, cwd=folder)
    (folder / "zephyr").mkdir(exist_ok=True)
    (folder / "link.ld").write_text(SCRIPT)
    options = ("-nostdlib", "-static", "-no-pie", "-T", "link.ld", "-Wl,--build-id=none,-z,max-page-size=16")
    told = kit.run(
        "gcc",
        *(*kit.flags, *options, "-Wl,--print-memory-usage,--no-warn-rwx-segments,-Map=zephyr/zephyr.map"),
        *("-Wl,--gc-sections", "-Wl,--start-group", *archives, "-Wl,--end-group", "-lgcc", "-o", "zephyr/zephyr.elf"),
        cwd=folder,
    )
    return Small(folder, memory_regions(told.splitlines()), objects)
