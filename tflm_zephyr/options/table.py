# SPDX-License-Identifier: Apache-2.0
"""The table of options: each is a field with its accepted values, its default and its Option, and stands nowhere else.

From here come the flags of the commands, the keys of the app file, the words of tflm_model(), the refusals, and the
reference pages. To add an option: its field here, the code that reads it, a test, and the two generated lists
(`python docs/write_reference.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tflm_zephyr.boards import AUTO, CMSIS_NN, REFERENCE
from tflm_zephyr.options.option import Option
from tflm_zephyr.plain_values import (
    A_PERCENTAGE,
    A_SIZE,
    MOST_PERCENT,
    Alias,
    Check,
    Limits,
    NotInFile,
    OneAlone,
    OneOf,
    Short,
    Spelled,
    read_percent,
    read_size,
)

INTERPRETER, COMPILED = "interpreter", "compiled"
PACKED, ONLINE, STATIC = "packed", "online", "static"
DEFAULT_BOARDS = ("nrf9160dk/nrf9160/ns", "mps2/an385")

_APP = "generate fit"
_MODEL = "generate fit library"
_WAY = f"{_MODEL} report"
_POSITIVE = Limits(1, 2**31 - 1)
_AUTO = Alias("auto", None)
_NONE = Alias("none", None)
_SIZE = Spelled(read_size, A_SIZE)
_PERCENT = Spelled(read_percent, A_PERCENTAGE)
_SHARE = Check(lambda value: 0 <= value <= MOST_PERCENT, f"a percentage from 0 to {MOST_PERCENT:.0f}")
_SYMBOL = Check(re.compile(r"(?:[A-Za-z_]\w*)?", re.ASCII).fullmatch, "the name of a C variable")
_SECTION = Check(re.compile(r"[\w.$-]*", re.ASCII).fullmatch, "a linker section, as in .dma")
_ALIGNMENT = Check({1 << bits for bits in range(2, 13)}.__contains__, "a power of two from 4 to 4096")
_MODELS = Check(bool, "a list of at least one model")


@dataclass(frozen=True)
class CustomOperatorConfig:
    """A user's custom operator: its name in the model, the function that returns its registration (a
    `TFLMRegistration*`, as with TFLM's own custom kernels), the header that declares it, its sources."""

    name: str
    register: str
    header: str
    sources: Annotated[tuple[Path, ...], OneAlone()] = ()


@dataclass(frozen=True)
class PreallocatedConfig:
    """A tensor of the main subgraph, by name or index, that the app's buffer `symbol` holds instead of the arena.

    `symbol`: "" for a name made from the model's and the tensor's. `section`: "" for the linker's choice.
    `alignment`: bytes, a power of two.
    """

    tensor: str | int
    symbol: Annotated[str, _SYMBOL] = ""
    section: Annotated[str, _SECTION] = ""
    alignment: Annotated[int, _ALIGNMENT] = 16


# A row stands in as few lines as it takes.
# fmt: off
@dataclass(frozen=True)
class ModelConfig:
    """One model of an app. `arena` None: the estimate; `inputs` None: seeded random golden inputs."""

    model: Annotated[Path, Option("the .tflite file")]
    name: Annotated[str, Option("default: the file's name")] = ""
    arena: Annotated[int | None, _AUTO, _SIZE, _POSITIVE, Option(
        "tensor arena size (default: an estimate)", f"{_MODEL} plan", backend=INTERPRETER, metavar="BYTES")] = None
    plan: Annotated[str, OneOf((PACKED, ONLINE, STATIC)), Option(
        "who plans the arena: this tool (default), TFLM's planner at start-up, or this tool with a table in place of "
        "TFLM's planner: less flash, a smaller arena", _MODEL, backend=INTERPRETER)] = PACKED
    inputs: Annotated[Path | None, Option(
        ".npz or .npy with inputs for the self-test (default: seeded random ones)", "generate", "generate",
        metavar="FILE")] = None
    runs: Annotated[int, _POSITIVE, Option("inputs that the self-test runs (default: 1)", _APP, metavar="N")] = 1
    custom_operators: Annotated[tuple[CustomOperatorConfig, ...], Option("kernels of your own")] = ()
    in_place: Annotated[bool, Option(  # YAML reads `on` and `off` as true and false
        "in-place operators where the kernels allow them", f"{_MODEL} plan", backend=INTERPRETER)] = True
    order: Annotated[str, OneOf((AUTO, "model")), Option(
        "the operators' order with the smallest head (auto, the default), or the model's", f"{_MODEL} plan")] = AUTO
    preallocated: Annotated[tuple[PreallocatedConfig, ...], Option(
        "a tensor, by name or index, that a buffer of the app's own holds; may be repeated", "plan",
        backend=INTERPRETER, metavar="TENSOR")] = ()
    plan_file: Annotated[Path | None, Option(
        "your own plan, as `plan --json` prints one", f"{_MODEL} plan", backend=INTERPRETER, excludes=("plan",),
        metavar="PLAN")] = None
    io: Annotated[str, OneOf(("model", "int8")), Option(
        "int8: without the QUANTIZE and DEQUANTIZE at the model's ends, so that the app hands over int8, with scales "
        "and zero points in the header; model (default): as the model is", _MODEL)] = "model"

    @property
    def label(self) -> str:
        """The model's name, or its file's."""
        return self.name or self.model.stem


@dataclass(frozen=True, kw_only=True)
class CompiledCode:
    """Options of compiled code. `larger`: bytes of flash that fast kernels may take more than CMSIS-NN's, which a
    budget of flash sets; None for any. `every_fast_kernel`: in each layer that one takes, whatever it costs, which
    measurements and tests need.
    """

    rows: Annotated[bool, Option(
        "compiled layers run row by row where that takes less RAM", _WAY, backend=COMPILED, excludes=("ram",),
        why="ram runs layers row by row by itself where the model fits only so")] = False
    stream_input: Annotated[bool, Option(
        "the input comes row by row and is never in RAM as a whole", _WAY, backend=COMPILED, implies="rows")] = False
    hop: Annotated[int | None, _NONE, _POSITIVE, Option(
        "windows of a signal overlap, each begins so many rows of the input behind the one before: just what is new is "
        "computed, and the new rows come one by one", f"{_MODEL} plan", "plan", backend=COMPILED,
        excludes=("rows", "stream_input", "optimize", "host_link"),
        why="hop plans rows by itself, and has no whole input for a host to send", metavar="N")] = None
    fast_kernels: Annotated[bool, Option(
        "int8 layers of compiled code call kernels of its own, with weights laid out, where that is faster",
        f"{_WAY} plan", _MODEL, backend=COMPILED)] = False
    larger: Annotated[int | None, NotInFile()] = None
    every_fast_kernel: Annotated[bool, NotInFile()] = False


@dataclass(frozen=True, kw_only=True)
class Budgets:
    """Limits of what models add to an app: bytes of `ram` and `flash`, percent of more work; None: no limit, but 3 %
    without `ram`."""

    ram: Annotated[int | None, _NONE, _SIZE, _POSITIVE, Option(
        "what each compiled model is to fit in, as in 16K, at the least cost; by rows or not", _WAY, _WAY,
        backend=COMPILED, metavar="BYTES")] = None
    flash: Annotated[int | None, _NONE, _SIZE, _POSITIVE, Option(
        "what the models may add to an application's flash, as in 200K, by the estimate of `fit`", _WAY, _WAY,
        metavar="BYTES")] = None
    optimize: Annotated[str | None, _NONE, OneOf(("speed", "ram", "flash")), Option(
        "take the way with the fewest cycles, the least RAM or the least flash, within ram, flash and slower",
        _WAY, _WAY)] = None
    slower: Annotated[int | float | None, _NONE, _SHARE, _PERCENT, Option(
        "how much more work compiled code may do for less RAM, as an estimate: 0.5, 10% (default: 3%, and with ram "
        "any)", _WAY, backend=COMPILED, metavar="PERCENT")] = None


@dataclass(frozen=True)
class AppConfig(Budgets, CompiledCode):
    """An app: paths are absolute. `main_stack_bytes` None: the stack that its kernels need.

    `shared_arena`: all models in one arena, as large as the largest head and all tails.
    """

    models: Annotated[tuple[Annotated[ModelConfig, Short("model")], ...], _MODELS, Option("the app's models")]
    name: Annotated[str, Option(
        "name of the app (default: its folder's), or of the library's C functions", "generate library")] = ""
    boards: Annotated[tuple[str, ...], OneAlone(), Option(
        f"a board target; may be repeated (default: {' and '.join(DEFAULT_BOARDS)})", f"{_APP} plan report",
        f"{_APP} plan report", flag="board", short="-b", metavar="BOARD")] = DEFAULT_BOARDS
    kernels: Annotated[str, OneOf((AUTO, REFERENCE, CMSIS_NN)), Option(
        "kernel library (default: auto: CMSIS-NN on Cortex-M if it has work, else TFLM's reference kernels)",
        f"{_WAY} plan", f"{_WAY} plan")] = AUTO
    tflm: Annotated[str, OneOf(("selected", "module")), Option(
        "compile only the TFLM sources that the models need (default), or link Zephyr's whole tflite-micro library",
        f"{_APP} plan report", backend=INTERPRETER)] = "selected"
    main_stack_bytes: Annotated[int | None, _AUTO, _POSITIVE, Option(
        "stack of the main thread; auto: what the kernels need")] = None
    model_data: Annotated[str, OneOf(("binary", "array")), Option(
        "how the model is included: by the assembler (binary, the default) or as a C++ array", "generate")] = "binary"
    debug: Annotated[bool, Option(
        "keep TFLM's messages, asserts and Zephyr's log (more flash)", _MODEL, word=False)] = False
    shared_arena: Annotated[bool, Option(
        "one arena for all models, of which one runs at a time", backend=INTERPRETER)] = False
    host_link: Annotated[bool, Option("serve a host over the serial port, without self-test", _APP)] = False
    backend: Annotated[str, OneOf((INTERPRETER, COMPILED, AUTO)), Option(
        "TFLM's interpreter; compiled: kernel calls with constant parameters, less RAM and flash; auto (default): the "
        "interpreter where that fits the boards", _WAY, _WAY)] = AUTO


@dataclass(frozen=True)
class LibraryConfig:
    """Options of a model's library that an app has not."""

    labels: Annotated[Path | None, Option(
        "names of the elements of output 0, one a line", "library", "library", metavar="FILE")] = None
    arena_section: Annotated[str, _SECTION, Option("the arena's linker section", "library", metavar="NAME")] = ""
# fmt: on


RENAMED = {
    "planner": "plan, of a model: static",
    "overlap": "in_place: true or false",
    "--planner": "--plan, with static beside packed and online",
    "--overlap": "--no-in-place for off",
    "--preallocate": "--preallocated",
}
"""Words of the release before, and what to write instead; they are refused with that."""
