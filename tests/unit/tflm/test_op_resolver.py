# SPDX-License-Identifier: Apache-2.0
"""The resolver table and the exact N."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.model_builder import ModelBuilder
from tflm_zephyr.compiler import OPERATORS
from tflm_zephyr.errors import BuildError, ModelError
from tflm_zephyr.model import schema
from tflm_zephyr.model.lifetimes import Graph, analyse
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.tflm import op_resolver
from tflm_zephyr.tflm.op_resolver import (
    HEADER,
    OPERATORS_FILE,
    CustomOperator,
    OperatorTable,
    ResolverCall,
    dump_operator_table,
    operator_table_for,
    parse_resolver_header,
    resolve,
    shipped_operator_table,
    union,
)
from tflm_zephyr.tflm.pins import PINNED_REVISION, data_folder

HEADER_TEXT = """
template <unsigned int tOpCount>
class MicroMutableOpResolver : public MicroOpResolver {
 public:
  TfLiteStatus AddCustom(const char* name, const TFLMRegistration* registration) { return kTfLiteOk; }
  // TfLiteStatus AddGone() { return AddBuiltin(BuiltinOperator_GONE, Register_GONE(), ParseGone); }
  /* TfLiteStatus AddGoneToo() { return AddBuiltin(BuiltinOperator_GONE_TOO, Register_GONE(), Parse); } */
  TfLiteStatus AddAbs() { return AddBuiltin(BuiltinOperator_ABS, Register_ABS(), ParseAbs); }
  TfLiteStatus
  AddConv2D(const TFLMRegistration& registration = Register_CONV_2D())
  {
    if (registration.init == nullptr) { return kTfLiteError; }
    return AddBuiltin(
        tflite::BuiltinOperator_CONV_2D, registration,
        ParseConv2D);
  }
  TfLiteStatus AddNeedsArgument(const TFLMRegistration& registration) {
    return AddBuiltin(BuiltinOperator_MUL, registration, ParseMul);
  }
  TfLiteStatus AddMul(const std::pair<int, int> = {}, const TFLMRegistration& r = Register_MUL()) {
    return AddBuiltin(BuiltinOperator_MUL, r, ParseMul);
  }
  TfLiteStatus AddMulAgain() { return AddBuiltin(BuiltinOperator_MUL, Register_MUL(), ParseMul); }
  TfLiteStatus AddWindow() {
    // it was "Window" once
    return AddCustom("Signal"
                     "Window", tflite::tflm_signal::Register_WINDOW());
  }
  TfLiteStatus AddBraces() { return AddCustom("a{b", Register_BRACES()); }
  TfLiteStatus AddEthosU() {
    TFLMRegistration* registration = tflite::Register_ETHOSU();
    if (registration) {
      return AddCustom(tflite::GetString_ETHOSU(), registration);
    }
    return kTfLiteOk;
  }
  TfLiteStatus AddNameless() { return AddCustom(GetString_ELSEWHERE(), Register_ELSEWHERE()); }
  TfLiteStatus AddDeclaredOnly();
 private:
  TfLiteStatus AddBuiltin(tflite::BuiltinOperator op, const TFLMRegistration& registration,
                          TfLiteBridgeBuiltinParseFunction parser) { return kTfLiteOk; }
};
"""


def test_header_in_every_style() -> None:
    table = parse_resolver_header(HEADER_TEXT, "rev")
    assert table == OperatorTable(
        {
            "ABS": ResolverCall("ABS", "AddAbs", False, "Register_ABS"),
            "CONV_2D": ResolverCall("CONV_2D", "AddConv2D", False, "Register_CONV_2D"),
            "MUL": ResolverCall("MUL", "AddMul", False, "Register_MUL"),
            "SignalWindow": ResolverCall("SignalWindow", "AddWindow", True, "Register_WINDOW"),
            "a{b": ResolverCall("a{b", "AddBraces", True, "Register_BRACES"),
            "ethos-u": ResolverCall("ethos-u", "AddEthosU", True, "Register_ETHOSU"),
        },
        "rev",
        "workspace",
    )
    assert list(table.calls) == sorted(table.calls)


def test_layout_of_the_header_does_not_matter() -> None:
    text = "\n".join(line for line in HEADER_TEXT.splitlines() if not line.strip().startswith("//"))
    squeezed = " ".join(text.split())
    spread = HEADER_TEXT.replace("(", " (\n    ").replace("{", "\n{\n").replace("\n", "\r\n")
    expected = parse_resolver_header(HEADER_TEXT, "rev").calls
    assert parse_resolver_header(squeezed, "rev").calls == expected
    # Spreading puts a line break into the name "a{b", which ends that string: all others are found.
    spread_calls = parse_resolver_header(spread, "rev").calls
    assert {key: call for key, call in expected.items() if key != "a{b"} == {
        key: call for key, call in spread_calls.items() if "b" not in key
    }


@pytest.mark.parametrize("text", ["", "int main() {", "TfLiteStatus AddAbs() {", "TfLiteStatus AddAbs(((("])
def test_header_without_calls(text: str) -> None:
    with pytest.raises(BuildError, match="no Add"):
        parse_resolver_header(text, "rev")


def test_shipped_table() -> None:
    table = shipped_operator_table()
    assert table.source == "shipped"
    assert table.revision == PINNED_REVISION
    assert len(table.calls) == 113
    assert table.calls["CONV_2D"] == ResolverCall("CONV_2D", "AddConv2D", False, "Register_CONV_2D")
    assert table.calls["TFLite_Detection_PostProcess"].method == "AddDetectionPostprocess"
    assert table.calls["CIRCULAR_BUFFER"].custom
    assert table.calls["SignalPCAN"].method == "AddPCAN"
    assert all(call.register for call in table.calls.values())
    assert len({call.method for call in table.calls.values()}) == 113


def test_dumped_table_is_what_ships() -> None:
    path = Path(__file__).parents[3] / "tflm_zephyr/data" / data_folder(PINNED_REVISION) / OPERATORS_FILE
    assert dump_operator_table(shipped_operator_table()) == path.read_text(encoding="utf-8")


def test_table_of_a_checkout(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="micro_mutable_op_resolver"):
        operator_table_for(tmp_path)
    (tmp_path / HEADER).parent.mkdir(parents=True)
    (tmp_path / HEADER).write_text(HEADER_TEXT, encoding="utf-8")
    assert operator_table_for(tmp_path, "abc").revision == "abc"
    assert operator_table_for(None) == shipped_operator_table()


def _graph(*operators: tuple[str, str | None, int]) -> Graph:
    """A chain of operators (name, custom code, version)."""
    model = ModelBuilder()
    main = model.subgraph()
    first = last = main.tensor((1, 4), "float32", "x0")
    for k, (name, custom, version) in enumerate(operators):
        following = main.tensor((1, 4), "float32", f"x{k + 1}")
        main.op(name, [last], [following], custom_code=custom, version=version)
        last = following
    main.inputs, main.outputs = [first], [last]
    return analyse(parse_model(model.finish()))


def test_each_operator_once_in_execution_order() -> None:
    graph = _graph(("TANH", None, 1), ("ABS", None, 1), ("TANH", None, 3), ("X", "mine", 1), ("X", "mine", 2))
    mine = CustomOperator("mine", "Register_MINE", "mine.h", ("mine.cc",))
    spec = resolve(graph, shipped_operator_table(), [mine, CustomOperator("other", "r", "h")])
    assert [call.key for call in spec.calls] == ["TANH", "ABS", "mine"]
    assert spec.calls[2] is mine
    assert spec.size == 3


def test_subgraphs_that_are_never_called_count() -> None:
    model = ModelBuilder()
    for name in ("ABS", "NEG"):
        part = model.subgraph()
        x, y = part.tensor((1, 4), "float32"), part.tensor((1, 4), "float32")
        part.op(name, [x], [y])
        part.inputs, part.outputs = [x], [y]
    spec = resolve(analyse(parse_model(model.finish())), shipped_operator_table())
    assert [call.key for call in spec.calls] == ["ABS", "NEG"]


def test_own_kernel_goes_before_tflms() -> None:
    graph = _graph(("X", "SignalWindow", 1))
    assert isinstance(resolve(graph, shipped_operator_table()).calls[0], ResolverCall)
    own = CustomOperator("SignalWindow", "Register_MY_WINDOW", "w.h")
    assert resolve(graph, shipped_operator_table(), [own]).calls == (own,)


def test_a_custom_operator_named_like_a_builtin_is_not_one() -> None:
    graph = _graph(("X", "ABS", 1), ("ABS", None, 1))
    with pytest.raises(ModelError, match=r"operator 0 \(ABS\)"):
        resolve(graph, shipped_operator_table())
    own = CustomOperator("ABS", "Register_MY_ABS", "abs.h")
    assert resolve(graph, shipped_operator_table(), [own]).size == 2


@pytest.mark.parametrize(
    ("name", "custom", "hint"),
    [
        ("X", "mine", "Declare it as a custom operator"),
        ("X", "FlexErf", "SELECT_TF_OPS.*tf.Erf"),
        ("BIDIRECTIONAL_SEQUENCE_LSTM", None, "unroll=True"),
        ("STABLEHLO_ADD", None, "StableHLO"),
        ("REDUCE_PROD", None, "Rebuild that part"),
        ("GELU", None, "Train with ReLU"),
    ],
)
def test_operator_that_tflm_lacks(name: str, custom: str | None, hint: str) -> None:
    graph = _graph(("ABS", None, 1), (name, custom, 1))
    with pytest.raises(ModelError, match=hint) as caught:
        resolve(graph, shipped_operator_table())
    key = custom or name
    assert f"operator 1 ({key}) of subgraph 0, which reads 1 'x1' and writes 2 'x2'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_of_an_operator_that_tflm_lacks_are_printable() -> None:
    model = ModelBuilder()
    main = model.subgraph()
    x, y = main.tensor((1, 4), "float32", "a\nb"), main.tensor((1, 4), "float32", "y")
    main.op("X", [x], [y], custom_code="my\x1b[31m")
    main.inputs, main.outputs = [x], [y]
    with pytest.raises(ModelError, match=r"operator 0 \(my\\x1b\[31m\)") as caught:
        resolve(analyse(parse_model(model.finish())), shipped_operator_table())
    assert str(caught.value).isprintable()


def test_declared_twice() -> None:
    graph = _graph(("X", "mine", 1))
    one, two = CustomOperator("mine", "a", "h"), CustomOperator("mine", "b", "h")
    assert resolve(graph, shipped_operator_table(), [one, one]).size == 1
    with pytest.raises(ModelError, match="declared twice"):
        resolve(graph, shipped_operator_table(), [one, two])


def test_union_of_several_models() -> None:
    one = resolve(_graph(("ABS", None, 1), ("NEG", None, 1)), shipped_operator_table())
    two = resolve(_graph(("NEG", None, 1), ("TANH", None, 1)), shipped_operator_table())
    assert [call.key for call in union([one, two]).calls] == ["ABS", "NEG", "TANH"]


def test_ways_to_export_are_for_operators_that_nobody_runs() -> None:
    known = {schema.operator_name(code) for code in range(256)}
    assert known >= op_resolver._EXPORTS.keys()
    assert not op_resolver._EXPORTS.keys() & (shipped_operator_table().calls.keys() | OPERATORS.keys())
