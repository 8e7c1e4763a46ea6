# SPDX-License-Identifier: Apache-2.0
"""From a model to an app: what goes into the spec, for models of every kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
import yaml

from tests.helpers.architectures import dense_chain
from tests.helpers.command_line import Tool
from tests.helpers.generated_models import passing, variables, with_custom
from tests.helpers.model_builder import ModelBuilder, chain
from tests.helpers.operator_models import Case, Spec
from tests.helpers.small_models import converted, dense, unary
from tflm_zephyr.arena.given_offsets import given_plan
from tflm_zephyr.boards.board import Board, load_board
from tflm_zephyr.codegen import model_spec
from tflm_zephyr.codegen.generation import AppRequest, Generated, generate
from tflm_zephyr.codegen.identifiers import identifier
from tflm_zephyr.codegen.rendering import render
from tflm_zephyr.codegen.spec import AppSpec, ModelSpec
from tflm_zephyr.errors import AppError, BuildError, ModelError, PlanError, ToolError
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.options import AppConfig, CustomOperatorConfig, ModelConfig
from tflm_zephyr.tflm.revision import TflmRevision, tflm_of

DENSE = "AddFullyConnected(tflite::Register_FULLY_CONNECTED_INT8())"


pytestmark = pytest.mark.usefixtures("every_model_is_large_enough")


@pytest.fixture(scope="module")
def tflm() -> TflmRevision:
    return tflm_of(None)


Make = Callable[..., Generated]


@pytest.fixture
def make(tmp_path: Path, tflm: TflmRevision, fixed_reference: None) -> Make:
    """Generates an app for model bytes, in memory; keywords go into ModelConfig."""

    def run(*models: bytes, **config: object) -> Generated:
        configs = []
        for index, data in enumerate(models):
            path = tmp_path / f"net{index}.tflite"
            path.write_bytes(data)
            configs.append(ModelConfig(path, **config))  # type: ignore[arg-type]
        return generate(AppRequest(AppConfig(tuple(configs)), tmp_path / "app", tflm))

    return run


def only(made: Generated) -> ModelSpec:
    (model,) = made.spec.models
    return model


def calls(model: ModelSpec) -> list[str]:
    return [call.expression for call in model.runtime.resolver.calls]


def source(made: Generated, path: str) -> str:
    return render(made.spec)[path].decode()


# -- models of every kind ------------------------------------------------------------------------------------------


def test_a_dense_model(make: Make) -> None:
    made = make(dense())
    model = only(made)
    assert calls(model) == [DENSE] and model.runtime.resolver.size == 1
    (x,), (y,) = model.inputs, model.outputs
    assert (x.c_type, x.tflite_type, x.shape, x.bytes, x.scale, x.zero_point) == (
        "int8_t", "kTfLiteInt8", (1, 4), 4, 0.5, -1,
    )  # fmt: skip
    assert (y.elements, y.scale) == (8, 0.5)
    (chosen,) = made.spec.tflm.sources.values()
    assert "tensorflow/lite/micro/kernels/cmsis_nn/fully_connected.cc" in chosen
    assert not any(path.endswith("/conv.cc") for path in chosen)
    assert "kInput0Scale = 0.5f" in source(made, "src/models/net0.hpp")
    assert made.manifest.scales == {"net0": ((0.5, 0),)}


@pytest.mark.parametrize("outer", ["float32", "uint8"])
def test_io_int8_hands_over_the_integers(
    make: Make, tmp_path: Path, outer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_spec, "_WORTH_A_REMARK", 1)
    values = numpy.arange(-4, 4) * numpy.float32(0.25)
    numpy.save(tmp_path / "x.npy", values.reshape(1, 8))  # real values, whatever the input's type
    made = [make(converted(outer), io=io, inputs=tmp_path / "x.npy") for io in ("model", "int8")]
    whole, inner = map(only, made)
    assert [[one.type for one in (*model.inputs, *model.outputs)] for model in (whole, inner)] == [
        [outer, outer, "int8"], ["int8"] * 3,
    ]  # fmt: skip
    assert inner.golden[0].inputs == (numpy.round(values / 0.05).astype("int8").tobytes(),)
    remarks = [any(": 48 bytes fewer of inputs and outputs" in note for note in one.notes) for one in made]
    assert remarks == [outer == "float32", False]
    header = source(made[1], "src/models/net0.hpp")
    assert "kInput0Scale = 0.0500000007f" in header and "kOutput0Scale = 0.0399999991f" in header


U8, FOUR = Spec((1, 4), "uint8", scale=0.1), Spec((4, 4), "uint8", [1], scale=0.1)
ALONE = (
    (Case("TILE", (U8, Spec((1,), "int32", [2])), (Spec((2, 4), "uint8"),)), "do not fit .* TFLM has no kernel of it"),
    (Case("CONCATENATION", (U8, replace(U8, scale=0.2)), (Spec((1, 8), "uint8", scale=0.1),), {"axis": 1}), "scales"),
    (Case("SOFTMAX", (U8,), (U8,), {"beta": 1.0}), "another scale than 1/256"),
    (
        Case("FULLY_CONNECTED", (U8, FOUR), (U8,), {"weights_format": 1}),
        "shuffled .* convert again with a TensorFlow 2",
    ),
    (Case("FULLY_CONNECTED", (U8, replace(FOUR, scale=[0.1] * 4)), (U8,), {}), "weights of uint8 with several scales"),
    (Case("LOGISTIC", (U8,), (U8,)), "takes no uint8 .* old uint8 quantisation: convert again"),
)


@pytest.mark.parametrize(("case", "message"), ALONE, ids=[f"{case.key} {message[:9]}" for case, message in ALONE])
def test_what_neither_tflm_nor_compiled_code_runs(make: Make, case: Case, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make(case.build())


def test_each_operator_is_registered_once(make: Make) -> None:
    assert calls(only(make(chain(5)))) == ["AddRelu()"]


@pytest.mark.parametrize(
    ("code", "kind", "c_type", "size"),
    [
        ("LOGICAL_NOT", "bool", "bool", 8),
        ("RELU", "float32", "float", 32),
        ("ABS", "int16", "int16_t", 16),
        ("RELU6", "int8", "int8_t", 8),
    ],
)
def test_types(make: Make, code: str, kind: str, c_type: str, size: int) -> None:
    made = make(unary(code, kind))
    (x,) = only(made).inputs
    assert (x.type, x.c_type, x.bytes, x.elements) == (kind, c_type, size, 8)
    assert f"tflm_app::TensorView<{c_type}, 8> Input0()" in source(made, "src/models/net0.hpp")


def test_float_outputs_carry_no_scale(make: Make) -> None:
    made = make(unary("RELU", "float32"))
    assert "Scale" not in source(made, "src/models/net0.hpp")
    assert made.manifest.scales == {"net0": (None,)}


@pytest.mark.parametrize("kind", ["float16", "complex64", "string"])
def test_types_that_the_interface_cannot_pass(make: Make, kind: str) -> None:
    model = ModelBuilder()
    main = model.subgraph()
    x = main.tensor((1, 4), kind, "odd one")
    main.inputs, main.outputs = [x], [x]
    with pytest.raises(ModelError, match=rf"net0\.tflite.*odd one.*{kind}"):
        make(model.finish())


def test_a_model_without_operators(make: Make) -> None:
    made = make(passing())
    assert calls(only(made)) == [] and only(made).runtime.resolver.size == 1
    assert "MicroMutableOpResolver<1>" in source(made, "src/models/net0.cpp")


def test_a_model_without_inputs(make: Make) -> None:
    model = ModelBuilder()
    main = model.subgraph()
    c = main.tensor((1, 4), "int8", "c", scale=1.0, data="random")
    y = main.tensor((1, 4), "int8", "y", scale=1.0)
    main.op("RELU", [c], [y])
    main.inputs, main.outputs = [], [y]
    made = make(model.finish())
    assert only(made).inputs == () and only(made).golden[0].inputs == ()
    assert "kInputs = 0" in source(made, "src/models/net0.hpp")
    assert "Input0" not in source(made, "README.md")


def test_a_model_without_outputs_is_refused(make: Make) -> None:
    model = ModelBuilder()
    main = model.subgraph()
    x = main.tensor((1, 4), "int8", "x", scale=1.0)
    y = main.tensor((1, 4), "int8", "y", scale=1.0)
    main.op("RELU", [x], [y])
    main.inputs, main.outputs = [x], []
    with pytest.raises(ModelError, match="no outputs"):
        make(model.finish())


def test_resource_variables_are_counted_by_name(make: Make) -> None:
    model = only(make(variables(["state", "other", "state"])))
    assert model.runtime.resource_variables == 2
    assert calls(model) == ["AddVarHandle()", "AddAssignVariable()", "AddReadVariable()"]
    assert only(make(dense())).runtime.resource_variables == 0


@pytest.mark.parametrize("zero_point", [2**40, -(2**40)])
def test_zero_points_beyond_int(make: Make, zero_point: int) -> None:
    model = ModelBuilder()
    main = model.subgraph()
    x = main.tensor((1, 4), "int8", "x", scale=1.0, zero_point=zero_point)
    main.inputs, main.outputs = [x], [x]
    with pytest.raises(ModelError, match="zero point"):
        make(model.finish())


# -- plans and arenas ----------------------------------------------------------------------------------------------


def wide(sizes: tuple[int, ...] = (96, 64, 64, 128, 32)) -> bytes:
    """Dense layers that TFLM's greedy planner packs badly."""
    model = ModelBuilder()
    main = model.subgraph()
    first = last = main.tensor((1, sizes[0]), "int8", "x", scale=0.5)
    for index, (rows, columns) in enumerate(zip(sizes[1:], sizes, strict=False)):
        w = main.tensor((rows, columns), "int8", f"w{index}", scale=0.1, data="random")
        following = main.tensor((1, rows), "int8", f"y{index}", scale=0.5)
        main.op("FULLY_CONNECTED", [last, w, -1], [following], options={"fused_activation_function": 0})
        last = following
    main.inputs, main.outputs = [first], [last]
    return model.finish()


def test_a_plan_that_saves_is_compiled_in_and_checked(make: Make) -> None:
    made = make(wide())
    (item,) = made.prepared
    assert item.planned and item.head.head_bytes < item.head.greedy_bytes
    assert only(made).runtime.data != item.model.data
    compiled = parse_model(only(made).runtime.data)
    assert compiled.offline_plan is not None
    from tflm_zephyr.kernels.libraries import kernel_library

    plan = given_plan(compiled, kernel_library("reference"))
    assert plan is not None and plan.size_bytes == item.head.head_bytes
    assert only(made).sha256 == item.model.sha256  # of the user's file, which results are checked against


def test_online_leaves_the_plan_out(make: Make) -> None:
    planned = only(make(wide())).runtime.data
    made = make(planned, plan="online")
    assert not made.prepared[0].planned
    assert parse_model(only(made).runtime.data).offline_plan is None


def test_given_arena(make: Make) -> None:
    made = make(dense(), arena=8192)
    assert (only(made).arena.bytes, only(made).arena.source) == (8192, "given")
    assert "kGeneratedArenaSize = 8192;" in source(made, "src/models/net0.cpp")
    with pytest.raises(PlanError, match="an arena of 16 bytes cannot hold the head"):
        make(dense(), arena=16)


# -- several models ------------------------------------------------------------------------------------------------


def test_two_models_in_one_app(make: Make) -> None:
    made = make(dense(), unary("RELU"))
    assert [calls(model) for model in made.spec.models] == [[DENSE], ["AddRelu()"]]
    assert "MicroMutableOpResolver<1>" in source(made, "src/models/net0.cpp")
    kernels = {Path(path).name for path in made.spec.tflm.sources["cmsis_nn"]}
    assert {"fully_connected.cc", "activations.cc"} <= kernels
    main = source(made, "src/run.cpp")
    assert '"net0",' in main and '"net1",' in main
    assert set(made.manifest.models) == {"net0", "net1"}


def app_of(spec: AppSpec) -> dict[str, bytes]:
    return render(spec)


@pytest.mark.usefixtures("fixed_reference")
def test_models_whose_names_give_one_identifier(tmp_path: Path, tflm: TflmRevision) -> None:
    for name in ("a-b", "a b"):
        (tmp_path / f"{name}.tflite").write_bytes(dense())
    config = AppConfig(tuple(ModelConfig(tmp_path / f"{name}.tflite") for name in ("a-b", "a b")))
    with pytest.raises(AppError, match="two models have the same name"):
        render(generate(AppRequest(config, tmp_path / "app", tflm)).spec)


@pytest.mark.usefixtures("fixed_reference")
@pytest.mark.parametrize("name", ["my model", "int", "2nd", "größe", "模型", "a'b\"c", "x" * 200, "$HOME", "{{ x }}"])
def test_model_file_names(tool: Tool, tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.tflite"
    path.write_bytes(dense())
    done = tool("generate", path, "-o", tmp_path / "app", "--json")
    assert done.code == 0 and done.json["models"][0]["name"] == identifier(name)
    assert tool("generate", "-o", tmp_path / "app", "--check").code == 0
    assert yaml.safe_load((tmp_path / "app" / "sample.yaml").read_text(encoding="utf-8"))


@pytest.mark.usefixtures("fixed_reference")
@pytest.mark.parametrize("name", ["my app", "größe 模型", "$HOME", "it's", 'say "x"', "-o", "a;b", "int"])
def test_app_folder_names(tool: Tool, model_file: Path, tmp_path: Path, name: str) -> None:
    app = tmp_path / "apps" / name
    assert tool("generate", model_file, "-o", app, "--ci", "github").code == 0
    assert tool("generate", "--app", app / "tflm" / "app.yaml", "--check").code == 0
    project = re.search(r"^project\((\w+) ", (app / "CMakeLists.txt").read_text(), re.M)
    assert project is not None and project[1] == identifier(name)


# -- custom operators ----------------------------------------------------------------------------------------------


@pytest.fixture
def operator(tmp_path: Path) -> CustomOperatorConfig:
    (tmp_path / "my ops" / "src").mkdir(parents=True)
    (tmp_path / "my ops" / "my_op.h").write_text("")
    (tmp_path / "my ops" / "src" / "my_op.cc").write_text("")
    return CustomOperatorConfig("MyOp", "ns::Register_MY_OP", "my_op.h", (tmp_path / "my ops/src/my_op.cc",))


def test_a_custom_operator(make: Make, operator: CustomOperatorConfig) -> None:
    made = make(with_custom(), custom_operators=(operator,))
    assert calls(only(made)) == ['AddCustom("MyOp", ns::Register_MY_OP())']
    text = source(made, "src/models/net0.cpp")
    assert '#include "my_op.h"' in text and "MicroMutableOpResolver<1>" in text
    cmake = source(made, "app.cmake")
    assert '  "../my ops/src/my_op.cc"\n' in cmake
    assert 'set(TFLM_APP_CUSTOM_INCLUDE_DIRS "../my ops")' in cmake  # where the header is


def test_guards_are_left_out_of_generated_code_alone(make: Make, operator: CustomOperatorConfig) -> None:
    cmake = source(make(with_custom(), custom_operators=(operator,)), "app.cmake")
    before, _, after = cmake.partition("set_source_files_properties(${TFLM_APP_SOURCES}")
    assert "src/run.cpp" in before and "my_op.cc" in after and "my_op.cc" not in before
    assert "target_compile_options" not in cmake


@pytest.mark.parametrize(("given", "says"), [(1, None), (600, None), (700, "fewer"), (4096, "")])
def test_a_main_stack_that_is_too_small(
    tmp_path: Path, tflm: TflmRevision, fixed_reference: None, given: int, says: str | None
) -> None:
    (tmp_path / "net.tflite").write_bytes(dense())
    config = AppConfig((ModelConfig(tmp_path / "net.tflite"),), main_stack_bytes=given)
    if says is None:
        with pytest.raises(AppError, match=f"main_stack_bytes: {given} are too few, as TFLM may take"):
            generate(AppRequest(config, tmp_path / "app", tflm))
        return
    notes = " ".join(generate(AppRequest(config, tmp_path / "app", tflm)).notes)
    assert (f"main_stack_bytes: {given} bytes are {says}" in notes) == bool(says)


def test_a_custom_operator_of_two_models_is_compiled_once(make: Make, operator: CustomOperatorConfig) -> None:
    made = make(with_custom(), with_custom(), custom_operators=(operator,))
    assert made.spec.custom.sources == ("../my ops/src/my_op.cc",)
    assert len(made.spec.custom.include_dirs) == 1


def test_a_custom_operator_may_be_called_anything(make: Make, operator: CustomOperatorConfig) -> None:
    name = 'a"\\\n??/%s'
    config = CustomOperatorConfig(name, operator.register, operator.header, operator.sources)
    (call,) = calls(only(make(with_custom(name), custom_operators=(config,))))
    assert call == r'AddCustom("a\042\134\012\077\077/%s", ns::Register_MY_OP())'


def test_a_custom_operator_that_is_not_declared(make: Make) -> None:
    with pytest.raises(ModelError, match="MyOp"):
        make(with_custom())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"register": "Register()"}, "no C\\+\\+ function's name"),
        ({"register": "a; int b"}, "no C\\+\\+ function's name"),
        ({"register": ""}, "no C\\+\\+ function's name"),
        ({"header": 'a"b.h'}, "cannot be included"),
        ({"header": "my op.h"}, "cannot be included"),
        ({"header": "other.h"}, "no header other.h beside or above"),
        ({"sources": (Path("/none/x.cc"),)}, "no such source"),
    ],
)
def test_bad_declarations(make: Make, operator: CustomOperatorConfig, change: dict[str, object], says: str) -> None:
    from dataclasses import replace

    with pytest.raises(AppError, match=says):
        make(with_custom(), custom_operators=(replace(operator, **change),))  # type: ignore[arg-type]


# -- kernels, boards, notes ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("fixed_reference")
def test_cmsis_nn_brings_the_functions_that_its_kernels_call(tmp_path: Path, tflm: TflmRevision) -> None:
    model = tmp_path / "dense.tflite"
    model.write_bytes(dense_chain([8, 4]))
    config = AppConfig((ModelConfig(model),), boards=("mps2/an385",), kernels="cmsis_nn")
    spec = generate(AppRequest(config, tmp_path / "app", tflm)).spec
    assert "tensorflow/lite/micro/kernels/cmsis_nn/fully_connected.cc" in spec.tflm.sources["cmsis_nn"]
    assert "Source/FullyConnectedFunctions/arm_fully_connected_s8.c" in spec.tflm.cmsis_nn_sources
    made = generate(AppRequest(replace(config, tflm="module"), tmp_path / "app", tflm))
    assert "config TENSORFLOW_LITE_MICRO_CMSIS_NN_KERNELS\n" in source(made, "Kconfig")


def config_for(tmp_path: Path, *boards: str, kernels: str = "auto", tflm: str = "selected") -> AppConfig:
    model = tmp_path / "dense.tflite"
    model.write_bytes(dense_chain([8, 4]))
    return AppConfig((ModelConfig(model),), boards=boards, kernels=kernels, tflm=tflm)


def boards_of(config: AppConfig, **arches: str) -> list[Board]:
    """The config's boards, with architectures that a workspace would tell."""
    return [replace(load_board(name), arch=arches.get(name, "")) for name in config.boards]


@pytest.mark.parametrize(
    ("boards", "names"),
    [
        (("mps2/an385", "nrf9160dk/nrf9160/ns"), ("cmsis_nn",)),
        (("qemu_riscv32",), ("reference",)),
        (("mps2/an385", "qemu_riscv32"), ("cmsis_nn", "reference")),
        (("some_arm_board",), ("cmsis_nn", "reference")),
        (("nobody_knows",), ("cmsis_nn", "reference")),
    ],
)
@pytest.mark.usefixtures("fixed_reference")
def test_kernels_by_board(tmp_path: Path, tflm: TflmRevision, boards: tuple[str, ...], names: tuple[str, ...]) -> None:
    config = config_for(tmp_path, *boards)
    made = generate(
        AppRequest(config, tmp_path / "app", tflm, boards=boards_of(config, qemu_riscv32="riscv", some_arm_board="arm"))
    )
    assert made.spec.kernels == names
    assert made.manifest.kernels == (names[0] if len(names) == 1 else "auto")
    cmake, kconfig = source(made, "cmake/tflm.cmake"), source(made, "Kconfig")
    assert ("kernels/cmsis_nn/fully_connected.cc" in cmake) == ("cmsis_nn" in names)
    assert ("kernels/fully_connected.cc" in cmake) == ("reference" in names)
    assert ("config TFLM_APP_CMSIS_NN\n" in kconfig) == ("if(CONFIG_TFLM_APP_CMSIS_NN)" in cmake) == (len(names) == 2)
    assert ("add_library(cmsis_nn" in cmake) == ("cmsis_nn" in names)
    assert len(re.findall(r"^ *if\(", cmake, re.M)) == len(re.findall(r"^ *endif\(", cmake, re.M))


@pytest.mark.usefixtures("fixed_reference")
def test_what_both_libraries_share_is_listed_once(tmp_path: Path, tflm: TflmRevision) -> None:
    spec = generate(AppRequest(config_for(tmp_path, "nobody_knows"), tmp_path / "app", tflm)).spec
    for name in spec.kernels:
        assert sorted((*spec.tflm.shared_sources, *spec.tflm.own_sources(name))) == list(spec.tflm.sources[name])
    assert not set(spec.tflm.own_sources("cmsis_nn")) & set(spec.tflm.own_sources("reference"))
    assert all("/cmsis_nn/" in path for path in spec.tflm.own_sources("cmsis_nn"))


@pytest.mark.usefixtures("fixed_reference")
def test_reference_kernels_on_request(tmp_path: Path, tflm: TflmRevision) -> None:
    made = generate(AppRequest(config_for(tmp_path, "mps2/an385", kernels="reference"), tmp_path / "app", tflm))
    assert made.spec.kernels == ("reference",) and made.spec.tflm.cmsis_nn_sources == ()
    assert "CMSIS_NN" not in source(made, "cmake/tflm.cmake").upper().replace("-", "_")


def test_cmsis_nn_on_a_core_that_is_none_of_its_own(tmp_path: Path, tflm: TflmRevision) -> None:
    config = config_for(tmp_path, "mps2/an385", "qemu_riscv32", kernels="cmsis_nn")
    with pytest.raises(AppError, match=r"^qemu_riscv32: .*Cortex-M.*riscv.*--kernels auto"):
        generate(AppRequest(config, tmp_path / "app", tflm, boards=boards_of(config, qemu_riscv32="riscv")))


@pytest.mark.usefixtures("fixed_reference")
def test_a_workspace_without_cmsis_nn(tmp_path: Path, tflm: TflmRevision) -> None:
    bare = replace(tflm, sources={"reference": tflm.sources["reference"]})
    made = generate(AppRequest(config_for(tmp_path, "mps2/an385"), tmp_path / "app", bare))
    assert made.spec.kernels == ("reference",)
    assert any("no cmsis-nn module" in note and "west update" in note for note in made.notes)
    assert (
        generate(AppRequest(config_for(tmp_path, "mps2/an385", kernels="reference"), tmp_path / "app", bare)).notes
        == ()
    )
    with pytest.raises(AppError, match="no cmsis-nn module"):
        generate(AppRequest(config_for(tmp_path, "mps2/an385", kernels="cmsis_nn"), tmp_path / "app", bare))


@pytest.mark.usefixtures("fixed_reference")
def test_zephyrs_library_uses_cmsis_nn_where_the_core_can(tmp_path: Path, tflm: TflmRevision) -> None:
    option = "TENSORFLOW_LITE_MICRO_CMSIS_NN_KERNELS"
    sure = generate(AppRequest(config_for(tmp_path, "mps2/an385", tflm="module"), tmp_path / "app", tflm))
    assert f"config {option}\n" in source(sure, "Kconfig")
    both = generate(AppRequest(config_for(tmp_path, "nobody_knows", tflm="module"), tmp_path / "app", tflm))
    assert f"config {option}\n\tbool\n\tdepends on CPU_CORTEX_M && " in source(both, "Kconfig")


@pytest.mark.usefixtures("fixed_reference")
def test_registrations_for_the_types_that_a_model_has(tmp_path: Path, tflm: TflmRevision) -> None:
    for boards in (("mps2/an385",), ("nobody_knows",)):  # with a fallback where the kernels are the reference ones
        assert DENSE in calls(only(generate(AppRequest(config_for(tmp_path, *boards), tmp_path / "app", tflm))))
    for config in (
        config_for(tmp_path, "mps2/an385", kernels="reference"),
        config_for(tmp_path, "mps2/an385", tflm="module"),  # whose kernels' macros an app does not see
    ):
        assert calls(only(generate(AppRequest(config, tmp_path / "app", tflm)))) == ["AddFullyConnected()"]
    bare = replace(tflm, typed=())
    assert calls(only(generate(AppRequest(config_for(tmp_path, "mps2/an385"), tmp_path / "app", bare)))) == [
        "AddFullyConnected()"
    ]


def test_a_kernel_that_the_sources_lack(tflm: TflmRevision) -> None:
    for table in tflm.sources.values():
        with pytest.raises(BuildError, match=r"no kernel source defines Register_NONE\(\)"):
            table.select(["Register_NONE"])


def test_zephyrs_own_library_needs_no_sources(tmp_path: Path, make: Make, tflm: TflmRevision) -> None:
    assert make(dense()).spec.tflm.sources
    bare = replace(tflm, sources={name: replace(table, kernels={}) for name, table in tflm.sources.items()})
    config = AppConfig((ModelConfig(tmp_path / "net0.tflite"),))
    with pytest.raises(BuildError, match="Use --tflm module"):
        generate(AppRequest(config, tmp_path / "app", bare))
    spec = generate(AppRequest(replace(config, tflm="module"), tmp_path / "app", bare)).spec
    assert (spec.tflm.sources, spec.tflm.cmsis_nn_sources) == ({}, ())


def test_every_registration_that_the_resolver_names_has_sources(tflm: TflmRevision) -> None:
    lacking = []
    for call in tflm.operators.calls.values():
        for table in tflm.sources.values():
            try:
                table.select([call.register])
            except BuildError:
                lacking.append(call.key)
    assert lacking == []


def test_every_stock_model_gives_an_app_or_one_line(
    shared_model: Path, tmp_path: Path, tflm: TflmRevision, no_reference: None
) -> None:
    """Whatever the model, it is an app or a ToolError; what is refused names the model's file."""
    try:
        made = generate(AppRequest(AppConfig((ModelConfig(shared_model),)), tmp_path / "app", tflm))
    except ToolError as err:
        assert shared_model.name in str(err) and "\n" not in str(err)
        return
    assert render(made.spec)
    assert only(made).arena.bytes >= made.prepared[0].head.head_bytes


def overlapping_app(tmp_path: Path, tflm: TflmRevision, **values: object) -> Generated:
    path = tmp_path / "net.tflite"
    path.write_bytes(chain(3, 4096))
    config = AppConfig((ModelConfig(path, **values),), boards=("mps2/an385",), kernels="cmsis_nn")  # type: ignore[arg-type]
    return generate(AppRequest(config, tmp_path / "app", tflm, golden=False))


def test_outputs_overlap_inputs_where_the_kernels_are_known(tmp_path: Path, tflm: TflmRevision) -> None:
    made = overlapping_app(tmp_path, tflm)
    assert made.prepared[0].head.in_place_count == 3 and made.prepared[0].head.head_bytes == 4096
    assert made.manifest.overlap == {"CMSIS-NN": tflm.cmsis_nn_revision, "TFLM": tflm.revision}
    assert made.spec.overlap_kernels == ("cmsis_nn",)
    off = overlapping_app(tmp_path, tflm, in_place=False)
    assert off.spec.overlap_kernels == ()
    assert off.prepared[0].head.head_bytes == 8192 and off.manifest.overlap == {}
    assert overlapping_app(tmp_path, tflm, plan="online").manifest.overlap == {}


@pytest.mark.parametrize("what", ["revision", "cmsis_nn_revision"])
@pytest.mark.parametrize("there", ["f" * 40, ""])
def test_no_overlap_with_unknown_kernels(tmp_path: Path, tflm: TflmRevision, what: str, there: str) -> None:
    made = overlapping_app(tmp_path, replace(tflm, **{what: there}))  # type: ignore[arg-type]
    assert made.prepared[0].head.in_place_count == 0 and made.manifest.overlap == {}
    (note,) = [note for note in made.notes if "overlaps" in note]
    assert ("CMSIS-NN" if "cmsis" in what else "TFLM") in note and (there[:12] or "git cannot tell") in note
    quiet = overlapping_app(tmp_path, replace(tflm, **{what: there}), in_place=False)  # type: ignore[arg-type]
    assert not any("overlaps" in note for note in quiet.notes)


@pytest.mark.parametrize("what", ["revision", "cmsis_nn_revision", "in_place"])
def test_a_plan_of_ones_own_overlaps_no_more_than_the_planners(tmp_path: Path, tflm: TflmRevision, what: str) -> None:
    mine = tmp_path / "mine.json"
    mine.write_text('{"offsets": [0, 0, 0, 0]}')
    assert overlapping_app(tmp_path, tflm, plan_file=mine).prepared[0].head.in_place_count == 3
    there = tflm if what == "in_place" else replace(tflm, **{what: "f" * 40})  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r"tensor 0 'input' .* tensor 1 'relu0' .* overlap: overlap is off, or allowed"):
        overlapping_app(tmp_path, there, plan_file=mine, in_place=what != "in_place")
    mine.write_text('{"offsets": [0, 4096, 0, 4096]}')
    made = overlapping_app(tmp_path, there, plan_file=mine, in_place=what != "in_place")
    assert made.prepared[0].head.head_bytes == 8192 and made.manifest.overlap == {}


def test_what_does_not_overlap_relies_on_no_revision(make: Make) -> None:
    made = make(chain(1, 16))  # in place would save nothing: the arena is what TFLM needs while it plans
    assert made.prepared[0].head.problem.pairs and made.manifest.overlap == {}
