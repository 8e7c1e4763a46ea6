# SPDX-License-Identifier: Apache-2.0
"""TFLM on this host as a session: reference kernels, no ticks. Each call is a child process; see host.run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tflm_zephyr.device.console.result import Arena
from tflm_zephyr.device.protocol.messages import DeviceHello
from tflm_zephyr.device.session import refusals
from tflm_zephyr.device.session.base import (
    Captured,
    Hello,
    Invocation,
    Memory,
    OperatorInfo,
    Profile,
    Session,
    SessionCapabilities,
    TensorInfo,
)
from tflm_zephyr.errors import DeviceError
from tflm_zephyr.host import NAMES, HostLimits, HostRun, run_many
from tflm_zephyr.kernels import keeps_state
from tflm_zephyr.model import Model, Tensor, load_model


class HostSession(Session):
    """See Session. `capture`, `profile` and `tensor` raise DeviceError: the package does not support them.

    A model's state carries over as on a device: when the model keeps a state, all inputs since the last reset are run
    again before a new one.
    """

    capabilities = SessionCapabilities(captures=False, reads_tensors=False, counts_ticks=False, batches=True)

    def __init__(self, path: Path, *, timeout_s: float = 600.0) -> None:
        """Read the model; raises ModelError."""
        self._timeout_s = timeout_s
        self._model = load_model(path)
        self._stateful = _stateful(self._model)
        self._past: list[tuple[bytes, ...]] = []
        self._last: HostRun | None = None
        self._hello = _hello(self._model, path.stem)

    @property
    def hello(self) -> Hello:
        """See Session; `arena` is 0 until the first run."""
        return self._hello

    def select(self, model: str) -> None:
        """See Session."""
        if model != self._hello.model:
            raise DeviceError(f"no model {model} there, but {self._hello.model}", where=NAMES["tflm"])
        self.reset()

    def invoke(self, inputs: Sequence[bytes]) -> Invocation:
        """See Session."""
        return Invocation(self._run(inputs), 0)

    def invoke_many(self, runs: Sequence[Sequence[bytes]], resets: Sequence[bool]) -> Iterator[Invocation]:
        """See Session; all runs in one child.

        The model is in its initial state before and after.
        """
        for inputs in runs:
            refusals.check_inputs(inputs, self._hello)
        self.reset()
        if not runs:
            return
        limits = HostLimits(timeout_s=self._timeout_s * len(runs))
        self._last = run_many(self._model.data, runs, reset=resets, limits=limits)
        for outputs in self._last.runs:
            yield Invocation(outputs, 0)

    def capture(self, inputs: Sequence[bytes]) -> Captured:
        """Not on the host."""
        raise self._cannot("look at single operators")

    def profile(self, inputs: Sequence[bytes], runs: int) -> Profile:
        """Not on the host."""
        raise self._cannot("count ticks")

    def tensor(self, index: int) -> bytes:
        """Not on the host."""
        raise self._cannot("look at a tensor")

    def reset(self) -> None:
        """See Session."""
        self._past.clear()

    def memory(self) -> Memory:
        """TFLM's record of the last run on this machine; see HostRun."""
        if self._last is None:
            self._run([bytes(tensor.bytes) for tensor in self._hello.inputs])
            self.reset()
        assert self._last is not None
        last = self._last
        return Memory(Arena(last.arena_bytes, last.used_bytes, last.head_bytes, last.tail_bytes, "measured"))

    def close(self) -> None:
        """Nothing is open between calls."""

    def _run(self, inputs: Sequence[bytes]) -> tuple[bytes, ...]:
        refusals.check_inputs(inputs, self._hello)
        runs = [*self._past, tuple(inputs)]
        self._last = run_many(self._model.data, runs, reset=False, limits=HostLimits(timeout_s=self._timeout_s))
        if self._stateful:
            self._past = runs
        return self._last.runs[-1]

    def _cannot(self, what: str) -> DeviceError:
        return DeviceError(f"TFLM on the host cannot {what}", where=NAMES["tflm"], hint="Use QEMU or a board")


def _hello(model: Model, name: str) -> Hello:
    main = model.main
    tensors = tuple(_tensor(tensor) for tensor in main.tensors)
    operators: list[OperatorInfo] = []
    for number, subgraph in enumerate(model.subgraphs):
        for position, operator in enumerate(subgraph.operators):
            operators.append(OperatorInfo(len(operators), operator.name, number, position))
    return Hello(
        device=DeviceHello(0, 1 << 31, 1 << 31, 0, 1, name, "", "reference", "", ""),
        model=name,
        sha256=model.sha256,
        models=(name,),
        inputs=tuple(tensors[index] for index in main.inputs),
        outputs=tuple(tensors[index] for index in main.outputs),
        tensors=tensors,
        operators=tuple(operators),
        arena=Arena(0, 0, 0, 0, "measured"),
        instructions_per_tick=None,
        where="host",
        link=NAMES["tflm"],
    )


def _tensor(tensor: Tensor) -> TensorInfo:
    quantization = tensor.quantization  # None, or at least one scale and as many zero points
    return TensorInfo(
        index=tensor.index,
        name=tensor.name,
        type=tensor.type.value,
        shape=tensor.shape,
        bytes=tensor.size_bytes if tensor.type.has_size else 0,
        scale=None if quantization is None else quantization.scales[0],
        zero_point=0 if quantization is None else quantization.zero_points[0],
        variable=tensor.is_variable,
    )


def _stateful(model: Model) -> bool:
    """Whether a run may depend on earlier runs."""
    variables = any(tensor.is_variable for _, tensor in model.tensors())
    return variables or any(keeps_state(o.name) for subgraph in model.subgraphs for o in subgraph.operators)
