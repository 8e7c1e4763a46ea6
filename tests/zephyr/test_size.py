# SPDX-License-Identifier: Apache-2.0
"""Arenas on real Zephyr: measured and proven both ways, planned by a table, outside of TFLM's arena."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.checkout import ROOT
from tests.helpers.zephyr_apps import Tool, build_and_run, check_results, generate_app
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.model.reader import parse_model

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

DIGITS = ROOT / "samples" / "digits" / "digits.tflite"
HELLO_WORLD = ROOT / "samples" / "hello_world" / "hello_world.tflite"
BOARD = "mps2/an385"


def _sized(tool: Tool, app: Path, *argv: str) -> dict[str, Any]:
    found: dict[str, Any] = tool("size", app, *argv, as_json=True)
    return found


def test_two_models_are_measured_proven_and_used(tool: Tool, apps: Path, workspace: Workspace) -> None:
    app = generate_app(tool, apps, "sized", DIGITS, HELLO_WORLD, "-b", BOARD, "--kernels", "reference")
    board = _sized(tool, app)["boards"][0]
    assert (board["board"], board["measured_on"], board["core"]) == (BOARD, BOARD, "cortex-m3")
    for model in board["models"]:
        estimate, smallest = model["estimate_bytes"], model["arena_bytes"]
        assert smallest <= estimate <= smallest + max(256, smallest // 20)
        assert model["head_bytes"] + model["tail_bytes"] <= smallest
        assert model["floor_bytes"] <= smallest == model["allocates_bytes"]
        assert model["odd"] == 0
        assert "(code 4, at init)" in model["less"]["refusal"] or "(code 3, at init)" in model["less"]["refusal"]
    results = build_and_run(tool, app, BOARD)
    check_results(results, app, BOARD, workspace.tflm_revision)
    sizes = {model["model"]: model["arena_bytes"] for model in board["models"]}
    assert {result["model"]: result["arena"]["size_bytes"] for result in results} == sizes
    assert {result["arena"]["source"] for result in results} == {"measured"}
    config = (app / "build" / "mps2_an385" / "zephyr" / ".config").read_text().splitlines()
    assert f"CONFIG_MAIN_STACK_SIZE={board['main_stack']['bytes']}" in config
    assert tool("generate", "-o", app, "--check")

    # With other kernels the sizes no longer hold.
    said = tool("generate", "-o", app, "--kernels", "cmsis_nn")
    assert said.count("nothing was measured for cortex-m3 with cmsis_nn kernels: estimated") == 2


def test_a_board_without_qemu_is_measured_on_its_core(tool: Tool, apps: Path) -> None:
    app = generate_app(tool, apps, "sized_nrf", DIGITS, "-b", "nrf9160dk/nrf9160")
    board = _sized(tool, app)["boards"][0]
    assert (board["measured_on"], board["core"], board["kernels"]) == ("mps2/an521/cpu0", "cortex-m33", "cmsis_nn")
    model = board["models"][0]
    assert model["arena_bytes"] <= model["estimate_bytes"] <= model["arena_bytes"] + 256
    text = (app / "tflm" / "src" / "models" / "digits.cpp").read_text()
    assert f"kGeneratedArenaSize = {model['arena_bytes']};" in text
    assert "QEMU on mps2/an521/cpu0 (cortex-m33, cmsis_nn kernels, TFLM " in text


def test_the_stack_of_compiled_code(tool: Tool, apps: Path, workspace: Workspace) -> None:
    app = generate_app(tool, apps, "sized_compiled", DIGITS, "-b", BOARD, "--backend", "compiled")
    board = _sized(tool, app)["boards"][0]
    assert board["models"] == []
    results = build_and_run(tool, app, BOARD)
    check_results(results, app, BOARD, workspace.tflm_revision)
    assert {result["arena"]["source"] for result in results} == {"planned"}
    config = (app / "build" / "mps2_an385" / "zephyr" / ".config").read_text().splitlines()
    assert f"CONFIG_MAIN_STACK_SIZE={board['main_stack']['bytes']}" in config
    assert tool("generate", "-o", app, "--check")


@pytest.mark.parametrize("kernels", ["reference", "cmsis_nn"])
def test_a_table_in_place_of_the_planner(tool: Tool, apps: Path, workspace: Workspace, kernels: str) -> None:
    flags = (DIGITS, "-b", BOARD, "--kernels", kernels)
    plain = generate_app(tool, apps, f"planned_{kernels}", *flags)
    app = generate_app(tool, apps, f"static_{kernels}", *flags, "--plan", "static")
    used = {
        folder: {row["name"]: row["used_bytes"] for row in tool("build", folder, as_json=True)["footprint"]}
        for folder in (plain, app)
    }
    assert used[plain]["FLASH"] - used[app]["FLASH"] > 500  # 964 and 580 with GCC 12.2: the planner, less the table
    assert used[app]["RAM"] <= used[plain]["RAM"]
    results = tool("run", app, "--board", BOARD, as_json=True)["results"]
    check_results(results, app, BOARD, workspace.tflm_revision)

    # The negative controls: a buffer of another size, one too many, one too few.
    source = app / "tflm" / "src" / "models" / "digits.cpp"
    text = source.read_text()
    count = len(re.findall(r"^\t\{\d+, \d+\},$", text, re.M))
    first = re.search(r"^\t\{(\d+), (\d+)\},$", text, re.M)
    assert first is not None
    for changed in (
        text.replace(first[0], f"\t{{{int(first[1]) + 1}, {first[2]}}},", 1),
        text.replace(f"StaticPlanner(kPlan, {count},", f"StaticPlanner(kPlan, {count - 1},"),
        text.replace(f"StaticPlanner(kPlan, {count},", f"StaticPlanner(kPlan, {count + 1},"),
    ):
        assert changed != text
        source.write_text(changed)
        tool("build", app, "--board", BOARD)
        said = tool("run", app, "--board", BOARD, code=1)
        assert "TFLM requests other buffers than the app's static plan has" in said
        assert said.count("\n") == 1


def _preallocated(app: Path, *tensors: dict[str, object]) -> None:
    path = app / "tflm" / "app.yaml"
    raw = yaml.safe_load(path.read_text())
    raw["models"][0]["preallocated"] = list(tensors)
    path.write_text(yaml.safe_dump(raw))


@pytest.mark.parametrize("plan", ["packed", "static"])
def test_tensors_in_buffers_of_the_apps_own(tool: Tool, apps: Path, workspace: Workspace, plan: str) -> None:
    app = generate_app(tool, apps, f"own_{plan}", DIGITS, "-b", BOARD, "--kernels", "reference", "--plan", plan)
    before = build_and_run(tool, app, BOARD)[0]["arena"]
    _preallocated(app, {"tensor": 0, "symbol": "frame", "alignment": 32}, {"tensor": 14, "section": ".noinit.layer"})
    tool("generate", "-o", app)
    results = build_and_run(tool, app, BOARD)
    check_results(results, app, BOARD, workspace.tflm_revision)
    assert results[0]["arena"]["head_bytes"] < before["head_bytes"]
    elf = (app / "build" / "mps2_an385" / "zephyr" / "zephyr.map").read_text()
    assert "frame" in elf and ".noinit.layer" in elf

    # Measured with its own buffers, too.
    model = _sized(tool, app)["boards"][0]["models"][0]
    assert model["arena_bytes"] <= model["estimate_bytes"] <= model["arena_bytes"] + 256


SWITCHING = """
	alignas(16) static uint8_t other[80];
	namespace m = models::digits;
	using tflm_app::Status;
	if (m::RegisterPreallocatedTensor(m::kTensor_frame, other, 64) != Status::kNotReady || m::Init() != Status::kOk) {
		tflm_app::Say("no start\\n");
		return 0;
	}
	const bool refused[] = {
		m::RegisterPreallocatedTensor(m::kTensor_frame, other + 1, 64) == Status::kPreallocated,
		m::RegisterPreallocatedTensor(m::kTensor_frame, other, 63) == Status::kPreallocated,
		m::RegisterPreallocatedTensor(m::kTensor_frame + 1, other, 64) == Status::kPreallocated,
		m::RegisterPreallocatedTensor(m::kTensor_frame, nullptr, 64) == Status::kPreallocated,
	};
	uint8_t *const buffers[] = {frame, other, frame};
	for (uint8_t *buffer : buffers) {
		for (int i = 0; i < 64; ++i) {
			buffer[i] = static_cast<uint8_t>(buffer == frame ? 3 * i : 255 - 2 * i);
		}
		if (m::RegisterPreallocatedTensor(m::kTensor_frame, buffer, 64) != Status::kOk || m::Invoke() != Status::kOk) {
			tflm_app::Say("no run\\n");
		}
		tflm_app::Say(m::InputBytes(0).data == buffer ? "in place:" : "copied:");
		for (int8_t value : m::Output0()) {
			tflm_app::Say(" ");
			tflm_app::SayNumber(static_cast<uint8_t>(value));
		}
		tflm_app::Say("\\n");
	}
	tflm_app::Say(refused[0] && refused[1] && refused[2] && refused[3] ? "refused\\n" : "taken\\n");
"""


def test_another_buffer_between_runs(tool: Tool, apps: Path) -> None:
    app = generate_app(tool, apps, "switching", DIGITS, "-b", BOARD, "--kernels", "reference")
    _preallocated(app, {"tensor": 0, "symbol": "frame"})
    tool("generate", "-o", app)
    main = app / "src" / "main.cpp"
    included = '#include "models/digits.hpp"\n#include "report.hpp"\n'
    main.write_text(included + main.read_text().replace("int main()\n{\n", f"int main()\n{{\n{SWITCHING}"))
    tool("build", app, "--board", BOARD)
    said = tool("run", app, "--board", BOARD, "--verbose")
    first, second, third = re.findall(r"^in place:(.*)$", said, re.M)
    assert first == third != second
    assert "refused" in said and "copied" not in said


def test_a_streaming_model_keeps_state_in_the_smallest_arena(tool: Tool, apps: Path, shared: Path) -> None:
    app = generate_app(tool, apps, "svdf", shared / "models" / "keyword_scrambled_8bit.tflite", "-b", BOARD)
    model = _sized(tool, app)["boards"][0]["models"][0]
    assert model["arena_bytes"] <= model["estimate_bytes"]
    measured = json.loads((app / "tflm" / "arena.json").read_text())
    assert measured["arenas"][0]["arena_bytes"] == model["arena_bytes"]


def test_the_tail_is_explained_section_by_section(tool: Tool, apps: Path, workspace: Workspace) -> None:
    app = generate_app(tool, apps, "recorded", DIGITS, "-b", BOARD, "--kernels", "reference")
    tool("build", app, "--record")
    results = tool("run", app, "--record", as_json=True)["results"]
    check_results(results, app, BOARD, workspace.tflm_revision)
    sections = {section["name"]: section for section in results[0]["sections"]}
    graph = parse_model(DIGITS.read_bytes()).main
    assert sections["TfLiteEvalTensor data"]["used_bytes"] == 12 * len(graph.tensors)
    assert sections["NodeAndRegistration struct"]["count"] == len(graph.operators)
    assert sum(section["used_bytes"] for section in sections.values()) < results[0]["arena"]["tail_bytes"]
    assert "not recorded" in tool("run", app, "--record")


def test_a_sensor_and_a_model_share_two_buffers(tool: Tool, apps: Path, workspace: Workspace) -> None:
    sample = ROOT / "samples" / "two_buffers"
    app = generate_app(tool, apps, "two_buffers", "--app", sample / "app.yaml")
    (app / "src" / "main.cpp").write_bytes((sample / "main.cpp").read_bytes())
    results = build_and_run(tool, app, BOARD)
    assert [result["status"] for result in results] == ["pass"]
    got = [[output["data"] for output in run["outputs"]] for run in results[0]["runs"]]
    assert got == [run["outputs"] for run in json.loads((app / "tflm" / "golden" / "digits.json").read_text())["runs"]]
    assert len(got) == 10


def test_two_models_in_one_arena(tool: Tool, apps: Path, workspace: Workspace) -> None:
    sizes = {}
    for shared in (False, True):
        app = apps / f"shared_{shared}"
        config = {"boards": [BOARD], "shared_arena": shared, "models": [str(DIGITS), str(HELLO_WORLD)]}
        (apps / "shared.yaml").write_text(yaml.safe_dump(config))
        tool("generate", "--app", apps / "shared.yaml", "-o", app)
        results = build_and_run(tool, app, BOARD)
        check_results(results, app, BOARD, workspace.tflm_revision)
        sizes[shared] = [result["arena"]["size_bytes"] for result in results]
    assert sizes[True][0] == sizes[True][1] < sum(sizes[False])
