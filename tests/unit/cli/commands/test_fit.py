# SPDX-License-Identifier: Apache-2.0
"""`fit`, and what `generate` says of the same: on the shipped tables, with no engine, no compiler, no file written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.west import make_workspace
from tests.helpers.architectures import dense_chain, mobilenet
from tests.helpers.built_apps import CONFIG, MAP, build
from tests.helpers.checkout import ROOT
from tests.helpers.command_line import Tool
from tests.helpers.model_builder import ModelBuilder
from tests.helpers.small_models import unary
from tflm_zephyr.host import golden_outputs

NS, SECURE = "nrf9160dk/nrf9160/ns", "nrf9160dk/nrf9160"
M3 = "mps2/an385"


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails whoever starts LiteRT or TFLM, as on a machine that has both."""

    def started(*args: object, **kwargs: object) -> golden_outputs.Attempt:
        raise AssertionError("an engine was started")

    monkeypatch.setattr(golden_outputs, "attempt", started)
    monkeypatch.setattr(golden_outputs, "available", lambda engine: True)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A model of some 300 KB: too much for the non-secure app's 192 KiB."""
    path = tmp_path / "large.tflite"
    path.write_bytes(dense_chain([640, 400, 120, 10]))
    assert path.stat().st_size > 300_000
    return path


@pytest.mark.usefixtures("no_engine")
def test_a_model_that_fits(tool: Tool, model_file: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    done = tool("fit", model_file)
    assert done.code == 0 and "warning" not in done.out
    assert (
        done.out.count(": fits\n") == 2
        and f"  {NS}, reference kernels: flash " in done.out
        and " of 191.3 KiB (+-" in done.out
    )
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.usefixtures("no_engine")
def test_a_model_that_does_not(tool: Tool, large: Path) -> None:
    done = tool("fit", large, "-b", NS)
    assert done.code == 1
    first, *rest = done.out.splitlines()
    assert (
        first.startswith(f"  warning: {NS}, CMSIS-NN kernels: flash ")
        and "DOES NOT FIT, " in first
        and first.endswith(" too few")
    )
    secure = next(line for line in rest if f"--board {SECURE})" in line)
    assert secure.endswith("then it fits")
    (fast,) = (line for line in rest if line.startswith("    not --fast-kernels: "))
    assert re.search(r"[\d,]+ bytes of flash more than nrf9160dk/nrf9160/ns has", fast)
    assert any("TF-M" in line for line in rest)
    assert tool("fit", large, "-b", SECURE).code == 0


@pytest.mark.usefixtures("no_engine")
def test_as_json(tool: Tool, large: Path) -> None:
    done = tool("fit", large, "-b", NS, "-b", "mps2/an385", "--json")
    assert done.code == 1
    ns, m3 = done.json["boards"]
    assert (ns["board"], ns["fits"], m3["fits"], m3["remedies"]) == (NS, "no", "yes", [])
    flash = ns["flash"]
    assert flash["available_bytes"] == 192 * 1024 - 749 < flash["used_bytes"]
    # The parts are the estimate but for the middle of what real apps took more or less.
    assert abs(sum(part["flash_bytes"] for part in ns["parts"]) - flash["used_bytes"]) <= flash["below_bytes"]
    by_name = {part["name"]: part for part in ns["parts"]}
    assert by_name["model large"]["flash_bytes"] >= large.stat().st_size
    for remedy in ns["remedies"]:
        then = remedy["flash"]
        gain = flash["used_bytes"] - then["used_bytes"] + then["available_bytes"] - flash["available_bytes"]
        assert gain == remedy["flash_gain_bytes"]
    assert [remedy["suffices"] for remedy in ns["remedies"]].count(True) >= 1


@pytest.mark.usefixtures("no_engine")
def test_an_arena_that_does_not_fit(tool: Tool, model_file: Path) -> None:
    done = tool("fit", model_file, "-b", NS, "--arena", "180k", "--json")
    assert done.code == 1
    (ns,) = done.json["boards"]
    assert ns["flash"]["used_bytes"] < ns["flash"]["available_bytes"] and "TF-M" not in str(ns["notes"])
    options = {remedy["option"]: remedy for remedy in ns["remedies"]}
    assert options["without --arena"]["suffices"] and options["without --arena"]["ram_gain_bytes"] > 170_000
    assert options[f"--board {SECURE}"]["suffices"]


@pytest.mark.usefixtures("fixed_reference")
def test_generate_says_the_same(tool: Tool, large: Path, tmp_path: Path) -> None:
    fit = tool("fit", large, "-b", NS, "--json").json["boards"]
    made = tool("generate", large, "-b", NS, "-o", tmp_path / "app", "--json")
    assert made.code == 1 and (tmp_path / "app" / "prj.conf").exists()  # the user may know better
    assert made.json["fit"] == fit
    text = tool("generate", large, "-b", NS, "-b", "mps2/an385", "-o", tmp_path / "app", "--force").out
    assert f"  warning: {NS}, CMSIS-NN kernels: flash " in text and "\n  mps2/an385, CMSIS-NN kernels: flash " in text
    again = tool("fit", "--app", tmp_path / "app" / "tflm" / "app.yaml", "--json")
    assert again.code == 1 and [board["fits"] for board in again.json["boards"]] == ["no", "yes"]


@pytest.mark.usefixtures("no_engine")
def test_a_board_that_nobody_knows(tool: Tool, model_file: Path) -> None:
    done = tool("fit", model_file, "-b", "frdm_k64f/mk64f12")
    assert done.code == 0
    assert "  frdm_k64f/mk64f12: no verdict: the size of its memory is not known here" in done.out.splitlines()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A west workspace without TFLM whose Zephyr has a small board of its own."""
    make_workspace(tmp_path / "ws", optional=False)
    folder = tmp_path / "ws" / "zephyr" / "boards" / "maker" / "small"
    folder.mkdir(parents=True)
    (folder / "board.yml").write_text("board:\n  name: small\n")
    (folder / "small.yaml").write_text("identifier: small/soc\narch: arm\nram: 96\nflash: 512\n")
    return tmp_path / "ws"


@pytest.mark.usefixtures("no_engine")
def test_a_board_of_the_workspace(tool: Tool, model_file: Path, large: Path, workspace: Path) -> None:
    done = tool("fit", model_file, "-b", "small/soc", "-w", workspace, "--json")
    assert done.code == 0
    (found,) = done.json["boards"]
    assert (found["flash"]["available_bytes"], found["ram"]["available_bytes"]) == (512 * 1024, 96 * 1024)
    assert any("stands in" in note for note in found["notes"])
    (workspace / "zephyr/boards/maker/small/small.yaml").write_text(
        "identifier: small/soc\narch: arm\nram: 96\nflash: 64\n"
    )
    assert tool("fit", large, "-b", "small/soc", "-w", workspace).code == 1


@pytest.mark.usefixtures("no_engine")
def test_the_kernels_and_why(tool: Tool, model_file: Path, large: Path) -> None:
    done = tool("fit", model_file, "-b", NS)
    assert done.out.startswith("  note: reference kernels: CMSIS-NN would have nothing to compute\n")
    assert f"  {NS}, reference kernels: flash " in done.out and "self-test carries no" not in done.out
    assert "note:" not in tool("fit", large, "-b", NS).out


def with_custom() -> bytes:
    """300 KB and an operator of the user's, which no engine knows."""
    model = ModelBuilder()
    main = model.subgraph()
    main.inputs = [main.tensor((1, 2000), "int8", "x", scale=0.5)]
    weights = main.tensor((150, 2000), "int8", "w", scale=0.25, data="random")
    dense = main.tensor((1, 150), "int8", "d", scale=0.5)
    main.op("FULLY_CONNECTED", [main.inputs[0], weights, -1], [dense], options={"fused_activation_function": 0})
    main.outputs = [main.tensor((1, 150), "int8", "y", scale=0.5)]
    main.op("CUSTOM", [dense], main.outputs, custom_code="MyOp")
    return model.finish()


def test_what_no_engine_runs_has_no_reference(tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`fit` bounds what `generate` knows: that the self-test's data is not there, in no remedy either."""
    monkeypatch.setattr(golden_outputs, "installed", lambda: {"ai-edge-litert": "0.0.0"})
    monkeypatch.setattr(golden_outputs, "attempt", lambda *_: golden_outputs.Attempt((), "", {}, ("refused",)))
    (tmp_path / "net.tflite").write_bytes(with_custom())
    (tmp_path / "my_op.cc").write_text("")
    (tmp_path / "my_op.h").write_text("")
    (tmp_path / "app.yaml").write_text(
        f"boards: ['{NS}']\nkernels: cmsis_nn\nmodels:\n  - model: net.tflite\n    runs: 4\n    custom_operators:\n"
        "      - {name: MyOp, register: Register_MY_OP, header: my_op.h, sources: [my_op.cc]}\n"
    )
    fit = tool("fit", "--app", "app.yaml", "--json")
    assert fit.code == 1 and not fit.err
    (said,) = fit.json["boards"]
    (made,) = tool("generate", "--app", "app.yaml", "-o", "app", "--json").json["fit"]
    golden = 4 * (2000 + 150) + 1 + 8
    assert said["flash"]["used_bytes"] - made["flash"]["used_bytes"] == golden
    assert said["flash"]["below_bytes"] == made["flash"]["below_bytes"] + golden + 4  # and an array's alignment
    assert said["ram"]["above_bytes"] is None is made["ram"]["above_bytes"]
    options = {remedy["option"]: remedy for remedy in made["remedies"]}
    more = options[f"--board {SECURE}"]["flash_gain_bytes"] - ((1024 - 192) * 1024 + 749)
    assert 0 <= more < 2000 < golden  # what the two boards' bases differ by, and no reference data that is not there
    assert "--runs 1" not in options
    assert options[f"--board {SECURE}"]["fits"] == "unknown" and not options[f"--board {SECURE}"]["suffices"]


@pytest.mark.usefixtures("no_engine")
def test_a_remedy_whose_bound_is_not_known(tool: Tool, large: Path) -> None:
    done = tool("fit", large, "-b", NS, "--tflm", "module")
    assert done.code == 1
    secure = next(line for line in done.out.splitlines() if f"--board {SECURE})" in line)
    assert "may fit" in secure and "none of these is enough" not in done.out
    both = next(line for line in done.out.splitlines() if f"--board {SECURE} --tflm selected)" in line)
    assert both.endswith("then it fits")


@pytest.mark.usefixtures("no_engine")
def test_a_debug_build_is_at_least_as_large(tool: Tool, model_file: Path, large: Path) -> None:
    done = tool("fit", model_file, "-b", NS, "--debug")
    assert done.code == 0 and "at least this much" in done.out and "debug build" in done.out
    assert tool("fit", large, "-b", NS, "--debug").code == 1


def test_bad_input_is_one_line(tool: Tool, tmp_path: Path) -> None:
    assert "no model" in tool("fit").one_line()
    assert "none.tflite" in tool("fit", "none.tflite").one_line()
    (tmp_path / "text.tflite").write_text("this is no model, and long enough to look at")
    tool("fit", "text.tflite").one_line()
    assert "MODEL or --app" in tool("fit", "x.tflite", "--app", "app.yaml").one_line()


@pytest.mark.slow
def test_it_imports_no_engine(model_file: Path) -> None:
    """LiteRT, TFLM and TensorFlow are not imported, so the answer comes within a second."""
    code = (
        "import sys; from tflm_zephyr.cli import main as cli; cli.main(sys.argv[1:]); "
        "print(sorted({'ai_edge_litert', 'tflite_micro', 'tensorflow'} & set(sys.modules)))"
    )
    argv = [sys.executable, "-c", code, "fit", str(model_file)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_all_ways_are_listed_with_their_options(tool: Tool) -> None:
    Path("net.tflite").write_bytes(mobilenet(24))
    ways = tool("fit", "net.tflite", "-b", "mps2/an386", "--kernels", "cmsis_nn", "--json").json["ways"]
    assert {way["name"]: way["option"] for way in ways}["interpreter"] == "--backend interpreter"
    assert len(ways) == 5 and not any(way["faults"] for way in ways)
    cycles = [way["estimated_cycles"] for way in ways]
    assert cycles == sorted(cycles)
    for way in ways[:2]:
        words = way["option"].split()
        again = tool("fit", "net.tflite", "-b", "mps2/an386", "--kernels", "cmsis_nn", *words, "--json").json["ways"]
        (one,) = (found for found in again if found["taken"])
        assert one["flash_bytes"] == way["flash_bytes"]


@pytest.mark.parametrize(
    ("key", "shown", "stand_ins"),
    [("RELU", r"0\.00\d\d", []), ("ABS", r"0\.00\d\d~", ["ADD int8 stands in for ABS int8"])],
)
def test_a_model_without_convolutions_has_cycles(tool: Tool, key: str, shown: str, stand_ins: list[str]) -> None:
    Path("net.tflite").write_bytes(unary(key, shape=(1, 64)))
    ways = tool("fit", "net.tflite", "-b", M3, "--kernels", "cmsis_nn", "--json").json["ways"]
    assert all(64 < way["estimated_cycles"] < 9999 for way in ways)
    assert all(way["stand_ins"] == stand_ins for way in ways)
    text = tool("fit", "net.tflite", "-b", M3, "--kernels", "cmsis_nn").out
    assert len(re.findall(rf"^ +[\d,]+ +[\d,]+ +{shown}  --", text, re.M)) == len(ways)
    assert [f"    ~ {why}" for why in stand_ins] == re.findall("^    ~ .*$", text, re.M)


@pytest.mark.usefixtures("no_engine")
def test_what_was_not_measured_of_compiled_code_is_at_least(tool: Tool) -> None:
    for name in ("one", "two"):
        Path(f"{name}.tflite").write_bytes(mobilenet(24))
    compiled = ("-b", M3, "--backend", "compiled", "--json")
    for words in (("one.tflite", "two.tflite", "--kernels", "cmsis_nn"), ("one.tflite", "--kernels", "reference")):
        (fit,) = tool("fit", *words, *compiled).json["boards"]
        assert fit["fits"] == "unknown"
        assert fit["flash"]["above_bytes"] is None
        assert "not measured" in fit["notes"][-1]


DIGITS = ROOT / "samples" / "digits" / "digits.tflite"


@pytest.mark.usefixtures("no_engine")
def test_into_an_application_that_was_built(tool: Tool, tmp_path: Path) -> None:
    """The map's 0x31500 bytes of 0x30000, of which net, the only model, has 0x3040 with TFLM, and TF-M 749."""
    single = MAP.replace("libtflm_model_wake.a(wake", "app/libapp.a(wake")
    folder = build(tmp_path / "b", CONFIG + "CONFIG_ARMV8_M_DSP=y\nCONFIG_TFM_BL2=y\n", single)
    done = tool("fit", DIGITS, "--into", folder, "--json")
    found = done.json["into"]
    left = 0x30000 - 0x31500 + 0x3040 - 749
    assert (found["replaced"], found["left"]["flash"], found["share"]["flash"]) == (["net"], left, 0x3040)
    assert (done.code, found["best"]) == (1, None)
    assert all("flash (estimated), " in fault for way in done.json["ways"] for fault in way["faults"])
    roomy = build(tmp_path / "b", CONFIG, single.replace("0x00030000", "0x00040000"))
    text = tool("fit", DIGITS, "--into", roomy).out
    assert "sensor for nrf9160dk@0.14.0/nrf9160/ns takes 201,984 of 262,144 bytes of flash" in text
    assert re.search(
        r"take FAST_KERNELS on: [\d,]+ bytes of flash more and [\d,]+ bytes of RAM less than now, \d+ % ", text
    )
    assert tool("fit", DIGITS, "--into", roomy).code == 0


def test_into_needs_a_build_and_a_model(tool: Tool, tmp_path: Path) -> None:
    assert "is no build folder of Zephyr" in tool("fit", DIGITS, "--into", tmp_path).one_line()
    assert "Name a .tflite file" in tool("fit", "--into", build(tmp_path / "b")).one_line()
    assert "--board is what the build folder" in tool("fit", DIGITS, "-b", M3, "--into", tmp_path / "b").one_line()
    assert (
        "--flash does not go with --into" in tool("fit", DIGITS, "--flash", "1k", "--into", tmp_path / "b").one_line()
    )
    assert "no such file" in tool("fit", "none.tflite", "--into", tmp_path / "b").one_line()
    for text, why in (("default: null", "names no default domain"), ("default: gone", "that was not built")):
        (tmp_path / "domains.yaml").write_text(text)
        assert why in tool("fit", DIGITS, "--into", tmp_path).one_line()
