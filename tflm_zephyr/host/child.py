# SPDX-License-Identifier: Apache-2.0
"""The child process that runs a model with TFLM or LiteRT: `python child.py DIR`.

A process of its own, because C++ that aborts or crashes on an odd model must not take the tool along, and
because TFLM prints its messages and its allocation record to the C stderr, which the parent captures whole.

DIR holds `request.json` {engine, runs, inputs, arena_bytes, reset (run by run), tensors,
keeps_state (operators share a state besides variable tensors)},
`model.tflite` and `inputs.bin` (the inputs' bytes one after the other, in C order and in the tensors' own types, run
after run). Written there: `outputs.bin` in the same manner, each run's outputs and then its `tensors` (indices into the
main subgraph), and `result.json`: {output_sizes, tensor_sizes, version}, or {error, stage} when the engine refused.
Output before the line MARK_MEMORY is the engine's own, but for lines of MARK_RUNS and the number of runs that are done;
the allocation record follows, except with `tensors`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy

MARK_MEMORY = "tflm-zephyr: allocation record follows"
MARK_RUNS = "tflm-zephyr: runs "
REPORT_S = 0.25  # between two reports of the runs that are done
MEMORY_LIMIT_BYTES = 16 << 30


class Engine(Protocol):
    """One loaded model."""

    version: str
    inputs: list[tuple[Any, tuple[int, ...]]]

    def reset(self) -> None:
        """Reset the model's state to the initial one."""

    def run(self, inputs: list[numpy.ndarray]) -> list[numpy.ndarray]:
        """All outputs for these inputs."""

    def tensors(self, indices: list[int]) -> list[numpy.ndarray]:
        """Tensors of the main subgraph as the last run left them, in a model loaded to preserve all of them."""

    def finish(self) -> None:
        """After the last run."""


class TflmEngine:
    """TFLM itself, from the tflite-micro package: reference kernels, recording allocator."""

    def __init__(self, model: bytes, arena_bytes: int, inputs: int, preserve: bool, keeps_state: bool) -> None:
        """Loads, plans and prepares; a model that TFLM refuses raises, or crashes this process.

        Its reset() resets every state, so `keeps_state` changes nothing.
        """
        from tflite_micro import __version__, runtime

        self.version = str(__version__)
        kinds, self._preserve = runtime.InterpreterConfig, preserve
        kind = kinds.kPreserveAllTensors if preserve else kinds.kAllocationRecording
        self._interpreter = runtime.Interpreter.from_bytes(model, arena_size=arena_bytes, intrepreter_config=kind)
        details = [self._interpreter.get_input_details(i) for i in range(inputs)]
        self.inputs = [(d["dtype"], tuple(int(n) for n in d["shape"])) for d in details]
        self._outputs: int | None = None

    def reset(self) -> None:
        """Variable tensors, resource variables and each operator's own state."""
        self._interpreter.reset()

    def run(self, inputs: list[numpy.ndarray]) -> list[numpy.ndarray]:
        """Sets every input anew: TFLM may have reused an input's memory in the run before."""
        for index, value in enumerate(inputs):
            self._interpreter.set_input(value, index)
        self._interpreter.invoke()
        if self._outputs is None:
            return list(self._probe())
        return [self._interpreter.get_output(index) for index in range(self._outputs)]

    def _probe(self) -> Iterator[numpy.ndarray]:
        index = 0
        while True:  # the package has no call that counts the outputs
            try:
                yield self._interpreter.get_output(index)
            except IndexError:
                self._outputs = index
                return
            index += 1

    def tensors(self, indices: list[int]) -> list[numpy.ndarray]:
        """See Engine.tensors."""
        return [self._interpreter.GetTensor(index, 0)["tensor_data"] for index in indices]

    def finish(self) -> None:
        """Prints the allocation record to stderr; a model that preserves its tensors has none."""
        if self._preserve:
            return
        print(MARK_MEMORY, file=sys.stderr, flush=True)
        self._interpreter.print_allocations()


class LitertEngine:
    """LiteRT with its reference resolver: reference kernels, no delegate, one thread."""

    def __init__(self, model: bytes, arena_bytes: int, inputs: int, preserve: bool, keeps_state: bool) -> None:
        """LiteRT owns its memory: `arena_bytes` is not used. A model that `keeps_state` is loaded anew to reset it."""
        import importlib.metadata

        self.version = importlib.metadata.version("ai-edge-litert")
        self._model, self._preserve, self._reload = model, preserve, keeps_state
        self._load()
        names = {str(op["op_name"]) for op in self._interpreter._get_ops_details()}
        if any(name.upper().startswith("DELEGATE") or "XNNPACK" in name.upper() for name in names):
            raise RuntimeError("LiteRT put a delegate in place of its reference kernels")
        details = self._interpreter.get_input_details()
        self.inputs = [(d["dtype"], tuple(int(n) for n in d["shape"])) for d in details]
        self._used = False

    def _load(self) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        self._interpreter = Interpreter(
            model_content=self._model,
            experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
            experimental_preserve_all_tensors=self._preserve,
            num_threads=1,
        )
        self._interpreter.allocate_tensors()

    def reset(self) -> None:
        """Variable tensors; a model with resource variables is loaded anew, as LiteRT keeps those."""
        if self._reload and self._used:
            self._load()
        else:
            self._interpreter.reset_all_variables()

    def run(self, inputs: list[numpy.ndarray]) -> list[numpy.ndarray]:
        """Sets every input, invokes, copies every output."""
        self._used = True
        for detail, value in zip(self._interpreter.get_input_details(), inputs, strict=True):
            self._interpreter.set_tensor(detail["index"], value)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(d["index"]) for d in self._interpreter.get_output_details()]

    def tensors(self, indices: list[int]) -> list[numpy.ndarray]:
        """See Engine.tensors."""
        return [self._interpreter.get_tensor(index) for index in indices]

    def finish(self) -> None:
        """LiteRT prints no record."""


ENGINES: dict[str, Callable[[bytes, int, int, bool, bool], Engine]] = {"tflm": TflmEngine, "litert": LitertEngine}


def main(folder: Path) -> None:
    """Serve the one request in `folder`."""
    _limit()
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    stage = "load"
    try:
        engine = ENGINES[request["engine"]](
            (folder / "model.tflite").read_bytes(),
            request["arena_bytes"],
            request["inputs"],
            bool(request["tensors"]),
            request["keeps_state"],
        )
        stage = "invoke"
        sizes, kept = _serve(engine, request, folder)
        engine.finish()
        result: dict[str, object] = {"output_sizes": sizes, "tensor_sizes": kept, "version": engine.version}
    except Exception as error:  # any error of the engine or its package is reported as its refusal of this model
        text = " ".join(str(error).split()) or type(error).__name__
        result = {"error": text, "stage": stage}
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")


def _serve(engine: Engine, request: dict[str, Any], folder: Path) -> tuple[list[int], list[int]]:
    import numpy

    if len(engine.inputs) != request["inputs"]:
        raise ValueError(f"the model has {len(engine.inputs)} inputs, {request['inputs']} were given")
    given = (folder / "inputs.bin").read_bytes()
    counts = [int(numpy.prod(shape, dtype=numpy.int64)) for _, shape in engine.inputs]
    sizes = [n * numpy.dtype(kind).itemsize for n, (kind, _) in zip(counts, engine.inputs, strict=True)]
    if len(given) != sum(sizes) * request["runs"]:
        raise ValueError(f"the model's inputs take {sizes} bytes a run; {len(given)} bytes were given")
    at, lengths, reported = 0, ([0], [0]), time.monotonic()
    with (folder / "outputs.bin").open("wb") as out:
        for run in range(request["runs"]):
            inputs = []
            for (kind, shape), count, size in zip(engine.inputs, counts, sizes, strict=True):
                inputs.append(numpy.frombuffer(given, kind, count, at).reshape(shape))
                at += size
            if request["reset"][run] and run:
                engine.reset()
            outputs = [value.tobytes() for value in engine.run(inputs)]
            kept = [value.tobytes() for value in engine.tensors(request["tensors"])]
            lengths = [len(chunk) for chunk in outputs], [len(chunk) for chunk in kept]
            out.write(b"".join((*outputs, *kept)))
            if time.monotonic() - reported > REPORT_S:
                print(f"\n{MARK_RUNS}{run + 1}", flush=True)
                reported = time.monotonic()
    return lengths


def _limit() -> None:
    """No core files, and an end to an allocation that a malformed model asks for."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard == resource.RLIM_INFINITY or hard > MEMORY_LIMIT_BYTES:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, hard))


if __name__ == "__main__":
    sys.path.pop(0)  # run by its path, which puts this folder first: nothing here is to be imported by name
    main(Path(sys.argv[1]))
