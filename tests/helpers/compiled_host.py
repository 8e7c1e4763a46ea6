# SPDX-License-Identifier: Apache-2.0
"""Compiled models as code of this machine: CMSIS-NN's portable C and TFLM's reference headers, layer by layer.

The generated sources are those of an app, compiled as they are; only the compiler is another one.
"""

from __future__ import annotations

import ctypes
import random
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy

from tests.helpers.compiled_rows import rows_by_tensor, source_with_log
from tests.helpers.dead_bytes import Mask, dead_bytes
from tflm_zephyr.codegen import AppRequest, render
from tflm_zephyr.codegen.backends.compiled import runtime_of
from tflm_zephyr.codegen.generation import Generated, generate
from tflm_zephyr.compiler import CompiledModel, InsideLayer, Layer, SegmentLayer
from tflm_zephyr.options import AppConfig, ModelConfig
from tflm_zephyr.tflm import TflmRevision
from tflm_zephyr.tflm.sources import INCLUDE_DIRS, REFERENCE_SUPPORT

# Hidden, so that the linker leaves out what no layer calls, as it does in an app.
_FLAGS = ("-fPIC", "-g0", "-w", "-fno-strict-aliasing", "-fwrapv", "-fvisibility=hidden", "-ffunction-sections")
_SOURCES = "src"
_ENDS = ("_layers.cpp", "_layers.hpp", "_weights.cpp", "tflm_kernel.cpp", "tflm_kernel.hpp", "fast_kernels.hpp")
_CALLS = """
#include "models/{name}_layers.hpp"
#pragma GCC visibility push(default)
extern "C" int {name}_run_layer(uint8_t *arena, size_t layer) {{ return models::{name}::RunLayer(arena, layer); }}
extern "C" size_t {name}_arena_bytes() {{ return models::{name}::kArenaBytes; }}
#pragma GCC visibility pop
"""
_PREPARE = """
#pragma GCC visibility push(default)
extern "C" int {name}_prepare(uint8_t *arena) {{ return models::{name}::Prepare(arena); }}
#pragma GCC visibility pop
"""
_STREAM = """
#pragma GCC visibility push(default)
extern "C" void {name}_begin(uint8_t *arena) {{ models::{name}::BeginInput(arena); }}
extern "C" int {name}_take(uint8_t *arena, const uint8_t *data, size_t size)
{{
	return models::{name}::TakeInput(arena, data, size);
}}
#pragma GCC visibility pop
"""
_RESET = """
#pragma GCC visibility push(default)
extern "C" void {name}_reset(uint8_t *arena) {{ models::{name}::ResetState(arena); }}
#pragma GCC visibility pop
"""


@dataclass(frozen=True)
class Checkouts:
    """Sources of TFLM at a known revision and of CMSIS-NN, and a folder for objects that models share."""

    tflm: Path
    cmsis_nn: Path
    objects: Path
    revision: TflmRevision

    def library(self) -> Path:
        """All of CMSIS-NN and TFLM's support functions as one archive, built once."""
        archive = self.objects / "libkernels.a"
        if not archive.exists():
            c_files = sorted((self.cmsis_nn / "Source").rglob("*.c"))
            _compile(["gcc", "-O2", *_FLAGS, f"-I{self.cmsis_nn / 'Include'}"], c_files, self.objects / "c")
            cc_files = [self.tflm / path for path in REFERENCE_SUPPORT]
            _compile(["g++", "-std=c++17", "-O2", *_FLAGS, *self.tflm_flags()], cc_files, self.objects / "cc")
            objects = [str(path) for path in self.objects.rglob("*.o")]
            subprocess.run(["ar", "rcs", str(archive), *objects], check=True)
        return archive

    def kernels(self, library: str, sources: Sequence[str]) -> list[str]:
        """Objects of TFLM's own kernels in `sources`, each built once."""
        folder = self.objects / f"kernels_{library}"
        made = {path: folder / path.replace("/", "_").replace(".cc", ".o") for path in sources}
        missing = [path for path, target in made.items() if not target.exists()]
        folder.mkdir(exist_ok=True)
        for path in missing:
            command = ["g++", "-std=c++17", "-O1", *_FLAGS, *self.tflm_flags()]
            command += [f"-I{self.cmsis_nn}", f"-I{self.cmsis_nn / 'Include'}"]
            command += ["-DCMSIS_NN"] if library == "cmsis_nn" else []
            subprocess.run([*command, "-c", str(self.tflm / path), "-o", str(made[path])], check=True)
        return [str(made[path]) for path in sources]

    def tflm_flags(self) -> list[str]:
        """Compiler flags for TFLM's headers."""
        includes = [f"-I{self.tflm / name}" for name in INCLUDE_DIRS]
        return [*includes, "-DTF_LITE_STATIC_MEMORY", "-DTF_LITE_STRIP_ERROR_STRINGS", "-DNDEBUG"]


def _compile(command: Sequence[str], sources: Sequence[Path], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([*command, "-c", *map(str, sources)], cwd=folder, check=True)


@dataclass
class HostNetwork:
    """A compiled model that runs here; `arena` is its memory, 16-byte aligned. `name` is the model's in the app."""

    name: str
    program: CompiledModel
    library: ctypes.CDLL
    arena: numpy.ndarray

    def write(self, tensor: int, data: bytes) -> None:
        first = self.program.offsets[tensor]
        self.arena[first : first + len(data)] = numpy.frombuffer(data, numpy.uint8)

    def read(self, tensor: int) -> bytes:
        first = self.program.offsets[tensor]
        size = self.program.model.main.tensors[tensor].size_bytes
        return self.arena[first : first + size].tobytes()

    def _function(self, name: str) -> Any:
        return getattr(self.library, f"{self.name}_{name}")

    def run_layer(self, layer: int) -> bool:
        return bool(self._function("run_layer")(ctypes.c_void_p(self.arena.ctypes.data), ctypes.c_size_t(layer)))

    def start(self) -> None:
        """What Init() and Reset() of an app do."""
        address = ctypes.c_void_p(self.arena.ctypes.data)
        if self.program.fallbacks or self.program.flags:
            assert self._function("prepare")(address), "a kernel refused"
        if self.program.fallbacks or has_variables(self.program):
            self._function("reset")(address)

    def take_input(self, data: bytes, rng: random.Random) -> None:
        """Hand the streamed input over in pieces of any size."""
        self.begin_input()
        self.take_more(data, rng)

    def begin_input(self) -> None:
        """The next bytes are the first ones of an image, or of a window that has nothing in common with the last."""
        self._function("begin")(ctypes.c_void_p(self.arena.ctypes.data))

    def take_more(self, data: bytes, rng: random.Random) -> None:
        """Hand more of the streamed input over."""
        address = ctypes.c_void_p(self.arena.ctypes.data)
        at, most = 0, rng.choice((3, 50, 500, len(data)))
        while at < len(data):
            # Pieces of their own memory: nothing of them may be read afterwards.
            piece = data[at : at + rng.randint(1, most)]
            assert self._function("take")(address, piece, ctypes.c_size_t(len(piece))), "a layer failed"
            at += len(piece)

    @cached_property
    def _dead(self) -> dict[int, list[Mask]]:
        """See dead_bytes; nothing for models with subgraphs, and with input that comes while a segment runs."""
        plain = self.program.flat is None and self.program.stream is None
        return dead_bytes(self.program) if plain else {}

    def _run_poisoned(self, layer: Layer, value: int) -> bool:
        """Run the layer, with all dead bytes overwritten behind it, in segments behind each step."""
        left = iter(self._dead.get(layer.operator, ()))
        planned = self.arena[: self.program.planned_bytes]

        def overwrite() -> None:
            mask = next(left, None)
            if mask is not None:
                planned[mask] = value

        if not isinstance(layer, SegmentLayer):
            done = self.run_layer(layer.operator)
            overwrite()
            return done
        function = ctypes.CFUNCTYPE(None)(overwrite)
        self.library.set_behind_step(function)
        done = self.run_layer(layer.operator)
        self.library.set_behind_step(None)
        assert next(left, None) is None, "a step was left out"
        return done

    def poison(self, layer: Layer, value: int) -> None:
        """Fill the outputs of `layer` that lie over none of its inputs."""
        operator, tensors = self.program.model.main.operators[layer.operator], self.program.model.main.tensors
        if isinstance(layer, InsideLayer | SegmentLayer):
            return
        places = {
            i: self.program.offsets[i] for i in (*operator.inputs, *operator.outputs) if i in self.program.offsets
        }
        spans = {i: range(first, first + tensors[i].size_bytes) for i, first in places.items()}
        for tensor in spans.keys() & set(operator.outputs):
            own = spans[tensor]
            others = [spans[i] for i in operator.inputs if i in spans]
            if layer.calls and all(own.stop <= other.start or other.stop <= own.start for other in others):
                self.arena[own.start : own.stop] = value

    def outputs_of_layers(self, inputs: Sequence[bytes], poison: int = 0) -> list[tuple[int, bytes]]:
        """(tensor, bytes) of every layer's outputs as the layer leaves them; all dead bytes hold `poison` before it."""
        main = self.program.model.main
        stream = self.program.stream
        for place, (tensor, data) in enumerate(zip(main.inputs, inputs, strict=True)):
            if stream is None or place != stream.input:
                self.write(tensor, data)
        found = []
        for layer in self.program.main_layers:
            self.poison(layer, poison)
            if isinstance(layer, SegmentLayer):
                self.library.clear_log(poison)
            if stream is not None and layer is self.program.streaming_layer:
                self.take_input(inputs[stream.input], random.Random(len(self.arena) + poison))
            assert self._run_poisoned(layer, poison), f"{layer.title} failed"
            if isinstance(layer, SegmentLayer):
                found += rows_by_tensor(layer, self.library).items()
                found += [(tensor, self.read(tensor)) for tensor in layer.segment.outputs]
                continue
            if isinstance(layer, InsideLayer):
                continue
            taken = main.operators[layer.operator].outputs
            found += [(tensor, self.read(tensor)) for tensor in taken if tensor in self.program.offsets]
        return found


def has_variables(program: CompiledModel) -> bool:
    """Whether variables lie in the arena; CMSIS-NN's LSTM does not use its own."""
    return any(tensor.is_variable and tensor.index in program.offsets for tensor in program.model.main.tensors)


def generated(
    model: Path | Sequence[Path],
    app: Path,
    kernels: str,
    tflm: TflmRevision,
    board: str = "mps2/an385",
    *,
    rows: bool = False,
    slower: float | None = None,
    ram: int | None = None,
    stream: bool = False,
    hop: int | None = None,
    fast: bool = False,
    picked: bool = False,
) -> Generated:
    """An app of the model, called "net", or of several, called "net0" and so on.

    `fast`: with our own kernels in each layer that one takes; `picked`: where they are faster.
    """
    models = (
        (ModelConfig(model, name="net"),)
        if isinstance(model, Path)
        else tuple(ModelConfig(path, name=f"net{k}") for k, path in enumerate(model))
    )
    config = AppConfig(
        models=models,
        boards=(board,),
        kernels=kernels,
        model_data="array",
        backend="compiled",
        rows=rows,
        slower=slower,
        stream_input=stream,
        hop=hop,
        ram=ram,
        fast_kernels=fast or picked,
        every_fast_kernel=fast,
    )
    return generate(AppRequest(config, app, tflm, golden=False))


def build(made: Generated, folder: Path, checkouts: Checkouts) -> HostNetwork:
    """The app's one model as a library of this machine."""
    (network,) = build_all(made, folder, checkouts)
    return network


def build_all(made: Generated, folder: Path, checkouts: Checkouts) -> list[HostNetwork]:
    """The app's models as one library of this machine, whose sources are compiled as one."""
    programs = {model.name: runtime_of(model).program for model in made.spec.models}
    sources = _written(made, programs, folder)
    target = folder / "net.so"
    level = "-O1" if len(programs) == 1 else "-O0"  # small models run once: compiling them is the larger part
    command = ["g++", "-std=c++17", "-shared", "-Wl,--gc-sections", level, *_FLAGS, *checkouts.tflm_flags()]
    command += [f"-I{checkouts.cmsis_nn / 'Include'}", f"-I{folder / _SOURCES}", *map(str, sources)]
    (kernels,) = made.spec.kernels
    if any(program.fallbacks for program in programs.values()):
        command += ["-DCMSIS_NN"] if kernels == "cmsis_nn" else []
        command += [*checkouts.kernels(kernels, made.spec.tflm.shared_sources)]
    subprocess.run([*command, str(checkouts.library()), "-o", str(target)], check=True)
    library = ctypes.CDLL(str(target))
    return [_network(name, program, library) for name, program in programs.items()]


def _written(made: Generated, programs: Mapping[str, CompiledModel], folder: Path) -> list[Path]:
    """The sources to compile: one that takes in all models' layers, those of the constants, and TFLM's frame."""
    files = render(made.spec)
    names = [name for name in files if name.endswith(_ENDS)]
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[name])
    layers = [name for name in names if name.endswith("_layers.cpp")]
    for name in layers:
        source_with_log(folder / name)
    text = "".join(f'#include "{folder / name}"\n' for name in layers)
    for name, program in programs.items():
        stateful = bool(program.fallbacks) or has_variables(program)
        parts = (_CALLS, _PREPARE * bool(program.fallbacks or program.flags), _RESET * stateful)
        parts += (_STREAM * (program.stream is not None),)
        text += "".join(parts).format(name=name)
    whole = folder / "layers.cpp"
    whole.write_text(text, encoding="utf-8")
    return [whole, *(folder / name for name in names if name.endswith(".cpp") and name not in layers)]


def _network(name: str, program: CompiledModel, library: ctypes.CDLL) -> HostNetwork:
    arena_bytes = getattr(library, f"{name}_arena_bytes")
    arena_bytes.restype = ctypes.c_size_t
    size = int(arena_bytes())
    raw = numpy.zeros(size + 16, numpy.uint8)
    first = -raw.ctypes.data % 16
    return HostNetwork(name, program, library, raw[first : first + size])
