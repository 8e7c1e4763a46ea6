# SPDX-License-Identifier: Apache-2.0
"""Reading .tflite files: what is read, what is refused, and that nothing else can happen."""

from __future__ import annotations

import json
import math
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tflite

from scripts import schema_json
from tests.helpers.checkout import ROOT
from tests.helpers.damaged_models import damaged, rich
from tests.helpers.marks import rest_slow
from tests.helpers.model_builder import ModelBuilder, chain
from tflm_zephyr.errors import ModelError
from tflm_zephyr.model import schema
from tflm_zephyr.model.flatbuffer_edit import Writer
from tflm_zephyr.model.reader import load_model, parse_model
from tflm_zephyr.model.types import Model, Quantization, TensorType


def model_with(fill: Callable[[Any], None], **finish: Any) -> bytes:
    """A model whose main subgraph `fill` fills."""
    model = ModelBuilder()
    fill(model.subgraph("main"))
    return model.finish(**finish)


@pytest.mark.parametrize("external", [False, True])
def test_everything_is_read(external: bool) -> None:
    data = rich(external=external)
    model = parse_model(data, where="here")
    assert (model.version, model.description, model.data, model.where) == (3, "synthetic", data, "here")
    assert [(s.index, s.name, s.inputs, s.outputs) for s in model.subgraphs] == [
        (0, "main", (0, 1), (3,)),
        (1, "then", (0,), (2,)),
        (2, "else", (0,), (2,)),
    ]
    assert model.main is model.subgraphs[0]
    flag, x, _, _, state = model.main.tensors
    assert (flag.type, flag.shape, flag.elements, flag.size_bytes, flag.quantization) == (
        TensorType.BOOL,
        (),
        1,
        1,
        None,
    )
    assert (x.shape, x.shape_signature, x.size_bytes) == ((1, 8), (-1, 8), 8)
    assert x.quantization == Quantization((0.5,), (0,), 0)
    assert (x.is_constant, x.is_variable, state.is_variable) == (False, False, True)
    weights = model.subgraphs[1].tensors[1]
    assert weights.is_constant
    assert weights.data == random.Random(3).randbytes(64)
    assert weights.quantization == Quantization((0.25,) * 8, (0,) * 8, 0)
    assert weights.quantization.per_channel
    called, window, squeeze, broadcast = model.main.operators
    assert (called.key, called.subgraphs, called.options_name) == ("IF", (1, 2), "IfOptions")
    assert (window.key, window.name, window.custom_code) == ("SignalWindow", "CUSTOM", "SignalWindow")
    assert (window.custom_options, window.version, window.options) == (b"abc", 2, {})
    assert squeeze.options == {"squeeze_dims": (0, 2)}
    assert (broadcast.key, broadcast.builtin_code) == ("BROADCAST_ARGS", 145)
    dense = model.subgraphs[1].operators[0]
    assert dense.inputs == (0, 1, -1)
    assert dense.option("fused_activation_function") == 1
    assert dense.option("no_such_option") == 0
    assert dense.options["asymmetric_quantize_inputs"] is False
    assert model.metadata["other"] == b"hi"
    assert model.offline_plan == tuple(range(11))
    assert model.tensor_count == 11
    assert [(s.index, t.index) for s, t in model.tensors()][4:6] == [(0, 4), (1, 0)]


def test_codes_above_127_and_codes_of_old_files() -> None:
    new = parse_model(model_with(lambda g: g.op("BROADCAST_ARGS", [], [])))
    old = parse_model(model_with(lambda g: g.op("SOFTMAX", [], [], options={"beta": 1.5}), legacy_codes=True))
    assert new.main.operators[0].name == "BROADCAST_ARGS"
    assert old.main.operators[0].name == "SOFTMAX"
    assert old.main.operators[0].options == {"beta": 1.5}


def test_operator_newer_than_the_schema() -> None:
    operator = parse_model(model_with(lambda g: g.op(1000, [], []))).main.operators[0]
    assert (operator.key, operator.options, operator.options_name) == ("BUILTIN_1000", {}, "")


def test_control_flow_in_the_old_code_field_is_refused() -> None:
    data = model_with(
        lambda g: g.op("IF", [], [], options={"then_subgraph_index": 0, "else_subgraph_index": 0}),
        legacy_codes=True,
    )
    with pytest.raises(ModelError, match=r"IF stands in the old one-byte field only"):
        parse_model(data)


def test_absent_options_table_gives_no_options() -> None:
    assert parse_model(model_with(lambda g: g.op("CONV_2D", [], []))).main.operators[0].options == {}


def test_defaults_of_options_come_from_the_schema() -> None:
    options = parse_model(model_with(lambda g: g.op("CONV_2D", [], [], options={}))).main.operators[0].options
    assert options["dilation_h_factor"] == 1
    assert options["stride_h"] == 0


def test_empty_buffers_and_scalars() -> None:
    def fill(graph: Any) -> None:
        graph.tensor(None, "float32", "scalar", data=struct.pack("<f", 1.5))
        graph.tensor((2,), "int8", "empty", data=b"")
        graph.tensor((3, 0, 5), "int32", "nothing")
        graph.tensor((5,), "int4", "packed", data=bytes(3))

    scalar, empty, nothing, packed = parse_model(model_with(fill)).main.tensors
    assert (scalar.shape, scalar.size_bytes, scalar.data) == ((), 4, struct.pack("<f", 1.5))
    assert (empty.buffer != 0, empty.data, empty.is_constant) == (True, None, False)
    assert nothing.size_bytes == 0
    assert packed.size_bytes == 5


@pytest.mark.parametrize(("scale", "zero_point"), [([0.5], []), ([0.5, 0.25], [])])
def test_scales_without_zero_points_are_no_quantisation(scale: list[float], zero_point: list[int]) -> None:
    """As in TFLM (InitializeTfLiteTensorFromFlatbuffer in micro_allocator.cc)."""
    data = model_with(lambda g: g.tensor((4,), "int8", scale=scale, zero_point=zero_point))
    assert parse_model(data).main.tensors[0].quantization is None


def test_zero_points_without_scales_are_no_quantisation() -> None:
    data = bytearray(model_with(lambda g: g.tensor((4,), "int8", scale=[0.5], zero_point=[7])))
    vector = tflite.Model.GetRootAs(data).Subgraphs(0).Tensors(0).Quantization()._tab
    scales = vector.Vector(vector.Offset(8))
    struct.pack_into("<I", data, scales - 4, 0)
    assert parse_model(bytes(data)).main.tensors[0].quantization is None


def test_one_zero_point_serves_all_scales() -> None:
    data = model_with(lambda g: g.tensor((4,), "int8", scale=[0.5] * 4, zero_point=[7]))
    assert parse_model(data).main.tensors[0].quantization == Quantization((0.5,) * 4, (7,) * 4, 0)


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (
            lambda g: g.tensor((1, -1), "int8", "in"),
            r"tensor 0 'in' of subgraph 0 has the dynamic shape \[1, -1\]",
        ),
        (lambda g: g.tensor((1 << 16, 1 << 15), "int8"), r"2 GB or more"),
        (lambda g: g.tensor((1 << 14, 1 << 15), "int32"), r"2 GB or more"),
        (lambda g: g.tensor((1 << 16, 1 << 16, 0), "int8"), r"2 GB or more"),
        (
            lambda g: g.tensor((4,), "int16", "w", data=bytes(7)),
            r"tensor 0 'w' .* needs 8 bytes of data and has 7",
        ),
        (lambda g: g.tensor((5,), "int4", "w", data=bytes(2)), r"needs 3 bytes of data and has 2"),
        (lambda g: g.tensor((4,), "int8", buffer=1), r"tensor 0 't0' of subgraph 0 names buffer 1 of 1"),
        (lambda g: g.op("RELU", [0], []), r"operator 0 \(RELU\) of subgraph 0's inputs name tensor 0 of 0"),
        (lambda g: g.op("RELU", [-2], []), r"inputs name tensor -2 of 0"),
        (lambda g: g.op("RELU", [], [-1]), r"outputs name tensor -1 of 0"),
        (lambda g: g.op("RELU", [], [], intermediates=[3]), r"intermediates name tensor 3 of 0"),
        (lambda g: g.inputs.append(0), r"subgraph 0's inputs name tensor 0 of 0"),
        (lambda g: g.outputs.append(-1), r"subgraph 0's outputs name tensor -1 of 0"),
        (lambda g: g.op("CUSTOM", [], []), r"a custom operator without a name"),
        (
            lambda g: g.op("RELU", [], [], custom_options=b""),
            r"operator 0 \(RELU\) .* builtin with custom options",
        ),
        (lambda g: g.op("WHILE", [], []), r"operator 0 \(WHILE\) .* does not say which subgraphs it calls"),
        (
            lambda g: g.op("IF", [], [], options={"then_subgraph_index": 0, "else_subgraph_index": 1}),
            r"operator 0 \(IF\) of subgraph 0 calls subgraph 1 of 1",
        ),
        (
            lambda g: g.op("IF", [], [], options={"cond_subgraph_index": 0}, options_name="WhileOptions"),
            r"does not say which subgraphs it calls",
        ),
    ],
)
def test_what_tflm_would_not_survive_is_refused(fill: Callable[[Any], None], message: str) -> None:
    with pytest.raises(ModelError, match=message) as raised:
        parse_model(model_with(fill), where="m.tflite")
    assert str(raised.value).startswith("m.tflite: ")


def test_unknown_tensor_type() -> None:
    data = bytearray(model_with(lambda g: g.tensor((1,), "int8", "odd")))
    table = tflite.Model.GetRootAs(data).Subgraphs(0).Tensors(0)._tab
    data[table.Pos + table.Offset(6)] = 99
    with pytest.raises(ModelError, match=r"tensor 0 'odd' of subgraph 0 has type number 99"):
        parse_model(bytes(data))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it is empty"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "a pointer of Git LFS, not the model itself. Run `git lfs pull`",
        ),
        (b"TFL3", "not a .tflite file"),
        (b"PK\x03\x04" + bytes(100), "a zip archive"),
        (bytes(100), "not a .tflite file"),
        (struct.pack("<I", 1000) + b"TFL3" + bytes(20), "the root table points outside the file"),
        (struct.pack("<I", 2**32 - 1) + b"TFL3" + bytes(20), "the root table points outside the file"),
    ],
)
def test_what_is_no_model(data: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=re.escape(message)):
        parse_model(data)


@pytest.mark.parametrize("version", [0, 1, 2, 4, 1000])
def test_other_schema_version(version: int) -> None:
    with pytest.raises(ModelError, match=rf"schema version {version}, but TFLM reads version 3"):
        parse_model(ModelBuilder(version=version).finish())


def test_versions_of_operators_and_of_the_schema() -> None:
    def fill(graph: Any) -> None:
        for version in (1, 2, 7):
            graph.op("RELU", [], [], version=version)

    model = parse_model(model_with(fill))
    assert model.version == 3
    assert [code.version for code in model.operator_codes] == [1, 2, 7]
    assert [operator.version for operator in model.main.operators] == [1, 2, 7]


def test_external_data_ends_with_the_file() -> None:
    data = model_with(lambda g: g.tensor((40,), "int8", "w", data=bytes(range(40))), external=True)
    assert parse_model(data).main.tensors[0].data == bytes(range(40))
    with pytest.raises(ModelError, match=r"buffers\[1\]'s external data reaches beyond the file's end"):
        parse_model(data[:-1])


def test_a_file_cannot_unfold_into_much_external_data() -> None:
    """Its buffers may point to the same bytes over and over, each with a copy."""
    model = ModelBuilder()
    main = model.subgraph()
    for _ in range(20):
        main.tensor((8,), "int8", data=bytes(8))
    main.tensor((100_000,), "int8", data=bytes(100_000))
    data = bytearray(model.finish(external=True))
    assert parse_model(bytes(data))
    offsets = {}
    root = tflite.Model.GetRootAs(data)
    for index in range(1, 22):
        table = root.Buffers(index)._tab
        offsets[index] = table.Pos + table.Offset(6), table.Pos + table.Offset(8)
    start, size = (struct.unpack_from("<Q", data, at)[0] for at in offsets[21])
    for place, length in offsets.values():
        struct.pack_into("<Q", data, place, start)
        struct.pack_into("<Q", data, length, size)
    with pytest.raises(ModelError, match="point to the same bytes over and over"):
        parse_model(bytes(data))


def test_no_subgraphs() -> None:
    with pytest.raises(ModelError, match=r"it has no subgraphs"):
        parse_model(ModelBuilder().finish())


def test_names_cannot_break_a_message() -> None:
    def fill(graph: Any) -> None:
        graph.tensor((-1,), "int8", "a\nb\x1b[31m" + "c" * 5000)

    with pytest.raises(ModelError) as raised:
        parse_model(model_with(fill))
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("words", [[], [1, 1], [1, 1, 3, 0, 0, 0], [1, 1, 4, 0, 0], [1, 1, -1]])
def test_offline_plan_that_does_not_fit_the_model(words: list[int]) -> None:
    model = ModelBuilder()
    for _ in range(4):
        model.subgraph().tensor((1,), "int8")
    model.metadata("OfflineMemoryAllocation", struct.pack(f"<{len(words)}i", *words))
    parsed = parse_model(model.finish())
    with pytest.raises(ModelError, match=r"offline memory plan is for .* tensors but the model has 4"):
        _ = parsed.offline_plan


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"x\.tflite: no such file"):
        load_model(tmp_path / "x.tflite")
    with pytest.raises(ModelError, match=r"is a directory, not a file"):
        load_model(tmp_path)
    (tmp_path / "ok.tflite").write_bytes(chain())
    assert load_model(tmp_path / "ok.tflite").where == str(tmp_path / "ok.tflite")


def test_every_type_has_its_number_and_its_c_type() -> None:
    for name, number in vars(tflite.TensorType).items():
        if isinstance(number, int):
            kind = TensorType(name.lower())
            assert schema.type_name(number) == kind.value
            if kind in (TensorType.STRING, TensorType.VARIANT):
                with pytest.raises(ModelError):
                    _ = kind.size_bytes
            else:
                assert kind.size_bytes in (1, 2, 4, 8, 16)
    assert TensorType.INT4.size_bytes == 1
    assert TensorType.INT16.c_type == "int16_t"
    with pytest.raises(ModelError):
        _ = TensorType.COMPLEX64.c_type


def test_schema_is_the_tflite_packages() -> None:
    shipped, derived = json.loads(schema_json.PATH.read_text()), json.loads(schema_json.text())
    if shipped["tflite"] != derived["tflite"]:
        pytest.skip(f"schema.json is of tflite {shipped['tflite']}, installed is {derived['tflite']}")
    assert shipped == derived


def test_an_operator_newer_than_the_tables_is_named_by_tflite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tflite.BuiltinOperator, "LATEST", 1000, raising=False)
    schema.newer_operators.cache_clear()
    assert schema.operator_name(1000) == "LATEST" and schema.operator_name(1001) == "BUILTIN_1001"
    schema.newer_operators.cache_clear()


def package_view(data: bytes) -> list[Any]:
    """A model as the `tflite` package reads it, in the shape of our_view()."""
    root = tflite.Model.GetRootAs(data)
    view = []
    for s in range(root.SubgraphsLength()):
        graph = root.Subgraphs(s)
        for t in range(graph.TensorsLength()):
            tensor = graph.Tensors(t)
            buffer = root.Buffers(tensor.Buffer())
            blob = buffer.DataAsNumpy().tobytes() if buffer.DataLength() else None
            quantization = tensor.Quantization()
            scales = [] if quantization is None else [quantization.Scale(i) for i in range(quantization.ScaleLength())]
            shape = [tensor.Shape(i) for i in range(tensor.ShapeLength())]
            name = (tensor.Name() or b"").decode()
            view.append((name, tensor.Type(), shape, tensor.Buffer(), blob, scales))
        for o in range(graph.OperatorsLength()):
            operator = graph.Operators(o)
            code = root.OperatorCodes(operator.OpcodeIndex())
            inputs = [operator.Inputs(i) for i in range(operator.InputsLength())]
            options: dict[str, Any] = {}
            if number := operator.BuiltinOptionsType():
                name = next(k for k, v in vars(tflite.BuiltinOptions).items() if v == number)
                union, table = operator.BuiltinOptions(), getattr(tflite, name)()
                table.Init(union.Bytes, union.Pos)
                for field, about in schema.fields(name).items():
                    camel = "".join(part.capitalize() for part in field.split("_"))
                    getter = next(v for k, v in vars(tflite_class(name)).items() if k.lower() == camel.lower())
                    if about.vector:
                        length = getattr(table, f"{getter.__name__}Length")()
                        options[field] = tuple(getter(table, i) for i in range(length))
                    else:
                        value = getter(table)
                        options[field] = value.decode() if isinstance(value, bytes) else value
            view.append((code.BuiltinCode(), code.CustomCode(), code.Version(), inputs, options))
    return view


def tflite_class(name: str) -> Any:
    return getattr(tflite, name)


def our_view(model: Model) -> list[Any]:
    numbers = {TensorType(k.lower()): v for k, v in vars(tflite.TensorType).items() if isinstance(v, int)}
    view: list[Any] = []
    for graph in model.subgraphs:
        for t in graph.tensors:
            scales = list(t.quantization.scales) if t.quantization else []
            view.append((t.name, numbers[t.type], list(t.shape), t.buffer, t.data, scales))
        for o in graph.operators:
            custom = None if o.custom_code is None else o.custom_code.encode()
            view.append((o.builtin_code, custom, o.version, list(o.inputs), dict(o.options)))
    return view


def test_shared_models_read_as_with_the_tflite_package(shared_model: Path) -> None:
    data = shared_model.read_bytes()
    assert our_view(parse_model(data)) == package_view(data)


def test_synthetic_model_is_read_as_the_tflite_package_reads_it() -> None:
    assert our_view(parse_model(rich())) == package_view(rich())


def test_reading_needs_neither_numpy_nor_the_tflite_package(shared: Path) -> None:
    """Importing either takes longer than reading a model."""
    script = """
import sys
from pathlib import Path
from tflm_zephyr.model import load_model
load_model(Path(sys.argv[1]))
print({"numpy", "tflite"} & set(sys.modules))
"""
    path = shared / "models" / "person_detect.tflite"
    argv = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def survives(data: bytes) -> bool:
    """Whether `data` parses; anything but a Model or a one-line ModelError fails the test."""
    try:
        model = parse_model(data)
    except ModelError as error:
        assert str(error).isprintable()
        return False
    for subgraph in model.subgraphs:
        assert all(math.prod(t.shape) < 2**31 for t in subgraph.tensors)
    return True


@pytest.mark.parametrize("data", [rich(), rich(external=True), rich(align=1)], ids=["plain", "external", "unaligned"])
def test_truncation_at_every_length(data: bytes) -> None:
    whole = [length for length in range(len(data)) if survives(data[:length])]
    # Only what nothing points to may be missing: padding at the very end.
    assert all(length > len(data) - 16 for length in whole)
    assert survives(data)


@pytest.mark.parametrize("seed", rest_slow(range(4)))
def test_random_damage(seed: int) -> None:
    rng = random.Random(seed)
    bases = (rich(), rich(external=True), rich(align=1), chain())
    parsed = 0
    for _ in range(1500):
        parsed += survives(damaged(rng.choice(bases), rng))
    # Both ends must occur, or the damage tests nothing.
    assert 100 < parsed < 1400


def shared_tables(subgraphs: int, tensors: int, dimensions: int) -> bytes:
    """A small file whose every offset points to the same subgraph, tensor and shape."""
    out = Writer()
    out.put("II", 0, int.from_bytes(b"TFL3", "little"))
    root = out.table({0: 3, 2: 0, 4: 0})
    out.point(0, root[-1])
    for slot, count in ((2, subgraphs), (4, 1)):
        vector = out.vector(count)
        out.point(root[slot], vector)
        table = out.table({0: 0} if slot == 2 else {})
        for index in range(count):
            out.point(vector + 4 + 4 * index, table[-1])
        if slot == 2:
            subgraph = table
    vector = out.vector(tensors)
    out.point(subgraph[0], vector)
    tensor = out.table({0: 0})
    for index in range(tensors):
        out.point(vector + 4 + 4 * index, tensor[-1])
    out.point(tensor[0], out.put("I" * (dimensions + 1), dimensions, *[1] * dimensions))
    return bytes(out.out)


@pytest.mark.parametrize("counts", [(1000, 1000, 1000), (50000, 1, 0), (1, 50000, 1), (1, 10000, 10000)])
def test_a_small_file_cannot_unfold_into_much(counts: tuple[int, int, int]) -> None:
    assert survives(shared_tables(2, 2, 2))
    with pytest.raises(ModelError, match=r"point to the same bytes over and over"):
        parse_model(shared_tables(*counts))
