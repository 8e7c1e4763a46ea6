# SPDX-License-Identifier: Apache-2.0
"""The app file (YAML): what `generate` was asked for. It can stand in for the flags, and lies beside the app.

name: digits                       # default: the app folder's name
boards: [nrf9160dk/nrf9160/ns, mps2/an385]
kernels: auto                      # CMSIS-NN on Cortex-M where it has work, else reference; or reference, cmsis_nn
tflm: selected                     # only the sources the models need; module: Zephyr's tflite-micro library
main_stack_bytes: auto             # what the kernels need; or bytes
model_data: binary                 # the assembler takes in the model's file; array: a C++ array
debug: false                       # true keeps TFLM's messages and asserts, and turns on Zephyr's log
planner: tflm                      # TFLM's planner at start-up; static: a table of offsets instead, less flash
shared_arena: false                # true: one arena for all models, of which one runs at a time
host_link: false                   # true: the app answers this host over its serial port instead of testing itself
models:
  - model: digits.tflite           # paths are relative to the app file
    name: digits                   # default: the file's name
    arena: auto                    # or bytes
    plan: packed                   # or online: TFLM plans at start-up
    plan_file: mine.json           # a plan of your own instead, as `tflm-zephyr plan MODEL --json` prints it
    overlap: auto                  # outputs over input that has been read, where the kernels allow it; or off
    order: auto                    # the operators' order with the smallest head; or model: as in the file
    inputs: test.npz               # golden inputs; default: seeded random ones
    runs: 1                        # how many of them the self-test runs
    custom_operators:
      - {name: MyOp, register: Register_MY_OP, header: my_op.h, sources: [my_op.cc]}
    preallocated:                  # tensors (by name or index) that live in buffers of the app's own
      - {tensor: input, symbol: frame, section: .dma, alignment: 32}
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tflm_zephyr.errors import AppError

NAME = "app.yaml"
KERNELS = ("auto", "reference", "cmsis_nn")
TFLM = ("selected", "module")
PLANS = ("packed", "online")
OVERLAP = ("auto", "off")
ORDER = ("auto", "model")
MODEL_DATA = ("binary", "array")
PLANNERS = ("tflm", "static")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SECTION = re.compile(r"[\w.$-]+", re.ASCII)
_ALIGNMENTS = tuple(1 << bits for bits in range(2, 13))
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
DEFAULT_BOARDS = ("nrf9160dk/nrf9160/ns", "mps2/an385")


@dataclass(frozen=True)
class CustomOperatorConfig:
    """A custom operator of the user's: its name in the model, the function that returns its registration
    (`TFLMRegistration*`, as TFLM's own custom kernels do), the header that declares it, its sources."""

    name: str
    register: str
    header: str
    sources: tuple[Path, ...] = ()


@dataclass(frozen=True)
class PreallocatedConfig:
    """A tensor of the main subgraph, by name or index, that the app's buffer `symbol` holds instead of the arena.

    `symbol` "" for a name made of the model's and the tensor's; `section` "" for the linker's choice; `alignment` in
    bytes, a power of two.
    """

    tensor: str | int
    symbol: str = ""
    section: str = ""
    alignment: int = 16


@dataclass(frozen=True)
class ModelConfig:
    """One model of an app. `arena` None: the estimate; `inputs` None: seeded random golden inputs."""

    model: Path
    name: str = ""
    arena: int | None = None
    plan: str = "packed"
    inputs: Path | None = None
    runs: int = 1
    custom_operators: tuple[CustomOperatorConfig, ...] = ()
    overlap: str = "auto"
    order: str = "auto"
    preallocated: tuple[PreallocatedConfig, ...] = ()
    plan_file: Path | None = None

    @property
    def label(self) -> str:
        """The model's name, or its file's."""
        return self.name or self.model.stem


@dataclass(frozen=True)
class AppConfig:
    """An app: paths are absolute. `main_stack_bytes` None: what its kernels need.

    `shared_arena`: all models in one arena, as large as the largest head and all tails.
    """

    models: tuple[ModelConfig, ...]
    name: str = ""
    boards: tuple[str, ...] = DEFAULT_BOARDS
    kernels: str = "auto"
    tflm: str = "selected"
    main_stack_bytes: int | None = None
    model_data: str = "binary"
    debug: bool = False
    shared_arena: bool = False
    planner: str = "tflm"
    host_link: bool = False


def load_app_file(path: Path) -> AppConfig:
    """Read an app file. Raises AppError naming the file, the key, and what it takes."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AppError("no such file", where=str(path), hint="Give the app file's path") from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as err:  # ValueError: a date or a number is none
        raise AppError(" ".join(str(err).split()), where=str(path), hint="Mend the app file") from err
    return _Reader(path).app(raw)


def dump_app_file(config: AppConfig, folder: Path) -> bytes:
    """`config` as the text of an app file that lies in `folder`; defaults are left out."""
    raw = _plain(replace(config), folder.resolve())
    head = (
        "# What this app was generated from. `tflm-zephyr generate --app app.yaml` makes it again;\n"
        "# with --check it tells whether the app is stale. Paths are relative to this file.\n"
    )
    text: str = yaml.safe_dump(raw, sort_keys=False, allow_unicode=True, width=100)
    return (head + text).encode()


def _plain(value: object, folder: Path) -> Any:
    if isinstance(value, Path):
        return Path(os.path.relpath(value, folder)).as_posix()
    if isinstance(value, tuple):
        return [_plain(item, folder) for item in value]
    if isinstance(value, (AppConfig, ModelConfig, CustomOperatorConfig, PreallocatedConfig)):
        plain = {}
        for item in fields(value):
            got = getattr(value, item.name)
            if item.default is MISSING or got != item.default or item.name == "boards":
                plain[item.name] = _plain(got, folder)
        return plain
    return value


_T = TypeVar("_T", ModelConfig, AppConfig, CustomOperatorConfig, PreallocatedConfig)


class _Reader:
    """Checks the YAML's shape and types, key by key."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = path.resolve().parent

    def app(self, raw: object) -> AppConfig:
        values = self._mapping(raw, AppConfig, "the app file")
        models = values.get("models")
        if not isinstance(models, list) or not models:
            raise self._error("models", "a list of at least one model")
        values["models"] = tuple(self._model(item, f"models[{i}]") for i, item in enumerate(models))
        if "boards" in values:
            values["boards"] = self._strings(values["boards"], "boards")
        if values.get("main_stack_bytes") == "auto":
            del values["main_stack_bytes"]
        self._check(values, "", {"name": str, "main_stack_bytes": int})
        self._positive(values, "", ("main_stack_bytes",))
        for key in ("debug", "shared_arena", "host_link"):
            if not isinstance(values.get(key, False), bool):
                raise self._error(key, "true or false")
        self._choice(values, "", "kernels", KERNELS)
        self._choice(values, "", "tflm", TFLM)
        self._choice(values, "", "model_data", MODEL_DATA)
        self._choice(values, "", "planner", PLANNERS)
        return AppConfig(**values)

    def _model(self, raw: object, at: str) -> ModelConfig:
        if isinstance(raw, str):
            raw = {"model": raw}
        values = self._mapping(raw, ModelConfig, at)
        if values.get("arena") == "auto":
            del values["arena"]
        texts = dict.fromkeys(("model", "name", "inputs", "plan_file"), str)
        self._check(values, f"{at}.", {**texts, "arena": int, "runs": int})
        self._choice(values, f"{at}.", "plan", PLANS)
        if isinstance(values.get("overlap"), bool):  # what YAML makes of off, and of false
            values["overlap"] = OVERLAP[not values["overlap"]]
        self._choice(values, f"{at}.", "overlap", OVERLAP)
        self._choice(values, f"{at}.", "order", ORDER)
        self._positive(values, f"{at}.", ("arena", "runs"))
        for key in ("model", "inputs", "plan_file"):
            if key in values:
                values[key] = self._folder / values[key]
        for key, read in (("custom_operators", self._custom), ("preallocated", self._preallocated)):
            listed = values.get(key, [])
            if not isinstance(listed, list):
                raise self._error(f"{at}.{key}", "a list")
            values[key] = tuple(read(item, f"{at}.{key}[{i}]") for i, item in enumerate(listed))
        return ModelConfig(**values)

    def _preallocated(self, raw: object, at: str) -> PreallocatedConfig:
        values = self._mapping(raw, PreallocatedConfig, at)
        kind = int if isinstance(values["tensor"], int) else str
        self._check(values, f"{at}.", {"tensor": kind, "symbol": str, "section": str, "alignment": int})
        if values.get("symbol") and not _IDENTIFIER.fullmatch(values["symbol"]):
            raise self._error(f"{at}.symbol", "the name of a C variable")
        if values.get("section") and not _SECTION.fullmatch(values["section"]):
            raise self._error(f"{at}.section", "a linker section, as in .dma")
        if values.get("alignment", 16) not in _ALIGNMENTS:
            raise self._error(f"{at}.alignment", f"a power of two from {_ALIGNMENTS[0]} to {_ALIGNMENTS[-1]}")
        return PreallocatedConfig(**values)

    def _custom(self, raw: object, at: str) -> CustomOperatorConfig:
        values = self._mapping(raw, CustomOperatorConfig, at)
        self._check(values, f"{at}.", {"name": str, "register": str, "header": str})
        sources = self._strings(values.pop("sources", []), f"{at}.sources")
        return CustomOperatorConfig(**values, sources=tuple(self._folder / item for item in sources))

    def _mapping(self, raw: object, kind: type[_T], at: str) -> dict[str, Any]:
        known = [item.name for item in fields(kind)]
        if not isinstance(raw, Mapping):
            raise self._error(at, f"a mapping with the keys {', '.join(known)}")
        for key in raw:
            if key not in known:
                raise self._error(f"{at}: {key!r}", f"one of {', '.join(known)}")
        for item in fields(kind):
            if item.default is MISSING and item.name not in raw:
                raise self._error(at, f"the key {item.name}")
        return {str(key): value for key, value in raw.items() if value is not None}

    def _check(self, values: Mapping[str, Any], prefix: str, types: Mapping[str, type]) -> None:
        for key, kind in types.items():
            if key in values and (not isinstance(values[key], kind) or isinstance(values[key], bool)):
                raise self._error(f"{prefix}{key}", "a whole number" if kind is int else "a text")
            if kind is str and key in values and _CONTROL.search(values[key]):
                raise self._error(f"{prefix}{key}", "a text without control characters")

    def _positive(self, values: Mapping[str, Any], prefix: str, keys: Sequence[str]) -> None:
        for key in keys:
            if key in values and not 0 < values[key] < 2**31:
                raise self._error(f"{prefix}{key}", "a positive number below 2 to the 31")

    def _choice(self, values: Mapping[str, Any], prefix: str, key: str, choices: Sequence[str]) -> None:
        if key in values and values[key] not in choices:
            raise self._error(f"{prefix}{key}", " or ".join(choices))

    def _strings(self, value: object, at: str) -> tuple[str, ...]:
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(
            isinstance(item, str) and not _CONTROL.search(item) for item in value
        ):
            raise self._error(at, "a list of texts")
        return tuple(value)

    def _error(self, at: str, wants: str) -> AppError:
        return AppError(f"{at} wants {wants}", where=str(self._path), hint="Mend the app file")
