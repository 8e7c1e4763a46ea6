# SPDX-License-Identifier: Apache-2.0
"""Faults planted in a compiled app on real Zephyr: the self-test fails, and `verify` names the first wrong layer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.zephyr_apps import Tool

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

BOARD = "mps2/an385"
WRONG_KERNEL = """
extern "C" arm_cmsis_nn_status wrong_max_pool_s8(const cmsis_nn_context *context, const cmsis_nn_pool_params *params,
	const cmsis_nn_dims *input, const int8_t *from, const cmsis_nn_dims *filter, const cmsis_nn_dims *output,
	int8_t *to)
{
	const arm_cmsis_nn_status status = arm_max_pool_s8(context, params, input, from, filter, output, to);
	to[output->c - 1] ^= 4;
	return status;
}

namespace models"""
FAULTS = {
    "parameter": ("Layer2Conv2d", "kParams = {128,", "kParams = {127,", 2, "CONV_2D"),
    "plan": ("Layer4Conv2d", "(arena + 384)", "(arena + 0)", 4, "CONV_2D"),  # its scratch over its input
    "kernel": ("Layer5MaxPool2d", "arm_max_pool_s8", "wrong_max_pool_s8", 5, "MAX_POOL_2D"),
}


@pytest.fixture(scope="module")
def app(tool: Tool, apps: Path) -> Path:
    folder = apps / "faults"
    flags = ("--board", BOARD, "--kernels", "cmsis_nn", "--backend", "compiled", "--host-link")
    tool("generate", ROOT / "samples" / "digits" / "digits.tflite", "-o", folder, *flags)
    tool("build", folder, "--board", BOARD)
    return folder


@pytest.fixture
def layers(app: Path) -> Iterator[Path]:
    """The source of the layers, as it was after the test."""
    path = app / "tflm" / "src" / "models" / "digits_layers.cpp"
    before = path.read_text()
    yield path
    path.write_text(before)


def plant(path: Path, layer: str, right: str, wrong: str) -> None:
    """Change one text of a layer's function."""
    text = path.read_text()
    start = text.index(f"bool {layer}(uint8_t *arena)\n{{")
    end = text.index("\n}\n", start)
    assert text.count(right, start, end) == 1
    text = text[:start] + text[start:end].replace(right, wrong) + text[end:]
    path.write_text(text.replace("\nnamespace models", WRONG_KERNEL, 1) if "wrong" in wrong else text)


def test_an_app_without_a_fault_is_verified(app: Path, tool: Tool) -> None:
    found = tool("verify", "--app", app, "--board", BOARD, "--random", "4", as_json=True)
    assert found["equal"] == found["samples"] == 4
    assert found["failure"] is None


@pytest.mark.parametrize("fault", FAULTS)
def test_the_first_wrong_layer_is_named(fault: str, app: Path, layers: Path, tool: Tool) -> None:
    layer, right, wrong, index, key = FAULTS[fault]
    plant(layers, layer, right, wrong)
    tool("build", app, "--board", BOARD)
    found = tool("verify", "--app", app, "--board", BOARD, "--random", "4", code=1, as_json=True)
    operator = found["failure"]["operator"]
    assert (operator["index"], operator["name"]) == (index, key)


def test_the_self_test_fails(app: Path, layers: Path, tool: Tool) -> None:
    plant(layers, *FAULTS["plan"][:3])
    folder = app / "build" / "self_test"
    tool("build", app, "--board", BOARD, "--build-dir", folder, "-D", "CONFIG_TFLM_APP_HOST_LINK=n")
    (result,) = tool("run", app, "--board", BOARD, "--build-dir", folder, code=1, as_json=True)["results"]
    assert result["status"] == "fail"


def test_fast_kernels_are_refused_where_unaligned_loads_trap(apps: Path, tool: Tool) -> None:
    folder = apps / "trapping"
    tool("generate", ROOT / "samples" / "digits" / "digits.tflite", "-o", folder, "--board", BOARD, "--fast-kernels")
    said = tool("build", folder, "--board", BOARD, "-D", "CONFIG_TRAP_UNALIGNED_ACCESS=y", code=1)
    assert "set CONFIG_TRAP_UNALIGNED_ACCESS=n, or generate without fast kernels" in said
    tool("build", folder, "--board", BOARD, "-D", "CONFIG_TRAP_UNALIGNED_ACCESS=n")
