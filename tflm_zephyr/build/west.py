# SPDX-License-Identifier: Apache-2.0
"""west build and west flash: pure argv builders, and the one place that runs them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tflm_zephyr import process
from tflm_zephyr.boards import Board
from tflm_zephyr.build.log import FirstError, MemoryRegion, first_error, memory_regions, warnings_of
from tflm_zephyr.build.toolchain import Toolchain, check_suits
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.codegen import AppManifest
from tflm_zephyr.errors import BuildError

LOG_NAME = "west_build.log"
_TABLE_NAME = "memory_regions.txt"
_CACHE_LINE = re.compile(r"^([\w.-]+):[A-Z]+=(.*)$", re.MULTILINE)
_DEFINE = re.compile(r"-D([\w.-]+)(?::[A-Z]+)?=(.*)")
_HINTS = {
    "overflow": "`tflm-zephyr fit --into BUILD_FOLDER` lists the ways that fit",
    "python": "Install Zephyr's Python packages: `west packages pip --install`",
}


FORCED = ("-DTFLM_APP_OTHER_REVISIONS=ON",)
"""CMake argument of --force, which an app's cmake/tflm.cmake reads."""

Pristine = Literal["auto", "always", "never"]
OnLine = Callable[[str], None]


@dataclass(frozen=True)
class BuildRequest:
    """One `west build`: `app` for `board` in `build_dir`, with further CMake arguments ("-DX=Y")."""

    app: Path
    board: str
    build_dir: Path
    pristine: Pristine = "auto"
    cmake_args: tuple[str, ...] = ()


@dataclass(frozen=True)
class FlashRequest:
    """One `west flash` of the build in `build_dir`, with `runner`, through probe `dev_id` (a serial number)."""

    build_dir: Path
    runner: str = ""
    dev_id: str = ""


@dataclass(frozen=True)
class Build:
    """A finished build. `memory_regions` is the linker's table; empty when only an older build's is known.

    `warnings` are those of its log that mean a fault on the device.
    """

    elf: Path
    build_dir: Path
    board: str
    log: Path
    memory_regions: tuple[MemoryRegion, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recorded:
    """The versions that an app was generated for: commits of Zephyr, TFLM and CMSIS-NN; "" accepts any.

    `overlap` has the commits, by name, of the kernels whose in-place distances its plan relies on.
    """

    zephyr_version: str
    tflm_revision: str
    overlap: Mapping[str, str] = field(default_factory=dict)
    cmsis_nn_revision: str = ""


def build_argv(request: BuildRequest, toolchain: Toolchain, *, configured: bool = False) -> tuple[str, ...]:
    """The west command; paths as they are in `request`.

    `configured` leaves the CMake arguments out: CMake has them already, and west runs it again for any.
    """
    cmake_args = () if configured else (*toolchain.cmake_args, *request.cmake_args)
    return (
        *_west("build"),
        *("-p", request.pristine, "-b", request.board, "-d", str(request.build_dir), str(request.app)),
        *(("--", *cmake_args) if cmake_args else ()),
    )


def flash_argv(request: FlashRequest) -> tuple[str, ...]:
    """The west command."""
    return (
        *_west("flash"),
        *("-d", str(request.build_dir)),
        *(("--runner", request.runner) if request.runner else ()),
        *(("--dev-id", request.dev_id) if request.dev_id else ()),
    )


def build_env(
    workspace: Workspace,
    toolchain: Toolchain,
    environ: Mapping[str, str] | None = None,
    *,
    folders: Sequence[Path] = (),
) -> dict[str, str]:
    """The environment of a west command: the user's, Zephyr's base, the toolchain's and ccache's variables.

    `folders` are the app's and its build's, absolute. Zephyr uses ccache where it is installed: paths in them are
    hashed relative to the build folder, and that folder is left out, so that apps share objects wherever they are
    (ccache manual, "Compiling in different directories"). Zephyr's own paths stay absolute.
    """
    base = dict(os.environ if environ is None else environ)
    sharing = {"CCACHE_BASEDIR": os.path.commonpath(folders), "CCACHE_NOHASHDIR": "true"} if folders else {}
    return {**sharing, **base, "ZEPHYR_BASE": str(workspace.zephyr_base), **toolchain.env}


def build(request: BuildRequest, workspace: Workspace, toolchain: Toolchain, *, on_line: OnLine | None = None) -> Build:
    """Build; the log stays in the build folder. Raises BuildError with its first error and its path."""
    check_suits(toolchain, request.board)
    if not (request.app / "CMakeLists.txt").is_file():
        raise BuildError("no CMakeLists.txt there", where=str(request.app), hint="Name the app's folder")
    request = replace(request, app=request.app.absolute(), build_dir=request.build_dir.absolute())
    cache = _cmake_cache(request.build_dir)
    if request.pristine == "auto" and (_half_configured(request.build_dir) or _other_toolchain(cache, toolchain)):
        request, cache = replace(request, pristine="always"), {}
    log = request.build_dir / LOG_NAME
    argv = build_argv(request, toolchain, configured=_configured(cache, request, toolchain))
    folders = (request.app, request.build_dir)
    lines = _run(argv, workspace, toolchain, log, on_line, request.board, folders)
    elf = _elf(request)
    if elf is None:
        raise BuildError("west build succeeded but made no zephyr.elf", where=str(log), hint="See the log")
    return Build(
        elf, request.build_dir, request.board, log, _footprint(request.build_dir, elf, lines), warnings_of(lines)
    )


def flash(request: FlashRequest, workspace: Workspace, toolchain: Toolchain, *, on_line: OnLine | None = None) -> None:
    """Flash. Raises BuildError with the first error of west or of the runner it starts."""
    if not (request.build_dir / "zephyr").is_dir():
        raise BuildError("nothing is built there", where=str(request.build_dir), hint="Build the app first")
    request = replace(request, build_dir=request.build_dir.absolute())
    log = request.build_dir / "west_flash.log"
    _run(flash_argv(request), workspace, toolchain, log, on_line, "west flash")


def check_workspace(
    manifest: AppManifest, board: Board, workspace: Workspace, *, force: bool = False
) -> tuple[str, ...]:
    """Check that the workspace has what a build of the app for `board` needs; returns what check_revisions does.

    A kernel library "auto" is the one that such a build surely needs; its CMake checks for what only that can tell.
    """
    kernels = manifest.kernels
    if kernels == "auto":
        kernels = "cmsis_nn" if board.cortex_m else "reference"
    workspace.require(board.name, kernels, board.arch)
    return check_revisions(recorded(manifest, kernels), workspace, force=force)


def recorded(manifest: AppManifest, kernels: str) -> Recorded:
    """The versions in `manifest` that a build with the library `kernels` relies on."""
    with_cmsis_nn = kernels == "cmsis_nn"
    return Recorded(
        manifest.zephyr_version,
        manifest.tflm_revision,
        manifest.overlap,
        manifest.cmsis_nn_revision if with_cmsis_nn else "",
    )


def check_revisions(recorded: Recorded, workspace: Workspace, *, force: bool = False) -> tuple[str, ...]:
    """Compare the versions that the app was generated for with those in the workspace.

    Returns one line for each difference when `force`, else raises BuildError that names both sides. A
    revision that git cannot read is no difference.
    """
    pairs = (
        ("Zephyr", recorded.zephyr_version, workspace.zephyr_version),
        ("TFLM", recorded.tflm_revision, workspace.tflm_revision),
        ("CMSIS-NN", recorded.cmsis_nn_revision, workspace.cmsis_nn_revision),
    )
    differences = tuple(
        f"the app was generated for {what} {wanted} and the workspace has {there}"
        for what, wanted, there in pairs
        if wanted and there and not _same(wanted, there)
    )
    there = {"TFLM": workspace.tflm_revision, "CMSIS-NN": workspace.cmsis_nn_revision}
    wrong = [
        f"{name} {wanted[:12]}, but the workspace has {there[name][:12]}"
        for name, wanted in sorted(recorded.overlap.items())
        if there.get(name, "") not in ("", wanted)
    ]
    hint = "Generate the app again in this workspace, run `west update`, or build with --force"
    if wrong:
        differences += (f"its in-place plan is valid only for the kernels of {' and of '.join(wrong)}",)
        hint = (
            "Generate the app again in this workspace, or with --no-in-place (in_place: false), or build with --force"
        )
    if differences and not force:
        raise BuildError("; ".join(differences), where=str(workspace.topdir), hint=hint)
    return differences


def linked_regions(build_dir: Path, elf: Path) -> tuple[MemoryRegion, ...]:
    """The linker's table that build() kept in `build_dir`; empty when there is none or `elf` is younger."""
    kept = build_dir / _TABLE_NAME
    try:
        if kept.stat().st_mtime < elf.stat().st_mtime:
            return ()
        rows = [line.split() for line in kept.read_text(encoding="utf-8").splitlines()]
        return tuple(MemoryRegion(name, int(used), int(size)) for name, used, size in rows)
    except (OSError, ValueError):
        return ()


def _west(command: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "west", command)


def _same(wanted: str, there: str) -> bool:
    """Equal, or an abbreviated commit (7 digits at least) and its whole."""
    short = min(len(wanted), len(there))
    abbreviated = short >= 7 and wanted[:short] == there[:short] and "." not in wanted
    return wanted == there or abbreviated


def _run(
    argv: Sequence[str],
    workspace: Workspace,
    toolchain: Toolchain,
    log: Path,
    on_line: OnLine | None,
    where: str,
    folders: Sequence[Path] = (),
) -> list[str]:
    """Run west at the workspace's top, so that any working directory is allowed; write `log` even on failure."""
    lines: list[str] = []

    def on_output(line: str) -> None:
        lines.append(line)
        if on_line is not None:
            on_line(line)

    try:
        env = build_env(workspace, toolchain, folders=folders)
        done = process.run(argv, cwd=workspace.topdir, env=env, on_line=on_output)
    finally:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if done.returncode != 0:
        error = first_error(lines) or FirstError("other", f"west ended with exit code {done.returncode}")
        place = error.where or where
        hint = f"{_HINTS[error.kind]}; the log" if error.kind in _HINTS else "The log"
        raise BuildError(error.text, where=place, hint=f"{hint} is {log}")
    return lines


def _cmake_cache(build_dir: Path) -> dict[str, str]:
    """The build folder's CMake variables; none when it was not configured to the end."""
    if not (build_dir / "build.ninja").is_file():
        return {}
    try:
        text = (build_dir / "CMakeCache.txt").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return dict(_CACHE_LINE.findall(text))


def _half_configured(build_dir: Path) -> bool:
    """Whether CMake failed in the folder at first; west would not run it again."""
    return (build_dir / "CMakeCache.txt").is_file() and not (build_dir / "build.ninja").is_file()


def _other_toolchain(cache: Mapping[str, str], toolchain: Toolchain) -> bool:
    """Whether the folder was configured for another toolchain, which CMake would silently keep."""
    wanted = {**toolchain.env, "ZEPHYR_TOOLCHAIN_VARIANT": toolchain.variant}
    return any(cache.get(name, value) != value for name, value in wanted.items())


def _configured(cache: Mapping[str, str], request: BuildRequest, toolchain: Toolchain) -> bool:
    """Whether CMake was run for this very request before."""
    wanted = {"BOARD": request.board, "APPLICATION_SOURCE_DIR": str(request.app)}
    for arg in (*toolchain.cmake_args, *request.cmake_args):
        found = _DEFINE.fullmatch(arg)
        if found is None:
            return False
        wanted[found[1]] = found[2]
    return request.pristine != "always" and all(cache.get(name) == value for name, value in wanted.items())


def _elf(request: BuildRequest) -> Path | None:
    """zephyr.elf in the build folder, or in the app's own subfolder when sysbuild is on."""
    places = (request.build_dir, request.build_dir / request.app.name)
    return next((elf for folder in places if (elf := folder / "zephyr" / "zephyr.elf").is_file()), None)


def _footprint(build_dir: Path, elf: Path, lines: Sequence[str]) -> tuple[MemoryRegion, ...]:
    """The linker's table; that of the last link when ninja had nothing to link this time."""
    regions = memory_regions(lines)
    if not regions:
        return linked_regions(build_dir, elf)
    text = "".join(f"{r.name} {r.used_bytes} {r.size_bytes}\n" for r in regions)
    (build_dir / _TABLE_NAME).write_text(text, encoding="utf-8")
    return regions
