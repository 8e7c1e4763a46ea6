# SPDX-License-Identifier: Apache-2.0
"""The interface of every session, whatever carries it; plain values that commands, reports and tests take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, TypeVar

from tflm_zephyr.device.console.result import Arena, Stacks


@dataclass(frozen=True)
class TensorInfo:
    """A tensor as the device's own copy of the model describes it.

    `index` is that in its subgraph, `type` as in the schema in lower case ("int8", "float32"), `bytes` the size of
    its data. `scale` is None when it is not quantised; for a tensor quantised by channel it is the first
    channel's. `variable`: the tensor keeps its value from run to run.
    """

    index: int
    name: str
    type: str
    shape: tuple[int, ...]
    bytes: int
    scale: float | None = None
    zero_point: int = 0
    variable: bool = False


@dataclass(frozen=True)
class OperatorInfo:
    """An operator: `index` counts through all subgraphs, `position` inside `subgraph`; `name` as CONV_2D."""

    index: int
    name: str
    subgraph: int
    position: int


@dataclass(frozen=True)
class Limits:
    """The device's limits: bytes of payload in one frame, bytes on their way to it before it answers."""

    payload_bytes: int
    window_bytes: int


@dataclass(frozen=True)
class Hello:
    """The description of what answered: firmware, model, buffers.

    `sha256` is the start (at least 16 digits) of the SHA-256 in hex of the .tflite file that the user gave; `runs`
    compares it. `models` are the names of all models there. `inputs` and `outputs` are in the model's
    order; `tensors` are all of the main subgraph, by index; `operators` all of the model, by index.
    `hz`: ticks per second. `deterministic`: ticks count instructions and repeat exactly (QEMU with icount), so that
    they are no time; a tick is then `instructions_per_tick` instructions, else that is None.
    """

    protocol: int
    app: str
    model: str
    sha256: str
    models: tuple[str, ...]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    tensors: tuple[TensorInfo, ...]
    operators: tuple[OperatorInfo, ...]
    arena: Arena
    kernels: str
    tflm: str
    zephyr: str
    board: str
    limits: Limits
    hz: int
    deterministic: bool
    instructions_per_tick: int | None
    where: str
    link: str

    def runs(self, sha256: str) -> bool:
        """Whether the model is that of the file with this SHA-256, in hex."""
        return bool(self.sha256) and sha256.lower().startswith(self.sha256.lower())


@dataclass(frozen=True)
class SessionCapabilities:
    """The operations that a session offers besides `invoke`, `reset` and `memory`; the others raise DeviceError.

    `captures` and `reads_tensors`: `capture` and `tensor` work. `counts_ticks`: ticks measure the work of an
    invocation, and `profile` works. `batches`: `invoke_many` is much faster than one `invoke` after the other.
    """

    captures: bool = True
    reads_tensors: bool = True
    counts_ticks: bool = True
    batches: bool = False


@dataclass(frozen=True)
class Invocation:
    """One Invoke(): the outputs' bytes, little endian, in the tensors' own types, and its ticks (see Hello.hz).

    Ticks are 0 where nothing counts them (TFLM on the host).
    """

    outputs: tuple[bytes, ...]
    ticks: int


@dataclass(frozen=True)
class OperatorOutput:
    """One output of an operator, taken as that operator ended.

    `operator` is an index into Hello.operators, `tensor` one into the tensors of `subgraph`. An operator of a
    loop's body is there once for each time it ran.
    """

    operator: int
    name: str
    subgraph: int
    tensor: int
    data: bytes


@dataclass(frozen=True)
class Captured:
    """A run with every operator's outputs, in the order in which operators ended, and the model's outputs."""

    operators: tuple[OperatorOutput, ...]
    outputs: tuple[bytes, ...]


@dataclass(frozen=True)
class Profile:
    """`ticks[run][operator]`, operators as in Hello.operators, each with all its executions in that run.

    An operator that runs others (IF, WHILE) counts theirs too. `names` are the operators' names.
    """

    names: tuple[str, ...]
    ticks: tuple[tuple[int, ...], ...]
    hz: int


@dataclass(frozen=True)
class LinkStatistics:
    """Frames that the device took, found damaged, and got twice since its session began; 0 where there are none."""

    taken: int = 0
    damaged: int = 0
    doubled: int = 0
    resent: int = 0


@dataclass(frozen=True)
class Memory:
    """The arena's use now; stacks where the app was built with CONFIG_INIT_STACKS=y."""

    arena: Arena
    stacks: Stacks | None = None
    link: LinkStatistics = LinkStatistics()


_Self = TypeVar("_Self", bound="BaseSession")


class BaseSession(ABC):
    """The common part of sessions: a context manager that closes itself at its end; runs one after the other."""

    @abstractmethod
    def invoke(self, inputs: Sequence[bytes]) -> Invocation:
        """See Session."""

    @abstractmethod
    def reset(self) -> None:
        """See Session."""

    def invoke_many(self, runs: Sequence[Sequence[bytes]], resets: Sequence[bool]) -> Iterator[Invocation]:
        """See Session."""
        for inputs, reset in zip(runs, resets, strict=True):
            if reset:
                self.reset()
            yield self.invoke(inputs)

    @abstractmethod
    def close(self) -> None:
        """Release what is held; a second time does nothing."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Session(Protocol):
    """One model on one device. A context manager: `close` at its end, whatever happens.

    Everything raises DeviceError in one line when the device, the port or the emulator does not do what was asked;
    ModelError (a ToolError as well) where TFLM on the host refuses the model. After an error from an operation
    the session can be used further if the device answers again.
    """

    @property
    def capabilities(self) -> SessionCapabilities:
        """The operations that work here."""
        ...

    @property
    def hello(self) -> Hello:
        """The device and its model, as read once when the session began or another model was selected."""
        ...

    def select(self, model: str) -> None:
        """Take another of Hello.models; its state is the initial one. Raises DeviceError for an unknown one."""

    def invoke(self, inputs: Sequence[bytes]) -> Invocation:
        """Set every input (exactly Hello.inputs[i].bytes each), run once. State carries over from run to run.

        Raises DeviceError for inputs of another number or size.
        """
        ...

    def invoke_many(self, runs: Sequence[Sequence[bytes]], resets: Sequence[bool]) -> Iterator[Invocation]:
        """`invoke` for each of `runs` in turn, as it is done, with a reset before those whose `resets` is True."""
        ...

    def capture(self, inputs: Sequence[bytes]) -> Captured:
        """As `invoke`, and each operator's outputs as it ends, under the shipped plan and kernels."""
        ...

    def profile(self, inputs: Sequence[bytes], runs: int) -> Profile:
        """`runs` invocations with the same inputs, each operator's ticks apart."""
        ...

    def tensor(self, index: int) -> bytes:
        """The bytes that are now in tensor `index` of the main subgraph; another tensor may have taken its place."""
        ...

    def reset(self) -> None:
        """Variable tensors and each operator's own state as after the start."""

    def memory(self) -> Memory:
        """Arena, stacks and the link's counters."""
        ...

    def close(self) -> None:
        """Release port, emulator, file; a second time does nothing."""

    def __enter__(self) -> Session: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
