# SPDX-License-Identifier: Apache-2.0
"""`plan --rows`, and `generate` with budgets of RAM and flash."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path

import pytest

from tests.helpers.architectures import mobilenet
from tests.helpers.small_models import dense
from tflm_zephyr.cli.main import main
from tflm_zephyr.documents import checked

FLAGS = ("--kernels", "cmsis_nn", "-b", "mps2/an385")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small MobileNet."""
    path = tmp_path_factory.mktemp("rows") / "net.tflite"
    path.write_bytes(mobilenet(32, 0.5, colours=1, most=6))
    return path


@cache
def front(model: Path, *flags: str) -> str:
    """The text that `plan --rows` prints for the model."""
    printed = StringIO()
    with redirect_stdout(printed):
        assert main(["plan", str(model), "--rows", "--kernels", "cmsis_nn", "--core", "cortex-m3", *flags]) == 0
    return printed.getvalue()


def test_the_front_is_a_document(model: Path) -> None:
    document = json.loads(front(model, "--json"))
    checked(document, "the output")
    sizes = [way["arena_bytes"] for way in document["ways"]]
    assert sizes == sorted(sizes)
    assert document["ways"][0]["segments"]
    assert not document["ways"][-1]["segments"]
    assert {"operator": 16, "key": "SOFTMAX", "why": "is of a kind that does not run row by row"} in document["whole"]


@pytest.mark.slow
def test_the_table_has_a_line_for_each_way(model: Path) -> None:
    document = json.loads(front(model, "--json"))
    text = front(model)
    for way in document["ways"]:
        assert f"{way['arena_bytes']:12,} {100 * way['slower']:10.2f} %" in text
    assert "16 (SOFTMAX): is of a kind that does not run row by row" in text


def test_streamed_ways_are_listed(model: Path) -> None:
    streamed = json.loads(front(model, "--json"))["streamed"]
    assert not streamed["why"]
    text = front(model)
    assert "With streamed input in 32 rows of 32 bytes, which is never there as a whole:" in text
    for way in streamed["ways"]:
        assert f"\n{way['arena_bytes']:12,} " in text


def test_a_model_that_cannot_stream_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense())
    document = json.loads(front(path, "--json"))
    checked(document, "the output")
    why = "layer 0 (FULLY_CONNECTED) has tensors that are no single image"
    assert document["streamed"]["ways"] == []
    assert document["streamed"]["why"].endswith(why)
    assert f"Streamed input: {document['streamed']['why']}" in front(path)
    assert main(["generate", str(path), *FLAGS, "--stream-input", "-o", str(tmp_path / "app")]) == 1
    assert why in capsys.readouterr().err


def test_generate_streams_the_input(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    least = json.loads(front(model, "--json"))["streamed"]["ways"][0]["arena_bytes"]
    given = ["generate", str(model), *FLAGS, "--stream-input", "--slower", "90", "-o", str(tmp_path / "app"), "--json"]
    assert main(given) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["arena"]["bytes"] <= least
    own = tmp_path / "app" / "tflm"
    assert "stream_input: true" in (own / "app.yaml").read_text(encoding="utf-8")
    header = (own / "src" / "models" / "net.hpp").read_text(encoding="utf-8")
    assert "Status PushRows(const int8_t *rows, size_t count);" in header
    assert "Input0()" not in header
    assert main(["generate", "-o", str(tmp_path / "app"), "--check"]) == 0


@pytest.mark.parametrize("flags", [("--backend", "auto"), ("--flash", "1M")])
def test_streamed_input_is_compiled_code(model: Path, tmp_path: Path, flags: tuple[str, str]) -> None:
    given = ["generate", str(model), *FLAGS, *flags, "--stream-input", "--slower", "90", "-o", str(tmp_path / "app")]
    assert main(given) == 0
    assert "PushRows" in (tmp_path / "app" / "tflm" / "src" / "models" / "net.hpp").read_text(encoding="utf-8")


def test_flags_of_the_interpreter_are_refused(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(model), "--rows", "--order", "model"]) == 1
    assert "--order is of the interpreter's arena" in capsys.readouterr().err


@pytest.mark.slow
def test_generate_takes_the_way_that_fits(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ways = json.loads(front(model, "--json"))["ways"]
    fits = ways[1]["arena_bytes"]
    flags = ["generate", str(model), *FLAGS, "--backend", "compiled", "-o", str(tmp_path / "app"), "--json"]
    assert main([*flags, "--ram", str(fits)]) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["arena"]["bytes"] == fits
    assert f"ram: {fits}" in (tmp_path / "app" / "tflm" / "app.yaml").read_text(encoding="utf-8")
    assert main([*flags, "--force", "--ram", "1000"]) != 0
    assert "more than there are" in capsys.readouterr().err


@pytest.mark.slow
def test_fast_kernels_have_ways_of_their_own(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, fast = (json.loads(front(model, "--json", *flags))["ways"] for flags in ((), ("--fast-kernels",)))
    assert [way["arena_bytes"] for way in plain] != [way["arena_bytes"] for way in fast]
    flags = ["generate", str(model), *FLAGS, "--fast-kernels", "-o", str(tmp_path / "app"), "--json"]
    assert main([*flags, "--ram", str(fast[0]["arena_bytes"])]) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["arena"]["bytes"] == fast[0]["arena_bytes"]


def test_the_front_says_which_kernels_it_picks(model: Path) -> None:
    document = json.loads(front(model, "--json", "--fast-kernels"))
    checked(document, "the output")
    assert document["choice"]["estimated_cycles"] < document["choice"]["cmsis_nn_cycles"]
    first = document["layers"][0]
    assert first["estimated_cycles"] < first["runner_up"]["estimated_cycles"]
    assert "chosen by estimates for cortex-m3: " in front(model, "--fast-kernels")


@pytest.mark.slow
def test_a_budget_of_flash_takes_as_many_fast_kernels_as_fit(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["generate", str(model), *FLAGS, "--fast-kernels", "--backend", "compiled", "--json"]
    assert main([*flags, "-o", str(tmp_path / "all")]) == 0
    document = json.loads(capsys.readouterr().out)
    flash, every = document["fit"][0]["flash"]["used_bytes"], document["models"][0]["choice"]
    assert document["fit"][0]["fits"] == "yes"
    assert main(["fit", *flags[1:]]) == 0
    (added,) = (way["flash_bytes"] for way in json.loads(capsys.readouterr().out)["ways"] if way["taken"])
    assert main([*flags, "-o", str(tmp_path / "some"), "--flash", str(added - 1500)]) == 0
    document = json.loads(capsys.readouterr().out)
    some = document["models"][0]["choice"]
    assert document["fit"][0]["flash"]["used_bytes"] <= flash - 1500
    assert every["estimated_cycles"] < some["estimated_cycles"] < some["cmsis_nn_cycles"]
    assert main(["generate", "-o", str(tmp_path / "some"), "--check"]) == 0


def test_a_plan_of_the_arena_has_no_fast_kernels(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(model), "--fast-kernels"]) == 1
    assert "Plan that with --rows" in capsys.readouterr().err


def test_a_budget_of_ram_takes_compiled_code(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(model), *FLAGS, "--ram", "16K", "-o", str(tmp_path / "app"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["arena"]["bytes"] <= 16 * 1024
    assert "backend: compiled" in (tmp_path / "app" / "tflm" / "app.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "flag",
    [("--rows",), ("--stream-input",), ("--fast-kernels",), ("--ram", "16K"), ("--slower", "0.5%")],
)
def test_the_interpreter_has_no_rows(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: tuple[str, ...]
) -> None:
    given = ["generate", str(model), *FLAGS, "--backend", "interpreter", *flag, "-o", str(tmp_path / "app")]
    assert main(given) == 1
    what = f"{flag[0][2:].replace('-', '_')} is the compiled backend's. Use the backend compiled, or drop the option"
    assert what in capsys.readouterr().err
    assert not (tmp_path / "app").exists()


def test_state_of_kept_kernels_counts(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = shared / "models" / "audio_preprocessor_int8.tflite"
    least = json.loads(front(kept, "--json"))["ways"][0]["arena_bytes"]
    given = ["generate", str(kept), *FLAGS, "--ram", str(least - 1), "-o", str(tmp_path / "app")]
    assert main(given) == 1
    assert f"takes at least {least:,} bytes of RAM, 1 more than there are" in capsys.readouterr().err


@pytest.mark.slow
def test_auto_keeps_the_budget(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["generate", str(model), *FLAGS, "--backend", "auto", "--ram", "100", "-o", str(tmp_path / "app")]
    assert main(given) == 1
    assert "the model takes at least 4,672 bytes of RAM, 4,572 more than there are" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["slower: 5", "ram: 16KiB", "rows: true", "stream_input: true", "fast_kernels: true"]
)
def test_an_app_files_interpreter_has_no_rows(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    file = tmp_path / "request.yaml"
    file.write_text(f"models: [{model}]\nbackend: interpreter\n{option}\n", encoding="utf-8")
    assert main(["generate", "--app", str(file), "-o", str(tmp_path / "app")]) == 1
    name = option.partition(":")[0]
    assert f"request.yaml: {name} is the compiled backend's. Use the backend compiled" in capsys.readouterr().err


def test_rows_beside_a_budget_of_ram_are_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    what = "rows and ram exclude each other"
    assert main(["generate", str(model), *FLAGS, "--rows", "--ram", "16K", "-o", str(tmp_path / "app")]) == 1
    assert what in capsys.readouterr().err
    file = tmp_path / "request.yaml"
    file.write_text(f"models: [{model}]\nbackend: compiled\nram: 16k\nrows: true\n", encoding="utf-8")
    assert main(["generate", "--app", str(file), "-o", str(tmp_path / "app")]) == 1
    assert what in capsys.readouterr().err
    assert not (tmp_path / "app").exists()


def test_rows_that_are_both_wanted_and_not_are_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "request.yaml"
    file.write_text(f"models: [{model}]\nbackend: compiled\nstream_input: true\nrows: false\n", encoding="utf-8")
    assert main(["generate", "--app", str(file), "-o", str(tmp_path / "app")]) == 1
    assert "stream_input: true implies rows, and rows is false" in capsys.readouterr().err


def test_an_implied_backend_is_named(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(model), *FLAGS, "--slower", "0", "-o", str(tmp_path / "app")]) == 0
    note = "backend compiled, as --slower is for compiled code"
    assert note in capsys.readouterr().out
    assert main(["generate", "-o", str(tmp_path / "app")]) == 0
    assert note not in capsys.readouterr().out


@pytest.mark.slow
def test_a_budget_of_flash_chooses_the_backend(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["generate", str(model), *FLAGS, "-o", str(tmp_path / "app"), "--json"]
    assert main([*given, "--flash", "1M", "--ram", "16KiB", "--slower", "10%"]) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["arena"]["bytes"] <= 16 * 1024
    text = (tmp_path / "app" / "tflm" / "app.yaml").read_text(encoding="utf-8")
    assert "ram: 16384\nflash: 1048576\nslower: 10\n" in text and "backend:" not in text
    assert main(["generate", "-o", str(tmp_path / "app"), "--check"]) == 0


@pytest.mark.parametrize("flag", [("--plan", "online"), ("--no-in-place",)])
def test_the_interpreters_placing_is_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: tuple[str, ...]
) -> None:
    given = ["generate", str(model), *FLAGS, "--backend", "compiled", *flag, "-o", str(tmp_path / "app")]
    assert main(given) == 1
    what = flag[0].removeprefix("--").removeprefix("no-").replace("-", "_")
    assert f"{what} is the interpreter backend's. Use" in capsys.readouterr().err


def test_an_objective_takes_a_way_and_says_what_it_gives_up(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = tmp_path / "app"
    assert main(["generate", str(model), "-o", str(app), "-b", "mps2/an386", "--optimize", "ram"]) == 0
    text = capsys.readouterr().out
    assert "note: optimize ram: " in text and "; it gives up " in text and "note: or interpreter (" in text
    assert "optimize: ram\n" in (app / "tflm" / "app.yaml").read_text(encoding="utf-8")
    assert main(["generate", "-o", str(app), "--check"]) == 0
