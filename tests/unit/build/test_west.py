# SPDX-License-Identifier: Apache-2.0
"""west's command lines, how west is run, and how its failures are told; west is a stand-in."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.west import FakeWest, make_workspace
from tests.helpers.west_log import LD, TABLE
from tflm_zephyr.build.log import MemoryRegion
from tflm_zephyr.build.toolchain import Toolchain
from tflm_zephyr.build.west import (
    Build,
    BuildRequest,
    FlashRequest,
    Recorded,
    build,
    build_argv,
    build_env,
    check_revisions,
    flash,
    flash_argv,
    recorded,
)
from tflm_zephyr.build.workspace import Workspace, find_workspace
from tflm_zephyr.codegen.app_folder import AppManifest
from tflm_zephyr.errors import BuildError

BOARD = "mps2/an385"
GNU = Toolchain(
    "gnuarmemb",
    "GNU Arm",
    {"ZEPHYR_TOOLCHAIN_VARIANT": "gnuarmemb", "GNUARMEMB_TOOLCHAIN_PATH": "/usr"},
    ("-DTOOLCHAIN_HAS_PICOLIBC=ON",),
)
SDK = Toolchain("zephyr", "SDK", {"ZEPHYR_TOOLCHAIN_VARIANT": "zephyr"})


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    make_workspace(tmp_path / "ws")
    return find_workspace(tmp_path / "ws", environ={})


@pytest.fixture
def west(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeWest:
    return FakeWest(tmp_path, monkeypatch)


@pytest.fixture
def request_(tmp_path: Path) -> BuildRequest:
    app = tmp_path / "app"
    app.mkdir()
    (app / "CMakeLists.txt").write_text("")
    return BuildRequest(app, BOARD, app / "build")


def test_build_argv_exactly() -> None:
    request = BuildRequest(Path("app"), BOARD, Path("out"), "always", ("-DX=1",))
    assert build_argv(request, GNU) == (
        *(sys.executable, "-m", "west", "build", "-p", "always", "-b", BOARD, "-d", "out", "app"),
        *("--", "-DTOOLCHAIN_HAS_PICOLIBC=ON", "-DX=1"),
    )


def test_build_argv_without_cmake_arguments_has_no_dashes() -> None:
    assert build_argv(BuildRequest(Path("app"), BOARD, Path("out")), SDK)[-1] == "app"


def test_flash_argv_exactly() -> None:
    west = (sys.executable, "-m", "west", "flash", "-d", "out")
    assert flash_argv(FlashRequest(Path("out"))) == west
    assert flash_argv(FlashRequest(Path("out"), "jlink", "960012345")) == (
        *west,
        *("--runner", "jlink", "--dev-id", "960012345"),
    )


def test_env_keeps_the_users(workspace: Workspace) -> None:
    assert build_env(workspace, GNU, {"A": "b", "ZEPHYR_TOOLCHAIN_VARIANT": "x"}) == {
        "A": "b",
        "ZEPHYR_BASE": str(workspace.zephyr_base),
        "ZEPHYR_TOOLCHAIN_VARIANT": "gnuarmemb",
        "GNUARMEMB_TOOLCHAIN_PATH": "/usr",
    }


def test_apps_anywhere_share_what_ccache_keeps(workspace: Workspace) -> None:
    folders = (Path("/home/me/app"), Path("/home/me/app/build/mps2_an385"))
    shared = build_env(workspace, GNU, {}, folders=folders)
    assert (shared["CCACHE_BASEDIR"], shared["CCACHE_NOHASHDIR"]) == ("/home/me/app", "true")
    assert build_env(workspace, GNU, {"CCACHE_BASEDIR": "/"}, folders=folders)["CCACHE_BASEDIR"] == "/"


def test_build_runs_west_at_the_top_with_absolute_paths(
    workspace: Workspace, west: FakeWest, request_: BuildRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    west.says("\n".join(TABLE) + "\n")
    monkeypatch.chdir(request_.app.parent)
    heard: list[str] = []
    done = build(BuildRequest(Path("app"), BOARD, Path("out")), workspace, GNU, on_line=heard.append)
    out = request_.app.parent / "out"
    assert done == Build(
        out / "zephyr" / "zephyr.elf",
        out,
        BOARD,
        out / "west_build.log",
        (MemoryRegion("FLASH", 58596, 196608), MemoryRegion("RAM", 16384, 172032)),
    )
    assert heard == TABLE and done.log.read_text().splitlines() == TABLE
    (call,) = west.calls
    assert call["cwd"] == str(workspace.topdir)
    assert call["argv"][-4:-2] == [str(out), str(request_.app)]
    assert call["env"] == {"ZEPHYR_BASE": str(workspace.zephyr_base), **GNU.env}


def test_a_build_with_nothing_to_link_keeps_the_last_table(
    workspace: Workspace, west: FakeWest, request_: BuildRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    west.says("\n".join(TABLE) + "\n")
    first = build(request_, workspace, GNU)
    west.says("ninja: no work to do.\n")
    monkeypatch.setenv("FAKE_WEST_LINKS", "0")
    assert build(request_, workspace, GNU).memory_regions == first.memory_regions != ()
    # Linked since, by hand: the table kept is no longer this ELF's.
    later = first.elf.stat().st_mtime + 10
    os.utime(first.elf, (later, later))
    assert build(request_, workspace, GNU).memory_regions == ()


def test_a_failing_build_gives_first_error_and_log(
    workspace: Workspace, west: FakeWest, request_: BuildRequest
) -> None:
    west.says(f"FAILED: x\n{LD}region `RAM' overflowed by 4096 bytes\n", 1)
    with pytest.raises(BuildError) as caught:
        build(request_, workspace, GNU)
    log = request_.build_dir / "west_build.log"
    text = str(caught.value)
    assert text.startswith(f"{BOARD}: region `RAM' overflowed by 4096 bytes. ") and str(log) in text
    assert "\n" not in text and "overflowed" in log.read_text()
    assert "`tflm-zephyr fit --into BUILD_FOLDER`" in text


def test_a_failure_with_no_words(workspace: Workspace, west: FakeWest, request_: BuildRequest) -> None:
    west.says("", 3)
    with pytest.raises(BuildError, match="exit code 3"):
        build(request_, workspace, GNU)


def test_another_toolchain_than_the_folders_starts_afresh(
    workspace: Workspace, west: FakeWest, request_: BuildRequest
) -> None:
    cache = request_.build_dir / "CMakeCache.txt"
    request_.build_dir.mkdir()
    (request_.build_dir / "build.ninja").write_text("")
    for variant, pristine in (("gnuarmemb", "auto"), ("cross-compile", "always")):
        cache.write_text(f"//x\nZEPHYR_TOOLCHAIN_VARIANT:INTERNAL={variant}\n")
        build(request_, workspace, GNU)
        assert west.calls[-1]["argv"][:3] == ["build", "-p", pristine]
    cache.write_text("ZEPHYR_TOOLCHAIN_VARIANT:INTERNAL=gnuarmemb\nGNUARMEMB_TOOLCHAIN_PATH:INTERNAL=/opt/gcc\n")
    build(request_, workspace, GNU)
    assert west.calls[-1]["argv"][2] == "always"


def test_cmake_arguments_are_given_once(workspace: Workspace, west: FakeWest, request_: BuildRequest) -> None:
    request_ = replace(request_, cmake_args=("-DX:STRING=a=b", "-DCONFIG_Y=y"))
    given = ["--", *GNU.cmake_args, *request_.cmake_args]
    build(request_, workspace, GNU)
    assert west.calls[-1]["argv"][-4:] == given
    lines = [f"BOARD:STRING={BOARD}", f"APPLICATION_SOURCE_DIR:PATH={request_.app}"]
    lines += ["TOOLCHAIN_HAS_PICOLIBC:UNINITIALIZED=ON", "X:STRING=a=b", "CONFIG_Y:UNINITIALIZED=y", ""]
    (request_.build_dir / "CMakeCache.txt").write_text("\n".join(lines))
    build(request_, workspace, GNU)
    assert west.calls[-1]["argv"][-4:] == given  # the folder was not configured to the end
    assert west.calls[-1]["argv"][:3] == ["build", "-p", "always"]
    (request_.build_dir / "build.ninja").write_text("")
    build(request_, workspace, GNU)
    assert west.calls[-1]["argv"][-1] == str(request_.app)
    for changed in (
        replace(request_, pristine="always"),
        replace(request_, board="mps2/an386"),
        replace(request_, cmake_args=("-DX:STRING=a=c", "-DCONFIG_Y=y")),
    ):
        build(changed, workspace, GNU)
        assert west.calls[-1]["argv"][-4] == "--"


def test_tfm_with_a_refused_toolchain_is_reported_first(
    workspace: Workspace, west: FakeWest, request_: BuildRequest
) -> None:
    request = BuildRequest(request_.app, "nrf9160dk/nrf9160/ns", request_.build_dir)
    with pytest.raises(BuildError, match="TF-M"):
        build(request, workspace, Toolchain("cross-compile", ""))
    assert west.calls == []


def test_no_app(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"no CMakeLists\.txt"):
        build(BuildRequest(tmp_path / "no", BOARD, tmp_path / "out"), workspace, GNU)


def test_flash(workspace: Workspace, west: FakeWest, tmp_path: Path) -> None:
    request = FlashRequest(tmp_path / "out", "nrfjprog")
    with pytest.raises(BuildError, match="nothing is built"):
        flash(request, workspace, GNU)
    (tmp_path / "out" / "zephyr").mkdir(parents=True)
    flash(request, workspace, GNU)
    assert west.calls[0]["argv"] == ["flash", "-d", str(tmp_path / "out"), "--runner", "nrfjprog"]
    west.says("FATAL ERROR: required program nrfjprog not found; install it or add it to PATH\n", 1)
    with pytest.raises(BuildError, match="required program nrfjprog not found"):
        flash(request, workspace, GNU)


REV = "8d404de73acf7687831e16d88e86e4f73cfddf8e"


def _workspace(version: str, revision: str) -> Workspace:
    return Workspace(Path("/w"), Path("/w/zephyr"), version, Path("/w/tflm"), revision)


@pytest.mark.parametrize("told", [Recorded("4.1.0", REV), Recorded("4.1.0", REV[:8]), Recorded("", "")])
def test_same_revisions(told: Recorded) -> None:
    assert check_revisions(told, _workspace("4.1.0", REV)) == ()
    assert check_revisions(told, _workspace("4.1.0", "")) == ()


def test_the_revision_of_cmsis_nn_counts_where_it_is_used() -> None:
    manifest = AppManifest("", "app", "", "", "auto", ("b",), {}, cmsis_nn_revision="c" * 40)
    there = _workspace("4.1.0", REV)
    there.__dict__["cmsis_nn_revision"] = "d" * 40  # as read once from the checkout
    with pytest.raises(BuildError, match=f"generated for CMSIS-NN {'c' * 40} and the workspace has {'d' * 40}"):
        check_revisions(recorded(manifest, "cmsis_nn"), there)
    assert check_revisions(recorded(manifest, "reference"), there) == ()


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (Recorded("4.0.0", REV), ["Zephyr 4.0.0", "has 4.1.0"]),
        (Recorded("4.1.0-rc1", REV), ["Zephyr 4.1.0-rc1", "has 4.1.0"]),
        (Recorded("4.1.0", "deadbeef"), ["TFLM deadbeef", f"has {REV}"]),
        (Recorded("4.1.0", REV[:4]), [f"TFLM {REV[:4]}"]),
        (Recorded("3.7.0", "deadbeef"), ["Zephyr 3.7.0", "TFLM deadbeef"]),
    ],
)
def test_other_revisions(told: Recorded, says: list[str]) -> None:
    with pytest.raises(BuildError) as caught:
        check_revisions(told, _workspace("4.1.0", REV))
    assert all(part in str(caught.value) for part in [*says, "--force"])
    forced = "; ".join(check_revisions(told, _workspace("4.1.0", REV), force=True))
    assert all(part in forced for part in says)


def test_overlaps_are_for_the_kernels_that_they_were_made_for() -> None:
    """CMSIS-NN's revision matters to an app whose outputs overlap inputs, and to no other."""
    there = _workspace("4.1.0", REV)
    there.__dict__["cmsis_nn_revision"] = "c" * 40
    plain, same = Recorded("4.1.0", REV), Recorded("4.1.0", REV, {"TFLM": REV, "CMSIS-NN": "c" * 40})
    assert check_revisions(plain, there) == check_revisions(same, there) == ()
    other = Recorded("4.1.0", REV, {"TFLM": REV, "CMSIS-NN": "d" * 40})
    with pytest.raises(BuildError, match="valid only for the kernels of CMSIS-NN dddddddddddd, but") as caught:
        check_revisions(other, there)
    assert "--no-in-place (in_place: false), or build with --force" in str(caught.value)
    assert "has cccccccccccc" in check_revisions(other, there, force=True)[0]
