# SPDX-License-Identifier: Apache-2.0
"""The table of options: flags, keys of the app file, words of tflm_model(), and refusals come from it alone."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from tests.helpers.command_line import Tool
from tflm_zephyr.cli.main import build_parser
from tflm_zephyr.cli.options import CommandParser
from tflm_zephyr.errors import AppError
from tflm_zephyr.options import (
    COMPILED,
    INTERPRETER,
    RENAMED,
    AppConfig,
    LibraryConfig,
    ModelConfig,
    foreign_options,
    options_of,
    refuse_exclusions,
    rows_of,
    with_given,
)

LONGEST_HELP = 15
KINDS = (AppConfig, ModelConfig, LibraryConfig)
MODEL = ModelConfig(Path("/a.tflite"))


def parsers() -> dict[str, CommandParser]:
    actions = build_parser("tflm-zephyr")._actions
    (commands,) = [action for action in actions if isinstance(action, argparse._SubParsersAction)]
    return dict(commands.choices)


@pytest.mark.parametrize("command", parsers())
def test_the_help_is_short_and_the_other_help_is_whole(tool: Tool, command: str) -> None:
    every = {option for action in parsers()[command]._actions for option in action.option_strings[:1]}
    usual, whole = tool(command, "--help").out, tool(command, "--help-all").out
    shown = re.findall(r"^  (--?[\w-]+)", usual, re.M)
    assert 3 <= len(shown) <= LONGEST_HELP and set(shown) < every
    assert f"--help-all shows {len(every) - len(shown)} more options." in usual
    assert set(re.findall(r"^  (--?[\w-]+)", whole, re.M)) == every and "\nmore options:\n" in whole


def test_each_option_is_a_flag_of_its_commands_alone() -> None:
    commands = {name for kind in KINDS for row in rows_of(kind).values() for name in row.option.commands.split()}
    for name, parser in parsers().items():
        dests = {action.dest for action in parser._actions}
        asked = {row.dest for row in options_of(name)}
        assert asked <= dests and bool(asked) == (name in commands)
        basic = {row.dest for row in options_of(name) if name in row.option.basic.split()}
        assert basic == asked - {action.dest for action in parser.more._group_actions}


def test_what_the_rows_name_is_there() -> None:
    for kind in KINDS:
        rows = rows_of(kind)
        for row in rows.values():
            option = row.option
            assert set(option.basic.split()) <= set(option.commands.split())
            assert option.backend in ("", INTERPRETER, COMPILED)
            assert {*option.excludes, *filter(None, [option.implies])} <= set(rows)
            assert option.help and not option.help.endswith(".")
    assert not set(RENAMED) & {
        word for kind in KINDS for row in rows_of(kind).values() for word in (row.name, row.flag)
    }


def test_an_option_is_for_the_app_or_for_each_model() -> None:
    config = AppConfig((MODEL, ModelConfig(Path("/b.tflite"), runs=2)), kernels="reference")
    given = with_given(
        config, {"no_in_place": True, "runs": 3, "board": ["x"], "name": "n", "rows": None, "json": True}
    )
    assert given.name == "n" and given.boards == ("x",) and given.kernels == "reference" and not given.rows
    assert [(model.name, model.runs, model.in_place) for model in given.models] == [("", 3, False)] * 2


def test_a_path_means_the_same_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (model,) = with_given(AppConfig((MODEL,)), {"inputs": Path("a/../x.npz")}).models
    assert model.inputs == tmp_path / "x.npz"


def test_a_backends_own_options() -> None:
    config = AppConfig((MODEL,), tflm="module", ram=1024, fast_kernels=True)
    assert [row.name for row in foreign_options(config, INTERPRETER)] == ["fast_kernels", "ram"]
    assert [row.name for row in foreign_options(config, COMPILED)] == ["tflm"]


def test_options_that_exclude_each_other() -> None:
    refuse_exclusions(AppConfig((MODEL,), ram=1024), "here")
    with pytest.raises(AppError, match="here: rows and ram exclude each other: ram runs layers row by row by itself"):
        refuse_exclusions(AppConfig((MODEL,), ram=1024, rows=True), "here")
    with pytest.raises(AppError, match="plan_file and plan: online exclude each other"):
        refuse_exclusions(ModelConfig(Path("a"), plan="online", plan_file=Path("p")), "here")


@pytest.mark.parametrize(("old", "new"), [item for item in RENAMED.items() if item[0].startswith("--")])
def test_a_renamed_flag_names_the_new_one(tool: Tool, old: str, new: str) -> None:
    done = tool("generate", "m.tflite", f"{old}=x")
    assert done.code == 2 and f"{old} is now {new}" in done.err


def test_flags_are_written_out(tool: Tool) -> None:
    done = tool("generate", "m.tflite", "--fast")
    assert done.code == 2 and "unrecognized arguments: --fast" in done.err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--ram", "20q"), "--ram: wants a size in bytes: write it as 4096, 4k or 4KiB, not '20q'"),
        (("--slower", "-1"), "--slower"),
        (("--slower", "5%%"), "--slower: wants a percentage: write it as 3, 3% or 0.5%, not '5%%'"),
        (("--slower", "100001"), "--slower: wants a percentage from 0 to 100000, not 100001"),
        (("--runs", "0"), "--runs: wants a whole number from 1 to 2147483647, not 0"),
        (("--runs", "two"), "--runs: wants a whole number, not 'two'"),
        (("--host-link=1",), "ignored explicit argument"),
        (("--plan", "packd"), "did you mean 'packed'?"),
    ],
)
def test_values_are_read_as_in_the_app_file(tool: Tool, given: tuple[str, ...], said: str) -> None:
    done = tool("generate", "m.tflite", *given)
    assert done.code == 2 and said in done.err


def test_an_arenas_section_is_the_linkers(tool: Tool) -> None:
    done = tool("library", "m.tflite", "-o", "out", "--core", "cortex-m4", "--arena-section", "a b")
    assert done.code == 2 and "--arena-section: wants a linker section, as in .dma, not 'a b'" in done.err


@pytest.mark.parametrize("core", ["cortex-m99", "banana", "CORTEX-M4", "x" * 3000])
def test_a_core_that_is_none(tool: Tool, core: str) -> None:
    said = tool("library", "m.tflite", "-o", "out", "--core", core).one_line()
    assert "--core: no core '" in said and "Known are arc, arm" in said and len(said) < 500


def test_a_models_page_has_the_options_of_the_app(tool: Tool, model_file: Path) -> None:
    flags = ("--backend", "compiled", "--fast-kernels", "-b", "mps2/an386", "-b", "mps2/an385", "--ram", "16K")
    documents = {item["document"]: item for item in tool("report", model_file, *flags, "--json").json["documents"]}
    assert documents["fit"]["boards"] == tool("fit", model_file, *flags, "--json").json["boards"]
    assert [board["board"] for board in documents["fit"]["boards"]] == ["mps2/an386", "mps2/an385"]
    reference = tool("report", model_file, "--kernels", "cmsis_nn", "--json").json["documents"]
    assert documents["plan"]["kernels"] == "reference" and reference[1]["kernels"] == "cmsis_nn"


def test_a_document_takes_no_options_of_an_app(tool: Tool, model_file: Path, tmp_path: Path) -> None:
    (tmp_path / "fit.json").write_text(tool("fit", model_file, "--json").out)
    assert "--ram is for a .tflite, and fit.json is none" in tool("report", "fit.json", "--ram", "16K").one_line()
