# SPDX-License-Identifier: Apache-2.0
"""Golden runs: made by a reference, kept beside the app, taken from there as long as they fit."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.command_line import SOURCE, Tool
from tests.helpers.model_builder import chain
from tests.helpers.small_models import dense
from tflm_zephyr.codegen.app_folder import MANIFEST
from tflm_zephyr.codegen.golden import golden_runs, path_of
from tflm_zephyr.codegen.spec import StreamSpec
from tflm_zephyr.errors import AppError, ModelError, ToolError
from tflm_zephyr.host import golden_outputs
from tflm_zephyr.host.golden_outputs import seeded_inputs
from tflm_zephyr.host.run import EngineCrashedError, HostRun
from tflm_zephyr.model.reader import load_model
from tflm_zephyr.options import ModelConfig

OTHER = "made elsewhere"


@pytest.fixture
def app(tool: Tool, model_file: Path, tmp_path: Path, fixed_reference: None) -> Path:
    assert tool("generate", model_file, "-o", tmp_path / "app").code == 0
    return tmp_path / "app"


def kept(app: Path) -> Path:
    return app / "tflm" / path_of("net")


@pytest.mark.usefixtures("fixed_reference")
def test_seeded_runs_differ_from_each_other(model_file: Path, tmp_path: Path) -> None:
    model = load_model(model_file)
    found = golden_runs(model, ModelConfig(model_file, runs=3), tmp_path)
    assert [run.inputs for run in found.runs] == [seeded_inputs(model, seed) for seed in range(3)]
    assert len({run.inputs for run in found.runs}) == 3
    assert found.source == f"{SOURCE}; seeded random inputs"


@pytest.mark.usefixtures("fixed_reference")
def test_given_inputs_are_taken_in_order(model_file: Path, tmp_path: Path) -> None:
    x = np.arange(5 * 64, dtype=np.int8).reshape(5, 64)
    np.savez(tmp_path / "data.npz", x=x)
    config = ModelConfig(model_file, inputs=tmp_path / "data.npz", runs=2)
    found = golden_runs(load_model(model_file), config, tmp_path)
    assert [run.inputs for run in found.runs] == [(x[0].tobytes(),), (x[1].tobytes(),)]
    assert found.source == f"{SOURCE}; inputs from data.npz"


@pytest.mark.usefixtures("fixed_reference")
def test_windows_of_a_signal_overlap(model_file: Path, tmp_path: Path) -> None:
    model, stream = load_model(model_file), StreamSpec(0, rows=8, row_elements=8, row_bytes=8, hop=3)
    found = golden_runs(model, ModelConfig(model_file, runs=2), tmp_path, stream=stream)
    windows = [run.inputs[0] for run in found.runs]
    assert len(windows) == 3
    assert [one[24:] for one in windows[:-1]] == [other[:40] for other in windows[1:]]
    x = np.frombuffer(windows[0] + windows[1][40:], np.int8)
    np.savez(tmp_path / "data.npz", x=np.stack([x[:64], x[24:]]))
    config = ModelConfig(model_file, inputs=tmp_path / "data.npz", runs=1)
    assert [run.inputs[0] for run in golden_runs(model, config, tmp_path, stream=stream).runs] == windows[:2]
    with pytest.raises(AppError, match="input 1 is not the window 2 rows behind input 0"):
        golden_runs(model, config, tmp_path, stream=replace(stream, hop=2))


def test_more_runs_than_data(model_file: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((2, 64), np.int8))
    config = ModelConfig(model_file, inputs=tmp_path / "data.npz", runs=3)
    with pytest.raises(AppError, match=r"data\.npz: holds 2 inputs, 3 runs were requested\. Ask for fewer"):
        golden_runs(load_model(model_file), config, tmp_path)


@pytest.mark.usefixtures("no_reference")
def test_without_a_reference_the_reasons_are_reported(model_file: Path, tmp_path: Path) -> None:
    found = golden_runs(load_model(model_file), ModelConfig(model_file), tmp_path)
    assert found.runs == () and found.source == ""
    assert "ai-edge-litert" in " ".join(found.notes) and "tflite-micro" in " ".join(found.notes)


def test_the_file_says_what_it_is(app: Path, model_file: Path) -> None:
    raw = json.loads(kept(app).read_text())
    assert raw["sha256"] == load_model(model_file).sha256
    assert (raw["outputs"], raw["inputs"]) == (SOURCE, "seeded random inputs")
    assert raw["engines"] == {"ai-edge-litert": "0.0.0"}
    assert raw["runs"] == [
        {"inputs": [seeded_inputs(load_model(model_file))[0].hex()], "outputs": [bytes(range(64)).hex()]}
    ]


def test_kept_runs_are_taken_where_no_reference_is(
    app: Path, tool: Tool, no_reference: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the fixed reference goes
    monkeypatch.delenv("ZEPHYR_BASE", raising=False)
    monkeypatch.setattr("tflm_zephyr.host.golden_outputs.available", lambda engine: False)
    assert tool("generate", "-o", app, "--check").code == 0
    before = kept(app).read_bytes()
    assert tool("generate", "-o", app).code == 0
    assert kept(app).read_bytes() == before
    assert "kGolden = {kBytes, 1}" in (app / "tflm" / "src" / "models" / "net_golden.cpp").read_text()


@pytest.mark.usefixtures("fixed_reference", "app")
class TestKept:
    """Kept runs that no longer fit are made anew, or dropped where no reference is installed."""

    def found(self, app: Path, model_file: Path, **config: object) -> list[tuple[bytes, ...]]:
        runs = golden_runs(load_model(model_file), ModelConfig(model_file, **config), app)  # type: ignore[arg-type]
        return [run.outputs for run in runs.runs]

    def test_the_same(self, app: Path, model_file: Path, no_reference: None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tflm_zephyr.host.golden_outputs.attempt", None)  # not called
        assert self.found(app, model_file) == [(bytes(range(64)),)]

    def test_another_model(self, app: Path, model_file: Path) -> None:
        model_file.write_bytes(dense())
        assert self.found(app, model_file) == [(bytes(range(8)),)]

    def test_another_number_of_runs(self, app: Path, model_file: Path) -> None:
        assert len(self.found(app, model_file, runs=2)) == 2

    @pytest.mark.parametrize("installed", [{"ai-edge-litert": "0.0.1"}, {"tflite-micro": "1"}])
    def test_other_engines(
        self, app: Path, model_file: Path, installed: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tflm_zephyr.host.golden_outputs.installed", lambda: installed)
        model, config = load_model(model_file), ModelConfig(model_file)
        assert golden_runs(model, config, app).engines == installed
        assert golden_runs(model, config, app, keep=True).engines == {"ai-edge-litert": "0.0.0"}

    def test_seeded_inputs_after_given_ones(self, app: Path, model_file: Path, tool: Tool, tmp_path: Path) -> None:
        """A golden file depends on the present options alone, not on those of an earlier run."""
        fresh = kept(app).read_bytes()
        np.savez(tmp_path / "data.npz", x=np.full((1, 64), 7, np.int8))
        assert tool("generate", model_file, "-o", app, "--inputs", tmp_path / "data.npz").code == 0
        assert kept(app).read_bytes() != fresh
        assert tool("generate", model_file, "-o", app, "--check").code == 0  # the inputs are remembered
        app_file = app / "tflm" / "app.yaml"
        app_file.write_text(re.sub(r"\n +inputs:.*", "", app_file.read_text()))
        assert tool("generate", "-o", app, "--check").code == 1
        assert tool("generate", model_file, "-o", app).code == 0
        assert kept(app).read_bytes() == fresh
        assert "seeded random inputs" in (app / "tflm/src/models/net_golden.cpp").read_text()

    def test_the_same_inputs_of_another_name(self, app: Path, model_file: Path, tool: Tool, tmp_path: Path) -> None:
        for name in ("a.npz", "b.npz"):
            np.savez(tmp_path / name, x=np.full((1, 64), 7, np.int8))
            assert tool("generate", model_file, "-o", app, "--inputs", tmp_path / name).code == 0
            assert f"inputs from {name}" in (app / "tflm/src/models/net_golden.cpp").read_text()

    def test_other_inputs(self, app: Path, model_file: Path, tmp_path: Path) -> None:
        np.savez(tmp_path / "data.npz", x=np.full((1, 64), 7, np.int8))
        config = ModelConfig(model_file, inputs=tmp_path / "data.npz")
        assert golden_runs(load_model(model_file), config, app).runs[0].inputs == (b"\7" * 64,)

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"runs": 3}', '{"runs": [{"inputs": ["zz"]}]}'])
    def test_damage(self, app: Path, model_file: Path, text: str) -> None:
        kept(app).write_text(text)
        assert self.found(app, model_file) == [(bytes(range(64)),)]

    def test_an_edit_is_not_what_a_reference_gave(self, app: Path, model_file: Path, tool: Tool) -> None:
        raw = json.loads(kept(app).read_text())
        raw["runs"][0]["outputs"] = [bytes(64).hex()]
        kept(app).write_text(json.dumps(raw))
        assert self.found(app, model_file) == [(bytes(range(64)),)]
        assert tool("generate", "-o", app, "--check").code == 1
        assert "edited by hand: tflm/golden/net.json" in tool("generate", "-o", app).one_line()

    @pytest.mark.parametrize("part", ["inputs", "outputs"])
    def test_bytes_of_another_length(self, app: Path, model_file: Path, part: str) -> None:
        raw = json.loads(kept(app).read_text())
        raw["runs"][0][part] = ["00"]
        text = json.dumps(raw)
        kept(app).write_text(text)
        manifest = json.loads((app / MANIFEST).read_text())
        manifest["files"]["tflm/golden/net.json"] = hashlib.sha256(text.encode()).hexdigest()
        (app / MANIFEST).write_text(json.dumps(manifest))
        assert self.found(app, model_file) == [(bytes(range(64)),)]


@pytest.mark.parametrize("declared", [False, True])
def test_what_tflm_refuses_is_a_warning(
    tool: Tool, model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: bool
) -> None:
    """Each time: no kept runs hide it. With custom operators of one's own it is to be expected."""
    run = golden_outputs.Golden(seeded_inputs(load_model(model_file)), (bytes(64),))
    attempt = golden_outputs.Attempt(
        (run,), SOURCE, {"ai-edge-litert": "1"}, (), "TFLM on the host: refuses the model: no"
    )
    monkeypatch.setattr(golden_outputs, "attempt", lambda *args: attempt)
    monkeypatch.setattr(golden_outputs, "installed", lambda: {"ai-edge-litert": "1", "tflite-micro": "1"})
    (tmp_path / "my_op.h").write_text("")
    (tmp_path / "my_op.cc").write_text("")
    custom = ", custom_operators: [{name: A, register: R, header: my_op.h, sources: my_op.cc}]" * declared
    (tmp_path / "app.yaml").write_text(f"models:\n- {{model: net.tflite{custom}}}\n")
    for _ in range(2):
        done = tool("generate", "--app", tmp_path / "app.yaml", "-o", tmp_path / "app")
        assert done.code == 0
        if declared:
            assert "  note: net: TFLM on the host: refuses the model: no\n" in done.out and "warning" not in done.out
        else:
            assert "\n  warning: net: TFLM on the host: refuses the model: no; the app's TFLM" in done.out


@pytest.mark.parametrize("backend", ["interpreter", "compiled"])
def test_a_model_on_which_tflm_crashes_and_that_litert_refuses(
    tool: Tool, model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """A device would crash as well; where LiteRT runs the model, a crash is a warning."""

    def crash(data: bytes, runs: object, *, engine: str, on_run: object) -> HostRun:
        if engine == "tflm":
            raise EngineCrashedError("crashed (SIGSEGV)", where="TFLM on the host")
        raise ModelError("refuses the model: no", where="LiteRT")

    monkeypatch.setattr(golden_outputs, "available", lambda engine: True)
    monkeypatch.setattr(golden_outputs, "run_many", crash)
    said = tool("generate", model_file, "-o", tmp_path / "app", "--backend", backend).one_line()
    assert "net.tflite: TFLM on the host: crashed (SIGSEGV). LiteRT does not run it either: convert it again" in said
    assert not (tmp_path / "app").exists()


@pytest.mark.parametrize("litert", ["runs it", "is not installed"])
def test_a_crash_of_tflm_alone_is_a_warning(
    tool: Tool, model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, litert: str
) -> None:
    def crash(data: bytes, runs: list[object], *, engine: str, on_run: object) -> HostRun:
        if engine == "tflm":
            raise EngineCrashedError("crashed (SIGSEGV)", where="TFLM on the host")
        return HostRun(engine, "1", tuple((bytes(64),) for _ in runs), 0, 0, 0, (), 0)

    monkeypatch.setattr(golden_outputs, "available", lambda engine: engine == "tflm" or litert == "runs it")
    monkeypatch.setattr(golden_outputs, "run_many", crash)
    done = tool("generate", model_file, "-o", tmp_path / "app")
    assert done.code == 0 and "warning: net: TFLM on the host: crashed (SIGSEGV)" in done.out


@pytest.mark.usefixtures("fixed_reference")
def test_inputs_that_do_not_suit_the_model(model_file: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((2, 63), np.int8))
    config = ModelConfig(model_file, inputs=tmp_path / "data.npz")
    with pytest.raises(ToolError, match="63"):
        golden_runs(load_model(model_file), config, tmp_path)


@pytest.mark.usefixtures("fixed_reference")
def test_a_model_in_two_apps_does_not_share_runs(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(chain())
    for app in ("a", "b"):
        assert tool("generate", tmp_path / "net.tflite", "-o", tmp_path / app, "--runs", 1 + (app == "b")).code == 0
    assert len(json.loads(kept(tmp_path / "b").read_text())["runs"]) == 2
