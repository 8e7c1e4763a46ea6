# SPDX-License-Identifier: Apache-2.0
"""An app that its user edited takes a retrained model: built and run with every edit in effect."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.helpers.architectures import dense_chain
from tests.helpers.zephyr_apps import Tool, build_and_run, check_results, generate_app
from tflm_zephyr.boards.board import load_board
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.model.reader import load_model

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

BOARD = "mps2/an385"
MAIN = """
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include "models/net.hpp"
#include "own.h"
#include "run.hpp"

int main()
{
	printk("own code: %d, stack %d, option %d\\n", own_value(), CONFIG_MAIN_STACK_SIZE, CONFIG_OWN_OPTION);
	if (models::net::Init() == tflm_app::Status::kOk) {
		for (int8_t &value : models::net::Input0()) {
			value = 1;
		}
		printk("own run: %d\\n", static_cast<int>(models::net::Invoke()));
	}
	return tflm_app::Run();
}
"""


def edit(app: Path) -> dict[str, bytes]:
    """Edit all that is the user's in `app`; the edited files by path."""
    (app / "src" / "main.cpp").write_text(MAIN)
    (app / "src" / "own.c").write_text('#include "own.h"\nint own_value(void) { return 42; }\n')
    declared = '#ifdef __cplusplus\nextern "C"\n#endif\nint own_value(void);\n'
    (app / "src" / "own.h").write_text(declared)
    for path, more in (
        ("CMakeLists.txt", "target_sources(app PRIVATE src/own.c)\n"),
        ("prj.conf", "CONFIG_MAIN_STACK_SIZE=6000\nCONFIG_OWN_OPTION=7\nCONFIG_BOOT_BANNER=y\n"),
        ("Kconfig", 'config OWN_OPTION\n\tint "An option of the user\'s"\n\tdefault 1\n'),
    ):
        text = (app / path).read_text().replace("CONFIG_BOOT_BANNER=n\n", "")
        (app / path).write_text(text + more)
    return {path: (app / path).read_bytes() for path in ("CMakeLists.txt", "Kconfig", "prj.conf", "src/main.cpp")}


def test_a_build_folder_takes_new_defaults(tool: Tool, apps: Path, tmp_path: Path) -> None:
    """Zephyr keeps a .config, and with it defaults of old, until a merged file changes. The user's line wins."""
    (tmp_path / "net.tflite").write_bytes(dense_chain([32, 48, 8], seed=1))
    app = generate_app(tool, apps, "defaults", tmp_path / "net.tflite", "-b", BOARD)
    tool("build", app, "--board", BOARD)
    config = app / "build" / load_board(BOARD).file_stem / "zephyr" / ".config"
    at_first = main_stack_bytes(config)
    wanted = at_first + 1024
    with (app / "tflm" / "app.yaml").open("a") as file:
        file.write(f"main_stack_bytes: {wanted}\n")
    tool("generate", "-o", app)
    west_build(config.parent.parent)
    assert main_stack_bytes(config) == wanted
    with (app / "prj.conf").open("a") as file:
        file.write(f"CONFIG_MAIN_STACK_SIZE={at_first}\n")
    west_build(config.parent.parent)
    assert main_stack_bytes(config) == at_first


def main_stack_bytes(config: Path) -> int:
    (line,) = re.findall(r"^CONFIG_MAIN_STACK_SIZE=(\d+)$", config.read_text(), re.M)
    return int(line)


def west_build(folder: Path) -> None:
    subprocess.run(["west", "build", "-d", str(folder)], check=True)


def test_an_edited_app_takes_a_retrained_model(tool: Tool, apps: Path, workspace: Workspace, tmp_path: Path) -> None:
    first, second = tmp_path / "net.tflite", tmp_path / "net_of_week_2.tflite"
    first.write_bytes(dense_chain([32, 48, 8], seed=1))
    second.write_bytes(dense_chain([32, 96, 8], seed=2))
    app = generate_app(tool, apps, "retrained", first, "-b", BOARD, "--runs", "2")
    results = build_and_run(tool, app, BOARD)
    check_results(results, app, BOARD, workspace.tflm_revision)
    edited = edit(app)
    said = tool("generate", "-o", app, second)
    assert "  net: new weights, model " in said and "warning" not in said
    assert {path: (app / path).read_bytes() for path in edited} == edited
    results = build_and_run(tool, app, BOARD)
    check_results(results, app, BOARD, workspace.tflm_revision)
    (result,) = results
    assert result["model"] == "net" and len(result["runs"]) == 2
    assert load_model(second).sha256.startswith(result["sha256"])
    said = tool("run", app, "--board", BOARD, "--verbose")
    assert "own code: 42, stack 6000, option 7" in said and "own run: 0" in said
    assert "Booting Zephyr" in said
