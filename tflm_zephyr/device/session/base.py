# SPDX-License-Identifier: Apache-2.0
"""The interface of every session, whatever its link; plain values for commands, reports and tests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from tflm_zephyr.device.console.result import Arena, Stacks
from tflm_zephyr.device.protocol.messages import DeviceHello


@dataclass(frozen=True)
class TensorInfo:
    """A tensor as the device's own copy of the model describes it.

    `index`: in its subgraph. `type`: the schema's name in lower case ("int8", "float32"). `bytes`: size of its data.
    `scale`: None when it is not quantised; the first channel's for a tensor that is quantised per channel.
    `variable`: the tensor keeps its value from run to run. `streamed`: an input whose bytes are taken in their order,
    and that is nowhere as a whole.
    """

    index: int
    name: str
    type: str
    shape: tuple[int, ...]
    bytes: int
    scale: float | None = None
    zero_point: int = 0
    variable: bool = False
    streamed: bool = False


@dataclass(frozen=True)
class OperatorInfo:
    """An operator: `index` counts through all subgraphs, `position` inside `subgraph`; `name` as CONV_2D."""

    index: int
    name: str
    subgraph: int
    position: int


@dataclass(frozen=True)
class Hello:
    """A device's description of itself: firmware (`device`), model, buffers.

    `sha256` is the start (at least 16 digits) of the SHA-256 in hex of the .tflite file that the user gave; `runs`
    compares it. `models` are the names of all models on the device. `inputs` and `outputs` are in the model's
    order; `tensors` are all of the main subgraph, by index; `operators` all of the model, by index.
    `instructions_per_tick`: of ticks that count instructions and repeat exactly (QEMU with icount), so that they
    measure no time; None where they do.
    """

    device: DeviceHello
    model: str
    sha256: str
    models: tuple[str, ...]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    tensors: tuple[TensorInfo, ...]
    operators: tuple[OperatorInfo, ...]
    arena: Arena
    instructions_per_tick: int | None
    where: str
    link: str

    def runs(self, sha256: str) -> bool:
        """Whether the device runs the model file with this SHA-256, in hex."""
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
    """One Invoke(): the outputs' bytes, little endian, in the tensors' own types, and its ticks (see DeviceHello.hz).

    Ticks are 0 where nothing counts them (TFLM on the host).
    """

    outputs: tuple[bytes, ...]
    ticks: int


@dataclass(frozen=True)
class OperatorOutput:
    """One output of an operator, captured as that operator ended.

    `operator` is an index into Hello.operators, `tensor` an index into the tensors of `subgraph`. An operator of a
    loop's body has an entry for each time it ran.
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
    """`ticks[run][operator]`, operators as in Hello.operators; all executions of an operator in a run are summed.

    The ticks of an operator that runs others (IF, WHILE) include theirs. `names` are the operators' names.
    """

    names: tuple[str, ...]
    ticks: tuple[tuple[int, ...], ...]
    hz: int


@dataclass(frozen=True)
class LinkStatistics:
    """Frames that the device accepted, found damaged, and got twice since its session began; 0 without frames."""

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


_Self = TypeVar("_Self", bound="Session")


class Session(ABC):
    """One model on one device. A context manager, which always calls `close` at its end.

    Every method raises DeviceError when the device, the port or the emulator fails, and ModelError (a ToolError as
    well) where TFLM on the host refuses the model. After an error the session can still be used if the device answers
    again.
    """

    @property
    @abstractmethod
    def capabilities(self) -> SessionCapabilities:
        """The operations that this session supports."""

    @property
    @abstractmethod
    def hello(self) -> Hello:
        """The device and its model, read when the session began or another model was selected."""

    @abstractmethod
    def select(self, model: str) -> None:
        """Select another of Hello.models, in its initial state. Raises DeviceError for an unknown one."""

    @abstractmethod
    def invoke(self, inputs: Sequence[bytes]) -> Invocation:
        """Set every input (exactly Hello.inputs[i].bytes each), run once. State carries over from run to run.

        Raises DeviceError for a wrong number of inputs or a wrong size.
        """

    def invoke_many(self, runs: Sequence[Sequence[bytes]], resets: Sequence[bool]) -> Iterator[Invocation]:
        """Yield the result of `invoke` for each of `runs`, with a reset before each run where `resets` is True."""
        for inputs, reset in zip(runs, resets, strict=True):
            if reset:
                self.reset()
            yield self.invoke(inputs)

    @abstractmethod
    def capture(self, inputs: Sequence[bytes]) -> Captured:
        """As `invoke`, with each operator's outputs as it ends, with the app's own plan and kernels."""

    @abstractmethod
    def profile(self, inputs: Sequence[bytes], runs: int) -> Profile:
        """Ticks of each operator in `runs` invocations with the same inputs."""

    @abstractmethod
    def tensor(self, index: int) -> bytes:
        """The bytes now at the place of tensor `index` of the main subgraph; another tensor may have overwritten it."""

    @abstractmethod
    def reset(self) -> None:
        """Set variable tensors and each operator's own state to their initial values."""

    @abstractmethod
    def memory(self) -> Memory:
        """The use of arena and stacks, and the link's counters."""

    @abstractmethod
    def close(self) -> None:
        """Release port, emulator and file; a second call does nothing."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
