# SPDX-License-Identifier: Apache-2.0
"""Shared by the benchmarks against Zephyr's own sample and module: apps, builds, verdicts, the machine's load."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.bare_app import run  # noqa: E402
from tflm_zephyr.boards.board import load_board  # noqa: E402
from tflm_zephyr.build.toolchain import Toolchain, detect_toolchain  # noqa: E402
from tflm_zephyr.build.west import Build, BuildRequest, build  # noqa: E402
from tflm_zephyr.build.workspace import Workspace, find_workspace  # noqa: E402
from tflm_zephyr.device.console.gather import gather_results  # noqa: E402
from tflm_zephyr.device.console.result import RunResult  # noqa: E402
from tflm_zephyr.device.transport.qemu import QemuLink  # noqa: E402
from tflm_zephyr.errors import BoardError, BuildError, ToolError  # noqa: E402

HELLO_WORLD = ROOT / "samples" / "hello_world" / "hello_world.tflite"
DIGITS = ROOT / "samples" / "digits" / "digits.tflite"
PERSON_DETECT = ROOT.parent / "shared" / "models" / "person_detect.tflite"
NO_PERSON_DETECT = f"person_detect: left out, as there is no ../shared/models/{PERSON_DETECT.name}"

_SAMPLE = "samples/modules/tflite-micro/hello_world"
_ARRAY = re.compile(r"\bg_model\s*\[[^\]]*\]\s*=\s*\{([^}]*)\}")
_BYTE = re.compile(r"\b0x[0-9a-fA-F]{1,2}\b|\b\d{1,3}\b")
_LOAD_PER_CORE = 0.5
_CLOCKS_HZ = {"mps3-an547": 32_000_000}
"""Clocks that are no whole number of nanoseconds, which boards/ leaves out."""


@dataclass(frozen=True)
class Bench:
    """A workspace and its compiler, and the folder that everything is written to."""

    workspace: Workspace
    toolchain: Toolchain
    folder: Path

    @property
    def sample(self) -> Path:
        """Zephyr's own hello_world for TFLM. Raises BuildError."""
        path = self.workspace.zephyr_base / _SAMPLE
        if not (path / "CMakeLists.txt").is_file():
            raise BuildError("this Zephyr has no such sample", where=_SAMPLE, hint="Compare with Zephyr 4.1")
        return path

    def app(self, name: str, model: Path, board: str, *flags: str) -> Path:
        """Write the app `name` of `model` for `board`; `flags` as for `generate`. Raises BuildError."""
        app = self.folder / name
        run([*TOOL, "generate", model, "-o", app, "-b", board, "--force", *flags], ROOT)
        return app

    def build(self, app: Path, board: str, name: str = "") -> Build:
        """Build `app` for `board` in a folder of that board's, called `name` or as the app. Raises BuildError."""
        return build(BuildRequest(app, board, self.build_dir(app, board, name)), self.workspace, self.toolchain)

    def build_dir(self, app: Path, board: str, name: str = "") -> Path:
        """The folder of build()."""
        return self.folder / "build" / load_board(board).file_stem / (name or app.name)


TOOL = (sys.executable, "-m", "tflm_zephyr")


def used_bytes(built: Build, region: str) -> int:
    """Bytes of a memory region by the linker's table. Raises BuildError when the table has no such region."""
    found = next((row.used_bytes for row in built.memory_regions if row.name == region), None)
    if found is None:
        raise BuildError(f"the linker's table has no {region}", where=str(built.log))
    return found


def emulated(built: Build) -> RunResult:
    """The built app's self-test in QEMU, instructions counted. Raises BoardError or DeviceError."""
    spec = load_board(built.board).qemu
    if spec is None:
        raise BoardError("QEMU does not emulate it", where=built.board, hint="Take mps2/an385")
    return gather_results(QemuLink(spec, built.elf), models=1, timeout_s=600, silence_s=60)[0]


def clock_hz(board: str) -> int:
    """The clock of a board that QEMU emulates. Raises BoardError."""
    spec = load_board(board).qemu
    if spec is None:
        raise BoardError("QEMU does not emulate it", where=board, hint="Take mps2/an385")
    return spec.clock_hz or _CLOCKS_HZ[spec.machine]


def equals_reference(result: RunResult) -> bool:
    """Whether the self-test found every output equal to its reference, byte by byte."""
    checks = [check for run_ in result.runs for check in run_.checks]
    return result.status == "pass" and bool(checks) and all(check.exact for check in checks)


def model_in_source(text: str) -> bytes:
    """The .tflite file in the array g_model of a C or C++ source. Raises BuildError when there is none."""
    found = _ARRAY.search(text)
    values = [int(byte, 0) for byte in _BYTE.findall(found[1])] if found else []
    if not values or max(values) > 255:
        raise BuildError("no bytes of a model there", where="g_model", hint="Compare with Zephyr 4.1's sample")
    return bytes(values)


def against(value: float, goal: float | None) -> str:
    """A ratio or a time beside its goal: "0.580 (goal 0.58: ok)"."""
    if goal is None:
        return f"{value:.3f}"
    return f"{value:.3f} (goal {goal:g}: {'ok' if value <= goal else 'missed'})"


@contextmanager
def environment(**values: str | None) -> Iterator[None]:
    """Environment variables for the time of a block, for this process and its children; None takes one away."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def positive(text: str) -> int:
    """A flag's whole number above 0. Raises ValueError."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def say_load() -> None:
    """Print how busy the machine is, and a warning when times would mean little."""
    load = os.getloadavg()[0]
    say(f"{cores()} cores, load average {load:.1f}. Times of one run vary by some per cent even on an idle machine.")
    if load > _LOAD_PER_CORE * cores():
        say("warning: other programs are running; wall times mean little now, CPU seconds are better")


def say(line: str = "") -> None:
    """Print a line at once."""
    print(line, flush=True)


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add --models, for chosen()."""
    parser.add_argument("--models", nargs="*", default=[], metavar="NAME", help="just these models")


def chosen(models: Mapping[str, Path], names: Collection[str]) -> dict[str, Path]:
    """The `models` that `names` has, or all where it is empty. Raises ToolError for a name that is none."""
    if wrong := sorted(set(names) - models.keys()):
        hint = f"Models: {', '.join(sorted(models))}"
        raise ToolError(f"there is no model {', '.join(wrong)}", where="--models", hint=hint)
    return {name: path for name, path in models.items() if not names or name in names}


def main_of(parser: argparse.ArgumentParser, body: Callable[[argparse.Namespace, Bench], None]) -> int:
    """Run a benchmark in a temporary folder, or that of --keep; one line on stderr when it cannot run."""
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work there and leave everything for a look")
    args = parser.parse_args()
    try:
        workspace, toolchain = find_workspace(), detect_toolchain()
        say(f"Zephyr {workspace.zephyr_version}, TFLM {workspace.tflm_revision[:8]}, {toolchain.describe}")
        with tempfile.TemporaryDirectory(prefix="tflm_zephyr_") as made:
            folder = args.keep.absolute() if args.keep else Path(made)
            folder.mkdir(parents=True, exist_ok=True)
            body(args, Bench(workspace, toolchain, folder))
    except ToolError as err:
        print(f"{parser.prog}: error: {err}", file=sys.stderr)
        return 1
    return 0
