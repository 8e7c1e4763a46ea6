# SPDX-License-Identifier: Apache-2.0
"""A model with streamed input in a user's own application in C, beside one that the interpreter runs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.helpers.architectures import dense_chain, mobilenet
from tests.helpers.module_apps import BOARD, given, printed, put, west
from tflm_zephyr.host.run import available, run_many
from tflm_zephyr.model.reader import load_model

pytestmark = [
    pytest.mark.zephyr,
    pytest.mark.slow,
    pytest.mark.usefixtures("workspace"),
    pytest.mark.skipif(not available("tflm"), reason="needs TFLM on this machine"),
]

CMAKE = """
cmake_minimum_required(VERSION 3.20.5)
find_package(Zephyr REQUIRED HINTS $ENV{ZEPHYR_BASE})
project(streamed)
target_sources(app PRIVATE src/main.c)
tflm_model(app NAME net MODEL net.tflite KERNELS cmsis_nn STREAM_INPUT on SLOWER 50)
tflm_model(app NAME dense MODEL dense.tflite KERNELS cmsis_nn)
"""
CONFIG = "CONFIG_TFLM_ZEPHYR=y\nCONFIG_MAIN_STACK_SIZE=8192\n"
MAIN = r"""
#include <string.h>
#include <zephyr/kernel.h>
#include "dense.h"
#include "dense_golden.h"
#include "net.h"
#include "picture.h"

static void say(const char *name, int result, const int8_t *output, size_t elements)
{
	printk("\nTFLM: %s %s", name, tflm_result_text(result));
	for (size_t i = 0; result == 0 && i < elements; i++) {
		printk(" %02x", (uint8_t)output[i]);
	}
	printk(" end\n");
}

/* Rows in pieces of 1, 2, 3, ... */
static int push(const int8_t *rows)
{
	int result = 0;

	for (size_t piece = 1; result == 0 && net_rows_expected() != 0; piece++) {
		const size_t count = piece < net_rows_expected() ? piece : net_rows_expected();

		result = net_push_rows(rows, count);
		rows += count * NET_ROW_ELEMENTS;
	}
	return result;
}

int main(void)
{
	int wrong = 0;

	wrong += net_push_rows(picture[0], 1) != -EAGAIN || net_rows_expected() != 0;
	wrong += net_init() != 0;
	wrong += net_output() != NULL || net_rows_expected() != NET_ROWS;
	wrong += net_invoke() != -EMSGSIZE;
	wrong += net_push_rows(picture[0], NET_ROWS + 1) != -EMSGSIZE || net_rows_expected() != NET_ROWS;
	/* Half an image that is dropped, and one that a reset drops. */
	wrong += net_push_rows(picture[1], NET_ROWS / 2) != 0 || net_rows_expected() != NET_ROWS - NET_ROWS / 2;
	wrong += net_invoke() != -EMSGSIZE;
	net_drop_rows();
	wrong += net_push_rows(picture[1], NET_ROWS - 1) != 0;
	wrong += net_reset() != 0 || net_rows_expected() != NET_ROWS;
	for (int i = 0; i < 2; i++) {
		wrong += push(picture[i]) != 0;
		wrong += net_output() != NULL;
		wrong += net_push_rows(picture[i], 1) != -EMSGSIZE;
		say(i == 0 ? "first" : "second", net_invoke(), net_output(), NET_OUTPUT_ELEMENTS);
		wrong += net_invoke() != -EMSGSIZE || net_output() == NULL;
	}
	wrong += dense_init() != 0;
	memcpy(dense_input(), dense_golden, DENSE_INPUT_ELEMENTS);
	say(dense_sha256(), dense_invoke(), dense_output(), DENSE_OUTPUT_ELEMENTS);
	printk("\nTFLM: wrong %d end\n", wrong);
	return 0;
}
"""


def test_c_pushes_rows_in_pieces(tmp_path: Path) -> None:
    app = tmp_path / "app"
    (app / "src").mkdir(parents=True)
    (app / "CMakeLists.txt").write_text(CMAKE)
    (app / "prj.conf").write_text(CONFIG)
    (app / "src" / "main.c").write_text(MAIN)
    dense = put(app, dense_chain([8, 6, 4]), "dense")
    (app / "net.tflite").write_bytes(mobilenet(32, 0.5))
    model = load_model(app / "net.tflite")
    size = model.main.tensors[model.main.inputs[0]].size_bytes
    rng = random.Random(3)
    pictures = [[rng.randbytes(size)] for _ in range(2)]
    wanted = [outputs[0] for outputs in run_many(model.data, pictures, engine="tflm").runs]
    rows = ",\n".join("{" + ", ".join(str(byte - 256 * (byte > 127)) for byte in data) + "}" for (data,) in pictures)
    (app / "src" / "picture.h").write_text(f"static const int8_t picture[2][{size}] = {{{rows}}};\n")
    west(app, "-b", BOARD, "--", *given())
    found = printed(app, 4)
    for line, name, outputs in zip(found, ("first", "second"), wanted, strict=False):
        assert line == f"TFLM: {name} ok {' '.join(f'{byte:02x}' for byte in outputs)} end"
    assert found[2:] == [dense, "TFLM: wrong 0 end"]
