# SPDX-License-Identifier: Apache-2.0
"""An app without operators, built by real Zephyr: the base to which kernels are linked and from which boards are sized.

The generated app of samples/hello_world, whose resolver calls are replaced by one call of AddOperator(). The app's
own AddOperator() is weak and adds nothing, so whoever links a strong one to it adds the operator of his choice,
with everything else as Zephyr links it.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tflm_zephyr import process  # noqa: E402
from tflm_zephyr.build.toolchain import detect_toolchain  # noqa: E402
from tflm_zephyr.build.west import Build, BuildRequest, build  # noqa: E402
from tflm_zephyr.build.workspace import Workspace, find_workspace  # noqa: E402
from tflm_zephyr.errors import BuildError  # noqa: E402

MODEL = ROOT / "samples" / "hello_world" / "hello_world.tflite"
LINKED = "zephyr/zephyr_pre0.elf"  # the first of Zephyr's links, before its tables of interrupts
NO_OPERATOR = """// Replaced at link time by what adds an operator.
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"

extern "C" __attribute__((weak)) TfLiteStatus AddOperator(tflite::MicroMutableOpResolver<1> &)
{
	return kTfLiteOk;
}
"""
_DECLARED = 'extern "C" TfLiteStatus AddOperator(tflite::MicroMutableOpResolver<1> &resolver);\n\n'
_ADDED = re.compile(r"^[^\n]*\bresolver(?:\.|->)Add\w+\([^;]*;\n", re.M)


@dataclass(frozen=True)
class BareApp:
    """A built app without operators. `commands` are CMake's compile commands by source, `link` the link's argv."""

    app: Path
    built: Build
    workspace: Workspace
    commands: Mapping[str, tuple[str, ...]]
    link: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """The build folder, where all commands run."""
        return self.built.build_dir

    def compile_argv(self, source: Path) -> tuple[str, ...]:
        """How Zephyr would compile `source` of TFLM, of CMSIS-NN or, anywhere else, of the app; without -o and -c."""
        argv = self.commands.get(str(source)) or self.commands[self._like(str(source))]
        cut = {argv.index(flag) + n for flag in ("-o", "-c") for n in (0, 1)}
        flags = (arg for at, arg in enumerate(argv) if at not in cut and not arg.endswith("ccache"))
        return (*flags, "-g0")  # debug information changes no code

    def _like(self, source: str) -> str:
        """A source of the app's own build that is compiled as `source` would be."""
        tflm, cmsis_nn = self.workspace.tflm_dir, self.workspace.cmsis_nn_dir
        if cmsis_nn is not None and source.startswith(f"{cmsis_nn}/"):
            wanted = (f"{cmsis_nn}/",)
        elif source.startswith(f"{tflm}/"):
            kernel = any(part in source for part in ("/micro/kernels/", "/signal/", "/kernels/internal/"))
            wanted = (
                (f"{tflm}/tensorflow/lite/micro/kernels/",) if kernel else (f"{tflm}/tensorflow/lite/micro/micro_",)
            )
        else:
            wanted = (str(self.app / "tflm" / "src" / "models"),)
        found = next((name for name in sorted(self.commands) if name.startswith(wanted)), None)
        if found is None:
            raise BuildError("the app compiles nothing like it", where=source)
        return found


def generate(app: Path, board: str, library: str, models: Sequence[Path] = (MODEL,)) -> None:
    """Write the app of `models` for `board` with the kernels of `library`, in place of any app in its folder."""
    shutil.rmtree(app, ignore_errors=True)
    argv = [sys.executable, "-m", "tflm_zephyr", "generate", *map(str, models), "-o", str(app)]
    run([*argv, "--board", board, "--kernels", library], ROOT)


def bare_app(folder: Path, board: str, library: str) -> BareApp:
    """Generate and build the app without operators in `folder`. Raises BuildError."""
    app = folder / "app"
    generate(app, board, library)
    _take_operators_out(app)
    return built_app(app, folder / "build", board)


def built_app(app: Path, folder: Path, board: str) -> BareApp:
    """Build `app` in `folder` and read how that was done. Raises BuildError."""
    workspace = find_workspace()
    built = build(BuildRequest(app, board, folder), workspace, detect_toolchain())
    entries = json.loads((built.build_dir / "compile_commands.json").read_text())
    commands = {entry["file"]: tuple(shlex.split(entry["command"])) for entry in entries}
    listed = run(["ninja", "-t", "commands", LINKED], built.build_dir).splitlines()
    linking = next(line for line in reversed(listed) if f"-o {LINKED}" in line)
    argv = shlex.split(next(part for part in linking.split("&&") if f"-o {LINKED}" in part))
    return BareApp(app, built, workspace, commands, tuple(arg for arg in argv if arg != "ccache"))


def _take_operators_out(app: Path) -> None:
    source = app / "tflm" / "src" / "models" / f"{MODEL.stem}.cpp"
    text, count = _ADDED.subn("\tTF_LITE_ENSURE_STATUS(AddOperator(resolver));\n", source.read_text())
    if count != 1 or "\nnamespace models" not in text:
        raise BuildError(f"{count} calls that add an operator, not one", where=str(source))
    source.write_text(text.replace("\nnamespace models", f"\n{_DECLARED}namespace models", 1))
    (app / "src" / "no_operator.cpp").write_text(NO_OPERATOR)
    with (app / "CMakeLists.txt").open("a") as stream:
        stream.write("target_sources(app PRIVATE src/no_operator.cpp)\n")


def run(argv: Sequence[str | Path], folder: Path) -> str:
    """Output of the command. Raises BuildError with it when the command fails."""
    done = process.run(tuple(map(str, argv)), cwd=folder)
    if done.returncode != 0:
        raise BuildError(f"exit code {done.returncode}:\n{done.output}", where=" ".join(done.argv))
    return done.output
