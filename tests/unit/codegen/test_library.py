# SPDX-License-Identifier: Apache-2.0
"""A model's library: C and C++ that compile, and a C program that uses the header."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.app_specs import app, compile_cxx, model, needs_gxx, tensor, write
from tests.helpers.checkout import ROOT
from tests.helpers.small_models import dense
from tflm_zephyr.codegen.library import check_labels, library_name, render_library
from tflm_zephyr.codegen.spec import AppSpec, LibrarySpec
from tflm_zephyr.errors import AppError

GCC = shutil.which("gcc")


def library(*, labels: tuple[str, ...] = (), section: str = "", **changes: object) -> AppSpec:
    """A library of the model "net", without golden runs."""
    return app(model(golden=(), **changes), library=LibrarySpec(labels, section))


@needs_gxx
@pytest.mark.parametrize("standard", ["c99", "c17"])
def test_the_c_header_computes(tmp_path: Path, standard: str) -> None:
    """Quantisation, argmax and labels in a C program; the model itself is a stand-in."""
    hostile = ('say "no" \\', "a\nb", "??/", *(f"label {i}" for i in range(67)))
    files = render_library(library(labels=hostile, outputs=(tensor("y", 70, scale=0.25, zero_point=3),)))
    write(files, tmp_path)
    (tmp_path / "main.c").write_text(
        """
#include "net.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>
static int8_t values[70];
int8_t *net_output(void) { return values; }
const char *const net_labels[NET_LABELS] = {"a", "b", "c"};
int main(void)
{
	assert(NET_INPUT_ELEMENTS == 4 && NET_OUTPUT_ELEMENTS == 70 && NET_LABELS == 70);
	assert(net_input_quantize(0.0f) == -1 && net_input_quantize(1.0f) == 1);
	assert(net_input_quantize(1e9f) == 127 && net_input_quantize(-1e9f) == -128);
	assert(net_input_quantize(NAN) == -128);
	assert(net_output_quantize(0.125f) == 4 && net_output_quantize(-0.125f) == 2);
	assert(net_output_dequantize(5) == 0.5f);
	assert(net_output_argmax() == 0);
	values[2] = values[9] = 7;
	assert(net_output_argmax() == 2 && strcmp(net_labels[net_output_argmax()], "c") == 0);
	puts(tflm_result_text(-ENOMEM));
	return 0;
}
"""
    )
    argv = [str(GCC), f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-Iinclude", "main.c", "-o", "main", "-lm"]
    built = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "the arena is too small\n")


@needs_gxx
@pytest.mark.parametrize("scale", [0.5, None])
def test_the_c_functions_compile(tmp_path: Path, scale: float | None) -> None:
    """With one tensor a side and with several; whoever is not quantised has no helpers."""
    spec = library(labels=("no", 'say "yes" ??/'), outputs=(tensor("y", 2, scale=scale), tensor("z", 3)))
    files = render_library(spec)
    header = files["include/net.h"].decode()
    assert ("net_output0_quantize" in header) == (scale is not None)
    assert "net_output1_argmax" in header and "net_input_quantize" in header and "net_input0" not in header
    write(files, tmp_path)
    compile_cxx(tmp_path, "-std=c++17", "-Iinclude", "-c", "src/models/net_c.cpp", "src/models/net_id.cpp")


@needs_gxx
def test_a_status_is_an_errno_for_c(tmp_path: Path) -> None:
    """Each has one (-Wswitch), and only kOk is 0."""
    write(render_library(library()), tmp_path)
    cases = {"kOk": "0", "kAllocate": "-ENOMEM", "kOperator": "-ENOTSUP", "kPlan": "-EINVAL", "kInvoke": "-EIO"}
    cases |= {"kNotReady": "-EAGAIN", "kInputRows": "-EMSGSIZE"}
    lines = "".join(f"static_assert(Errno(Status::{name}) == {value});\n" for name, value in cases.items())
    text = f'#include "tflm_zephyr/tensor.hpp"\nusing tflm_app::Errno;\nusing tflm_app::Status;\n{lines}'
    text += "static_assert(Errno(static_cast<Status>(99)) < 0);\n"
    (tmp_path / "errors.cpp").write_text(text)
    compile_cxx(tmp_path, "-std=c++17", "-Iinclude", "-fsyntax-only", "errors.cpp")


def test_an_arena_lies_in_its_section() -> None:
    source = render_library(library(section=".noinit.arena"))["src/models/net.cpp"].decode()
    assert '__attribute__((section(".noinit.arena")))\ntflm_app::GuardedArena<kArenaSize> g_guarded_arena;' in source
    assert "section" not in render_library(library())["src/models/net.cpp"].decode()


def test_the_header_says_nothing_of_the_weights() -> None:
    one = render_library(library())
    other = render_library(library(sha256="cd" * 32, data=bytes(40)))
    changed = {path for path in one if one[path] != other[path]}
    assert changed == {"src/models/net.tflite", "src/models/net_id.cpp"}


def test_both_kernel_libraries_are_refused() -> None:
    with pytest.raises(AppError, match="has the kernels of one core"):
        render_library(replace(library(), kernels=("cmsis_nn", "reference")))


def test_names_are_prefixes() -> None:
    assert library_name("digits_2") == "digits_2"
    for name, wanted in (("Digits", "digits"), ("2nd", "m_2nd"), ("int", "int_model"), ("a-b", "a_b")):
        with pytest.raises(AppError, match=rf"NAME {name}: no prefix of C functions\. Use NAME {wanted}"):
            library_name(name)


def test_labels_are_as_many_as_elements() -> None:
    with pytest.raises(AppError, match=r"labels.txt: has 2 labels, and output 0 of net has 70 elements"):
        check_labels(["a", "b"], model(), "labels.txt")


def test_it_needs_no_host_engines(tmp_path: Path) -> None:
    """Only the packages of zephyr/requirements.txt, and none of those that talk to devices."""
    (tmp_path / "net.tflite").write_bytes(dense())
    named = (ROOT / "zephyr" / "requirements.txt").read_text().splitlines()
    needed = {line.partition(">")[0] for line in named if line and not line.startswith("#")}
    assert needed == {"flatbuffers", "jinja2", "numpy", "pyyaml", "tflite"}
    script = f"""
import sys
for name in ("ai_edge_litert", "tflite_micro", "tensorflow", "PIL", "elftools", "serial", "cobs", "tqdm", "west"):
    sys.modules[name] = None
sys.path.insert(0, {str(ROOT)!r})
from tflm_zephyr.cli import main
sys.exit(main.main(["library", "net.tflite", "-o", "out", "--core", "cortex-m3"]))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("net: arena ")
