# SPDX-License-Identifier: Apache-2.0
"""Every byte of apps and libraries; `pytest --update-golden` takes over the files that are generated now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers import golden_trees
from tests.helpers.architectures import flat_convolutions
from tests.helpers.checkout import ROOT
from tests.helpers.command_line import Tool
from tests.helpers.golden_trees import GOLDEN, check_tree, differences, files_below
from tests.helpers.model_builder import ModelBuilder, chain
from tests.helpers.small_models import dense, unary
from tflm_zephyr.codegen.app_files import app_files
from tflm_zephyr.codegen.generation import AppRequest, generate
from tflm_zephyr.codegen.rendering import render_starters
from tflm_zephyr.options import AppConfig, ModelConfig, PreallocatedConfig
from tflm_zephyr.tflm.revision import tflm_of


def host_link(folder: Path) -> AppConfig:
    """The tree that is kept whole: the MicroInterpreter, the self-test and a host's link."""
    return one_model(folder, dense(), host_link=True)


def one_model(folder: Path, data: bytes, **options: object) -> AppConfig:
    """An app with the model `dense`."""
    (folder / "dense.tflite").write_bytes(data)
    return AppConfig((ModelConfig(folder / "dense.tflite"),), "golden_app", ("mps2/an385",), **options)  # type: ignore[arg-type]


def two_models(folder: Path) -> AppConfig:
    """Several boards, and nothing asked for."""
    (folder / "dense.tflite").write_bytes(dense(x="features", y="scores"))
    (folder / "chain.tflite").write_bytes(chain(2, 32))
    return AppConfig(
        (ModelConfig(folder / "dense.tflite"), ModelConfig(folder / "chain.tflite", "Relu chain", 2048, runs=2)),
        name="golden_app",
        boards=("nrf9160dk/nrf9160/ns", "mps2/an385", "mps2/an386"),
    )


def static_plan(folder: Path) -> AppConfig:
    """Tensors, one of them in a buffer of the app's own, and a scratch buffer."""
    config = one_model(folder, dense(), model_data="array", host_link=True)
    (model,) = config.models
    own = PreallocatedConfig("x", "frame", ".dma", 32)
    return replace(config, models=(replace(model, plan="static", preallocated=(own,)),))


def shared_arena(folder: Path) -> AppConfig:
    """Two models in one arena, with the reference kernels."""
    (folder / "relu.tflite").write_bytes(unary("RELU"))
    config = one_model(folder, dense(), shared_arena=True, kernels="reference", host_link=True)
    return replace(config, models=(*config.models, ModelConfig(folder / "relu.tflite")))


COMPILED = {"backend": "compiled", "kernels": "cmsis_nn", "model_data": "array", "host_link": True}


def compiled(folder: Path) -> AppConfig:
    return one_model(folder, dense(), **COMPILED)


def rows_with_fast_kernels(folder: Path) -> AppConfig:
    return one_model(
        folder, convolutions(), **COMPILED, rows=True, fast_kernels=True, every_fast_kernel=True, slower=90
    )


def hop(folder: Path) -> AppConfig:
    return one_model(folder, flat_convolutions(), **COMPILED, hop=2)


def fallback_kernel(folder: Path) -> AppConfig:
    """TFLM's own kernel for an operator that has no compiled code."""
    return one_model(folder, gathered(), **COMPILED)


def convolutions() -> bytes:
    """A convolution whose output is large, and a depthwise one that makes it small again."""
    model = ModelBuilder(seed=1)
    main = model.subgraph()
    options = {"padding": 0, "fused_activation_function": 1}
    x = main.tensor((1, 12, 12, 1), "int8", "x", scale=0.5, zero_point=-128)
    w = main.tensor((4, 3, 3, 1), "int8", "w", scale=0.01, data="random")
    b = main.tensor((4,), "int32", "b", scale=0.005, data=bytes(16))
    y = main.tensor((1, 12, 12, 4), "int8", "y", scale=0.5, zero_point=-128)
    main.op("CONV_2D", [x, w, b], [y], options={**options, "stride_h": 1, "stride_w": 1})
    w = main.tensor((1, 3, 3, 4), "int8", "w2", scale=0.02, data="random")
    b = main.tensor((4,), "int32", "b2", scale=0.01, data=bytes(16))
    z = main.tensor((1, 6, 6, 4), "int8", "z", scale=0.5, zero_point=-128)
    main.op(
        "DEPTHWISE_CONV_2D", [y, w, b], [z], options={**options, "stride_h": 2, "stride_w": 2, "depth_multiplier": 1}
    )
    main.inputs, main.outputs = [x], [z]
    return model.finish()


def gathered() -> bytes:
    """Four of eight values, gathered from places in a constant, after a RELU."""
    model = ModelBuilder()
    main = model.subgraph()
    x = main.tensor((1, 8), "int8", "x", scale=0.5)
    relu = main.tensor((1, 8), "int8", "relu", scale=0.5)
    places = main.tensor((4,), "int32", "places", data=b"".join(bytes([k, 0, 0, 0]) for k in (7, 0, 3, 3)))
    y = main.tensor((1, 4), "int8", "y", scale=0.5)
    main.op("RELU", [x], [relu])
    main.op("GATHER", [relu, places], [y], options={"axis": 1})
    main.inputs, main.outputs = [x], [y]
    return model.finish()


APPS: Mapping[str, tuple[Callable[[Path], AppConfig], str]] = {
    "host_link": (host_link, ""),
    "two_models": (two_models, "host_link"),
    "static_plan": (static_plan, "host_link"),
    "shared_arena": (shared_arena, "host_link"),
    "compiled": (compiled, "host_link"),
    "rows_with_fast_kernels": (rows_with_fast_kernels, "compiled"),
    "hop": (hop, "compiled"),
    "fallback_kernel": (fallback_kernel, "compiled"),
}
"""Each app with its base."""
LIBRARIES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "library": (("--labels", "labels.txt", "--arena-section", ".noinit.arena"), ""),
    "compiled_library": (("--backend", "compiled"), "library"),
}
"""What tflm_model() writes while an application is built: options and base."""


def app_tree(config: AppConfig, app: Path) -> dict[str, bytes]:
    """Files that `generate` writes, the manifest left out as it carries the version."""
    made = generate(AppRequest(config, app, tflm_of(None)))
    return dict(sorted({**app_files(made.spec, made.golden_files, config, app), **render_starters(made.spec)}.items()))


@pytest.mark.usefixtures("fixed_reference", "every_model_is_large_enough")
@pytest.mark.parametrize("name", APPS)
def test_an_app(name: str, tmp_path: Path, update: bool) -> None:
    check_tree(name, on_base(name, APPS, lambda app: app_tree(APPS[app][0](tmp_path), tmp_path / "app")), update=update)


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library(name: str, tool: Tool, tmp_path: Path, update: bool) -> None:
    (tmp_path / "scores.tflite").write_bytes(dense(x="features", y="scores"))
    (tmp_path / "labels.txt").write_text("".join(f"class {i}\n" for i in range(8)))

    def made(library: str) -> dict[str, bytes]:
        options, _ = LIBRARIES[library]
        assert tool("library", "scores.tflite", "-o", library, "--core", "cortex-m33", *options).code == 0
        return files_below(tmp_path / library)

    check_tree(name, on_base(name, LIBRARIES, made), update=update)


def on_base(
    name: str, trees: Mapping[str, tuple[object, str]], made: Callable[[str], dict[str, bytes]]
) -> dict[str, bytes]:
    """A tree, or how it differs from that of its base."""
    _, base = trees[name]
    return differences(made(name), made(base)) if base else made(name)


@pytest.fixture
def update(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--update-golden"))


def test_the_trees_are_of_what_is_generated() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {*APPS, *LIBRARIES}


@pytest.mark.usefixtures("fixed_reference")
def test_the_same_input_gives_the_same_bytes_anywhere(tmp_path: Path) -> None:
    trees = []
    for name in ("one", "an other/$HOME 'place'"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        trees.append(app_tree(two_models(folder), folder / "app"))
    assert trees[0] == trees[1]


BASE = {"a": b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n", "b": b"2", "c/d": b"3"}


class TestDifferences:
    """Trees that differ have other differences from their base."""

    def test_new_and_absent_files(self) -> None:
        assert differences({"a": BASE["a"], "e": b"4"}, BASE) == {"changes.diff": b"absent b\nabsent c/d\n", "e": b"4"}
        assert differences(BASE, BASE) == {}

    def test_lines_that_changed(self) -> None:
        changes = b"changed a\n@@\n 10\n-11\n+eleven\n 12\n"
        assert differences(BASE | {"a": BASE["a"].replace(b"11", b"eleven")}, BASE) == {"changes.diff": changes}

    def test_a_file_with_little_in_common_is_whole(self) -> None:
        assert differences(BASE | {"b": b"3"}, BASE) == {"b": b"3"}

    def test_a_template_is_named_instead_of_copied(self) -> None:
        (template,) = (ROOT / "templates").rglob("fast_kernels.hpp.j2")
        path, data = "src/fast_kernels.hpp", b"// a banner\n" + template.read_bytes().partition(b"}}\n")[2]
        assert differences(BASE | {path: data}, BASE) == {"changes.diff": f"template {path}\n".encode()}
        edited = data.replace(b"int8_t", b"int16_t")
        assert differences(BASE | {path: edited}, BASE) == {path: edited}

    @pytest.mark.parametrize("change", [{"b": b"1"}, {"e": b""}, {"c/d": None}])
    def test_another_tree_than_the_one_kept(
        self, change: dict[str, bytes | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(golden_trees, "GOLDEN", tmp_path)
        check_tree("base", BASE, update=True)
        check_tree("base", BASE)
        files = {path: data for path, data in (BASE | change).items() if data is not None}
        with pytest.raises(AssertionError, match="pytest --update-golden"):
            check_tree("base", files)
