# SPDX-License-Identifier: Apache-2.0
"""Commands with boards, workspaces and app files around them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.fakes.device import PtyDevice
from tests.fakes.records import as_bytes, self_test
from tests.fakes.west import make_workspace
from tests.helpers.command_line import Tool
from tflm_zephyr.boards.board import Board
from tflm_zephyr.build.board_targets import in_workspace
from tflm_zephyr.build.west import Recorded, check_revisions
from tflm_zephyr.build.workspace import find_workspace
from tflm_zephyr.codegen.app_folder import load_manifest

pytestmark = pytest.mark.usefixtures("fixed_reference")


@pytest.fixture
def workspace(tmp_path: Path, model_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace around the current folder whose Zephyr describes one board."""
    top = tmp_path / "ws"
    make_workspace(top)
    board = top / "zephyr" / "boards" / "st" / "nucleo_x" / "board.yml"
    board.parent.mkdir(parents=True)
    board.write_text(
        "board:\n  name: nucleo_x\n  socs:\n  - name: stm32x\n  revision:\n    revisions:\n    - name: '7'\n"
    )
    return top


def test_an_unknown_board_is_reported_by_its_workspace(
    tool: Tool, workspace: Path, model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace)
    said = tool("generate", model_file, "-o", "app", "-b", "totally/unknown").one_line()
    assert "totally/unknown: unknown board; Zephyr 4.1.0 has none" in said
    assert not (workspace / "app").exists()


LIST_BOARDS = """import sys
assert sys.argv[sys.argv.index("--cmakeformat") + 1] == "{SOCS};{QUALIFIERS}"
print({"nucleo_x": "SOCS;stm32x;QUALIFIERS;stm32x;stm32x/cpu1"}[sys.argv[sys.argv.index("--board") + 1]])
"""


@pytest.mark.parametrize("board", ["nucleo_x/stm32y", "nucleo_x@2/stm32x/cpu2", "nucleo_x/stm32x", "nucleo_x"])
def test_a_target_that_zephyr_does_not_have_is_refused(
    tool: Tool, workspace: Path, model_file: Path, monkeypatch: pytest.MonkeyPatch, board: str
) -> None:
    script = workspace / "zephyr" / "scripts" / "list_boards.py"
    script.parent.mkdir()
    script.write_text(LIST_BOARDS)
    known = in_workspace(Board(name="nucleo_x/stm32x/cpu1"), find_workspace(workspace))
    assert known.name == "nucleo_x/stm32x/cpu1"
    if board in ("nucleo_x/stm32x", "nucleo_x"):  # a board with one SoC may leave it out
        assert in_workspace(Board(name=board), find_workspace(workspace)).name == board
        return
    assert tool("generate", model_file, "-o", "app").code == 0
    monkeypatch.chdir(workspace)
    app = model_file.parent / "app"
    for asked in (("fit", model_file), ("generate", model_file, "-o", "new"), ("build", app)):
        said = tool(*asked, "-b", board).one_line()
        assert f"{board}: Zephyr 4.1.0 has no such target of the board nucleo_x" in said
        assert said.endswith("It has nucleo_x/stm32x, nucleo_x/stm32x/cpu1\n")
    assert "nosuch: unknown board; Zephyr 4.1.0 has none" in tool("build", app, "-b", "nosuch").one_line()


def test_a_board_that_only_zephyr_knows_gets_all_modules(tool: Tool, model_file: Path) -> None:
    assert tool("generate", model_file, "-o", "app", "-b", "nucleo_x/stm32x").code == 0
    manifest = yaml.safe_load(Path("app/west.yml").read_text())
    assert manifest["manifest"]["projects"][0]["import"] is True
    assert tool("generate", model_file, "-o", "known", "-b", "nucleo_f401re").code == 0
    manifest = yaml.safe_load(Path("known/west.yml").read_text())
    assert {"tflite-micro", "hal_stm32"} <= set(manifest["manifest"]["projects"][0]["import"]["name-allowlist"])


@pytest.mark.parametrize(("version", "pinned", "noted"), [("4.2.1", "v4.2.1", True), ("4.1.3", "v4.1.3", False)])
def test_an_app_is_for_the_workspaces_zephyr(
    tool: Tool, tmp_path: Path, model_file: Path, version: str, pinned: str, noted: bool
) -> None:
    make_workspace(tmp_path / "ws", version=version, without=("tflite-micro",))
    done = tool("generate", model_file, "-o", "app", "-b", "mps2/an385", "-w", tmp_path / "ws")
    assert done.code == 0 and (f"for Zephyr {version}; such apps were tried with 4.1 only" in done.out) == noted
    zephyr = yaml.safe_load(Path("app/west.yml").read_text())["manifest"]["projects"][0]
    assert zephyr["revision"] == pinned
    assert (zephyr["import"] is True) == noted  # the list of modules was read in 4.1
    manifest = load_manifest(Path("app"))
    recorded = Recorded(manifest.zephyr_version, manifest.tflm_revision)
    assert check_revisions(recorded, find_workspace(tmp_path / "ws")) == ()


def test_a_half_made_workspace_around_does_not_stop_generation(
    tool: Tool, tmp_path: Path, model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".west").mkdir()
    (tmp_path / ".west" / "config").write_text("[manifest]\npath = nowhere\nfile = west.yml\n")
    assert tool("generate", model_file, "-o", "app").code == 0


def test_comments_in_the_app_file_beside_the_app_stay(tool: Tool, model_file: Path) -> None:
    assert tool("generate", model_file, "-o", "app", "-b", "mps2/an385").code == 0
    path = Path("app/tflm/app.yaml")
    path.write_text(path.read_text() + "# my note\n")
    done = tool("generate", "-o", "app")
    assert done.code == 0, done.err
    assert path.read_text().endswith("# my note\n")
    assert tool("generate", "-o", "app", "--check").code == 0


def test_an_arena_below_the_estimate_is_noted(tool: Tool, model_file: Path) -> None:
    done = tool("generate", model_file, "-o", "app", "--arena", "640")
    assert "net: 640 bytes are too few; the estimate is " in done.out


def test_a_folder_with_a_blank_is_noted_and_quoted(tool: Tool, model_file: Path) -> None:
    done = tool("generate", model_file, "-o", "my app")
    assert "fails on a path with a space" in done.out
    assert "tflm-zephyr build 'my app'" in done.out


@pytest.mark.parametrize(
    ("asked", "code"), [("nucleo_x", 0), ("nucleo_x/stm32x", 0), ("nucleo_x@2/stm32x", 0), ("nucleo_y", 1)]
)
def test_a_board_answers_to_its_short_name(tool: Tool, model_file: Path, asked: str, code: int) -> None:
    tool("generate", model_file, "-o", "demo", "-b", "nucleo_x/stm32x")
    sha = load_manifest(Path("demo")).sha256["net"][:16]
    lines = [
        line.replace("model=sine sha256=0123456789abcdef", f"model=net sha256={sha}").replace(
            "board=mps2/an385", "board=nucleo_x/stm32x"
        )
        for line in self_test()
    ]
    with PtyDevice([0.3, as_bytes(lines), as_bytes(lines)]) as device:
        done = tool("run", "demo", "--board", asked, "--port", device.port, "--timeout", "5")
    assert done.code == code, done
    assert ("was built for nucleo_x/stm32x, not nucleo_y" in done.err) == bool(code)


@pytest.mark.parametrize(("board", "asks"), [("stm32x", ""), ("nucleo_y", " Did you mean 'nucleo_x'?")])
def test_only_a_boards_own_name_names_it(
    tool: Tool, workspace: Path, model_file: Path, monkeypatch: pytest.MonkeyPatch, board: str, asks: str
) -> None:
    """A board.yml names SoCs and revisions as well."""
    monkeypatch.chdir(workspace)
    said = tool("generate", model_file, "-o", "app", "-b", board).one_line()
    assert f"{board}: unknown board; Zephyr 4.1.0 has none of that name.{asks} `west boards` lists" in said


@pytest.mark.parametrize("command", ["generate", "fit"])
def test_an_unknown_board_without_a_workspace_is_a_warning(tool: Tool, model_file: Path, command: str) -> None:
    more = ("-o", "app") if command == "generate" else ()
    done = tool(command, model_file, *more, "-b", "mps2/an387", "--quiet")
    assert done.code == 0 and done.out.startswith("warning: mps2/an387: not described here, and no workspace can tell")
    assert "did you mean 'mps2/an38" in done.out.splitlines()[0]


def test_build_footprint_and_run_take_the_same_board(tool: Tool, model_file: Path) -> None:
    """The app's first is not emulated; flash and a port take that."""
    assert tool("generate", model_file, "-o", "app", "-b", "nrf9160dk/nrf9160", "-b", "mps2/an386").code == 0
    for command in ("footprint", "run"):
        assert "build/mps2_an386" in tool(command, "app").one_line()
    assert "build/nrf9160dk_nrf9160" in tool("flash", "app", "-w", make_workspace(Path("ws").absolute())).one_line()


def test_next_names_a_board_that_fits(tool: Tool, tmp_path: Path, model_file: Path) -> None:
    make_workspace(tmp_path / "ws", without=("tflite-micro",))
    asked = ("-w", tmp_path / "ws", "-b", "nrf9160dk/nrf9160/ns", "-b", "mps2/an385")
    done = tool("generate", model_file, "-o", "app", *asked)
    assert (
        done.out.splitlines()[-1] == "Next: tflm-zephyr build app --board mps2/an385, or west build -b mps2/an385 app"
    )
    done = tool("generate", model_file, "-o", "large", *asked, "--arena", "100M")
    assert done.out.splitlines()[-1].startswith("Next: the app fits none of its boards; tflm-zephyr fit --app large/")
    assert done.code == 1


@pytest.mark.parametrize(
    ("boards", "last"),
    [
        (("mps2/an38",), "makes a workspace, then tflm-zephyr generate -o app --workspace DIR tells whether there is"),
        (("mps2/an38", "mps2/an386"), "then tflm-zephyr build app --board mps2/an386 --workspace DIR"),
    ],
)
def test_next_names_no_board_that_nobody_knows(
    tool: Tool, model_file: Path, boards: tuple[str, ...], last: str
) -> None:
    """Without a workspace; the first is misspelt."""
    done = tool("generate", model_file, "-o", "app", *(word for board in boards for word in ("-b", board)))
    assert done.code == 0 and last in done.out.splitlines()[-1]
    assert "--board mps2/an38 " not in done.out


def test_run_of_an_app_that_answers_a_host(tool: Tool, model_file: Path) -> None:
    assert tool("generate", model_file, "-o", "app", "--host-link").code == 0
    said = tool("run", "app").one_line()
    assert "has no self-test to run" in said and "tflm-zephyr infer" in said and "tflm-zephyr verify --app app" in said
    build = Path("app/build/off")
    (build / "zephyr").mkdir(parents=True)
    (build / "zephyr" / ".config").write_text("CONFIG_TFLM_APP_HOST_LINK=y\n")
    assert "has no self-test to run" in tool("run", "app", "--build-dir", build).one_line()
    (build / "zephyr" / ".config").write_text("# CONFIG_TFLM_APP_HOST_LINK is not set\n")
    assert "no such ELF file" in tool("run", "app", "--build-dir", build).one_line()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (
            ("generate", "net.tflite", "-o", "app", "--check", "--force"),
            "--force replaces files, and --check writes none",
        ),
        (("run", "app", "--target", "host", "--no-icount"), "--no-icount is for boards and QEMU"),
        (("run", "app", "--target", "host", "-b", "mps2/an385"), "--board is for boards and QEMU"),
        (("run", "app", "-b", "mps2/an385", "--baudrate", 9600), "--baudrate is for boards"),
        (("run", "app", "--target", "serial", "--no-icount"), "--no-icount is for QEMU"),
        (("verify", "--host", "net.tflite", "-b", "mps2/an385"), "--board is for an app or a port"),
        (("verify", "--host", "net.tflite", "--baudrate", 9600), "--baudrate is for serial ports"),
        (("verify", "--host", "net.tflite", "--force"), "--force replaces files, and no file is written"),
        (("run", "app", "--target", "host", "--timeout", 5), "--timeout is for boards and QEMU"),
        (("verify", "--host", "net.tflite", "--timeout", 5), "--timeout is for a link, and no bytes go over one there"),
        (("infer", "x.npy", "--host", "net.tflite", "--reply-timeout", 5), "--reply-timeout is for a link"),
        (("verify", "x.npy", "--host", "net.tflite", "--seed", 0), "--seed is for random inputs, and there are none"),
        (("verify", "--host", "net.tflite", "--random", 0, "--seed", 7), "--seed is for random inputs"),
        (("profile", "x.npy", "--app", "app", "--seed", 7), "--seed is for random input, and INPUT is given"),
        (("verify", "--host", "net.tflite", "--record", "r"), "--record is for a link"),
        (("profile", "--host", "net.tflite", "--max-regression", "2%"), "--max-regression: needs a profile to compare"),
    ],
)
def test_flags_that_would_do_nothing_are_refused(
    tool: Tool, model_file: Path, argv: tuple[object, ...], says: str
) -> None:
    assert tool("generate", model_file, "-o", "app").code == 0
    assert says in tool(*argv).one_line()
