# SPDX-License-Identifier: Apache-2.0
"""The Zephyr module: Zephyr's own samples/philosophers, in C, with a model, and an application of two models."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.helpers.architectures import dense_chain, mobilenet
from tests.helpers.module_apps import BOARD, given, printed, put, west
from tests.helpers.operator_models import CASES
from tflm_zephyr.build.toolchain import detect_toolchain
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.host.run import available

pytestmark = [
    pytest.mark.zephyr,
    pytest.mark.usefixtures("workspace"),
    pytest.mark.skipif(not available("tflm"), reason="needs TFLM on this machine"),
]

CMAKE = """
target_sources(app PRIVATE src/model.c)
tflm_model(app NAME net MODEL net.tflite)
"""
CONFIG = "\nCONFIG_TFLM_ZEPHYR=y\n"
THREAD = r"""
#include <string.h>
#include <zephyr/kernel.h>
#include "net.h"
#include "net_golden.h"

static void run(void *a, void *b, void *c)
{
	int result = net_init();

	if (result == 0) {
		memcpy(net_input(), net_golden, NET_INPUT_ELEMENTS);
		result = net_invoke();
	}
	if (result == 0) {
		result = net_check();
	}
	printk("\nTFLM: %s %s", net_sha256(), tflm_result_text(result));
	for (int i = 0; result == 0 && i < NET_OUTPUT_ELEMENTS; i++) {
		printk(" %02x", (uint8_t)net_output()[i]);
	}
	printk(" end\n");
}
K_THREAD_DEFINE(model, 1024 + NET_STACK_BYTES, run, NULL, NULL, NULL, 7, 0, 0);
"""


# Whatever else of the module's libraries the linker could see would be a clash waiting for its application.
NAMESPACE = re.compile(
    r"(net_\w+|tflm_model_net|DebugLog|DebugVsnprintf|TfLite\w+)$"
    r"|(\w.* )?\(?(tflite|models::net|tflm_app|flatbuffers|flexbuffers|(vtable|typeinfo|typeinfo name) for tflite)::"
)

# The module's own options, the checksum of its checks, and what C++ with its standard headers takes.
SELECTED = re.compile(
    r"CONFIG_(ZEPHYR_)?TFLM_ZEPHYR"
    r"|CONFIG_CRC="
    r"|CONFIG_((STD_)?CPP\w*|STATIC_INIT_GNU|REQUIRES_FULL_LIBC|\w*LIBCPP\w*)="
)


def symbols(elf: Path) -> dict[str, int]:
    """Addresses of an image's symbols."""
    with elf.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        return {symbol.name: symbol["st_value"] for symbol in table.iter_symbols()}


def arena(found: dict[str, int], name: str) -> int:
    """The address of a model's arena."""
    (symbol,) = (symbol for symbol in found if "g_guarded_arena" in symbol and f"{len(name)}{name}" in symbol)
    return found[symbol]


def options(build: Path) -> set[str]:
    """Kconfig's options with a value, of a build."""
    lines = (build / "zephyr" / ".config").read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def seen_by_the_linker(build: Path) -> list[str]:
    """The names that the module's libraries define for others."""
    (nm,) = re.findall(r"^CMAKE_NM:\w+=(.*)", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    libraries = sorted(map(str, build.glob("**/libtflm_*.a")))
    assert len(libraries) == 2
    done = subprocess.run([nm, "-gjC", "--defined-only", *libraries], capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if line and not line.endswith(":")]


def of_the_toolchain() -> str:
    """The toolchain's CMake arguments as lines of a CMakeLists.txt: an image of sysbuild does not get them."""
    pairs = (argument.removeprefix("-D").partition("=") for argument in detect_toolchain().cmake_args)
    return "".join(f"set({name} {value})\n" for name, _, value in pairs)


TWO_CMAKE = """
cmake_minimum_required(VERSION 3.20.5)
find_package(Zephyr REQUIRED HINTS $ENV{ZEPHYR_BASE})
project(two)
target_sources(app PRIVATE src/main.c)
tflm_model(app NAME one MODEL one.tflite ARENA_SECTION MODELS)
add_subdirectory(other)
target_link_libraries(app PRIVATE other)
"""
# A library of the application's own, in a folder of its own, has the second model.
OTHER_CMAKE = """
add_library(other STATIC other.c)
target_link_libraries(other PUBLIC zephyr_interface)
add_dependencies(other zephyr_generated_headers)
tflm_model(other NAME two MODEL ../two.tflite PLAN static ARENA_SECTION .noinit.two)
"""
TWO_CONFIG = "CONFIG_TFLM_ZEPHYR=y\nCONFIG_MAIN_STACK_SIZE=4096\n"
TWO_OVERLAY = """
&sram0 { reg = <0x20000000 0x300000>; };
/ {
	memory@20300000 {
		compatible = "zephyr,memory-region", "mmio-sram";
		reg = <0x20300000 0x8000>;
		zephyr,memory-region = "MODELS";
	};
};
"""
COMPILED_CMAKE = """
cmake_minimum_required(VERSION 3.20.5)
find_package(Zephyr REQUIRED HINTS $ENV{ZEPHYR_BASE})
project(compiled)
target_sources(app PRIVATE src/main.c)
tflm_model(app NAME whole MODEL whole.tflite BACKEND compiled ARENA_SECTION .noinit.whole)
tflm_model(app NAME rows MODEL rows.tflite RAM 4K SLOWER 20%)
tflm_model(app NAME framed MODEL framed.tflite BACKEND compiled)
tflm_model(app NAME other MODEL other.tflite)
"""
RUN = r"""
#include <string.h>
#include <zephyr/kernel.h>
#include "NAME_golden.h"
#include "NAME.h"

void run_NAME(void)
{
	int result = NAME_init();

	if (result == 0) {
		memcpy(NAME_input(), NAME_golden, sizeof(NAME_golden));
		result = NAME_invoke();
	}
	printk("\nTFLM: %s %s", NAME_sha256(), tflm_result_text(result));
	for (int i = 0; result == 0 && i < sizeof(NAME_output()[0]) * OUTPUT; i++) {
		printk(" %02x", (uint8_t)NAME_output()[i]);
	}
	printk(" end\n");
}
"""


def runner(name: str) -> str:
    """C code with the function run_<name>()."""
    return RUN.replace("OUTPUT", f"{name.upper()}_OUTPUT_ELEMENTS").replace("NAME", name)


@pytest.fixture
def philosophers(workspace: Workspace, tmp_path: Path) -> Path:
    """A copy of the sample with three lines more and the thread that uses the model."""
    app = tmp_path / "philosophers"
    shutil.copytree(workspace.zephyr_base / "samples" / "philosophers", app)
    with (app / "CMakeLists.txt").open("a") as file:
        file.write(CMAKE)
    with (app / "prj.conf").open("a") as file:
        file.write(CONFIG)
    (app / "src" / "model.c").write_text(THREAD)
    return app


def test_philosophers_run_a_model(workspace: Workspace, philosophers: Path) -> None:
    app = philosophers
    wanted = put(app, dense_chain([16, 32, 8]))
    west(app, "-b", BOARD, ".", "--", *given())
    assert printed(app) == [wanted]
    assert "no work to do" in west(app)

    # No heap, no name outside of the namespace, and no option of Kconfig but the module's and what it selects.
    found = symbols(app / "build" / "zephyr" / "zephyr.elf")
    assert "net_invoke" in found and not {"malloc", "free", "_Znwj", "_Znaj", "sbrk"} & set(found)
    names = seen_by_the_linker(app / "build")
    assert "net_invoke" in names
    assert [name for name in names if not NAMESPACE.match(name)] == []
    plain = app.parent / "plain"
    sample = str(workspace.zephyr_base / "samples" / "philosophers")
    west(app, "-b", BOARD, "-d", str(plain), "--cmake-only", sample, "--", *detect_toolchain().cmake_args)
    with_model, without = options(app / "build"), options(plain)
    assert without - with_model == set()
    assert [option for option in sorted(with_model - without) if not SELECTED.match(option)] == []

    # New weights, and then another network: `west build` alone.
    again = put(app, dense_chain([16, 32, 8], seed=7))
    assert again != wanted
    said = west(app)
    assert printed(app) == [again]
    assert "net_data.S" in said and "net.cpp" not in said and "Re-running CMake" not in said
    other = put(app, dense_chain([24, 8, 4]))
    west(app)
    assert printed(app) == [other]


def test_two_models_in_two_regions(tmp_path: Path) -> None:
    """With sysbuild; each model belongs to another library, and each arena lies in another place."""
    app = tmp_path / "two"
    for path, text in {
        "CMakeLists.txt": of_the_toolchain() + TWO_CMAKE,
        "prj.conf": TWO_CONFIG,
        "app.overlay": TWO_OVERLAY,
        "src/main.c": runner("one") + "\nvoid run_two(void);\nint main(void) { run_one(); run_two(); return 0; }\n",
        "other/CMakeLists.txt": OTHER_CMAKE,
        "other/other.c": '#include "../src/two_golden.h"\n' + runner("two").replace('#include "two_golden.h"\n', ""),
    }.items():
        (app / path).parent.mkdir(parents=True, exist_ok=True)
        (app / path).write_text(text)
    wanted = [put(app, dense_chain([16, 32, 8]), "one"), put(app, dense_chain([20, 12], seed=3), "two")]
    west(app, "-b", BOARD, "--sysbuild", ".", "--", *given())
    assert printed(app, 2, "two/zephyr/zephyr.elf") == wanted
    found = symbols(app / "build" / "two" / "zephyr" / "zephyr.elf")
    assert 0x20300000 <= arena(found, "one") < 0x20308000
    assert found["_image_ram_start"] <= arena(found, "two") < found["_image_ram_end"]
    assert not found["__bss_start"] <= arena(found, "two") < found["__bss_end"]


def test_compiled_models_beside_an_interpreted_one(tmp_path: Path) -> None:
    """Whole layers, layers by rows, and operators that keep TFLM's own kernels; new weights compile the constants."""
    app = tmp_path / "compiled"
    names = ("whole", "rows", "framed", "other")
    calls = " ".join(f"run_{name}();" for name in names)
    (app / "src").mkdir(parents=True)
    (app / "CMakeLists.txt").write_text(COMPILED_CMAKE)
    (app / "prj.conf").write_text(TWO_CONFIG + "CONFIG_TFLM_ZEPHYR_KERNELS_CMSIS_NN=y\n")
    (app / "src" / "main.c").write_text("".join(map(runner, names)) + f"\nint main(void) {{ {calls} return 0; }}\n")
    wanted = [
        put(app, dense_chain([16, 32, 8]), "whole"),
        put(app, mobilenet(24), "rows"),
        put(app, next(case for case in CASES if case.key == "LOG_SOFTMAX").typed("int8").build(), "framed"),
        put(app, dense_chain([20, 12], seed=3), "other"),
    ]
    said = west(app, "-b", BOARD, ".", "--", *given())
    assert set(re.findall(r"(\w+): arena [\d,]+ bytes \(planned", said)) == {"whole", "rows", "framed"}
    assert printed(app, 4) == wanted
    found = symbols(app / "build" / "zephyr" / "zephyr.elf")
    assert not found["__bss_start"] <= arena(found, "whole") < found["__bss_end"]
    assert "no work to do" in west(app)

    wanted[0] = put(app, dense_chain([16, 32, 8], seed=7), "whole")
    said = west(app)
    assert printed(app, 4) == wanted
    assert "whole_weights.S" in said and "whole.cpp" not in said and "Re-running CMake" not in said
