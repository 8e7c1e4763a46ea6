# SPDX-License-Identifier: Apache-2.0
"""A device that is not there: the model runs in TFLM on the host, and faults are put in where a test wants them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace

from tflm_zephyr.device.console.result import Arena
from tflm_zephyr.device.protocol.messages import DeviceHello
from tflm_zephyr.device.session.base import (
    Captured,
    Hello,
    Invocation,
    Memory,
    OperatorInfo,
    OperatorOutput,
    Profile,
    Session,
    SessionCapabilities,
    TensorInfo,
)
from tflm_zephyr.errors import DeviceError
from tflm_zephyr.host.run import run_many
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.types import Model, Tensor

Change = Callable[[int, bytes], bytes]
Outputs = Callable[[Sequence[bytes]], tuple[bytes, ...]]


def tensor_info(tensor: Tensor) -> TensorInfo:
    """As a device would describe it."""
    quantised = tensor.quantization
    return TensorInfo(
        tensor.index,
        tensor.name,
        tensor.type.value,
        tensor.shape,
        tensor.size_bytes,
        quantised.scales[0] if quantised else None,
        quantised.zero_points[0] if quantised else 0,
        tensor.is_variable,
    )


_DEVICE = DeviceHello(1, 1024, 4096, 25_000_000, 1, "demo", "mps2/an385", "reference", "0" * 40, "4.1.0")
_OF_DEVICE = {field.name for field in fields(DeviceHello)} - {"models"}


def hello_of(model: Model, **changes: object) -> Hello:
    """The hello of a device with `model`; `changes` are fields of Hello or of DeviceHello."""
    main = model.main
    device = {name: changes.pop(name) for name in _OF_DEVICE & changes.keys()}
    plain: dict[str, object] = {
        "device": replace(_DEVICE, **device),  # type: ignore[arg-type]
        "model": "net",
        "sha256": model.sha256[:16],
        "models": ("net",),
        "inputs": tuple(tensor_info(main.tensors[i]) for i in main.inputs),
        "outputs": tuple(tensor_info(main.tensors[i]) for i in main.outputs),
        "tensors": tuple(tensor_info(tensor) for tensor in main.tensors),
        "operators": tuple(OperatorInfo(k, op.key, 0, k) for k, op in enumerate(main.operators)),
        "arena": Arena(4096, 2048, 1024, 1024, "given"),
        "instructions_per_tick": 40,
        "where": "qemu",
        "link": "QEMU mps2-an385",
    }
    return Hello(**{**plain, **changes})  # type: ignore[arg-type]


class FakeSession(Session):
    """See the module. `change(operator, output bytes)` is what the device's kernel makes of each operator's output.

    The model's outputs follow from a changed operator only where it is one whose outputs are the model's.
    `outputs` stands in for TFLM altogether. `ticks` are those of each operator, run after run; `fails_after` counts
    invocations, and `resets` resets, before the cable is pulled.
    """

    def __init__(
        self,
        data: bytes,
        *,
        change: Change | None = None,
        outputs: Outputs | None = None,
        ticks: Sequence[Sequence[int]] = ((100,),),
        fails_after: int | None = None,
        resets: int | None = None,
        **hello: object,
    ) -> None:
        self.model = parse_model(data)
        self._hello = hello_of(self.model, **hello)
        self._change, self._outputs, self._ticks, self._left = change, outputs, ticks, fails_after
        self._resets = resets
        self.done: list[str] = []
        self.closed = False

    @property
    def hello(self) -> Hello:
        return self._hello

    @property
    def capabilities(self) -> SessionCapabilities:
        on_device = self.hello.where != "host"
        return SessionCapabilities(captures=on_device, counts_ticks=on_device)

    def select(self, model: str) -> None:
        self.done.append(f"select {model}")

    def invoke(self, inputs: Sequence[bytes]) -> Invocation:
        self.done.append("invoke")
        if self._left is not None:
            if self._left == 0:
                raise DeviceError("the port is gone", where=self.hello.link)
            self._left -= 1
        if self._outputs is not None:
            return Invocation(self._outputs(inputs), sum(self._ticks[0]))
        return Invocation(self.capture(inputs).outputs, sum(self._ticks[0]))

    def capture(self, inputs: Sequence[bytes]) -> Captured:
        main = self.model.main
        wanted = [index for operator in main.operators for index in operator.outputs]
        made = dict(zip(wanted, run_many(self.model.data, [inputs], tensors=wanted).tensors[0], strict=True))
        found = []
        for number, operator in enumerate(main.operators):
            for index in operator.outputs:
                if self._change is not None:
                    made[index] = self._change(number, made[index])
                found.append(OperatorOutput(number, operator.key, 0, index, made[index]))
        return Captured(tuple(found), tuple(made[index] for index in main.outputs))

    def profile(self, inputs: Sequence[bytes], runs: int) -> Profile:
        names = tuple(operator.name for operator in self.hello.operators)
        ticks = tuple(tuple(self._ticks[k % len(self._ticks)]) for k in range(runs))
        return Profile(names, ticks, self.hello.device.hz)

    def tensor(self, index: int) -> bytes:
        raise DeviceError("not here", where=self.hello.link)

    def reset(self) -> None:
        if self._resets is not None and self.done.count("reset") == self._resets:
            raise DeviceError("the port is gone", where=self.hello.link)
        self.done.append("reset")

    def memory(self) -> Memory:
        return Memory(self.hello.arena)

    def close(self) -> None:
        self.closed = True
