# SPDX-License-Identifier: Apache-2.0
"""An app takes retrained models: edits stay, options are remembered, changes are reported, copies work elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.architectures import dense_chain
from tests.helpers.command_line import Tool
from tests.helpers.model_builder import ModelBuilder
from tflm_zephyr import validation
from tflm_zephyr.cli.commands import retraining
from tflm_zephyr.cli.commands.retraining import Quality, with_new_models
from tflm_zephyr.cli.report import update as report
from tflm_zephyr.codegen.app_folder import load_manifest
from tflm_zephyr.codegen.model_facts import ModelChange, TensorChange, TensorFacts
from tflm_zephyr.errors import AppError, ToolError
from tflm_zephyr.options import AppConfig, ModelConfig
from tflm_zephyr.validation import Accuracy, Deviation

pytestmark = pytest.mark.usefixtures("fixed_reference")

EDITS = {
    "src/main.cpp": "int main() { return 0; } // mine\n",
    "prj.conf": "CONFIG_CPP=y\nCONFIG_MAIN_STACK_SIZE=8192\n",
    "CMakeLists.txt": "# mine\ninclude(tflm/app.cmake)\n",
    "Kconfig": 'rsource "tflm/Kconfig"\nsource "Kconfig.zephyr"\n',
    "boards/mps2_an385.conf": "CONFIG_GPIO=y\n",
}
OPTIONS = ("-b", "mps2/an385", "--runs", 2, "--plan", "online", "--kernels", "reference")


@pytest.fixture
def app(tool: Tool, tmp_path: Path) -> Path:
    """An app of a dense model called net, its user's files edited."""
    (tmp_path / "net.tflite").write_bytes(dense_chain([32, 16, 8]))
    assert tool("generate", "net.tflite", "-o", "app", *OPTIONS).code == 0
    for path, text in EDITS.items():
        (tmp_path / "app" / path).write_text(text)
    (tmp_path / "app" / "README.md").unlink()
    return tmp_path / "app"


def retrained(tmp_path: Path, widths: tuple[int, ...] = (32, 512, 8), name: str = "week2") -> Path:
    path = tmp_path / f"{name}.tflite"
    path.write_bytes(dense_chain(widths, seed=7))
    return path


def assert_edits_are_kept(app: Path) -> None:
    assert {path: (app / path).read_text() for path in EDITS} == EDITS
    assert not (app / "README.md").exists()


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_an_edited_app_takes_a_retrained_model(tool: Tool, app: Path, tmp_path: Path, force: tuple[str, ...]) -> None:
    new = retrained(tmp_path)
    done = tool("generate", "-o", app, new, *force)
    assert done.code == 0, done.err
    assert_edits_are_kept(app)
    assert not list(app.rglob("*.orig"))
    assert (app / "tflm/models/net.tflite").read_bytes() == new.read_bytes()  # its name is that of the app's model
    assert not (app / "tflm/src/models/week2.hpp").exists()
    text = (app / "tflm/app.yaml").read_text()
    assert "plan: online" in text and "runs: 2" in text and "kernels: reference" in text
    assert load_manifest(app).boards == ("mps2/an385",)
    assert tool("generate", "-o", app, "--check").code == 0


def test_the_changes_are_reported(tool: Tool, app: Path, tmp_path: Path) -> None:
    was = load_manifest(app)
    done = tool("generate", "-o", app, retrained(tmp_path), "--json").json["update"]
    now = load_manifest(app)
    (model,) = done["models"]
    assert model["model"] == "net" and model["interface"] == [] and done["quality"] == []
    sizes = [(model[key]["model_bytes"], model[key]["arena_bytes"]) for key in ("was", "now")]
    assert sizes[0] != sizes[1]
    assert sizes == [(item.models["net"].model_bytes, item.models["net"].arena_bytes) for item in (was, now)]
    flash = done["flash"]["mps2/an385"]
    assert flash == {"was": was.flash["mps2/an385"], "now": now.flash["mps2/an385"]} and flash["now"] > flash["was"]
    shutil.copy(tmp_path / "net.tflite", tmp_path / "old.tflite")
    said = tool("generate", "-o", app, tmp_path / "old.tflite").out
    (old_bytes, old_arena), (new_bytes, new_arena) = sizes
    assert f"net: new weights, model {new_bytes} -> {old_bytes} bytes ({old_bytes - new_bytes:+})" in said
    assert f"arena {new_arena} -> {old_arena} bytes" in said and "1 operator as before" in said
    assert f"mps2/an385: flash {flash['now']} -> {flash['was']} bytes, estimated" in said
    assert "->" not in tool("generate", "-o", app).out.partition("self-test")[0]


def test_an_interface_that_changed_is_said_first(tool: Tool, app: Path, tmp_path: Path) -> None:
    done = tool("generate", "-o", app, retrained(tmp_path, (40, 24, 12)))
    assert done.code == 0
    assert done.out.splitlines()[1] == (
        "  warning: net: the interface changed, your code has to follow tflm/src/models/net.hpp: "
        "input 0: int8[1][32] -> int8[1][40]; output 0: int8[1][8] -> int8[1][12]"
    )
    assert_edits_are_kept(app)


def test_another_quantisation_is_said_but_breaks_nothing(tool: Tool, app: Path, tmp_path: Path) -> None:
    model = ModelBuilder()
    main = model.subgraph("main")
    main.inputs = [main.tensor((1, 32), "int8", "input", scale=0.1, zero_point=3)]
    main.outputs = [main.tensor((1, 32), "int8", "output", scale=0.2)]
    main.op("RELU", main.inputs, main.outputs)
    (tmp_path / "relu.tflite").write_bytes(model.finish())
    said = tool("generate", "-o", app, tmp_path / "relu.tflite").out
    assert (
        "net: input 0: scale 0.05, zero point 0 -> scale 0.1, zero point 3; the constants in its header follow" in said
    )
    assert "output 0: int8[1][8] -> int8[1][32]" in said
    assert "operators 1 -> 1 (+AddRelu, -AddFullyConnected)" in said


def test_options_are_remembered_unless_given_anew(tool: Tool, app: Path, tmp_path: Path) -> None:
    assert tool("generate", "-o", app, retrained(tmp_path), "--plan", "packed", "-b", "mps2/an386").code == 0
    text = (app / "tflm/app.yaml").read_text()
    assert "plan:" not in text and "runs: 2" in text
    assert load_manifest(app).boards == ("mps2/an386",)
    assert (app / "boards/mps2_an386.conf").is_file()  # a new board's, which the app did not have
    assert_edits_are_kept(app)


def test_files_that_do_not_follow_the_options_are_named(tool: Tool, app: Path, tmp_path: Path) -> None:
    done = tool("generate", "-o", app, "-b", "mps2/an386", "--debug", retrained(tmp_path))
    assert "yours and were left as they are: prj.conf, sample.yaml. Written anew they would differ" in done.out
    fresh = tool("generate", "--app", app / "tflm" / "app.yaml", "-o", "NEW")
    assert f"`tflm-zephyr generate --app {app}/tflm/app.yaml -o NEW`" in done.out and fresh.code == 0
    assert "mps2/an386" in (tmp_path / "NEW" / "sample.yaml").read_text()
    assert "left as they are" not in tool("generate", "-o", app).out
    assert_edits_are_kept(app)


def test_comments_in_the_app_file_stay(tool: Tool, app: Path, tmp_path: Path) -> None:
    path = app / "tflm/app.yaml"
    path.write_text(f"# a remark of the user's\n{path.read_text()}")
    assert tool("generate", "-o", app, retrained(tmp_path)).code == 0
    assert path.read_text().startswith("# a remark of the user's\n")


def test_an_app_file_may_name_a_model_elsewhere(tool: Tool, app: Path, tmp_path: Path) -> None:
    new, path = retrained(tmp_path), app / "tflm/app.yaml"
    text = path.read_text().replace("model: models/net.tflite", "model: ../../week2.tflite\n  name: net")
    path.write_text(text)
    assert tool("generate", "-o", app).code == 0
    assert path.read_text() == text and (app / "tflm/models/net.tflite").read_bytes() == new.read_bytes()
    new.unlink()
    assert tool("generate", "-o", app, "--check").code == 0  # by the app's own copy


def test_an_edit_inside_tflm_is_refused(tool: Tool, app: Path, tmp_path: Path) -> None:
    path = app / "tflm/src/models/net.cpp"
    path.write_text("mine")
    new = retrained(tmp_path)
    line = tool("generate", "-o", app, new).one_line()
    assert "edited by hand: tflm/src/models/net.cpp" in line and "--force" in line
    assert path.read_text() == "mine" and (app / "tflm/models/net.tflite").read_bytes() != new.read_bytes()
    assert tool("generate", "-o", app, new, "--force").code == 0
    assert path.with_name("net.cpp.orig").read_text() == "mine" != path.read_text()
    assert_edits_are_kept(app)


def test_a_copy_elsewhere_is_whole(tool: Tool, app: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.ones((5, 32), np.int8))
    assert tool("generate", "-o", app, "--inputs", "data.npz").code == 0
    elsewhere = tmp_path / "far" / "away" / "clone"
    shutil.copytree(app, elsewhere)
    shutil.rmtree(app)
    for name in ("net.tflite", "data.npz"):
        (tmp_path / name).unlink()
    assert tool("generate", "-o", elsewhere, "--check").code == 0
    assert tool("generate", "--app", elsewhere / "tflm/app.yaml", "--check").code == 0
    assert tool("fit", "--app", elsewhere / "tflm/app.yaml").code == 0
    assert str(tmp_path) not in (elsewhere / "tflm/app.yaml").read_text()
    assert tool("generate", "-o", elsewhere, retrained(tmp_path)).code == 0
    assert tool("generate", "-o", elsewhere, "--check").code == 0


@pytest.mark.parametrize("shared", [False, True])
def test_one_of_several_models_is_replaced(tool: Tool, tmp_path: Path, shared: bool) -> None:
    for name, widths in (("one", [8, 4]), ("two", [16, 4])):
        (tmp_path / f"{name}.tflite").write_bytes(dense_chain(widths))
    (tmp_path / "my.yaml").write_text(f"models: [one.tflite, two.tflite]\nshared_arena: {str(shared).lower()}\n")
    assert tool("generate", "--app", "my.yaml", "-o", "app").code == 0
    new = retrained(tmp_path, (16, 8, 4), "new")
    line = tool("generate", "-o", "app", new).one_line()
    assert "the app has no model new but one, two" in line and f"Write MODEL={new}" in line
    assert tool("generate", "-o", "app", f"two={new}").code == 0
    assert Path("app/tflm/models/two.tflite").read_bytes() == new.read_bytes()
    assert Path("app/tflm/models/one.tflite").read_bytes() == (tmp_path / "one.tflite").read_bytes()
    assert tool("generate", "-o", "app", "--check").code == 0
    assert tool("generate", "two.tflite", "one.tflite", "-o", "app").code == 0  # by their names
    assert list(load_manifest(Path("app")).models) == ["one", "two"]


def test_the_model_that_a_file_is_for(tmp_path: Path) -> None:
    config = AppConfig((ModelConfig(tmp_path / "a.tflite", name="My Net"),))
    for given in ("other.tflite", "my_net.tflite", "my_net=x.tflite"):
        (item,) = with_new_models(config, [tmp_path / given if "=" not in given else Path(given)], tmp_path).models
        assert item.label == "My Net" and item.model.name == given.rpartition("=")[2]
    with pytest.raises(AppError, match=r"the app has no model none but my_net"):
        with_new_models(config, [Path("none=x.tflite")], tmp_path)


def test_an_app_of_the_older_layout_is_one_line(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old/.tflm-zephyr.json").write_text("{}")
    (tmp_path / "old/app.yaml").write_text("models: [../net.tflite]\n")
    (tmp_path / "net.tflite").write_bytes(dense_chain([8, 4]))
    asked = (
        ("generate", "-o", "old"), ("generate", "net.tflite", "-o", "old"), ("generate", "--app", "old/app.yaml"),
        ("run", "old"), ("size", "old"),
    )  # fmt: skip
    for argv in asked:
        assert "generate --app old/app.yaml -o NEW" in tool(*argv).one_line()
    assert tool("generate", "--app", "old/app.yaml", "-o", "new").code == 0


class TestQuality:
    """Accuracy of the old and the new model on labelled inputs."""

    @pytest.fixture
    def labelled(self, tool: Tool, app: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """The app with labelled inputs; a model's accuracy is 3 of 4, or for the first model 2 of 4."""
        np.savez(app.parent / "data.npz", x=np.ones((5, 32), np.int8), y=np.arange(5))
        assert tool("generate", "-o", app, "--inputs", "data.npz").code == 0
        first = (app / "tflm/models/net.tflite").read_bytes()
        monkeypatch.setattr(retraining, "MOST_SAMPLES", 4)
        monkeypatch.setattr(
            validation, "evaluate_host", lambda model, data: Accuracy(len(data), 2 if model == first else 3, (), ())
        )
        return app

    def test_old_and_new(self, tool: Tool, labelled: Path, tmp_path: Path) -> None:
        said = tool("generate", "-o", labelled, retrained(tmp_path)).out
        want = (
            "net: 2 of 4 right (50.00 %) -> 3 of 4 right (75.00 %) on the first 4 samples of data.npz, TFLM on the host"
        )
        assert want in said

    def test_the_same_model_is_not_tried(self, tool: Tool, labelled: Path) -> None:
        assert "right" not in tool("generate", "-o", labelled).out

    def test_a_model_that_was_put_in_place(self, tool: Tool, labelled: Path, tmp_path: Path) -> None:
        shutil.copy(retrained(tmp_path), labelled / "tflm/models/net.tflite")
        said = tool("generate", "-o", labelled).out
        assert "net: 3 of 4 right (75.00 %) on the first 4" in said and "->" in said

    def test_no_engine(self, tool: Tool, labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*args: object) -> Accuracy:
            raise ToolError("tflite-micro is not installed")

        monkeypatch.setattr(validation, "evaluate_host", refuse)
        done = tool("generate", "-o", labelled, retrained(tmp_path))
        assert done.code == 0 and "net: not tried on data.npz: tflite-micro is not installed" in done.out


def test_a_regressors_quality_is_its_error() -> None:
    found = [Quality("net", "d.npz", 4, 4, Deviation(4, 0.5, 1.0, ()), Deviation(4, 0.25, 0.5, ()))]
    update = retraining.AppUpdate((), {}, tuple(found))
    assert report.lines(update) == [
        "  net: mean absolute error 0.5 -> mean absolute error 0.25 on d.npz, TFLM on the host"
    ]
    assert report.plain(update)["quality"][0]["now"] == {"mean_absolute": 0.25, "largest": 0.5, "count": 4}


def test_inputs_that_come_and_go_are_named() -> None:
    tensor = TensorFacts("float32", (1, 2))
    change = ModelChange(
        "net", None, None, (TensorChange("input 1", None, tensor), TensorChange("output 1", tensor, None))
    )
    line, *_ = report.lines(retraining.AppUpdate((change,), {}, ()))
    assert "input 1: none -> float32[1][2], not quantised; output 1: float32[1][2], not quantised -> none" in line
