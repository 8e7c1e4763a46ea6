# SPDX-License-Identifier: Apache-2.0
"""The app file: read, refused, written and read back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from tests.helpers.checkout import ROOT
from tflm_zephyr.errors import AppError
from tflm_zephyr.options import AppConfig, CustomOperatorConfig, ModelConfig, PreallocatedConfig
from tflm_zephyr.options.app_file import dump_app_file, load_app_file
from tflm_zephyr.options.table import DEFAULT_BOARDS

WHOLE = """
name: digits
boards: [nrf9160dk/nrf9160/ns, mps2/an385]
kernels: cmsis_nn
tflm: module
main_stack_bytes: 8192
shared_arena: true
models:
  - model: digits.tflite
    name: d
    arena: 4096
    plan: online
    inputs: ../test.npz
    runs: 3
    custom_operators:
      - {name: MyOp, register: "ns::Register_MY_OP", header: my_op.h, sources: [src/my_op.cc, /abs/x.cc]}
    in_place: off
    order: model
    preallocated:
      - {tensor: x, symbol: frame, section: .dma, alignment: 32}
      - {tensor: 7}
  - kws.tflite
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "apps"
    path.mkdir()
    return path


def read(folder: Path, text: str | bytes) -> AppConfig:
    path = folder / "app.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_app_file(path)


def test_budgets_are_read_as_they_are_written(folder: Path) -> None:
    text = "models: [m.tflite]\nbackend: compiled\nram: 20k\nflash: 200KiB\nslower: 0.5%\n"
    config = read(folder, text)
    assert (config.ram, config.flash, config.slower) == (20 * 1024, 200 * 1024, 0.5)
    assert read(folder, dump_app_file(config, folder)) == config


@pytest.mark.parametrize("line", ["ram: 20q", "flash: 0", "slower: -1", "slower: 5%%", "slower: 100001", "ram: 4G"])
def test_a_budget_that_is_none_is_refused(folder: Path, line: str) -> None:
    with pytest.raises(AppError, match=f"{line.partition(':')[0]} wants "):
        read(folder, f"models: [m.tflite]\n{line}\n")


def test_every_key(folder: Path) -> None:
    custom = CustomOperatorConfig("MyOp", "ns::Register_MY_OP", "my_op.h", (folder / "src/my_op.cc", Path("/abs/x.cc")))
    assert read(folder, WHOLE) == AppConfig(
        models=(
            ModelConfig(
                folder / "digits.tflite",
                "d",
                4096,
                "online",
                folder / "../test.npz",
                3,
                (custom,),
                in_place=False,
                order="model",
                preallocated=(PreallocatedConfig("x", "frame", ".dma", 32), PreallocatedConfig(7)),
            ),
            ModelConfig(folder / "kws.tflite"),
        ),
        name="digits",
        boards=("nrf9160dk/nrf9160/ns", "mps2/an385"),
        kernels="cmsis_nn",
        tflm="module",
        main_stack_bytes=8192,
        shared_arena=True,
    )


def test_defaults(folder: Path) -> None:
    config = read(folder, "models: [{model: a b.tflite, arena: auto, name: null}]")
    assert config == AppConfig((ModelConfig(folder / "a b.tflite"),))
    assert config.boards == DEFAULT_BOARDS and config.models[0].label == "a b"


def test_one_board_needs_no_list(folder: Path) -> None:
    assert read(folder, "{models: [a.tflite], boards: mps2/an385}").boards == ("mps2/an385",)


def test_dump_reads_back(folder: Path) -> None:
    config = read(folder, WHOLE)
    text = dump_app_file(config, folder)
    again = read(folder, text)
    assert dump_app_file(again, folder) == text
    plain = [os.path.normpath(model.model) for model in again.models]
    assert plain == [str(folder / "digits.tflite"), str(folder / "kws.tflite")]
    assert again.models[0].custom_operators[0].register == "ns::Register_MY_OP"
    assert "plan: packed" not in text.decode()  # defaults are left out


def test_dump_of_another_folder_has_relative_paths(folder: Path) -> None:
    text = dump_app_file(read(folder, WHOLE), folder.parent / "build" / "app")
    raw = yaml.safe_load(text)
    assert raw["models"][0]["model"] == "../../apps/digits.tflite"
    assert raw["models"][0]["inputs"] == "../../test.npz"
    assert str(folder) not in text.decode()


@pytest.mark.parametrize(
    "name", ["a b", "größe 模型", "{x}: y # z", "'q' \"p\"", "$HOME", "-", "on", "1e3", "*a", "@x"]
)
def test_any_file_name_reads_back(folder: Path, name: str) -> None:
    config = AppConfig((ModelConfig(folder / f"{name}.tflite", name),), name=name)
    assert read(folder, dump_app_file(config, folder)) == config


def test_a_name_that_is_not_utf_8_reads_back(folder: Path) -> None:
    config = AppConfig((ModelConfig(folder / os.fsdecode(b"\xff.tflite")),))
    text = dump_app_file(config, folder)
    text.decode("utf-8")
    assert read(folder, text) == config


def test_the_documented_example_reads(folder: Path) -> None:
    text = (ROOT / "docs" / "app-file.md").read_text(encoding="utf-8")
    example = text.split("```yaml\n")[1].split("```")[0]
    assert len(read(folder, example).models) == 2


M = "model: a.tflite"
BAD = {
    "empty": ("", "the app file wants a mapping"),
    "a list": ("[1]", "the app file wants a mapping"),
    "a text": ("digits.tflite", "the app file wants a mapping"),
    "no models": ("name: x", "the app file wants the key models"),
    "models null": ("models:", "the app file wants the key models"),
    "no model": ("models: []", "models wants a list of at least one model, not a list"),
    "models a mapping": ("models: {model: a}", "models wants a list"),
    "a number for a model": ("models: [3]", r"models\[0\] wants a mapping"),
    "a model without file": ("models: [{name: x}]", r"models\[0\] wants the key model"),
    "unknown key": ("models: [a]\nboard: x", r"'board' is no key here; did you mean 'boards'\?"),
    "unknown key of a model": (
        "models: [{model: a, file: x}]",
        r"models\[0\].'file' is no key here; the keys are model, name",
    ),
    "unknown key of an operator": (
        f"models: [{{{M}, custom_operators: [{{nam: x}}]}}]",
        r"custom_operators\[0\].'nam' is no key here; did you mean 'name'",
    ),
    "operator without header": (f"models: [{{{M}, custom_operators: [{{name: x, register: y}}]}}]", "the key header"),
    "operators no list": (f"models: [{{{M}, custom_operators: 3}}]", "custom_operators wants a list, not 3"),
    "operator no mapping": (f"models: [{{{M}, custom_operators: [3]}}]", r"custom_operators\[0\] wants a mapping"),
    "sources a number": (
        f"models: [{{{M}, custom_operators: [{{name: x, register: y, header: z, sources: 3}}]}}]",
        r"sources\[0\] wants a path, not 3",
    ),
    "name a number": ("models: [a]\nname: 3", "name wants a text"),
    "name a list": ("models: [a]\nname: [a]", "name wants a text"),
    "name of two lines": ('models: [a]\nname: "a\\nb"', "name wants a text without control"),
    "nul in a path": ('models: ["a\\0b"]', r"models\[0\].model wants a text without control"),
    "arena a text": (f"models: [{{{M}, arena: big}}]", r"arena wants a size in bytes"),
    "arena a float": (f"models: [{{{M}, arena: 1.5}}]", r"arena wants a whole number"),
    "arena true": (f"models: [{{{M}, arena: true}}]", r"arena wants a whole number"),
    "arena 0": (f"models: [{{{M}, arena: 0}}]", r"arena wants a whole number from 1 to 2147483647"),
    "arena huge": (
        f"models: [{{{M}, arena: {2**40}}}]",
        r"arena wants a whole number from 1 to 2147483647, not 1099511627776",
    ),
    "arena too many digits": (f"models: [{{{M}, arena: {'9' * 5000}}}]", "no YAML: "),
    "runs -1": (f"models: [{{{M}, runs: -1}}]", r"runs wants a whole number from 1 to 2147483647"),
    "plan": (f"models: [{{{M}, plan: best}}]", r"plan wants packed or online or static"),
    "plan a list": (f"models: [{{{M}, plan: [packed]}}]", r"plan wants a text, not a list"),
    "in_place": (f"models: [{{{M}, in_place: some}}]", r"in_place wants true or false"),
    "overlap": (f"models: [{{{M}, overlap: off}}]", r"models\[0\].'overlap' is now in_place: true or false"),
    "planner": ("models: [a]\nplanner: static", r"'planner' is now plan, of a model: static"),
    "a key twice": ("models: [a]\nname: x\nname: y", "line 3 has the key 'name' a second time"),
    "a model's key twice": (f"models: [{{{M}, runs: 1, runs: 2}}]", "line 1 has the key 'runs' a second time"),
    "order": (f"models: [{{{M}, order: 3}}]", r"order wants a text, not 3"),
    "shared arena": ("models: [a]\nshared_arena: 1", "shared_arena wants true or false"),
    "preallocated no list": (f"models: [{{{M}, preallocated: x}}]", "preallocated wants a list"),
    "preallocated tensor a list": (f"models: [{{{M}, preallocated: [{{tensor: [1]}}]}}]", "tensor wants a text"),
    "no tensor": (f"models: [{{{M}, preallocated: [{{symbol: x}}]}}]", "the key tensor"),
    "symbol": (f"models: [{{{M}, preallocated: [{{tensor: 1, symbol: 1a}}]}}]", "symbol wants the name of a C"),
    "section": (f"models: [{{{M}, preallocated: [{{tensor: 1, section: a b}}]}}]", "section wants a linker"),
    "alignment": (f"models: [{{{M}, preallocated: [{{tensor: 1, alignment: 24}}]}}]", "alignment wants a power"),
    "kernels": ("models: [a]\nkernels: fast", "kernels wants auto or reference or cmsis_nn, not 'fast'"),
    "kernels misspelt": ("models: [a]\nkernels: cmsis-nn", "did you mean 'cmsis_nn'"),
    "no tensor but null": (f"models: [{{{M}, preallocated: [{{tensor: null}}]}}]", "the key tensor"),
    "tflm": ("models: [a]\ntflm: 3", "tflm wants a text, not 3"),
    "boards a mapping": ("models: [a]\nboards: {a: b}", "boards wants a list"),
    "boards of numbers": ("models: [a]\nboards: [1]", r"boards\[0\] wants a text, not 1"),
    "stack": ("models: [a]\nmain_stack_bytes: 0", "main_stack_bytes wants a whole number from 1 to 2147483647"),
    "stack text": ("models: [a]\nmain_stack_bytes: 4k", "main_stack_bytes wants a whole number"),
    "a key that is no text": ("models: [a]\n3: x", "3 is no key here"),
    "tab": ("models:\n\t- a", "no YAML: "),
    "unclosed": ("models: [a", "no YAML: "),
    "two documents": ("models: [a]\n---\nmodels: [b]", "no YAML: "),
    "python object": ("models: !!python/object/apply:os.system ['true']", "no YAML: "),
    "no such date": ("models: [a]\nname: 2020-99-99", "no YAML: "),
    "a key that cannot be": ("{[1]: 2}", "no YAML: "),
    "deep": ("[" * 1_000, "no YAML: "),
    "control characters": ("models: [a]\nname: \x07", "no YAML: "),
    "not text": (b"models: [\xff\xfe]", "no YAML: "),
}


@pytest.mark.parametrize(("text", "says"), BAD.values(), ids=BAD)
def test_bad_files_name_the_place(folder: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(AppError, match=says) as caught:
        read(folder, text)
    message = str(caught.value)
    assert message.startswith(str(folder / "app.yaml") + ": ") and "\n" not in message
    assert message.endswith("Fix the app file")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(AppError, match="no such file"):
        load_app_file(tmp_path / "none.yaml")
    with pytest.raises(AppError, match="is a directory"):
        load_app_file(tmp_path)


def test_aliases_do_not_blow_up(folder: Path) -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40)]
    with pytest.raises(AppError, match="'a0' is no key here"):
        read(folder, "\n".join(lines))
