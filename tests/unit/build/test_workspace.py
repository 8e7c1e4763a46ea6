# SPDX-License-Identifier: Apache-2.0
"""Finding the west workspace and what is in it, on small workspaces made for the purpose."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fakes.west import PROJECTS, make_workspace
from tflm_zephyr import process
from tflm_zephyr.build.workspace import BoardFacts, find_workspace, git_revision, needed_modules, read_zephyr_version
from tflm_zephyr.errors import BuildError

NS = "nrf9160dk/nrf9160/ns"
GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]


@pytest.fixture
def topdir(tmp_path: Path) -> Path:
    make_workspace(tmp_path / "ws")
    return tmp_path / "ws"


def test_by_zephyr_base(topdir: Path) -> None:
    found = find_workspace(environ={"ZEPHYR_BASE": str(topdir / "zephyr")})
    assert (found.topdir, found.zephyr_base, found.zephyr_version) == (topdir, topdir / "zephyr", "4.1.0")
    assert found.tflm_dir == topdir / "optional/modules/lib/tflite-micro"
    assert found.cmsis_nn_dir == topdir / "modules/lib/cmsis-nn"
    assert set(found.modules) == set(PROJECTS)
    assert found.missing(NS, "cmsis_nn") == ()
    found.require(NS, "cmsis_nn")


@pytest.mark.parametrize("sub", ["", "zephyr", "modules/lib"])
def test_by_explicit_folder_before_the_environment(topdir: Path, sub: str) -> None:
    assert find_workspace(topdir / sub, environ={"ZEPHYR_BASE": "/nonexistent"}).topdir == topdir


def test_by_current_folder_and_by_app(topdir: Path, tmp_path: Path) -> None:
    app = topdir / "apps" / "demo"
    app.mkdir(parents=True)
    assert find_workspace(cwd=app, environ={}).topdir == topdir
    assert find_workspace(cwd=tmp_path, app=app, environ={}).topdir == topdir


def test_the_current_folder_comes_before_the_app(topdir: Path, tmp_path: Path) -> None:
    make_workspace(tmp_path / "other", version="4.2.1-rc2")
    found = find_workspace(cwd=tmp_path / "other", app=topdir, environ={})
    assert (found.topdir, found.zephyr_version) == (tmp_path / "other", "4.2.1-rc2")


BOARDS = {
    "one": ("identifier: one\narch: arm\n",),
    "two": ("identifier: two/a53\narch: arm64\n", "identifier: two/m7\narch: arm\n"),
    "quoted": ("identifier: 'quoted/soc'\narch: \"riscv\"  \n",),
    "mute": (),
}


@pytest.mark.parametrize(
    ("board", "arch"),
    [
        ("one", "arm"),
        ("one/soc", "arm"),
        ("one@1.0/soc", "arm"),
        ("two/m7", "arm"),
        ("two/m7/ns", "arm"),
        ("two/a53", "arm64"),
        ("two", ""),  # either
        ("two/m", ""),
        ("quoted", "riscv"),
        ("mute", ""),
        ("on", ""),
        ("nobody", ""),
    ],
)
def test_architecture_of_a_board(topdir: Path, board: str, arch: str) -> None:
    for name, texts in BOARDS.items():
        folder = topdir / "zephyr" / "boards" / "maker" / name
        folder.mkdir(parents=True)
        (folder / "board.yml").write_text(f"board:\n  name: {name}\n")
        for number, text in enumerate(texts):
            (folder / f"{name}_{number}.yaml").write_text(text)
    found = find_workspace(topdir, environ={})
    assert found.board_facts(board).arch == arch
    assert found.knows_board(board) == (board.split("@")[0].split("/")[0] in BOARDS)


def test_memory_of_a_board(topdir: Path) -> None:
    folder = topdir / "zephyr" / "boards" / "maker" / "kit"
    folder.mkdir(parents=True)
    (folder / "board.yml").write_text("board:\n  name: kit\n")
    (folder / "kit_a.yaml").write_text("identifier: kit/a\narch: arm\nram: 96\nflash: 512\n")
    (folder / "kit_b.yaml").write_text("identifier: kit/b\narch: arm\nram: 96\nflash: 1024\n")
    (folder / "kit_c.yaml").write_text("identifier: kit/c\narch: arm\nram: many\nflash: 0\n")
    found = find_workspace(topdir, environ={})
    assert found.board_facts("kit/a") == BoardFacts("arm", 512, 96)
    assert found.board_facts("kit/c") == BoardFacts("arm")
    assert found.board_facts("kit") == BoardFacts("arm")  # any of them
    assert found.board_facts("nobody") == BoardFacts()


def test_none(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        find_workspace(cwd=tmp_path, environ={})
    assert "west init -l . && west update" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("base", ["nonexistent", "."])
def test_a_wrong_zephyr_base_is_named(tmp_path: Path, base: str) -> None:
    with pytest.raises(BuildError, match="ZEPHYR_BASE="):
        find_workspace(environ={"ZEPHYR_BASE": str(tmp_path / base)})


def test_a_workspace_without_zephyr(topdir: Path) -> None:
    (topdir / "zephyr" / "Kconfig.zephyr").unlink()
    with pytest.raises(BuildError, match="holds no Zephyr"):
        find_workspace(topdir, environ={})


def test_without_the_optional_group_tflm_is_missing(tmp_path: Path) -> None:
    make_workspace(tmp_path / "ws", optional=False)
    found = find_workspace(tmp_path / "ws", environ={})
    assert found.tflm_dir is None and found.missing("mps2/an385") == ("tflite-micro",)
    with pytest.raises(BuildError, match=r"lacks tflite-micro.*\+optional && west update"):
        found.require("mps2/an385")


def test_modules_not_fetched_are_named(tmp_path: Path) -> None:
    make_workspace(tmp_path / "ws", without=("hal_nordic", "mbedtls", "cmsis-nn"))
    found = find_workspace(tmp_path / "ws", environ={})
    assert found.missing("mps2/an385") == ()
    assert found.missing("mps2/an385", "cmsis_nn") == ("cmsis-nn",)
    with pytest.raises(
        BuildError, match=f"lacks hal_nordic, mbedtls, needed for {NS}.*`west update hal_nordic mbedtls`"
    ):
        found.require(NS)


def test_a_missing_module_is_brought_by_what_it_takes(tmp_path: Path) -> None:
    zephyr = make_workspace(tmp_path / "ws", optional=False, without=("cmsis_6",))
    manifest = zephyr / "west.yml"
    text = manifest.read_text().replace(
        "    - name: cmsis_6\n      revision: main\n      path: modules/lib/cmsis_6\n", ""
    )
    manifest.write_text(text)
    config = tmp_path / "ws" / ".west" / "config"
    config.write_text(f"{config.read_text()}group-filter = -hal\n")
    with pytest.raises(BuildError) as caught:
        find_workspace(tmp_path / "ws", environ={}).require("mps2/an385")
    assert str(caught.value).endswith(
        "lacks tflite-micro, cmsis_6, needed for mps2/an385. Allow cmsis_6 in the manifest (name-allowlist), then run "
        "`west config manifest.group-filter -- -hal,+optional && west update tflite-micro cmsis_6`"
    )


def test_a_board_that_is_no_arm_needs_no_cmsis(tmp_path: Path) -> None:
    make_workspace(tmp_path / "ws", without=("cmsis", "cmsis_6"))
    found = find_workspace(tmp_path / "ws", environ={})
    assert found.missing("native_sim", arch="posix") == found.missing("qemu_riscv32", arch="riscv") == ()
    assert found.missing("kit_x", arch="arm") == found.missing("kit_x") == ("cmsis", "cmsis_6")


@pytest.mark.parametrize("text", ["manifest: [", "manifest:\n  version: '99.0'\n", "manifest:\n  projects: 3\n"])
def test_a_manifest_that_west_does_not_read(topdir: Path, text: str) -> None:
    (topdir / "zephyr" / "west.yml").write_text(text)
    with pytest.raises(BuildError) as caught:
        find_workspace(topdir, environ={})
    assert "\n" not in str(caught.value)


def test_a_manifest_whose_import_is_not_fetched(topdir: Path) -> None:
    (topdir / "zephyr" / "west.yml").write_text(
        "manifest:\n  projects:\n    - name: x\n      url: file:///none\n      import: true\n"
        "  self:\n    path: zephyr\n"
    )
    with pytest.raises(BuildError, match="west update"):
        find_workspace(topdir, environ={})


@pytest.mark.parametrize(
    ("text", "version"), [("3.4.0\n", "3.4.0"), ("3.4.0-rc1", "3.4.0-rc1"), ("", ""), ("NCS 3.4.0", "")]
)
def test_version_of_the_nrf_connect_sdk(topdir: Path, text: str, version: str) -> None:
    assert find_workspace(topdir, environ={}).zephyr.ncs == ""
    sdk = topdir / "nrf"
    sdk.mkdir()
    manifest = topdir / "zephyr" / "west.yml"
    entry = "    - name: nrf\n      revision: main\n      path: nrf\n"
    manifest.write_text(manifest.read_text().replace("  projects:\n", f"  projects:\n{entry}"))
    assert find_workspace(topdir, environ={}).ncs_version == ""
    (sdk / "VERSION").write_text(text)
    assert find_workspace(topdir, environ={}).zephyr.ncs == version


def test_needed_modules() -> None:
    assert needed_modules("mps2/an385", "reference", "4.0.0") == ("tflite-micro", "cmsis")
    assert needed_modules("mps2/an385", "cmsis_nn", "4.1.0") == (
        "tflite-micro",
        "cmsis",
        "cmsis_6",
        "cmsis-nn",
    )
    assert needed_modules("nrf9160dk/nrf9160", "reference", "4.1.0")[3:] == ("hal_nordic",)
    assert needed_modules(NS, "reference", "4.1.0")[3:] == ("hal_nordic", "trusted-firmware-m", "mbedtls")
    assert needed_modules(NS, "reference", "4.4.0")[5:] == ("mbedtls", "tf-psa-crypto")  # Mbed TLS 4 has a part
    assert needed_modules("nucleo_f401re", "reference", "4.1.0")[3:] == ("hal_stm32",)
    assert needed_modules("rpi_pico/rp2040/w", "reference", "4.1.0")[3:] == ("hal_rpi_pico",)
    assert "trusted-firmware-m" in needed_modules("mps2/an521/cpu0/ns", "reference", "4.1.0")


@pytest.mark.parametrize("text", ["", "VERSION_MAJOR = x\nVERSION_MINOR = 1\nPATCHLEVEL = 0\n"])
def test_a_bad_version_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "VERSION").write_text(text)
    with pytest.raises(BuildError, match="VERSION"):
        read_zephyr_version(tmp_path)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_revision_from_git(topdir: Path) -> None:
    folder = topdir / "optional/modules/lib/tflite-micro"
    # A folder inside another repository is no checkout of its own.
    process.run([*GIT, "init", "-q", str(topdir)])
    process.run([*GIT, "-C", str(topdir), "commit", "-q", "--allow-empty", "-m", "x"])
    assert git_revision(folder) == ""
    process.run([*GIT, "init", "-q", str(folder)])
    assert git_revision(folder) == ""
    process.run([*GIT, "-C", str(folder), "commit", "-q", "--allow-empty", "-m", "x"])
    revision = find_workspace(topdir, environ={}).tflm_revision
    assert len(revision) == 40 and revision == git_revision(folder)
