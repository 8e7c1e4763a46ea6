# SPDX-License-Identifier: Apache-2.0
"""Damage of a compiled model's memory: every bit of it is flipped, in the generated code as this machine runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.helpers.app_specs import GXX, ZEPHYR_STUBS, compile_cxx, needs_gxx, write
from tests.helpers.small_models import dense
from tflm_zephyr.codegen.generation import AppRequest, generate
from tflm_zephyr.codegen.rendering import render
from tflm_zephyr.device.console.status import STATUS
from tflm_zephyr.options import AppConfig, ModelConfig
from tflm_zephyr.tflm.revision import tflm_of

pytestmark = needs_gxx

OK, INVOKE, CONSTANTS, ARENA, STACK, UNCHECKED = 0, 5, 12, 14, 15, 16
# In place of the layers: one that writes a bit where it may not.
PROGRAM = """
#include <cstdio>
#include <cstring>
#include <zephyr/kernel.h>
#include "models/dense.hpp"
#include "models/dense_layers.hpp"

extern "C" uint8_t dense_weights_0[];
namespace model = models::dense;

static uint8_t *g_flipped;
static long g_offset;
static uint8_t g_bit;
static bool g_works = true;

bool model::RunLayer(uint8_t *arena, size_t)
{
	uint8_t *const at = g_flipped != nullptr ? g_flipped : arena;
	at[g_offset] ^= g_bit;
	return g_works;
}

static void Say(const char *what, long number, tflm_app::Status status)
{
	std::printf("%s %ld %d\\n", what, number, static_cast<int>(status));
}

static void RunWithFlips(const char *what, uint8_t *at, long first, long last)
{
	for (long i = first * 8; i < last * 8; ++i) {
		g_flipped = at;
		g_offset = i >= 0 ? i / 8 : (i - 7) / 8;
		g_bit = static_cast<uint8_t>(1 << (i & 7));
		model::Init();
		Say(what, i, model::Invoke());
		Say("then", i, model::Check());
		if (at != nullptr) {
			at[g_offset] ^= g_bit;
		}
	}
	g_bit = 0;
}

int main()
{
	std::memset(fake_stack, 0xaa, sizeof(fake_stack));
	for (long i = 0; i < CONSTANT_BYTES * 8; ++i) {
		dense_weights_0[i / 8] ^= 1 << (i & 7);
		Say("constants", i, model::Init());
		Say("asked", i, model::Check());
		dense_weights_0[i / 8] ^= 1 << (i & 7);
	}
	Say("healed", 0, model::Init());
	g_offset = 0;
	Say("sound", 0, model::Invoke());
	Say("sound", 1, model::Check());
	const long size = static_cast<long>(model::kArenaBytes);
	RunWithFlips("arena", nullptr, -16, 0);
	RunWithFlips("arena", nullptr, size, size + 16);
	RunWithFlips("inside", nullptr, 0, size);
	RunWithFlips("stack", fake_stack, 0, 16);
	g_works = false;
	g_offset = 0;
	model::Init();
	Say("fails", 0, model::Invoke());
	g_works = true;
	std::memset(fake_stack, 0x55, sizeof(fake_stack));
	Say("full", 0, model::Check());
	return 0;
}
"""


def statuses(folder: Path, *defines: str) -> dict[str, set[int]]:
    """The statuses of each kind of flip, and how many there were as `<kind>#`."""
    (folder / "dense.tflite").write_bytes(dense())
    config = AppConfig(
        (ModelConfig(folder / "dense.tflite"),),
        "app",
        ("mps2/an385",),
        kernels="reference",
        backend="compiled",
        model_data="array",
    )
    made = generate(AppRequest(config, folder / "app", tflm_of(None), golden=False))
    app = write(render(made.spec), folder / "out")
    (app / "program.cpp").write_text(PROGRAM)
    options = ("-std=c++17", "-DCONFIG_THREAD_STACK_INFO", "-DCONFIG_INIT_STACKS", *defines)
    size = made.spec.models[0].runtime.flash_bytes
    # Constants that can be written, as flash can when a bit of it flips.
    flags = [str(GXX), "-std=c++17", "-Dconst=", "-Isrc", f"-I{ZEPHYR_STUBS}", "-c"]
    subprocess.run([*flags, "src/models/dense_weights.cpp", "-o", "weights.o"], cwd=app, check=True)
    sources = ("program.cpp", "src/models/dense.cpp", "src/models/dense_golden.cpp", "weights.o")
    compile_cxx(app, *options, f"-DCONSTANT_BYTES={size}", *sources, "-o", "program")
    lines = subprocess.run([str(app / "program")], capture_output=True, text=True, check=True).stdout.splitlines()
    found: dict[str, set[int]] = {}
    for kind, _, status in map(str.split, lines):
        found.setdefault(kind, set()).add(int(status))
    return found


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    found = statuses(tmp_path, "-DCONFIG_TFLM_APP_CHECKS")
    assert found["constants"] == found["asked"] == {CONSTANTS}
    assert found["healed"] == found["sound"] == found["inside"] == {OK}
    assert found["arena"] == {ARENA}
    assert found["stack"] == {STACK}
    assert found["then"] == {OK, ARENA, STACK}
    assert found["fails"] == {INVOKE}
    assert found["full"] == {STACK}


def test_without_checks_none_is(tmp_path: Path) -> None:
    found = statuses(tmp_path)
    assert found.pop("fails") == {INVOKE}
    assert found.pop("asked") == found.pop("then") == found.pop("full") == {UNCHECKED}
    assert found.pop("sound") == {OK, UNCHECKED}
    assert set().union(*found.values()) == {OK}


@pytest.mark.parametrize("status", [CONSTANTS, ARENA, STACK, UNCHECKED])
def test_each_has_a_sentence(status: int) -> None:
    assert STATUS[status]
