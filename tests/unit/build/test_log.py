# SPDX-License-Identifier: Apache-2.0
"""First errors and memory tables, from logs as Zephyr 4.1, GCC 12 and ninja write them."""

from __future__ import annotations

import pytest

from tests.helpers.west_log import LD, TABLE
from tflm_zephyr.build.log import FirstError, MemoryRegion, first_error, memory_regions, warnings_of

HEAD = [
    "-- west build: making build dir /b pristine",
    "-- Zephyr version: 4.1.0 (/w/zephyr)",
    "Parsing /w/zephyr/Kconfig",
    "Loaded configuration '/w/zephyr/boards/arm/mps2/mps2_an385_defconfig'",
    "Merged configuration '/a/prj.conf'",
]
FATAL = "FATAL ERROR: command exited with status 1: /usr/bin/cmake --build /b"
NINJA = [
    "[9/123] Building C object CMakeFiles/app.dir/src/main.c.obj",
    "FAILED: CMakeFiles/app.dir/src/main.c.obj",
    "ccache /usr/bin/arm-none-eabi-gcc -DKERNEL -c /a/src/main.c",
]
KCONFIG_END = [
    "",
    "error: Aborting due to Kconfig warnings",
    "",
    "CMake Error at /w/zephyr/cmake/modules/kconfig.cmake:396 (message):",
    "  command failed with return code: 1",
    "Call Stack (most recent call first):",
    "  CMakeLists.txt:2 (find_package)",
    "",
    FATAL,
]


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (
            [
                *NINJA,
                "/a/src/main.c:2:2: warning: #warning hello [-Wcpp]",
                "/a/src/main.c: In function 'main':",
                "/a/src/main.c:3:24: error: 'x' undeclared (first use in this function)",
                "/a/src/main.c:4:1: error: later",
                FATAL,
            ],
            FirstError("compiler", "'x' undeclared (first use in this function)", "/a/src/main.c:3:24"),
        ),
        (
            [*NINJA, "/a/src/main.c:1:10: fatal error: x.h: No such file or directory", FATAL],
            FirstError("compiler", "x.h: No such file or directory", "/a/src/main.c:1:10"),
        ),
        (
            [
                "FAILED: zephyr/zephyr_pre0.elf",
                f"{LD}app/libapp.a(main.c.obj): in function `main':",
                "/a/src/main.c:2: undefined reference to `nope'",
                "collect2: error: ld returned 1 exit status",
                FATAL,
            ],
            FirstError("linker", "undefined reference to `nope'", "/a/src/main.c:2"),
        ),
        (
            [
                "FAILED: zephyr/zephyr_pre0.elf",
                f"{LD}zephyr/zephyr_pre0.elf section `bss' will not fit in region `RAM'",
                f"{LD}region `RAM' overflowed by 1809760 bytes",
                "collect2: error: ld returned 1 exit status",
            ],
            FirstError("overflow", "region `RAM' overflowed by 1809760 bytes", "", "RAM"),
        ),
        (
            [f"{LD}cannot find -lfoo: No such file or directory", "collect2: error: ld returned 1 exit status"],
            FirstError("linker", "cannot find -lfoo: No such file or directory"),
        ),
        (
            [
                "warning: an older one, before Kconfig was read",
                *HEAD,
                "",
                "/a/prj.conf:1: warning: attempt to assign the value 'y' to the undefined symbol NOPE_X",
                *KCONFIG_END,
            ],
            FirstError("kconfig", "attempt to assign the value 'y' to the undefined symbol NOPE_X", "/a/prj.conf:1"),
        ),
        (
            [
                *HEAD,
                "",
                "warning: A (defined at lib/cpp/Kconfig:80) has direct dependencies CPP with value n, selected by:",
                " - B (defined at modules/Kconfig:8, modules/Kconfig:8), with value y",
                *KCONFIG_END,
            ],
            FirstError("kconfig", "A has direct dependencies CPP with value n, selected by: - B, with value y"),
        ),
        (
            [
                "/w/zephyr/scripts/kconfig/kconfig.py: /a/Kconfig:2: error: couldn't parse 'bool \"x': unterminated",
                *KCONFIG_END[3:],
            ],
            FirstError("kconfig", "couldn't parse 'bool \"x': unterminated", "/a/Kconfig:2"),
        ),
        (
            [
                "devicetree error: /a/app.overlay:1 (column 1): parse error: undefined node label 'nolabel'",
                "CMake Error at /w/zephyr/cmake/modules/dts.cmake:303 (execute_process):",
                "  execute_process failed command indexes:",
                "",
                '    1: "Child return code: 1"',
            ],
            FirstError("devicetree", "/a/app.overlay:1 (column 1): parse error: undefined node label 'nolabel'"),
        ),
        (
            [
                "CMake Error at /w/zephyr/cmake/modules/boards.cmake:304 (message):",
                "  Board qualifiers `/an999` for board `mps2` not found.  Please specify a",
                "  valid board target.",
                "",
                "Call Stack (most recent call first):",
                FATAL,
            ],
            FirstError(
                "cmake",
                "Board qualifiers `/an999` for board `mps2` not found. Please specify a valid board target.",
                "/w/zephyr/cmake/modules/boards.cmake:304",
            ),
        ),
        (
            ["Traceback (most recent call last):", "ModuleNotFoundError: No module named 'elftools'", FATAL],
            FirstError("python", "ModuleNotFoundError: No module named 'elftools'"),
        ),
        (
            ["FAILED: x/y.o", "some child's own words", "ninja: error: loading 'build.ninja'"],
            FirstError("other", "loading 'build.ninja'"),
        ),
        (["FAILED: x/y.o  z", "some child's own words", FATAL], FirstError("other", "FAILED: x/y.o")),
        (
            ["-- runners.nrfjprog: ...", "FATAL ERROR: required program nrfjprog not found; install it"],
            FirstError("other", "required program nrfjprog not found; install it"),
        ),
    ],
)
def test_first_error(lines: list[str], error: FirstError) -> None:
    assert first_error([*HEAD, *lines]) == error


def test_a_log_without_errors() -> None:
    assert first_error([*HEAD, "[1/1] Linking CXX executable zephyr/zephyr.elf"]) is None


def test_what_a_colon_announces_is_read_past_an_empty_line() -> None:
    error = first_error(
        [
            *HEAD,
            "CMake Error at cmake/tflm.cmake:176 (target_sources):",
            "  Cannot find source file:",
            "",
            "    /m/cmsis-nn/Source/arm_convolve_s8.c",
            "",
            "  Tried extensions .c .C",
        ]
    )
    assert error is not None and error.where == "cmake/tflm.cmake:176"
    assert error.text == "Cannot find source file: /m/cmsis-nn/Source/arm_convolve_s8.c"


def test_an_endless_message_is_cut() -> None:
    error = first_error([f"/a.c:1:1: error: {'x' * 5000}"])
    assert error is not None and len(error.text) == 300


def test_the_apps_table_is_the_last() -> None:
    secure = [TABLE[0], "           FLASH:      129356 B       254 KB     49.73%", "x"]
    assert memory_regions([*secure, *TABLE]) == (
        MemoryRegion("FLASH", 58596, 192 * 1024),
        MemoryRegion("RAM", 16 * 1024, 168 * 1024),
    )


def test_no_table() -> None:
    assert memory_regions(["ninja: no work to do."]) == ()


def test_thread_local_errno_without_storage_is_a_warning() -> None:
    place = "/usr/lib/picolibc/arm-none-eabi/lib/thumb/v7-m/nofp/libc.a(libc_errno_errno.c.o)"
    orphan = f"{LD}warning: orphan section `.tbss' from `{place}' being placed in section `.tbss'"
    (warning,) = warnings_of(["x", orphan, orphan, *TABLE])
    assert "Set ZEPHYR_TOOLCHAIN_SUPPORTS_THREAD_LOCAL_STORAGE=y" in warning
    assert warnings_of([f"{LD}warning: orphan section `.own' from `a.o'", *TABLE]) == ()
