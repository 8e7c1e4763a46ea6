# SPDX-License-Identifier: Apache-2.0
"""The loss of quantisation, layer by layer: a layer that was made coarse on purpose adds the most."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.helpers.command_line import Tool
from tests.helpers.model_builder import ModelBuilder
from tflm_zephyr.errors import ModelError
from tflm_zephyr.model import parse_model
from tflm_zephyr.validation import quantisation_loss, random_data

numpy = pytest.importorskip("numpy")
pytest.importorskip("ai_edge_litert")
WIDTH, LAYERS = 16, 4


def network(kind: str, coarse: int = -1, *, names: str = "dense") -> bytes:
    """Dense layers of identities: in int8 the output of layer `coarse` has eight times the scale of the others."""
    builder = ModelBuilder()
    main, integer = builder.subgraph(), kind == "int8"
    last = main.tensor((1, WIDTH), kind, "x", scale=0.02 if integer else None)
    main.inputs = [last]
    for layer in range(LAYERS):
        one = numpy.eye(WIDTH) * (100 if integer else 1)
        weights = {"scale": 0.01, "data": one.astype("int8")} if integer else {"data": one.astype("float32")}
        scale = 0.16 if layer == coarse else 0.02
        taken = {"scale": 0.01 * (0.16 if 0 < layer == coarse + 1 else 0.02)} if integer else {}
        before, last = last, main.tensor((1, WIDTH), kind, f"{names}{layer}", scale=scale if integer else None)
        bias = main.tensor((WIDTH,), "int32" if integer else "float32", data=bytes(4 * WIDTH), **taken)
        main.op("FULLY_CONNECTED", [before, main.tensor((WIDTH, WIDTH), kind, **weights), bias], [last])
    main.outputs = [last]
    return builder.finish()


@pytest.mark.parametrize("coarse", range(LAYERS))
def test_the_coarse_layer_adds_the_most(coarse: int) -> None:
    model = parse_model(network("int8", coarse))
    found = quantisation_loss(model, parse_model(network("float32")), random_data(model))
    assert [one.operator for one in found.layers if one.begins] == [coarse]
    assert (found.samples, found.unmatched) == (8, 0)
    error = found.layers[coarse].error
    assert error == pytest.approx(0.16 / math.sqrt(12) / (0.02 * 256 / math.sqrt(12)), rel=0.3)  # a step over the range
    assert found.layers[coarse].sqnr_db == pytest.approx(-20 * math.log10(error), abs=0.01)
    assert all(one.error == 0 and one.sqnr_db is None for one in found.layers[:coarse])


def test_layers_match_by_name_where_the_graphs_differ() -> None:
    """The float model has a layer more."""
    builder = network("float32", names="dense")
    model = parse_model(network("int8"))
    assert quantisation_loss(model, parse_model(builder), random_data(model)).unmatched == 0
    other = ModelBuilder()
    main = other.subgraph()
    x, y = main.tensor((1, WIDTH), "float32", "x"), main.tensor((1, WIDTH), "float32", "dense2")
    main.op("RELU", [x], [y])
    main.inputs, main.outputs = [x], [y]
    found = quantisation_loss(model, parse_model(other.finish()), random_data(model))
    assert [one.operator for one in found.layers] == [2] and found.unmatched == LAYERS - 1


def test_another_network_is_refused() -> None:
    model = parse_model(network("int8"))
    shorter = ModelBuilder()
    main = shorter.subgraph()
    x, y = main.tensor((1, WIDTH), "float32", "x"), main.tensor((1, WIDTH), "float32", "y")
    main.op("RELU", [x], [y])
    main.inputs, main.outputs = [x], [y]
    with pytest.raises(ModelError, match="no layer has the name or the place"):
        quantisation_loss(model, parse_model(shorter.finish()), random_data(model))


def test_the_page_marks_it(tool: Tool) -> None:
    Path("q.tflite").write_bytes(network("int8", 1))
    Path("f.tflite").write_bytes(network("float32"))
    numpy.savez("d.npz", x=numpy.random.default_rng(1).uniform(-2, 2, (5, WIDTH)).astype("float32"))
    asked = ("report", "q.tflite", "--float", "f.tflite", "--data", "d.npz", "-b", "mps2/an385")
    documents = tool(*asked, "-o", "page.html", "--json").json["documents"]
    (loss,) = (one["loss"] for one in documents if one["document"] == "layers")
    assert (loss["float"], loss["data"], loss["samples"]) == ("f.tflite", "d.npz", 5)
    text = Path("page.html").read_text()
    assert "Layer 1, <bdi>FULLY_CONNECTED</bdi>, adds the most." in text
    for one in loss["layers"]:
        assert f"{100 * one['error']:.2f} %" in text
    assert "--float is for a .tflite" in tool("report", "page.json", "--float", "f.tflite").one_line()
