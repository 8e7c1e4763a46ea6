# SPDX-License-Identifier: Apache-2.0
"""Front ends: models that make a row of features from each window of sound, on this host or on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tflm_zephyr.device.session import Session
from tflm_zephyr.errors import ToolError
from tflm_zephyr.host import run_many
from tflm_zephyr.model import Model
from tflm_zephyr.tensors import TensorLike, input_forms, output_forms


class FrontEnd(Protocol):
    """A model of one input; its first output is the row."""

    @property
    def input(self) -> TensorLike:
        """The tensor that a window fills."""
        ...

    @property
    def output(self) -> TensorLike:
        """The tensor that becomes a row."""
        ...

    def run(self, windows: Sequence[bytes]) -> list[bytes]:
        """The rows of all windows of one recording in turn, from the initial state on. Raises ToolError."""
        ...

    def done(self) -> None:
        """End the use of the front end."""


class HostFrontEnd:
    """A front end in TFLM on this host."""

    def __init__(self, model: Model) -> None:
        """Raises ToolError for a model of several inputs."""
        inputs = input_forms(model)
        _one(len(inputs), model.where)
        self.input: TensorLike = inputs[0]
        self.output: TensorLike = output_forms(model)[0]
        self._data = model.data

    def run(self, windows: Sequence[bytes]) -> list[bytes]:
        """See FrontEnd."""
        return [run[0] for run in run_many(self._data, [(window,) for window in windows], reset=False).runs]

    def done(self) -> None:
        """See FrontEnd."""


class DeviceFrontEnd:
    """A front end on the device: another model of the session's app, selected until `done`."""

    def __init__(self, session: Session, name: str) -> None:
        """Raises DeviceError for an unknown model, ToolError for one of several inputs."""
        self._session, self._own = session, session.hello.model
        session.select(name)
        inputs, outputs = session.hello.inputs, session.hello.outputs
        _one(len(inputs), name)
        self.input: TensorLike = inputs[0]
        self.output: TensorLike = outputs[0]

    def run(self, windows: Sequence[bytes]) -> list[bytes]:
        """See FrontEnd."""
        self._session.reset()
        return [self._session.invoke((window,)).outputs[0] for window in windows]

    def done(self) -> None:
        """See FrontEnd."""
        self._session.select(self._own)


def _one(inputs: int, where: str) -> None:
    if inputs != 1:
        raise ToolError(f"a front end takes windows of sound, this model has {inputs} inputs", where=where)
