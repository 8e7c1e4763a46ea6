# SPDX-License-Identifier: Apache-2.0
"""Findings on a machine and its workspace, in the order in which they are needed. Pure: facts in, findings out.

`build.machine` gathers the facts; nothing here reads a file or starts a program.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tflm_zephyr.boards import Board, QemuSpec
from tflm_zephyr.build.workspace import needed_modules
from tflm_zephyr.tflm import KNOWN_PINS, PINNED_ZEPHYR, ZephyrVersion

OK, MISSING, OPTIONAL = "ok", "missing", "optional"
LEAST_CMAKE = (3, 20)  # of Zephyr 4.1's and the generated apps' CMakeLists.txt
RUNNERS = ("nrfutil", "nrfjprog", "pyocd", "openocd", "JLinkExe")
_APT = {"dtc": "device-tree-compiler", "ninja": "ninja-build"}
_NUMBER = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Finding:
    """One line of the diagnosis.

    `mark`: "ok"; "missing" for an absent part that is needed; "optional" for an absent part that is not needed.
    `fix`: the command that installs it, "" where there is nothing to do.
    """

    topic: str
    mark: str
    text: str
    fix: str = ""


@dataclass(frozen=True)
class Port:
    """A serial port: its device, whether this user may read and write it, and its board's USB serial number."""

    device: str
    usable: bool = True
    usb_vid: int | None = None
    serial_number: str = ""


@dataclass(frozen=True)
class WorkspaceFacts:
    """The west workspace. `missing` has the fix for each absent project that is checked, by name.

    `found_by`: "ZEPHYR_BASE" or a folder. `filters`: west's manifest.group-filter and manifest.project-filter, as set.
    """

    topdir: str
    found_by: str
    zephyr_base: str
    zephyr_version: str
    revisions: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    filters: Mapping[str, str] = field(default_factory=dict)
    cmake_args: str = ""


@dataclass(frozen=True)
class ToolchainFacts:
    """The compiler of `tflm-zephyr build`; `env` and `cmake_args` are the environment and arguments for west."""

    describe: str
    env: Mapping[str, str] = field(default_factory=dict)
    cmake_args: tuple[str, ...] = ()


@dataclass(frozen=True)
class Facts:
    """The facts of a machine. Errors are one line each; None with an empty error means that it was not checked.

    `packages` and `zephyr_packages`: version by name, "" where not installed. `programs`: the version of each on PATH
    ("?" where it is unknown), "" where it is not installed. `environ`: the variables that a build reads. `engines`: the
    engines for reference outputs, by name. `user_in_dialout`: None where there is no such group, or for root.
    """

    python: str
    packages: Mapping[str, str] = field(default_factory=dict)
    zephyr_packages: Mapping[str, str] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    workspace: WorkspaceFacts | None = None
    workspace_error: tuple[str, str] = ("", "")
    toolchain: ToolchainFacts | None = None
    toolchain_error: tuple[str, str] = ("", "")
    ports: tuple[Port, ...] = ()
    user_in_dialout: bool | None = None
    engines: Mapping[str, str] = field(default_factory=dict)


def diagnose(facts: Facts, board: Board | None = None) -> tuple[Finding, ...]:
    """The findings. Without `board`, parts that only some of the described boards need are optional."""
    return (
        python_packages(facts.python, facts.packages),
        _west(facts),
        _workspace(facts),
        *_zephyr(facts, board),
        *_modules(facts, board),
        *_toolchain(facts),
        *_build_tools(facts),
        *_running(facts, board),
        *_engines(facts),
    )


def healthy(findings: tuple[Finding, ...]) -> bool:
    """Whether all needed parts are installed."""
    return all(finding.mark != MISSING for finding in findings)


def python_packages(python: str, packages: Mapping[str, str]) -> Finding:
    """The toolkit's own dependencies: `packages` has their versions, "" for one that is not installed."""
    lacking = sorted(name for name, version in packages.items() if not version)
    if lacking:
        fix = f"python -m pip install {' '.join(lacking)}"
        return Finding("Python packages", MISSING, f"Python {python} lacks {', '.join(lacking)}", fix)
    return Finding("Python packages", OK, f"all {len(packages)}, in Python {python}")


def _west(facts: Facts) -> Finding:
    version = facts.packages.get("west", "")
    if not version:
        return Finding("west", MISSING, "not installed in this Python", "python -m pip install west")
    if not facts.programs.get("west"):
        text = f"{version} in this Python; `west` itself is not on PATH, which only plain `west build` needs"
        return Finding("west", OPTIONAL, text, "activate the virtual environment that west is installed in")
    return Finding("west", OK, version)


def _workspace(facts: Facts) -> Finding:
    if facts.workspace is None:
        text, fix = facts.workspace_error
        return Finding("workspace", MISSING, text or "none here or above", fix or "tflm-zephyr setup DIR")
    return Finding("workspace", OK, f"{facts.workspace.topdir}, by {facts.workspace.found_by}")


def _zephyr(facts: Facts, board: Board | None) -> Iterator[Finding]:
    workspace = facts.workspace
    if workspace is None:
        yield Finding("Zephyr", MISSING, "not looked for without a workspace", "tflm-zephyr setup DIR")
        return
    version = ZephyrVersion(workspace.zephyr_version)
    tried = sorted({series for pins in KNOWN_PINS.values() for series in pins.tried_zephyrs})
    note = "" if version.series in tried else f"; apps were tried with {' and '.join(tried)}"
    yield Finding("Zephyr", OK, f"{workspace.zephyr_version} in {workspace.zephyr_base}{note}")
    lacking = sorted(name for name, there in facts.zephyr_packages.items() if not there)
    if lacking:
        text = f"Zephyr's scripts lack {', '.join(lacking)} in Python {facts.python}"
        yield Finding("Zephyr's packages", MISSING, text, "west packages pip --install")
    else:
        yield Finding("Zephyr's packages", OK, f"{', '.join(sorted(facts.zephyr_packages))}")


# West projects with their purpose, in the order of the findings.
_PROJECTS = {
    "tflite-micro": "TensorFlow Lite Micro",
    "cmsis": "Cortex-M headers",
    "cmsis_6": "Cortex-M headers of Zephyr 4.1 and newer",
    "cmsis-nn": "faster kernels on Cortex-M; without it apps get the reference kernels",
    "hal_nordic": "boards of Nordic",
    "trusted-firmware-m": "TF-M, for /ns boards",
    "mbedtls": "TF-M's cryptography, for /ns boards",
}


def _modules(facts: Facts, board: Board | None) -> Iterator[Finding]:
    workspace = facts.workspace
    needed = needed_by(board, "" if workspace is None else workspace.zephyr_version)
    for name, purpose in _PROJECTS.items():
        here = workspace is not None and name in workspace.revisions
        if board is not None and not here and name not in needed and name != "cmsis-nn":
            continue  # neither there nor of any use to that board
        if workspace is not None and here:
            revision = workspace.revisions[name][:12]
            active = workspace.filters.get("manifest.group-filter", "") if name == "tflite-micro" else ""
            text = ", ".join(filter(None, [revision, active and f"manifest.group-filter {active}"]))
            yield Finding(name, OK, text or "there")
            continue
        mark = MISSING if name in needed else OPTIONAL
        fix = "tflm-zephyr setup DIR" if workspace is None else workspace.missing.get(name, f"west update {name}")
        yield Finding(name, mark, f"not in the workspace: {purpose}", fix)


def needed_by(board: Board | None, zephyr_version: str) -> tuple[str, ...]:
    """The west projects that `board` needs with the reference kernels; without `board` those that every board needs."""
    # "mps2/an385" stands for a board that needs nothing of its own.
    name, arch = ("mps2/an385", "") if board is None else (board.name, board.arch)
    return needed_modules(name, "reference", zephyr_version or PINNED_ZEPHYR.version, arch)


def _toolchain(facts: Facts) -> Iterator[Finding]:
    toolchain = facts.toolchain
    if toolchain is None:
        text, fix = facts.toolchain_error
        yield Finding("toolchain", MISSING, text or "no compiler found", fix or "west sdk install -t arm-zephyr-eabi")
        return
    yield Finding("toolchain", OK, toolchain.describe)
    unset = {name: value for name, value in toolchain.env.items() if facts.environ.get(name) != value}
    if toolchain.env.get("ZEPHYR_TOOLCHAIN_VARIANT") == "zephyr" and not facts.environ.get("ZEPHYR_TOOLCHAIN_VARIANT"):
        unset = {}  # Zephyr's CMake finds its SDK by itself
    kept = "" if facts.workspace is None else facts.workspace.cmake_args
    args = [arg for arg in toolchain.cmake_args if arg not in shlex.split(kept)]
    if unset or args:
        exports = f"export {' '.join(f'{name}={shlex.quote(value)}' for name, value in unset.items())}" if unset else ""
        config = f"west config build.cmake-args -- {shlex.quote(' '.join(filter(None, [kept, *args])))}" if args else ""
        lacks = " and ".join([*unset, *args])
        text = f"lacks {lacks}; `tflm-zephyr build` gives them itself"
        yield Finding("plain west build", OPTIONAL, text, " && ".join(filter(None, [exports, config])))
    else:
        yield Finding("plain west build", OK, "the environment has what it needs")


def _build_tools(facts: Facts) -> Iterator[Finding]:
    for name in ("cmake", "ninja", "dtc", "ccache"):
        version = facts.programs.get(name, "")
        fix = f"apt install {_APT.get(name, name)}"
        mark = OPTIONAL if name == "ccache" else MISSING
        if not version:
            what = ": builds after the first take longer without" if name == "ccache" else ""
            yield Finding(name, mark, f"not on PATH{what}", fix)
        elif name == "cmake" and _too_old(version):
            least = ".".join(map(str, LEAST_CMAKE))
            yield Finding(name, MISSING, f"{version}, and Zephyr needs {least}", "python -m pip install cmake")
        else:
            yield Finding(name, OK, "" if version == "?" else version)


def _too_old(version: str) -> bool:
    found = _NUMBER.search(version)
    return found is not None and tuple(map(int, found[0].split("."))) < LEAST_CMAKE


def _running(facts: Facts, board: Board | None) -> Iterator[Finding]:
    """Findings on the means to run an app: QEMU, or a flash runner and a serial port."""
    if board is None or board.qemu is not None:
        emulator = QemuSpec("", "") if board is None or board.qemu is None else board.qemu
        version = facts.programs.get(emulator.binary, "")
        mark = MISSING if board is not None else OPTIONAL
        if version:
            yield Finding("QEMU", OK, version if version != "?" else emulator.binary)
        else:
            what = f"no {emulator.binary} on PATH: nothing runs the emulated boards"
            yield Finding("QEMU", mark, what, f"apt install {emulator.package}")
    if board is None or board.qemu is None:
        yield from _hardware(facts, MISSING if board is not None and board.arch != "posix" else OPTIONAL, board)


def _hardware(facts: Facts, mark: str, board: Board | None) -> Iterator[Finding]:
    runners = [name for name in RUNNERS if facts.programs.get(name)]
    if runners:
        yield Finding("flash runner", OK, ", ".join(runners))
    else:
        yield Finding("flash runner", mark, f"none of {', '.join(RUNNERS)} on PATH", "python -m pip install pyocd")
    shut = [port.device for port in facts.ports if not port.usable]
    if facts.user_in_dialout is False and (shut or not facts.ports):
        what = f"this user may not open {', '.join(shut)}" if shut else "this user is not in the group dialout"
        yield Finding("serial ports", mark, what, 'sudo usermod -aG dialout "$USER", then log in again')
    elif shut:
        yield Finding("serial ports", mark, f"this user may not open {', '.join(shut)}", f"ls -l {' '.join(shut)}")
    else:
        count = len(facts.ports)
        yield Finding("serial ports", OK, f"{count} there" if count else "allowed; none is there")
    vid = None if board is None else board.serial.usb_vid
    probes = {
        port.serial_number or port.device: port.device
        for port in facts.ports
        if port.usb_vid is not None and vid in (None, port.usb_vid)
    }
    if probes:
        yield Finding("boards attached", OK, ", ".join(f"{name} ({device})" for name, device in probes.items()))
    else:
        yield Finding("boards attached", OPTIONAL, "none on USB", "plug the board in and switch it on")


def _engines(facts: Facts) -> Iterator[Finding]:
    uses = {
        "LiteRT": "reference outputs of the self-test",
        "TFLM on the host": "verify, and run --target host",
    }
    fix = "python -m pip install 'tflm-zephyr[host]', or '.[host]' in a checkout"
    for name, purpose in uses.items():
        version = facts.engines.get(name, "")
        if version:
            yield Finding(name, OK, version)
        else:
            yield Finding(name, OPTIONAL, f"not installed: {purpose}", fix)
