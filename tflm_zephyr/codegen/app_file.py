# SPDX-License-Identifier: Apache-2.0
"""The app file (YAML): the request to `generate`. It can stand in for the flags; an app has its own, `tflm/app.yaml`.

name: digits                       # default: the app folder's name
boards: [nrf9160dk/nrf9160/ns, mps2/an385]
kernels: auto                      # CMSIS-NN on Cortex-M where it has work, else reference; or reference, cmsis_nn
tflm: selected                     # only the sources the models need; module: Zephyr's tflite-micro library
main_stack_bytes: auto             # what the kernels need; or bytes
model_data: binary                 # the assembler takes in the model's file; array: a C++ array
debug: false                       # true keeps TFLM's messages and asserts, and turns on Zephyr's log
planner: tflm                      # TFLM's planner at start-up; static: a table of offsets instead, less flash
shared_arena: false                # true: one arena for all models, of which one runs at a time
backend: interpreter               # compiled: kernel calls with constant parameters, no interpreter, less RAM; auto
rows: false                        # true: compiled layers run row by row where that takes less RAM
stream_input: false                # true: compiled layers take the input row by row; it is never in RAM as a whole
ram: none                          # or bytes (20480, 20k, 20KiB) for each compiled model, by rows or not
flash: none                        # or bytes that the app is to fit in, by the estimate of `fit`
slower: none                       # percent of more work that compiled code may take for less RAM; none: 3 without ram
fast_kernels: false                # true: int8 layers of compiled code call kernels of its own where they are faster
host_link: false                   # true: the app answers this host over its serial port instead of testing itself
models:
  - model: digits.tflite           # paths are relative to the app file
    name: digits                   # default: the file's name
    arena: auto                    # or bytes
    plan: packed                   # or online: TFLM plans at start-up
    plan_file: mine.json           # a plan of your own instead, as `tflm-zephyr plan MODEL --json` prints it
    overlap: auto                  # in-place operators, where the kernels allow them; or off
    order: auto                    # the operators' order with the smallest head; or model: as in the file
    inputs: test.npz               # golden inputs; default: seeded random ones
    runs: 1                        # number of golden inputs that the self-test runs
    custom_operators:
      - {name: MyOp, register: Register_MY_OP, header: my_op.h, sources: [my_op.cc]}
    preallocated:                  # tensors (by name or index) that live in buffers of the app's own
      - {tensor: input, symbol: frame, section: .dma, alignment: 32}
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tflm_zephyr.errors import AppError
from tflm_zephyr.files import reading
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
    Rules,
    Short,
    Spelled,
    load_yaml,
    plain_values,
    read_percent,
    read_size,
    read_values,
)

NAME = "app.yaml"
KERNELS = ("auto", "reference", "cmsis_nn")
TFLM = ("selected", "module")
PLANS = ("packed", "online")
OVERLAP = ("auto", "off")
ORDER = ("auto", "model")
MODEL_DATA = ("binary", "array")
PLANNERS = ("tflm", "static")
AUTO = "auto"
BACKENDS = ("interpreter", "compiled", AUTO)
DEFAULT_BOARDS = ("nrf9160dk/nrf9160/ns", "mps2/an385")
_HINT = "Fix the app file"
_POSITIVE = Limits(1, 2**31 - 1)
_AUTO = Alias("auto", None)
_NONE = Alias("none", None)
_BUDGET = Spelled(read_size, A_SIZE)
_PERCENT = Spelled(read_percent, A_PERCENTAGE)
_SHARE = Check(lambda value: 0 <= value <= MOST_PERCENT, f"a percentage from 0 to {MOST_PERCENT:.0f}")
_SYMBOL = Check(re.compile(r"(?:[A-Za-z_]\w*)?", re.ASCII).fullmatch, "the name of a C variable")
_SECTION = Check(re.compile(r"[\w.$-]*", re.ASCII).fullmatch, "a linker section, as in .dma")
_ALIGNMENT = Check({1 << bits for bits in range(2, 13)}.__contains__, "a power of two from 4 to 4096")
_MODELS = Check(bool, "a list of at least one model")
_TEXT = Check(lambda text: not re.search(r"[\x00-\x1f\x7f-\x9f]", text), "a text without control characters")


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


@dataclass(frozen=True)
class ModelConfig:
    """One model of an app. `arena` None: the estimate; `inputs` None: seeded random golden inputs."""

    model: Path
    name: str = ""
    arena: Annotated[int | None, _AUTO, _POSITIVE] = None
    plan: Annotated[str, OneOf(PLANS)] = "packed"
    inputs: Path | None = None
    runs: Annotated[int, _POSITIVE] = 1
    custom_operators: tuple[CustomOperatorConfig, ...] = ()
    # YAML reads `off` as false.
    overlap: Annotated[str, Alias(False, "off"), Alias(True, "auto"), OneOf(OVERLAP)] = "auto"
    order: Annotated[str, OneOf(ORDER)] = "auto"
    preallocated: tuple[PreallocatedConfig, ...] = ()
    plan_file: Path | None = None

    @property
    def label(self) -> str:
        """The model's name, or its file's."""
        return self.name or self.model.stem


@dataclass(frozen=True)
class AppConfig:
    """An app: paths are absolute. `main_stack_bytes` None: the stack that its kernels need.

    `shared_arena`: all models in one arena, as large as the largest head and all tails. `ram` and `flash` are bytes,
    `slower` is a percentage; None: no limit, but 3 % of more work where `ram` gives none. `larger`: bytes of flash that
    fast kernels may take more than CMSIS-NN's, which a budget of flash sets; None for any. `every_fast_kernel`: in each
    layer that one takes, whatever it costs, which measurements and tests need.
    """

    models: Annotated[tuple[Annotated[ModelConfig, Short("model")], ...], _MODELS]
    name: str = ""
    boards: Annotated[tuple[str, ...], OneAlone()] = DEFAULT_BOARDS
    kernels: Annotated[str, OneOf(KERNELS)] = "auto"
    tflm: Annotated[str, OneOf(TFLM)] = "selected"
    main_stack_bytes: Annotated[int | None, _AUTO, _POSITIVE] = None
    model_data: Annotated[str, OneOf(MODEL_DATA)] = "binary"
    debug: bool = False
    shared_arena: bool = False
    planner: Annotated[str, OneOf(PLANNERS)] = "tflm"
    host_link: bool = False
    backend: Annotated[str, OneOf(BACKENDS)] = "interpreter"
    rows: bool = False
    stream_input: bool = False
    ram: Annotated[int | None, _NONE, _BUDGET, _POSITIVE] = None
    flash: Annotated[int | None, _NONE, _BUDGET, _POSITIVE] = None
    slower: Annotated[int | float | None, _NONE, _SHARE, _PERCENT] = None
    fast_kernels: bool = False
    larger: Annotated[int | None, NotInFile()] = None
    every_fast_kernel: Annotated[bool, NotInFile()] = False

    @property
    def wants_compiled_code(self) -> bool:
        """Whether an option is given that only compiled code has."""
        return self.rows or self.stream_input or self.fast_kernels or self.ram is not None or self.slower is not None


def load_app_file(path: Path) -> AppConfig:
    """Read an app file. Raises AppError naming the file, the key, and its accepted values."""
    rules = Rules(null_is_default=True, text=_TEXT, folder=path.resolve().parent)
    with reading(path, AppError, missing="Give the app file's path", hint=_HINT):
        raw = load_yaml(path)
        config = read_values(AppConfig, raw, rules, name="the app file")
    if config.stream_input and raw.get("rows") is False:
        what = "stream_input: true runs layers row by row, and rows is false"
        raise AppError(what, where=str(path), hint="Leave out rows, or stream_input")
    return config


def dump_app_file(config: AppConfig, folder: Path) -> bytes:
    """`config` as the text of an app file that lies in `folder`; defaults are left out, but for the boards."""
    import yaml

    top = folder.resolve()
    raw = plain_values(config, lambda path: Path(os.path.relpath(path, top)).as_posix(), defaults=("boards",))
    head = (
        "# What this app is generated from, yours to edit: `tflm-zephyr generate -o APP` makes it again; with --check\n"
        "# it tells whether the app is stale. Paths are relative to this file.\n"
    )
    text: str = yaml.safe_dump(raw, sort_keys=False, allow_unicode=True, width=100)
    return (head + text).encode()
