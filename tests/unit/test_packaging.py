# SPDX-License-Identifier: Apache-2.0
"""The wheel and the sdist: every template and board, the same app as the checkout, the same bytes from each build."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.model_builder import chain

pytest.importorskip("build")
pytest.importorskip("hatchling")
pytestmark = pytest.mark.slow


def run(*argv: object, cwd: Path = ROOT, **env: str) -> str:
    environ = {name: value for name, value in os.environ.items() if name not in ("ZEPHYR_BASE", "PYTHONPATH")}
    words = [str(word) for word in argv]
    done = subprocess.run(words, cwd=cwd, env={**environ, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the wheel's content, outside the checkout."""
    folder = tmp_path_factory.mktemp("site")
    pip = (sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check")
    run(*pip, "--target", folder, wheel)
    return folder


def test_the_wheel_carries_every_template_and_board(wheel: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout to compare with")
    packed = ("templates", "boards", "west.yml")
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", *packed).splitlines()
    prefix = "tflm_zephyr/_data/"
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith(prefix)}
        assert {name.removeprefix(prefix) for name in names} == set(listed)
        for name in names:
            assert archive.read(name) == (ROOT / name.removeprefix(prefix)).read_bytes()


def test_the_wheel_carries_the_package_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"tflm_zephyr"}
    package = ROOT / "tflm_zephyr"
    wanted = {
        path.relative_to(ROOT).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_installed_tool_generates_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(chain())
    script = (sys.executable, installed / "bin" / "tflm-zephyr")
    out = run(
        *script, "generate", "net.tflite", "-o", "app", cwd=tmp_path, PYTHONPATH=str(installed), PYTHONSAFEPATH="1"
    )
    assert out.startswith("App app in app: ")
    where = run(
        sys.executable, "-c", "import tflm_zephyr; print(tflm_zephyr.__file__)", cwd=tmp_path, PYTHONPATH=str(installed)
    )
    assert Path(where.strip()).is_relative_to(installed)
    from_checkout = tmp_path / "other" / "app"
    run(sys.executable, "-m", "tflm_zephyr", "generate", tmp_path / "net.tflite", "-o", from_checkout, cwd=ROOT)
    for path in sorted((tmp_path / "app").rglob("*")):
        if path.is_file() and path.name != "app.yaml" and not path.name.startswith("."):
            assert path.read_bytes() == (from_checkout / path.relative_to(tmp_path / "app")).read_bytes(), path
    assert "mps2/an521/cpu0" in run(*script, "boards", cwd=tmp_path, PYTHONPATH=str(installed))


def built(folder: Path, checkout: Path) -> dict[str, bytes]:
    """The wheel and the sdist of `checkout`, made as a release makes them: name -> bytes."""
    command = (sys.executable, "-m", "build", "--wheel", "--sdist", "--no-isolation", "--outdir", folder)
    run(*command, cwd=checkout, SOURCE_DATE_EPOCH="1767225600")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_builds_have_the_same_bytes(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout to copy")
    elsewhere = tmp_path / "elsewhere"
    for name in run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        if name and (ROOT / name).is_file():
            (elsewhere / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, elsewhere / name)
            (elsewhere / name).chmod(0o700 if os.access(ROOT / name, os.X_OK) else 0o600)  # as another umask has it
    first, second = built(tmp_path / "first", ROOT), built(tmp_path / "second", elsewhere)
    assert sorted(Path(name).suffix for name in first) == [".gz", ".whl"]
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_metadata(installed: Path) -> None:
    (info,) = installed.glob("tflm_zephyr-*.dist-info")
    entry = (info / "entry_points.txt").read_text()
    assert "tflm-zephyr = tflm_zephyr.__main__:main" in entry
    from tflm_zephyr import __version__

    assert f"\nVersion: {__version__}\n" in (info / "METADATA").read_text()
