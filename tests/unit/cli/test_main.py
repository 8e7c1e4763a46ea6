# SPDX-License-Identifier: Apache-2.0
"""The command line: every bad input is one line and exit code 1, usage is 2, signals leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.fakes.records import lines_of
from tests.fakes.west import FakeWest, make_workspace
from tests.helpers.checkout import ROOT
from tests.helpers.command_line import Outcome, Tool
from tests.helpers.marks import rest_slow
from tests.helpers.model_builder import ModelBuilder, chain
from tests.helpers.processes import gone, pid_from, start
from tests.helpers.small_models import dense, unary
from tflm_zephyr.build.west import FORCED
from tflm_zephyr.cli import main
from tflm_zephyr.codegen import rendering
from tflm_zephyr.codegen.app_folder import load_manifest
from tflm_zephyr.errors import ToolError
from tflm_zephyr.host import run
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.writer import with_offline_plan

FAKE_BIN = ROOT / "tests" / "fakes" / "bin"


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def app(tool: Tool, model_file: Path, tmp_path: Path, fixed_reference: None) -> Path:
    """An app just generated."""
    assert tool("generate", model_file, "-o", tmp_path / "app").code == 0
    return tmp_path / "app"


# -- generate ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("fixed_reference")
def test_generate_says_what_it_did(tool: Tool, model_file: Path, tmp_path: Path) -> None:
    done = tool("generate", model_file, "-o", tmp_path / "app", "-b", "mps2/an385")
    assert done.code == 0 and done.err == ""
    assert done.out.startswith(f"App app in {tmp_path / 'app'}: 34 files written.\n")
    assert "1 operators (AddRelu)" in done.out or "1 operator (AddRelu)" in done.out
    assert "estimated" in done.out and "self-test: 1 run, reference LiteRT 0.0.0" in done.out
    assert done.out.splitlines()[-1].startswith(
        "Next: tflm-zephyr setup DIR makes a workspace, then tflm-zephyr build "
    )


def test_generate_again_changes_nothing(tool: Tool, app: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in app.rglob("*")}
    assert "0 files written, 25 unchanged" in tool("generate", "-o", app).out
    assert before == {path: path.stat().st_mtime_ns for path in app.rglob("*")}


def test_flags_are_kept_in_the_app_file(tool: Tool, app: Path, model_file: Path, tmp_path: Path) -> None:
    argv = ("-b", "mps2/an386", "--arena", "8k", "--plan", "online", "--runs", 2, "--name", "My App")
    assert tool("generate", model_file, "-o", tmp_path / "other", *argv).code == 0
    text = (tmp_path / "other" / "tflm" / "app.yaml").read_text()
    for line in ("name: My App", "- mps2/an386", "arena: 8192", "plan: online", "runs: 2", "model: models/net.tflite"):
        assert line in text
    assert load_manifest(tmp_path / "other").name == "my_app"
    assert tool("generate", "-o", tmp_path / "other", "--check").code == 0


def test_flags_override_the_app_file(tool: Tool, app: Path) -> None:
    done = tool("generate", "-o", app, "--arena", 4096, "--json")
    assert done.json["models"][0]["arena"]["bytes"] == 4096
    assert tool("generate", "-o", app, "--check").code == 0  # the file has it now


class TestCheck:
    def outcome(self, tool: Tool, app: Path) -> Outcome:
        before = tree(app)
        done = tool("generate", "-o", app, "--check")
        assert tree(app) == before
        return done

    def test_up_to_date(self, tool: Tool, app: Path) -> None:
        done = self.outcome(tool, app)
        assert (done.code, done.out) == (0, f"{app} is up to date (25 files).\n")

    def test_another_model(self, tool: Tool, app: Path) -> None:
        (app / "tflm" / "models" / "net.tflite").write_bytes(dense())
        done = self.outcome(tool, app)
        assert done.code == 1 and "out of date: tflm/src/models/net.cpp" in done.out

    def test_an_edit(self, tool: Tool, app: Path) -> None:
        (app / "tflm" / "src" / "run.cpp").write_text("mine")
        done = self.outcome(tool, app)
        assert done.code == 1 and "edited by hand: tflm/src/run.cpp" in done.out

    def test_an_edit_of_the_users_files(self, tool: Tool, app: Path) -> None:
        for path in ("src/main.cpp", "prj.conf", "CMakeLists.txt"):
            (app / path).write_text("mine")
        (app / "README.md").unlink()
        assert self.outcome(tool, app).code == 0

    def test_an_edit_of_the_app_file_that_changes_the_app(self, tool: Tool, app: Path) -> None:
        path = app / "tflm" / "app.yaml"
        path.write_text(path.read_text().replace("mps2/an385", "mps2/an386"))
        assert self.outcome(tool, app).code == 1

    def test_a_lost_file(self, tool: Tool, app: Path) -> None:
        (app / "tflm" / "Kconfig").unlink()
        done = self.outcome(tool, app)
        assert done.code == 1 and "out of date: tflm/Kconfig" in done.out

    def test_another_template(self, tool: Tool, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tflm_zephyr.codegen.rendering.BANNER", "Another banner.")
        monkeypatch.setattr(
            "tflm_zephyr.codegen.rendering.environment",
            rendering.environment.__wrapped__,
        )
        done = self.outcome(tool, app)
        assert done.code == 1 and "out of date: tflm/app.cmake" in done.out

    def test_json(self, tool: Tool, app: Path) -> None:
        (app / "tflm" / "src" / "run.cpp").write_text("mine")
        done = tool("generate", "-o", app, "--check", "--json")
        assert done.code == 1 and done.json["stale"] and done.json["edited"] == ["tflm/src/run.cpp"]

    def test_no_app_yet(self, tool: Tool, model_file: Path, tmp_path: Path, fixed_reference: None) -> None:
        line = tool("generate", model_file, "-o", tmp_path / "app", "--check").one_line()
        assert "no such folder" in line and not (tmp_path / "app").exists()


@pytest.mark.usefixtures("fixed_reference")
def test_ci_workflow_lies_at_the_top_of_the_checkout(tool: Tool, model_file: Path, tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    app = tmp_path / "repo" / "apps" / "net"
    done = tool("generate", model_file, "-o", app, "--ci", "github", "--json")
    workflow = tmp_path / "repo" / ".github" / "workflows" / "net.yml"
    assert done.json["workflow"] == str(workflow) and "/repository/apps/net" in workflow.read_text()
    workflow.write_text("mine")
    (app / "tflm" / "Kconfig").unlink()
    assert "net.yml: is there already and differs" in tool("generate", "-o", app, "--ci", "github").one_line()
    assert workflow.read_text() == "mine" and not (app / "tflm" / "Kconfig").exists()
    assert tool("generate", "-o", app, "--ci", "github", "--force").code == 0
    assert workflow.with_name("net.yml.orig").read_text() == "mine" != workflow.read_text()


@pytest.mark.usefixtures("fixed_reference")
def test_gitlabs_workflow_is_to_be_included(tool: Tool, model_file: Path, tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    done = tool("generate", model_file, "-o", tmp_path / "repo" / "apps" / "net", "--ci", "gitlab")
    assert "in .gitlab-ci.yml: include: [{local: .gitlab/net.yml}]" in done.out
    assert "$CI_PROJECT_DIR/apps/net" in (tmp_path / "repo" / ".gitlab" / "net.yml").read_text()


@pytest.mark.parametrize("change", ["edited", "absent"])
def test_check_compares_the_workflow_too(tool: Tool, app: Path, change: str) -> None:
    assert tool("generate", "-o", app, "--ci", "github").code == 0
    (workflow,) = app.rglob("app.yml")
    assert tool("generate", "-o", app, "--check", "--ci", "github").code == 0
    workflow.write_text("mine") if change == "edited" else workflow.unlink()
    done = tool("generate", "-o", app, "--check", "--ci", "github")
    assert done.code == 1 and f"out of date: {workflow}" in done.out
    assert tool("generate", "-o", app, "--check").code == 0


def test_plan_drops_a_plan_that_it_does_not_need(tool: Tool, tmp_path: Path) -> None:
    plain = parse_model(chain())
    (tmp_path / "old.tflite").write_bytes(with_offline_plan(plain, [0, 64, 128, 192]))
    assert tool("plan", tmp_path / "old.tflite", "-o", tmp_path / "new.tflite", "--no-in-place").code == 0
    assert parse_model((tmp_path / "new.tflite").read_bytes()).offline_plan is None


# -- bad input -----------------------------------------------------------------------------------------------------


def hybrid() -> bytes:
    model = ModelBuilder()
    main = model.subgraph()
    x = main.tensor((1, 4), "float32", "x")
    w = main.tensor((8, 4), "int8", "w", scale=0.25, data="random")
    y = main.tensor((1, 8), "float32", "y")
    main.op("FULLY_CONNECTED", [x, w, -1], [y], options={"fused_activation_function": 0})
    main.inputs, main.outputs = [x], [y]
    return model.finish()


def unknown_operator() -> bytes:
    model = ModelBuilder()
    main = model.subgraph()
    x, y = (main.tensor((1, 4), "float32", name) for name in "xy")
    main.op("ATAN2", [x, x], [y])
    main.inputs, main.outputs = [x], [y]
    return model.finish()


BAD_MODELS = {
    "empty": (b"", "net.tflite"),
    "text": (b"not a model at all, just text", "net.tflite"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(100), "net.tflite"),
    "truncated": (chain()[:300], "net.tflite"),
    "cut short": (chain()[:-1], "net.tflite"),
    "wrong schema": (ModelBuilder(version=4).finish(), "schema version 4"),
    "hybrid": (hybrid(), "operator 0 (FULLY_CONNECTED)"),
    "no such operator": (unknown_operator(), "ATAN2"),
}


@pytest.mark.parametrize(("data", "says"), BAD_MODELS.values(), ids=BAD_MODELS)
@pytest.mark.parametrize("command", ["generate", "plan"])
def test_bad_models(tool: Tool, tmp_path: Path, command: str, data: bytes, says: str) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(data)
    out = tmp_path / "out"
    done = tool(command, path, "-o", out)
    if command == "plan" and says in ("ATAN2", "operator 0 (FULLY_CONNECTED)"):
        return  # can be planned, if not run
    assert says in done.one_line()
    assert list(tmp_path.iterdir()) == [path]


Setting = Callable[[Path], tuple[object, ...]]


def model_of(tmp: Path) -> Path:
    (tmp / "net.tflite").write_bytes(chain())
    return tmp / "net.tflite"


def written(tmp: Path, name: str, data: bytes | str) -> Path:
    (tmp / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return tmp / name


def app_file(text: str) -> Setting:
    return lambda t: ("generate", "--app", written(t, "my.yaml", text), "-o", t / "app")


def rows(count: int) -> Setting:
    def make(t: Path) -> tuple[object, ...]:
        np.savez(t / "data.npz", x=np.zeros((count, 64), np.int8))
        return ("generate", model_of(t), "-o", t / "app", "--inputs", t / "data.npz", "--runs", 3)

    return make


BAD: dict[str, tuple[Setting, str]] = {
    "missing model": (lambda t: ("generate", t / "none.tflite", "-o", t / "app"), "none.tflite: no such file"),
    "folder as model": (lambda t: ("generate", t, "-o", t / "app"), "directory"),
    "model below a file": (lambda t: ("generate", model_of(t) / "x", "-o", t / "app"), "Not a directory"),
    "no model": (lambda t: ("generate", "-o", t / "app"), "no model"),
    "no output": (lambda t: ("generate", model_of(t)), "Name one with -o APP"),
    "model and app file": (
        lambda t: ("generate", model_of(t), "--app", written(t, "a.yaml", "models: [a]"), "-o", t / "x"),
        "not both",
    ),
    "app file without output": (lambda t: ("generate", "--app", written(t, "a.yaml", "models: [a]")), "-o APP"),
    "bad board": (lambda t: ("generate", model_of(t), "-o", t / "app", "-b", "../../x"), "not a board target's name"),
    "a long board": (
        lambda t: ("generate", model_of(t), "-o", t / "app", "-b", "a" * 3000),
        "not a board target's name",
    ),
    "shell in a board": (lambda t: ("generate", model_of(t), "-o", t / "app", "-b", "a;b"), "not a board target's"),
    "misspelt board": (
        lambda t: ("generate", model_of(t), "-o", t / "app", "-b", "nrf9160dk_nrf9160_ns"),
        "unknown board. Did you mean nrf9160dk/nrf9160/ns?",
    ),
    "output is a file": (lambda t: ("generate", model_of(t), "-o", t / "net.tflite"), "is a file, not a folder"),
    "output is not ours": (
        lambda t: ("generate", model_of(t), "-o", written(t, "mine/a.txt", "x").parent),
        "is not empty and was not generated",
    ),
    "output below a file": (lambda t: ("generate", model_of(t), "-o", t / "net.tflite" / "app"), "net.tflite"),
    "output name too long": (lambda t: ("generate", model_of(t), "-o", t / ("x" * 300)), "File name too long"),
    "arena too small": (lambda t: ("generate", model_of(t), "-o", t / "app", "--arena", 16), "cannot hold the head"),
    "more runs than data": (rows(2), "holds 2 inputs, 3 runs were requested"),
    "no data": (rows(0), "data.npz"),
    "missing inputs": (lambda t: ("generate", model_of(t), "-o", t / "app", "--inputs", t / "n.npz"), "n.npz"),
    "inputs no npz": (
        lambda t: ("generate", model_of(t), "-o", t / "app", "--inputs", written(t, "n.npz", "x")),
        "n.npz",
    ),
    "no such workspace": (lambda t: ("generate", model_of(t), "-o", t / "a", "-w", t / "ws"), "no such folder"),
    "app file: unknown key": (
        app_file("models: [net.tflite]\nbord: x"),
        "'bord' is no key here; did you mean 'boards'?",
    ),
    "app file: wrong type": (app_file("models: [{model: net.tflite, runs: two}]"), "runs wants a whole number"),
    "app file: bad YAML": (app_file("models: [net.tflite"), "my.yaml"),
    "app file: missing model": (app_file("models: [net.tflite]"), "net.tflite: no such file"),
    "app file: missing": (lambda t: ("generate", "--app", t / "n.yaml", "-o", t / "a"), "n.yaml: no such file"),
    "check of nothing": (lambda t: ("generate", "-o", t / "app", "--check"), "no model"),
    "plan: missing": (lambda t: ("plan", t / "none.tflite"), "no such file"),
    "plan: missing csv": (lambda t: ("plan", t / "none.csv"), "no such file"),
    "plan: folder": (lambda t: ("plan", t), "directory"),
    "plan: bad csv": (lambda t: ("plan", written(t, "x.csv", "a,b\n1,2\n")), "x.csv"),
    "plan: csv of bytes": (lambda t: ("plan", written(t, "x.csv", b"\xff\xfe")), "x.csv"),
    "plan: onto itself": (lambda t: ("plan", model_of(t), "-o", t / "net.tflite"), "is the input itself"),
    "plan: onto a folder": (lambda t: ("plan", model_of(t), "-o", t), "folder"),
    "build: no app": (lambda t: ("build", t / "app"), "no such folder"),
    "build: not ours": (lambda t: ("build", t), "not an app that tflm-zephyr generated"),
    "flash: no app": (lambda t: ("flash", t / "app"), "no such folder"),
    "run: no app": (lambda t: ("run", t / "app"), "no such folder"),
    "run: host, no app": (lambda t: ("run", t / "app", "--target", "host"), "no such folder"),
    "run: damaged manifest": (
        lambda t: ("run", written(t, "app/tflm/manifest.json", "{").parents[1]),
        "unreadable",
    ),
    "run: data without host": (lambda t: ("run", t, "--data", t / "x.npz"), "Add --target host"),
}


@pytest.mark.usefixtures("fixed_reference")
@pytest.mark.parametrize(("setting", "says"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["text", "json"])
def test_bad_input_is_one_line(tool: Tool, tmp_path: Path, setting: Setting, says: str, flags: tuple[str, ...]) -> None:
    argv = setting(tmp_path)
    before = tree(tmp_path)
    assert says in tool(*argv, *flags).one_line()
    assert tree(tmp_path) == before  # nothing half-written


def test_traceback_shows_where(tmp_path: Path) -> None:
    with pytest.raises(ToolError):
        main.main(["plan", str(tmp_path / "none.tflite"), "--traceback"])


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", os.fsdecode(b"\xff"), "\u2028", "größe"])
def test_a_name_cannot_break_the_line(tool: Tool, tmp_path: Path, name: str) -> None:
    line = tool("plan", tmp_path / f"{name}.tflite").one_line()
    assert line.rstrip("\n").isprintable()


@pytest.mark.usefixtures("fixed_reference")
@pytest.mark.parametrize("name", ["a\nb", os.fsdecode(b"\xff"), "it's $HOME"])
def test_odd_file_names_work(tool: Tool, tmp_path: Path, name: str) -> None:
    path = written(tmp_path, f"{name}.tflite", chain())
    done = tool("generate", path, "-o", tmp_path / "app")
    if "\n" in name:
        return  # whatever it says, it did not end in a traceback
    assert done.code == 0
    assert tool("generate", "-o", tmp_path / "app", "--check").code == 0


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("fly",),
        ("plan",),
        ("generate", "m", "--arena", "0"),
        ("generate", "m", "--arena", "-5"),
        ("generate", "m", "--arena", "lots"),
        ("generate", "m", "--arena", "k"),
        ("generate", "m", "--runs", "0"),
        ("generate", "m", "--runs", "²"),
        ("generate", "m", "--kernels", "fast"),
        ("generate", "m", "--ci", "jenkins"),
        ("run", "a", "--timeout", "0"),
        ("run", "a", "--timeout", "nan"),
        ("run", "a", "--target", "moon"),
        ("run", "a", "--baudrate", "fast"),
        ("build", "a", "--wat"),
    ],
)
def test_usage(tool: Tool, argv: tuple[str, ...]) -> None:
    done = tool(*argv)
    assert done.code == 2 and done.err.startswith("usage: ") and "Traceback" not in done.err


@pytest.mark.parametrize(("text", "size"), [("4096", 4096), ("0x1000", 4096), ("4k", 4096), ("1M", 1 << 20)])
def test_sizes(text: str, size: int) -> None:
    assert main.build_parser("x").parse_args(["generate", "m", "--arena", text]).arena == size


def test_version_and_help(tool: Tool) -> None:
    assert tool("--version").out.startswith("tflm-zephyr 0.")
    for command in ("", "generate", "plan", "build", "flash", "run", "boards", "ports"):
        done = tool(*([command] if command else []), "--help")
        assert done.code == 0 and done.out.startswith("usage: tflm-zephyr")


# -- build, flash, run ---------------------------------------------------------------------------------------------


@pytest.fixture
def west(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> FakeWest:
    """A workspace around the app, a fake west, a folder that passes for the Zephyr SDK."""
    make_workspace(tmp_path)
    written(tmp_path, "sdk/sdk_version", "0.17.0\n")
    monkeypatch.setenv("ZEPHYR_SDK_INSTALL_DIR", str(tmp_path / "sdk"))
    return FakeWest(tmp_path, monkeypatch)


def test_build(tool: Tool, app: Path, west: FakeWest) -> None:
    done = tool("build", app, "-b", "mps2/an385", "--json")
    assert done.code == 0, done
    assert done.json["board"] == "mps2/an385" and done.json["elf"].endswith("zephyr/zephyr.elf")
    (call,) = west.calls
    assert call["argv"][0] == "build" and {"mps2/an385", str(app), str(app / "build" / "mps2_an385")} <= {*call["argv"]}
    assert "Building app for mps2/an385 with " in done.err  # progress goes where JSON does not


def test_force_reaches_the_apps_cmake(tool: Tool, app: Path, west: FakeWest) -> None:
    """It would refuse other kernels' revisions where outputs overlap inputs."""
    tool("build", app, "-b", "mps2/an385", "--force")
    assert not {*FORCED} & {*west.calls[-1]["argv"]}  # nothing to force
    written(app.parent, "zephyr/VERSION", "VERSION_MAJOR = 4\nVERSION_MINOR = 0\nPATCHLEVEL = 0\n")
    said = tool("build", app, "-b", "mps2/an385").one_line()
    assert "generated for Zephyr 4.1.0 and the workspace has 4.0.0" in said and "--force" in said
    done = tool("build", app, "-b", "mps2/an385", "--force")
    assert done.code == 0 and "warning: the app was generated for Zephyr" in done.out + done.err
    assert {*FORCED} <= {*west.calls[-1]["argv"]}


def test_a_failing_build_shows_its_first_error(tool: Tool, app: Path, west: FakeWest) -> None:
    west.says("x.c:3:1: error: unknown type name 'foo'\nninja: build stopped\n", 1)
    line_and_more = tool("build", app, "-b", "mps2/an385")
    assert line_and_more.code == 1 and line_and_more.err.count("\n") == 1
    assert "unknown type name 'foo'" in line_and_more.err and "build/mps2_an385" in line_and_more.err


def test_flash(tool: Tool, app: Path, west: FakeWest) -> None:
    assert "nothing is built there" in tool("flash", app).one_line()
    (app / "build" / "nrf9160dk_nrf9160_ns" / "zephyr").mkdir(parents=True)
    done = tool("flash", app, "--runner", "jlink", "--json")
    assert (done.code, done.json["app"], done.json["board"]) == (0, "app", "nrf9160dk/nrf9160/ns")
    assert west.calls[-1]["argv"][0] == "flash" and "jlink" in west.calls[-1]["argv"]


def test_no_workspace(tool: Tool, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(app)
    assert "no west workspace here or above" in tool("build", app).one_line()


def test_no_toolchain(tool: Tool, app: Path, west: FakeWest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEPHYR_SDK_INSTALL_DIR", str(app / "none"))
    assert "ZEPHYR_SDK_INSTALL_DIR" in tool("build", app, "-b", "mps2/an385").one_line()


@pytest.fixture
def qemu(app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A built app, and a QEMU that prints the file which is returned."""
    elf = written(app, "build/mps2_an385/zephyr/zephyr.elf", "")
    assert elf.is_file()
    output = written(tmp_path, "output", "")
    monkeypatch.setenv("PATH", f"{FAKE_BIN}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("QEMU_BIN_PATH", raising=False)
    monkeypatch.setenv("FAKE_QEMU_OUTPUT", str(output))
    monkeypatch.setenv("FAKE_QEMU_RECORD", str(tmp_path / "record.json"))
    return output


def test_run_in_qemu(tool: Tool, app: Path, qemu: Path) -> None:
    qemu.write_bytes(lines_of(app))
    done = tool("run", app)
    assert done.code == 0 and "self-test passed" in done.out and "dequantised: 0 0.5 1" in done.out
    (result,) = tool("run", app, "--json").json["results"]
    assert result["runs"][0]["outputs"][0]["values"][:3] == [0.0, 0.5, 1.0]
    assert result["status"] == "pass"


def test_a_failed_self_test_is_exit_code_1(tool: Tool, app: Path, qemu: Path) -> None:
    qemu.write_bytes(lines_of(app, status="fail"))
    done = tool("run", app)
    assert done.code == 1 and "self-test FAILED" in done.out
    assert tool("run", app, "--json").json["results"][0]["status"] == "fail"


def test_results_of_something_else_are_refused(tool: Tool, app: Path, qemu: Path) -> None:
    qemu.write_bytes(lines_of(app, sha256="0" * 16))
    assert "Build and flash the app again" in tool("run", app).one_line()
    qemu.write_bytes(lines_of(app, board="mps2/an386"))
    assert "was built for mps2/an386" in tool("run", app).one_line()
    qemu.write_bytes(lines_of(app).replace(b"app=app", b"app=other"))
    assert "app other with model net answered, not app" in tool("run", app).one_line()


def test_a_device_that_says_nothing(tool: Tool, app: Path, qemu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_QEMU_EXIT", "hang")
    assert "0.3 s" in tool("run", app, "--timeout", 0.3).one_line()


def test_no_qemu(tool: Tool, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(app, "build/mps2_an385/zephyr/zephyr.elf", "")
    monkeypatch.setenv("PATH", str(app))
    monkeypatch.delenv("QEMU_BIN_PATH", raising=False)
    assert "QEMU is not installed" in tool("run", app).one_line()


def test_not_built(tool: Tool, app: Path) -> None:
    assert "Build the app first" in tool("run", app).one_line()


def test_no_such_port(tool: Tool, app: Path) -> None:
    assert "/dev/no-such-port" in tool("run", app, "--port", "/dev/no-such-port").one_line()


def test_no_board_plugged_in(tool: Tool, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tflm_zephyr.device.transport.serial_port.find_ports", lambda *args: ())
    assert "no board found on USB" in tool("run", app, "--target", "serial").one_line()


def test_contradictions(tool: Tool, app: Path) -> None:
    assert "--port and --flash-first are for boards" in tool("run", app, "--target", "qemu", "--flash-first").one_line()
    nordic = (app, "-b", "nrf9160dk/nrf9160")
    assert "transport qemu leads to none of these boards" in tool("run", *nordic, "--target", "qemu").one_line()


def test_a_board_that_is_not_emulated_is_read_at_its_port(
    tool: Tool, app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tflm_zephyr.device.transport.serial_port.find_ports", lambda: ())
    assert "no board found on USB" in tool("run", app, "-b", "nrf9160dk/nrf9160").one_line()


# -- the host ------------------------------------------------------------------------------------------------------


def test_run_on_the_host_without_its_package(tool: Tool, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "available", lambda engine: False)
    line = tool("run", app, "--target", "host").one_line()
    assert "tflite-micro is not installed" in line and "pip install" in line


def test_run_on_the_host(tool: Tool, model_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    assert tool("generate", model_file, "-o", tmp_path / "app").code == 0
    (result,) = tool("run", tmp_path / "app", "--target", "host", "--json").json["results"]
    assert (result["status"], result["where"], result["kernels"]) == ("pass", "host", "reference")
    (tmp_path / "app" / "tflm" / "models" / "net.tflite").write_bytes(dense())
    assert "has changed since the app was generated" in tool("run", tmp_path / "app", "--target", "host").one_line()


def test_a_wrong_reference_fails_on_the_host(tool: Tool, app: Path) -> None:
    pytest.importorskip("tflite_micro")
    done = tool("run", app, "--target", "host")  # the fixed reference's bytes are not the model's
    assert done.code == 1 and "self-test FAILED" in done.out


@pytest.mark.usefixtures("fixed_reference")
@pytest.mark.parametrize(
    ("off", "status", "exact"),
    [(0.0, "pass", True), (9e-6, "pass", False), (1.1e-5, "fail", False), (float("nan"), "fail", False)],
)
def test_floats_on_the_host_may_differ_as_on_a_device(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: float, status: str, exact: bool
) -> None:
    (tmp_path / "net.tflite").write_bytes(unary("RELU", "float32", shape=(1, 1)))
    assert tool("generate", tmp_path / "net.tflite", "-o", tmp_path / "app").code == 0
    want = struct.unpack("<f", bytes(range(4)))[0]  # near 0, where the tolerance is absolute
    got = struct.pack("<f", want + off)
    result = run.HostRun("tflm", "0", ((got,),), 0, 0, 0, (), 0)
    monkeypatch.setattr("tflm_zephyr.cli.commands.host.run_many", lambda *args: result)
    (result,) = tool("run", tmp_path / "app", "--target", "host", "--json").json["results"]
    (check,) = result["runs"][0]["checks"]
    assert (result["status"], check["result"], check["exact"]) == (status, status, exact)


# -- JSON and the rest ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("fixed_reference")
def test_every_command_gives_json(tool: Tool, model_file: Path, tmp_path: Path) -> None:
    csv = written(tmp_path, "x.csv", "id,lower,upper,size\na,0,2,16\nb,1,3,32\n")
    assert tool("plan", csv, "--json").json["size_bytes"] == 48
    assert tool("plan", model_file, "--json").json["lower_bound_bytes"] == 64
    assert {board["name"] for board in tool("boards", "--json").json["boards"]} >= {"mps2/an385"}
    assert isinstance(tool("ports", "--json").json["ports"], list)
    made = tool("generate", model_file, "-o", tmp_path / "app", "--json").json
    assert made["models"][0]["resolver_size"] == 1 and made["stale"]


def test_boards_and_ports(tool: Tool) -> None:
    assert "mps2/an521/cpu0" in tool("boards").out
    assert tool("ports").code == 0


# -- signals and pipes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sig", "code"), rest_slow([(signal.SIGINT, 130), (signal.SIGTERM, 143)]))
def test_a_signal_ends_qemu_too(app: Path, qemu: Path, tmp_path: Path, sig: signal.Signals, code: int) -> None:
    with start("run", app, FAKE_QEMU_EXIT="hang") as child:
        try:
            record = tmp_path / "record.json"
            ends = time.monotonic() + 30
            while not (record.exists() and record.read_text()) and time.monotonic() < ends:
                time.sleep(0.02)
            pid = json.loads(record.read_text())["pid"]
            child.send_signal(sig)
            out, err = child.communicate(timeout=10)
        finally:
            child.kill()
    assert child.returncode == code
    assert out == b"" and b"Traceback" not in err
    assert gone(pid)


@pytest.mark.parametrize(("sig", "code"), rest_slow([(signal.SIGINT, 130), (signal.SIGTERM, 143)]))
def test_a_signal_ends_west_too(app: Path, west: FakeWest, tmp_path: Path, sig: signal.Signals, code: int) -> None:
    slow = f"""
import pathlib, subprocess, time
child = subprocess.Popen(["sleep", "60"])
pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(child.pid))
time.sleep(60)
"""
    stand_in = f"build._west = lambda command: (sys.executable, {str(written(tmp_path, 'slow.py', slow))!r}, command)"
    with start("build", app, "-b", "mps2/an385", before=stand_in, PYTHONPATH="") as child:
        try:
            pid = pid_from(tmp_path / "pid")
            child.send_signal(sig)
            _, err = child.communicate(timeout=10)
        finally:
            child.kill()
    assert child.returncode == code and b"Traceback" not in err
    assert gone(pid)


def test_a_reader_that_went_away(model_file: Path) -> None:
    with start("plan", model_file, "--map") as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 128 + signal.SIGPIPE


def test_an_interrupt_while_modules_are_imported_is_one_line() -> None:
    code = """if True:
        import os, signal, sys

        class Interrupts:
            def find_spec(self, name, *more):
                if name == "tflm_zephyr.cli.options":
                    signal.signal(signal.SIGINT, signal.default_int_handler)
                    os.kill(os.getpid(), signal.SIGINT)

        sys.meta_path.insert(0, Interrupts())
        from tflm_zephyr.__main__ import main
        sys.exit(main())
    """
    done = subprocess.run([sys.executable, "-c", code, "boards"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "tflm-zephyr: interrupted\n")
