# SPDX-License-Identifier: Apache-2.0
"""An operator of the user's that aborts or faults on real Zephyr: one line, at once; its text comes through."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.helpers.generated_models import with_custom
from tests.helpers.zephyr_apps import Tool
from tflm_zephyr.device.session.opening import open_session
from tflm_zephyr.device.transport.target import DeviceTarget
from tflm_zephyr.errors import DeviceError

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

BOARD = "mps2/an385"
HEADER = '#pragma once\n#include "tensorflow/lite/micro/micro_common.h"\nTFLMRegistration *Register_MY_OP();\n'
SOURCE = r"""
#include "my_op.h"
#include <cstdlib>
#include <zephyr/sys/printk.h>

static TfLiteStatus Eval(TfLiteContext *context, TfLiteNode *node)
{
	const int8_t *from = context->GetEvalTensor(context, node->inputs->data[0])->data.int8;
	int8_t *to = context->GetEvalTensor(context, node->outputs->data[0])->data.int8;
	printk("my op: %d\n", from[0]);
	if (from[0] == 1) {
		abort();
	}
	if (from[0] == 2) {
		__asm__ volatile("udf #0");
	}
	for (int i = 0; i < 4; ++i) {
		to[i] = static_cast<int8_t>(-from[3 - i]);
	}
	return from[0] == 3 ? kTfLiteError : kTfLiteOk;
}

TFLMRegistration *Register_MY_OP()
{
	static TFLMRegistration registration = {};
	registration.invoke = Eval;
	return &registration;
}
"""
APP = """name: breaking
boards: [mps2/an385]
host_link: true
models:
  - model: breaking.tflite
    custom_operators:
      - {name: MyOp, register: Register_MY_OP, header: my_op.h, sources: [my_op.cc]}
"""


@pytest.fixture(scope="module")
def app(tool: Tool, apps: Path) -> Path:
    folder = apps / "breaking_sources"
    folder.mkdir()
    (folder / "breaking.tflite").write_bytes(with_custom())
    (folder / "my_op.h").write_text(HEADER)
    (folder / "my_op.cc").write_text(SOURCE)
    (folder / "app.yaml").write_text(APP)
    tool("generate", "--app", folder / "app.yaml", "-o", apps / "breaking")
    tool("build", apps / "breaking", "--board", BOARD)
    return apps / "breaking"


def test_a_custom_operator_runs_and_its_text_is_heard(app: Path) -> None:
    heard: list[str] = []
    with open_session(DeviceTarget(app=app, board=BOARD), on_text=heard.append) as session:
        assert session.hello.operators[0].name == "MyOp"
        assert session.invoke([b"\x05\x06\x07\x08"]).outputs == (b"\xf8\xf9\xfa\xfb",)
        (found,) = session.capture([b"\x05\x06\x07\x08"]).operators
        assert (found.name, found.data) == ("MyOp", b"\xf8\xf9\xfa\xfb")
        with pytest.raises(DeviceError, match=r"a kernel failed \(code 5 at invoke\)"):
            session.invoke([b"\x03\0\0\0"])
        assert session.invoke([b"\x05\0\0\0"]).outputs == (b"\0\0\0\xfb",)
    assert heard == ["my op: 5", "my op: 5", "my op: 3", "my op: 5"]


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (1, "the app crashed: TFLM aborted: a check in it failed"),
        (2, "the app crashed: Zephyr's kernel met a fatal error"),
    ],
)
def test_a_crash_is_reported_at_once(app: Path, first: int, said: str) -> None:
    with open_session(DeviceTarget(app=app, board=BOARD)) as session:
        begun = time.monotonic()
        with pytest.raises(DeviceError, match=f"{said}.*Last lines: my op: {first}"):
            session.invoke([bytes((first, 0, 0, 0))])
        assert time.monotonic() - begun < 10
