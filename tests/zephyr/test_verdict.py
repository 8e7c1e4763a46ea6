# SPDX-License-Identifier: Apache-2.0
"""Verdicts against the linker: every model's app is built, or overflows, as `fit` said, and takes what it said."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.architectures import dense_chain
from tests.helpers.checkout import ROOT
from tests.helpers.zephyr_apps import Tool
from tflm_zephyr.build.toolchain import GCC, detect_toolchain

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

NS, SECURE = "nrf9160dk/nrf9160/ns", "nrf9160dk/nrf9160"
MODELS = (
    "ad01_int8", "audio_preprocessor_int8", "hello_world_float", "hello_world_int8", "keyword_scrambled_8bit",
    "kws_ref_model", "micro_speech_quantized", "mnist_lstm_int8", "person_detect", "pretrainedResnet_quant",
)  # fmt: skip
FAST = ("ad01_int8", "kws_ref_model", "micro_speech_quantized", "person_detect", "pretrainedResnet_quant")
SAMPLES = ("hello_world", "digits")
ACCURACY = 0.05
TABLES_GCC = "12.2."  # as GNU Arm Embedded, with picolibc: what the verdicts' tables are measured with
_OVERFLOW = re.compile(r"region [`'](FLASH|RAM)' overflowed by (\d+) bytes")
_SIZES = {NS: {"FLASH": 192 * 1024, "RAM": 168 * 1024}, SECURE: {"FLASH": 1024 * 1024, "RAM": 256 * 1024}}


@dataclass(frozen=True)
class Linked:
    """The linker's result: bytes of each region in its table, and whether the app fits."""

    used: Mapping[str, int]
    fits: bool


@cache
def as_measured() -> bool:
    """Whether apps are built here with the compiler of the tables, whose bounds then hold; else ACCURACY alone."""
    found = detect_toolchain()
    if not found.cmake_args:  # which say that it has picolibc
        return False
    prefix = found.env.get("GNUARMEMB_TOOLCHAIN_PATH")
    gcc = f"{os.environ['CROSS_COMPILE']}gcc" if prefix is None else f"{prefix}/bin/{GCC}"
    machine, version = (
        subprocess.run([gcc, ask], capture_output=True, text=True, check=True).stdout
        for ask in ("-dumpmachine", "-dumpversion")
    )
    return machine.strip() == "arm-none-eabi" and version.startswith(TABLES_GCC)


def link(tool: Tool, app: Path, board: str, folder: Path) -> Linked:
    """Build; an overflow is no failure here but an answer: that much more than there is."""
    argv = ("build", app, "--board", board, "--build-dir", folder)
    try:
        table = tool(*argv, as_json=True)["footprint"]
    except AssertionError:
        found = dict(_OVERFLOW.findall((folder / "west_build.log").read_text()))
        assert found, "the build failed of something else"
        return Linked({region: _SIZES[board][region] + int(over) for region, over in found.items()}, fits=False)
    for region in table:
        if region["name"] in _SIZES[board]:
            assert region["size_bytes"] == _SIZES[board][region["name"]]
    return Linked({region["name"]: region["used_bytes"] for region in table}, fits=True)


def compare(
    tool: Tool, model: Path, board: str, kernels: str, place: Path, *flags: str, accuracy: float = ACCURACY
) -> None:
    """One app in one folder for all, so that TF-M and Zephyr are built once."""
    app = place / "app"
    asked = ("--board", board, "--kernels", kernels, *flags)
    code = 1 if model.stem in ("ad01_int8", "person_detect", "too_large") and board == NS else 0
    said = tool("fit", model, *asked, code=code, as_json=True)["boards"][0]
    made = tool("generate", model, *asked, "-o", app, "--name", "app", "--force", as_json=True)
    assert made["fit"][0]["fits"] == said["fits"]
    linked = link(tool, app, board, place / "build")
    assert said["fits"] == ("yes" if linked.fits else "no")
    for region, key in (("FLASH", "flash"), ("RAM", "ram")):
        if region not in linked.used:
            continue  # the linker does not tell what it uses of one region when the other overflows
        estimate, used = said[key]["used_bytes"], linked.used[region]
        error = estimate - used
        print(f"{model.stem:24} {kernels:9} {region:5} {estimate:7} {used:7} {error:+6} {100 * error / used:+.2f} %")
        assert abs(error) <= accuracy * used, f"{region}: estimated {estimate}, linked {used}"
        if as_measured():
            assert -said[key]["above_bytes"] <= error <= said[key]["below_bytes"], f"{region}: beyond its own bound"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verdict")


@pytest.mark.parametrize("sample", SAMPLES)
def test_sample(tool: Tool, place: Path, sample: str) -> None:
    compare(tool, ROOT / "samples" / sample / f"{sample}.tflite", NS, "auto", place / "auto")


@pytest.mark.parametrize("sample", SAMPLES)
def test_compiled_sample(tool: Tool, place: Path, sample: str) -> None:
    """Compiled code is estimated less sharply, within its bound."""
    model = ROOT / "samples" / sample / f"{sample}.tflite"
    compare(tool, model, NS, "cmsis_nn", place / "compiled", "--backend", "compiled", accuracy=0.2)


def test_a_sample_with_fast_kernels(tool: Tool, place: Path) -> None:
    """The code of our own kernels is estimated by their shapes."""
    model, flags = ROOT / "samples" / "digits" / "digits.tflite", ("--backend", "compiled", "--fast-kernels")
    compare(tool, model, NS, "cmsis_nn", place / "fast", *flags, accuracy=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--rows",)], ids=["whole", "rows"])
@pytest.mark.parametrize("name", FAST)
def test_stock_model_with_fast_kernels(tool: Tool, place: Path, shared: Path, name: str, more: tuple[str, ...]) -> None:
    """An app keeps its options when it gets another model, so that each set of options has an app of its own."""
    model, flags = shared / "models" / f"{name}.tflite", ("--backend", "compiled", "--fast-kernels")
    app = place / " ".join(("fast", *more)).replace(" --", "-").replace(" ", "-")
    compare(tool, model, NS, "cmsis_nn", app, *flags, *more, accuracy=0.2)


def test_a_compiled_float_model(tool: Tool, place: Path, shared: Path) -> None:
    """It is farthest from its estimate, but within its bound."""
    model = shared / "models" / "hello_world_float.tflite"
    compare(tool, model, NS, "cmsis_nn", place / "float", "--backend", "compiled", accuracy=0.6)


def test_a_model_that_overflows(tool: Tool, place: Path, tmp_path: Path) -> None:
    model = tmp_path / "too_large.tflite"
    model.write_bytes(dense_chain([640, 400, 120, 10]))
    compare(tool, model, NS, "auto", place / "auto")


def test_the_larger_target_of_the_same_board(tool: Tool, place: Path, tmp_path: Path) -> None:
    """The remedy that `fit` names first: all of the flash, and by its overlay all of the RAM."""
    model = tmp_path / "too_large.tflite"
    model.write_bytes(dense_chain([640, 400, 120, 10]))
    compare(tool, model, SECURE, "auto", place / "secure")


@pytest.mark.slow
@pytest.mark.parametrize("kernels", ["auto", "reference"])
@pytest.mark.parametrize("name", MODELS)
def test_stock_model(tool: Tool, place: Path, shared: Path, name: str, kernels: str) -> None:
    compare(tool, shared / "models" / f"{name}.tflite", NS, kernels, place / kernels)


@pytest.mark.slow
@pytest.mark.parametrize("sample", SAMPLES)
def test_sample_with_reference_kernels(tool: Tool, place: Path, sample: str) -> None:
    compare(tool, ROOT / "samples" / sample / f"{sample}.tflite", NS, "reference", place / "reference")
