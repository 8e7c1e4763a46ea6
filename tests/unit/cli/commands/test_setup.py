# SPDX-License-Identifier: Apache-2.0
"""`setup` with a west that only records: what it shows, asks, runs, writes and keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.fakes.west import FakeWest, make_workspace
from tests.helpers.command_line import Tool
from tflm_zephyr.cli import main

ZEPHYRS = """manifest:
  defaults:
    remote: up
  remotes:
    - name: up
      url-base: https://example.org/z
  projects:
    - name: tflite-micro
      revision: 8d404de7
      path: optional/modules/lib/tflite-micro
      groups: [optional]
    - name: cmsis-nn
      revision: e9328d61
"""


@pytest.fixture
def west(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeWest:
    return FakeWest(tmp_path, monkeypatch)


def argvs(west: FakeWest) -> list[list[str]]:
    return [call["argv"] for call in west.calls]


def own_manifest(top: Path, more: str = "") -> Path:
    """A workspace whose manifest is the user's own, without TFLM's modules."""
    zephyr = make_workspace(top)
    (zephyr / "west.yml").write_text(ZEPHYRS)
    manifest = top / "app" / "west.yml"
    manifest.parent.mkdir()
    manifest.write_text(
        "manifest:\n  projects:\n    - name: zephyr\n      url: file:///none\n      revision: main\n"
        f"  self:\n    path: app\n{more}"
    )
    (top / ".west" / "config").write_text("[manifest]\npath = app\nfile = west.yml\n[zephyr]\nbase = zephyr\n")
    return manifest


def test_a_new_workspace(tool: Tool, west: FakeWest, tmp_path: Path) -> None:
    done = tool("setup", tmp_path / "new", "--yes")
    assert done.code == 0, done
    assert argvs(west) == [["init", "-l", "manifest"], ["update"], ["packages", "pip", "--install"]]
    assert {call["cwd"] for call in west.calls} == {str(tmp_path / "new")}
    written = yaml.safe_load((tmp_path / "new" / "manifest" / "west.yml").read_text())["manifest"]
    assert written["self"] == {"path": "manifest"}
    assert "tflite-micro" in written["projects"][0]["import"]["name-allowlist"]
    assert written["group-filter"] == ["+optional"]
    assert f"cd {tmp_path / 'new'} && west update" in done.out


def test_without_a_terminal_it_refuses_in_one_line(tool: Tool, west: FakeWest, tmp_path: Path) -> None:
    done = tool("setup", tmp_path / "new")
    assert done.code == 1
    assert done.err == "tflm-zephyr: error: setup: there is no terminal to ask on. Give --yes to run the commands\n"
    assert not west.calls and not (tmp_path / "new").exists()


@pytest.mark.parametrize(("answer", "calls"), [(True, 3), (False, 0)])
def test_it_asks(
    tool: Tool, west: FakeWest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bool, calls: int
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(main, "_confirm", lambda question: asked.append(question) or answer)
    done = tool("setup", tmp_path / "new")
    assert (asked, len(west.calls), done.code) == (["Run these?"], calls, 0 if answer else 1)
    assert answer or done.out.endswith("Nothing was changed.\n")


def test_a_group_that_is_off_is_turned_on(tool: Tool, west: FakeWest, tmp_path: Path) -> None:
    make_workspace(tmp_path / "ws", optional=False, without=("tflite-micro",))
    config = tmp_path / "ws" / ".west" / "config"
    config.write_text(config.read_text() + "group-filter = -hal\n")
    before = config.read_bytes()
    assert tool("setup", tmp_path / "ws" / "zephyr", "--yes").code == 0
    assert argvs(west) == [
        ["config", "manifest.group-filter", "--", "-hal,+optional"],
        ["update", "tflite-micro"],
    ]
    assert config.with_name("config.orig").read_bytes() == before


def test_a_workspace_that_has_all(tool: Tool, west: FakeWest, tmp_path: Path) -> None:
    make_workspace(tmp_path / "ws")
    done = tool("setup", tmp_path / "ws")
    assert (done.code, done.out, west.calls) == (0, f"{tmp_path}/ws has all that apps need.\n", [])


def test_a_manifest_without_submanifests_is_not_touched(tool: Tool, west: FakeWest, tmp_path: Path) -> None:
    manifest = own_manifest(tmp_path / "ws")
    before = manifest.read_bytes()
    done = tool("setup", tmp_path / "ws", "--yes")
    assert (done.code, west.calls, manifest.read_bytes()) == (1, [], before)
    assert f"# {manifest} has none of tflite-micro, cmsis-nn" in done.out
    first = yaml.safe_load(done.out)["manifest"]["projects"][0]
    assert first == {
        "name": "tflite-micro",
        "url": "https://example.org/z/tflite-micro",
        "revision": "8d404de7",
        "path": "optional/modules/lib/tflite-micro",
    }


def test_a_folder_of_submanifests_gets_one(tool: Tool, west: FakeWest, tmp_path: Path) -> None:
    top = tmp_path / "ws"
    manifest = own_manifest(top, "    import: submanifests\n")
    folder = manifest.parent / "submanifests"
    folder.mkdir()
    (folder / "tflm.yml").write_text("manifest: {}\n")
    done = tool("setup", top, "--yes")
    assert done.code == 0, done
    assert argvs(west) == [["update", "tflite-micro", "cmsis-nn"]]
    names = [p["name"] for p in yaml.safe_load((folder / "tflm.yml").read_text())["manifest"]["projects"]]
    assert names == ["tflite-micro", "cmsis-nn"]
    assert (folder / "tflm.yml.orig").read_text() == "manifest: {}\n"


def test_a_failing_west_ends_it(tool: Tool, west: FakeWest, tmp_path: Path) -> None:
    west.says("FATAL ERROR: no network\n", 1)
    done = tool("setup", tmp_path / "new", "--yes")
    assert done.code == 1 and len(west.calls) == 1
    assert done.err == ("tflm-zephyr: error: west init -l manifest: no network. Fix this, then run setup again\n")


def test_a_folder_with_other_files_is_refused(tool: Tool, west: FakeWest, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("")
    said = tool("setup", tmp_path / "full", "--yes").one_line()
    assert "not an empty folder, and no west workspace. Name a new folder" in said
