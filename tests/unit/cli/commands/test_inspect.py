# SPDX-License-Identifier: Apache-2.0
"""`inspect`: what it says of small models, as text and JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.command_line import Outcome, Tool
from tests.helpers.control_models import counting
from tests.helpers.model_builder import ModelBuilder
from tests.helpers.random_operators import Operators, tile
from tests.helpers.small_models import dense, legacy, unary


def inspected(tool: Tool, tmp_path: Path, data: bytes, *flags: str) -> Outcome:
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    return tool("inspect", path, *flags)


def test_a_dense_layer(tool: Tool, tmp_path: Path) -> None:
    done = inspected(tool, tmp_path, dense())
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[1] == "  full integer: int8 activations"
    assert lines[2] == "  input 0  'x' int8[1x4], real = 0.5 * (q + 1)"
    assert lines[3] == "  output 0  'y' int8[1x8], real = 0.5 * q"
    assert lines[5].split() == "0 FULLY_CONNECTED 32 32 CMSIS-NN int8[1x4] -> int8[1x8], constant int8[8x4]".split()
    assert lines[6] == (
        "  32 MACs a run; with CMSIS-NN on a Cortex-M it computes 1 of 1 operators and 32 of them (100 %)"
    )


def test_the_same_for_programs(tool: Tool, tmp_path: Path) -> None:
    told = inspected(tool, tmp_path, dense(), "--json").json
    assert (told["macs"], told["cmsis_nn_macs"], told["constant_bytes"]) == (32, 32, 32)
    assert told["inputs"][0] == {
        "name": "x", "type": "int8", "shape": [1, 4], "constant": False, "scales": [0.5], "zero_points": [-1],
    }  # fmt: skip
    assert told["operators"][0]["library"] == "cmsis_nn" and told["operators"][0]["refused"] == ""


@pytest.mark.parametrize(
    ("code", "kind", "why"),
    [
        ("RELU", "int8", "TFLM has no CMSIS-NN kernel for it"),
        ("SOFTMAX", "float32", "float32, which its CMSIS-NN kernel leaves to reference code"),
    ],
)
def test_why_reference_code_computes_it(tool: Tool, tmp_path: Path, code: str, kind: str, why: str) -> None:
    (row,) = inspected(tool, tmp_path, unary(code, kind), "--json").json["operators"]
    assert (row["library"], row["why"], row["macs"]) == ("reference", why, 8)


def test_an_operator_without_ends_multiplies_nothing(tool: Tool, tmp_path: Path) -> None:
    told = inspected(tool, tmp_path, counting(), "--json").json["operators"]
    assert [(row["name"], row["macs"]) for row in told][:2] == [("CALL_ONCE", 0), ("VAR_HANDLE", 1)]
    assert tool("report", "m.tflite", "-o", "page.html").code == 0


def test_float_is_not_quantised(tool: Tool, tmp_path: Path) -> None:
    out = inspected(tool, tmp_path, unary("SOFTMAX", "float32")).out
    assert "  not quantised: float32 activations\n" in out
    assert "'x' float32[1x8], real values" in out


def test_what_tflm_refuses_is_named_operator_by_operator(tool: Tool, tmp_path: Path) -> None:
    model = ModelBuilder()
    main = model.subgraph()
    x = main.tensor((1, 8), "float32", "x")
    y = main.tensor((1, 8), "float32", "y")
    z = main.tensor((1, 8), "float32", "z")
    main.op("RELU", [x], [y])
    main.op("COMPLEX_ABS", [y], [z])
    main.inputs, main.outputs = [x], [z]
    done = inspected(tool, tmp_path, model.finish())
    assert done.code == 1 and done.err == ""
    assert "REFUSED" in done.out
    assert "TFLM has no kernel for it: declare your own in the app file (custom_operators)" in done.out
    assert done.out.endswith("TFLM refuses 1 operator: no app can run this model\n")


def test_an_operator_that_compiled_code_alone_runs(tool: Tool, tmp_path: Path) -> None:
    done = inspected(tool, tmp_path, tile(Operators(1, "int8")).build())
    assert done.code == 0 and "compiled code alone runs it: TFLM has no kernel for it" in done.out
    made = tool("generate", "m.tflite", "-o", "app")
    assert made.code == 0 and "m: backend compiled, as TFLM 8d404de73acf has no kernel for operator 0" in made.out
    other = tool("generate", "m.tflite", "-o", "other", "--backend", "interpreter")
    assert other.code == 1 and "Use the backend compiled, which has code of its own for it" in other.err


def test_a_model_of_uint8_is_compiled(tool: Tool, tmp_path: Path) -> None:
    done = inspected(tool, tmp_path, legacy())
    assert (
        done.code == 0 and "compiled code alone runs it: operator 0 (CONV_2D) of subgraph 0 takes no uint8" in done.out
    )
    assert "note: TFLM refuses this model, which compiled code runs: " in tool("plan", "m.tflite").out
    made = tool("generate", "m.tflite", "-o", "app", "--json").json
    assert any(note.startswith("m: backend compiled, as operator 0 (CONV_2D)") for note in made["notes"])
    other = tool("generate", "m.tflite", "-o", "other", "--backend", "interpreter")
    assert (
        other.code == 1 and "Use the backend compiled. This is the old uint8 quantisation: convert again" in other.err
    )


def test_types_that_tflm_refuses(tool: Tool, tmp_path: Path) -> None:
    (row,) = inspected(tool, tmp_path, unary("ABS", "uint8"), "--json").json["operators"]
    assert row["library"] is None and row["macs"] == 0
    assert "takes no uint8" in row["refused"]
    noted = tool("plan", "m.tflite").out
    assert "note: TFLM refuses this model, and so does generate: " in noted and "takes no uint8" in noted


def test_one_scale_a_channel_in_words(tool: Tool) -> None:
    done = tool("inspect", ROOT / "samples" / "digits" / "digits.tflite")
    assert "full integer: int8 activations, weights per channel" in done.out
    assert ", per channel int8[" in done.out


def test_no_model_is_one_line(tool: Tool, tmp_path: Path) -> None:
    assert "m.tflite" in inspected(tool, tmp_path, b"no model").one_line()
