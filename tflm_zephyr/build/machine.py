# SPDX-License-Identifier: Apache-2.0
"""Gathers the facts for `build.doctor`: programs, packages, workspace, toolchain, this user's serial ports.

A probe that fails reports "not installed", so that a bare machine gets a diagnosis instead of an error.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TypeVar

from tflm_zephyr import process
from tflm_zephyr.boards import Board
from tflm_zephyr.build.doctor import RUNNERS, Facts, Port, ToolchainFacts, WorkspaceFacts
from tflm_zephyr.build.toolchain import check_suits, detect_toolchain
from tflm_zephyr.build.workspace import Workspace, find_workspace, git_revision, how_to_get, read_manifest
from tflm_zephyr.errors import ToolError

_PROGRAMS = ("west", "cmake", "ninja", "dtc", "ccache", "qemu-system-arm", *RUNNERS)
_ZEPHYR_PACKAGES = ("pyelftools", "pykwalify", "packaging", "PyYAML")  # what Zephyr's build scripts import first
_ENGINES = {"LiteRT": "ai-edge-litert", "TFLM on the host": "tflite-micro"}
_VARIABLES = (
    "ZEPHYR_BASE",
    "ZEPHYR_TOOLCHAIN_VARIANT",
    "GNUARMEMB_TOOLCHAIN_PATH",
    "ZEPHYR_SDK_INSTALL_DIR",
    "CROSS_COMPILE",
)
_FILTERS = ("manifest.group-filter", "manifest.project-filter")
_PROJECTS = ("tflite-micro", "cmsis", "cmsis_6", "cmsis-nn", "hal_nordic", "trusted-firmware-m", "mbedtls")
_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")
_PATIENCE_S = 20.0

T = TypeVar("T")


def survey(
    packages: Mapping[str, str],
    *,
    explicit: Path | None = None,
    board: Board | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Facts:
    """The facts without serial ports (see `with_ports`). `packages`: the toolkit's own, see `versions`."""
    env = dict(os.environ if environ is None else environ)
    facts = Facts(
        platform.python_version(),
        packages,
        versions(_ZEPHYR_PACKAGES),
        {name: _program(name, env) for name in _programs(board)},
        {name: env[name] for name in _VARIABLES if env.get(name)},
        engines={name: version for name, package in _ENGINES.items() if (version := _installed(package))},
        user_in_dialout=_in_dialout(),
    )
    facts = _with_workspace(facts, env, explicit, cwd)
    return _with_toolchain(facts, env, board)


def with_ports(facts: Facts, ports: Iterable[tuple[str, int | None, str]]) -> Facts:
    """`facts` with the serial ports (device, USB vendor, serial number)."""
    found = tuple(Port(device, os.access(device, os.R_OK | os.W_OK), vid, number) for device, vid, number in ports)
    return replace(facts, ports=found)


def versions(names: Iterable[str]) -> dict[str, str]:
    """The installed version of each Python package; "" where it is not installed."""
    return {name: _installed(name) for name in names}


def _programs(board: Board | None) -> tuple[str, ...]:
    emulator = () if board is None or board.qemu is None else (board.qemu.binary,)
    return tuple(dict.fromkeys((*_PROGRAMS, *emulator)))


def _installed(package: str) -> str:
    try:
        return installed_version(package)
    except PackageNotFoundError:
        return ""


def _program(name: str, env: Mapping[str, str]) -> str:
    """The version of the program on PATH, "?" where it prints none; "" where it is not installed."""
    path = shutil.which(name, path=env.get("PATH", ""))
    if path is None:
        return ""
    if name == "JLinkExe":  # which waits for commands
        return "?"
    try:
        done = process.run([path, "--version"], env=env, timeout_s=_PATIENCE_S)
    except (OSError, TimeoutError):
        return "?"
    found = _VERSION.search(done.output)
    return found[0] if found is not None else "?"


def _with_workspace(facts: Facts, env: Mapping[str, str], explicit: Path | None, cwd: Path | None) -> Facts:
    try:
        workspace = find_workspace(explicit, environ=env, cwd=cwd)
    except ToolError as err:
        text = f"{err.where}: {err.what}" if err.where else err.what
        # For a user without any workspace, the diagnosis recommends `setup` instead of a fix.
        nowhere = explicit is None and not env.get("ZEPHYR_BASE") and err.what.startswith("no west workspace")
        return replace(facts, workspace_error=(text, "" if nowhere else err.hint))
    except (ImportError, OSError, ValueError) as err:
        return replace(facts, workspace_error=(" ".join(str(err).split()), ""))
    by = "-w" if explicit is not None else "ZEPHYR_BASE" if env.get("ZEPHYR_BASE") else "the current folder"
    return replace(facts, workspace=_workspace_facts(workspace, by))


def _workspace_facts(workspace: Workspace, by: str) -> WorkspaceFacts:
    topdir = workspace.topdir
    return WorkspaceFacts(
        str(topdir),
        by,
        str(workspace.zephyr_base),
        workspace.zephyr_version,
        {name: git_revision(workspace.modules[name]) for name in _PROJECTS if name in workspace.modules},
        {name: _guarded(_fix_of(topdir, name), "") for name in _PROJECTS if name not in workspace.modules},
        {name: value for name in _FILTERS if (value := _guarded(_config_of(topdir, name), ""))},
        _guarded(_config_of(topdir, "build.cmake-args"), ""),
    )


def _fix_of(topdir: Path, name: str) -> Callable[[], str]:
    def fix() -> str:
        listed = {project.name for project in read_manifest(topdir).projects}
        return how_to_get(topdir, [name]) if name in listed else f"tflm-zephyr setup {topdir}"

    return fix


def _config_of(topdir: Path, name: str) -> Callable[[], str]:
    def read() -> str:
        from west.configuration import Configuration

        return str(Configuration(topdir=topdir).get(name) or "")

    return read


def _with_toolchain(facts: Facts, env: Mapping[str, str], board: Board | None) -> Facts:
    try:
        found = detect_toolchain(env, arch="" if board is None else board.arch)
        if board is not None:
            check_suits(found, board.name)
    except ToolError as err:
        text = f"{err.where}: {err.what}" if err.where else err.what
        return replace(facts, toolchain_error=(text, err.hint))
    except OSError as err:
        return replace(facts, toolchain_error=(" ".join(str(err).split()), ""))
    return replace(facts, toolchain=ToolchainFacts(found.describe, found.env, found.cmake_args))


def _in_dialout() -> bool | None:
    """Whether this user is in the group that owns serial ports; None for root, and where there is no such group."""
    try:
        import grp

        group = grp.getgrnam("dialout").gr_gid
    except (ImportError, KeyError):
        return None
    return None if os.geteuid() == 0 else group in (*os.getgroups(), os.getegid())


def _guarded(probe: Callable[[], T], otherwise: T, errors: Sequence[type[Exception]] = (ToolError, OSError)) -> T:
    try:
        return probe()
    except tuple(errors):
        return otherwise
