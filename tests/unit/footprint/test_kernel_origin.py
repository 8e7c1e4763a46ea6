# SPDX-License-Identifier: Apache-2.0
"""The library of each kernel in an image, by the linked sources and by the model's tensors, and the reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.helpers.model_builder import ModelBuilder
from tflm_zephyr.cli.report.kernels import kernels_json, short, table
from tflm_zephyr.errors import BuildError
from tflm_zephyr.footprint import kernel_origin
from tflm_zephyr.footprint.elf import ElfImage, Section, Symbol
from tflm_zephyr.footprint.kernel_origin import (
    CMSIS_NN,
    NO_CORTEX_M,
    NO_FUNCTION,
    NO_KERNEL,
    OTHER_KERNEL,
    OWN,
    REFERENCE,
    LinkedKernels,
    found_kernels,
    linked_kernels,
)
from tflm_zephyr.footprint.link_map import LinkMap, OutputSection, Piece, Region
from tflm_zephyr.tflm import PINNED_REVISION, ZEPHYR_4_4_REVISION

KERNELS = "tensorflow/lite/micro/kernels"
ROOM = 64  # bytes of each function


def model(*operators: tuple[str, list[str], str], custom: str = "") -> bytes:
    """A model of unconnected operators: key, input types, output type."""
    builder = ModelBuilder()
    main = builder.subgraph()
    for key, inputs, output in operators:
        taken = [main.tensor((1, 4) if kind[-1] != "*" else (1, 1), kind.rstrip("*"), scale=0.5) for kind in inputs]
        main.op(key, taken, [main.tensor((1, 4), output, scale=0.5)])
    if custom:
        main.op("CUSTOM", [0], [main.tensor((1, 4), "int8", scale=0.5)], custom_code=custom)
    main.inputs, main.outputs = [0], [1]
    return builder.finish()


def image(data: bytes, sources: dict[str, Sequence[str]], functions: Sequence[str] = ()) -> tuple[ElfImage, LinkMap]:
    """An image of one section each of code and of the model; `sources`: object file -> functions in it."""
    symbols, pieces, at = [], [], 0x1000
    for member, names in {**sources, "cmsis.c.obj": functions}.items():
        archive = "libcmsis_nn.a" if member == "cmsis.c.obj" else "libtflm.a"
        if names:
            pieces.append(Piece(at, ROOM * len(names), ".text", archive, member))
        for name in names:
            mangled = name if name.startswith("arm_") else f"_ZN6tflite{len(name)}{name}Ev"
            symbols.append(Symbol(mangled, at, ROOM, "func"))
            at += ROOM
    symbols.append(Symbol("tflm_model_net", 0x80000, len(data), "object"))
    code = Section(".text", 0x1000, at - 0x1000, 0x1000, b"\0" * (at - 0x1000))
    constant = Section(".rodata", 0x80000, len(data), 0x80000, data)
    outputs = (
        OutputSection(".text", code.address, code.size, tuple(pieces), code.address),
        OutputSection(
            ".rodata", 0x80000, len(data), (Piece(0x80000, len(data), ".rodata", "app/libapp.a", "net.S.obj"),), 0x80000
        ),
    )
    return ElfImage((code, constant), tuple(symbols), {}), LinkMap((Region("FLASH", 0, 1 << 20),), outputs)


FOLDERS = {
    "conv": frozenset({f"{KERNELS}/cmsis_nn"}),
    "add": frozenset({f"{KERNELS}/cmsis_nn"}),
    "relu": frozenset({KERNELS}),
    "softmax": frozenset({KERNELS}),
}
SOURCES = {
    "conv.cc.obj": ["Register_CONV_2D_INT8"],
    "add.cc.obj": ["Register_ADD"],
    "relu.cc.obj": ["Register_RELU"],
    "softmax.cc.obj": ["Register_SOFTMAX"],
}
FUNCTIONS = ("arm_convolve_wrapper_s8", "arm_elementwise_add_s8")
CONV = ("CONV_2D", ["int8", "int8"], "int8")


def found(*operators: tuple[str, list[str], str], functions: Sequence[str] = FUNCTIONS) -> LinkedKernels:
    return found_kernels(*image(model(*operators), SOURCES, functions), FOLDERS, asked=CMSIS_NN)


def reasons(kernels: LinkedKernels) -> dict[str, dict[str, int]]:
    return {row.operator: dict(row.why) for row in kernels.rows}


def test_an_operator_of_cmsis_nn_and_one_without() -> None:
    kernels = found(CONV, CONV, ("RELU", ["int8"], "int8"))
    assert [(row.operator, row.library, row.uses, row.fell_back) for row in kernels.rows] == [
        ("CONV_2D", CMSIS_NN, 2, 0),
        ("RELU", REFERENCE, 1, 1),
    ]
    assert reasons(kernels)["RELU"] == {NO_KERNEL: 1}
    assert kernels.fallbacks == kernels.rows[1:]
    assert short(kernels) == (f"Reference code computes RELU: {NO_KERNEL}.",)
    assert table(kernels)[1:] == ("  CONV_2D x2: CMSIS-NN", f"  RELU: reference code, {NO_KERNEL}")


def test_types_that_the_kernel_leaves_to_reference_code() -> None:
    kernels = found(CONV, ("CONV_2D", ["float32", "float32"], "float32"))
    ((why, uses),) = reasons(kernels)["CONV_2D"].items()
    assert uses == 1 and why.startswith("float32, which its CMSIS-NN kernel")
    assert "CONV_2D (1 of 2)" in short(kernels)[0]


def test_types_of_inputs_and_outputs_are_distinguished() -> None:
    (why,) = reasons(found(("CONV_2D", ["float32", "int8"], "float32")))["CONV_2D"]
    assert why.startswith("float32 and int8 to float32, which its CMSIS-NN kernel")


def test_shapes_that_the_kernel_leaves_to_reference_code() -> None:
    kernels = found(("ADD", ["int8", "int8"], "int8"), ("ADD", ["int8", "int8*"], "int8"))
    ((why, uses),) = reasons(kernels)["ADD"].items()
    assert uses == 1 and why.startswith("inputs of different shapes")


def test_a_reference_kernel_where_tflm_has_another() -> None:
    assert reasons(found(("SOFTMAX", ["int8"], "int8"))) == {"SOFTMAX": {OTHER_KERNEL: 1}}


def test_a_kernel_without_its_functions() -> None:
    assert reasons(found(CONV, functions=("arm_elementwise_add_s8",))) == {"CONV_2D": {NO_FUNCTION: 1}}


def test_the_apps_own_kernel_is_no_fallback() -> None:
    kernels = found_kernels(*image(model(CONV, custom="MyOp"), SOURCES, FUNCTIONS), FOLDERS, asked=CMSIS_NN)
    own = next(row for row in kernels.rows if row.operator == "MyOp")
    assert (own.library, own.why) == (OWN, {})
    assert short(kernels) == ()


def test_nothing_falls_back_in_a_build_for_reference_kernels() -> None:
    kernels = found_kernels(*image(model(CONV), SOURCES), FOLDERS, asked=REFERENCE, why_not=NO_CORTEX_M)
    assert kernels.fallbacks == () and short(kernels) == (f"Reference kernels: {NO_CORTEX_M}.",)
    assert NO_CORTEX_M in table(kernels)[0]


@pytest.mark.parametrize(("functions", "asked"), [(FUNCTIONS, CMSIS_NN), ((), REFERENCE)])
def test_without_map_and_sources_the_functions_tell(functions: Sequence[str], asked: str) -> None:
    elf, _ = image(model(CONV, ("RELU", ["int8"], "int8")), SOURCES, functions)
    kernels = found_kernels(elf, None, {})
    assert kernels.asked == asked
    assert kernels.rows[0].library == asked and kernels.rows[1].library == REFERENCE


def test_bytes_that_only_look_like_a_model() -> None:
    damaged = model(CONV)[:60]
    assert found_kernels(*image(damaged, SOURCES, FUNCTIONS), FOLDERS).rows == ()


def test_json() -> None:
    plain = json.loads(json.dumps(kernels_json(found(CONV, ("RELU", ["int8"], "int8")))))
    assert plain["asked"] == CMSIS_NN and plain["why_not"] is None
    assert plain["operators"][1] == {
        "operator": "RELU", "library": REFERENCE, "uses": 1, "why": {NO_KERNEL: 1}, "fell_back": 1,
    }  # fmt: skip


@pytest.mark.parametrize(("revision", "reason"), [(PINNED_REVISION, NO_KERNEL), (ZEPHYR_4_4_REVISION, OTHER_KERNEL)])
def test_the_builds_own_revision_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str, reason: str
) -> None:
    """PAD has a CMSIS-NN kernel from Zephyr 4.4's TFLM on."""
    elf, link_map = image(model(("PAD", ["int8", "int32"], "int8")), {"pad.cc.obj": ["Register_PAD"]})
    monkeypatch.setattr(kernel_origin, "load_elf", lambda path: elf)
    monkeypatch.setattr(kernel_origin, "map_of", lambda path, found: link_map)
    commands = [
        {"file": f"/w/{KERNELS}/pad.cc", "command": f'cc -DTFLM_REVISION=\\"{revision}\\"'},
        {"file": f"/w/{KERNELS}/cmsis_nn/add.cc", "command": "cc"},
    ]
    (tmp_path / "compile_commands.json").write_text(json.dumps(commands))
    (row,) = linked_kernels(tmp_path / "zephyr" / "zephyr.elf").rows
    assert (row.library, dict(row.why)) == (REFERENCE, {reason: 1})


def test_no_elf(tmp_path: Path) -> None:
    with pytest.raises(BuildError):
        linked_kernels(tmp_path / "zephyr" / "zephyr.elf")
