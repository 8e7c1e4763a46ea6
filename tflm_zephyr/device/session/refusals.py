# SPDX-License-Identifier: Apache-2.0
"""Refused requests, and answers that break the protocol, as errors for people."""

from __future__ import annotations

from collections.abc import Sequence

from tflm_zephyr.device.console.status import sentence
from tflm_zephyr.device.protocol import messages
from tflm_zephyr.device.protocol.messages import Kind, MalformedError, Status
from tflm_zephyr.device.session.base import Hello
from tflm_zephyr.device.session.channel import RefusedError
from tflm_zephyr.errors import DeviceError, ModelFailedError


def check_inputs(inputs: Sequence[bytes], hello: Hello) -> None:
    """DeviceError unless `inputs` has one entry for each of the model's inputs, of the right size."""
    if len(inputs) != len(hello.inputs):
        raise DeviceError(f"the model has {len(hello.inputs)} inputs, {len(inputs)} were given", where=hello.model)
    for number, (data, tensor) in enumerate(zip(inputs, hello.inputs, strict=True)):
        if len(data) != tensor.bytes:
            raise DeviceError(
                f"input {number} ({tensor.name}) takes {tensor.bytes} bytes, {len(data)} were given",
                where=hello.model,
            )


def unknown(model: str, there: Sequence[str], where: str) -> DeviceError:
    """The error for a model that the device does not have; `where` is the link, here and below."""
    return DeviceError(f"no model {model} there, but {', '.join(there)}", where=where)


def lost(restarts: int, taken: int, what: str, where: str) -> DeviceError:
    """The error for an operation that was interrupted `restarts` times by a restart, `taken` times by another host."""
    if not taken:
        why, hint = f"the device restarted {restarts} times", "Does the app crash, or is the supply too weak?"
    elif not restarts:
        why = f"another host took the device {taken} times"
        hint = "Does another program use this port? Let one end first"
    else:
        why = f"the device restarted and another host took it, {restarts + taken} times in all,"
        hint = "Does another program reset the board, or flash it? Let it end first"
    return DeviceError(f"{why} during {what}", where=where, hint=hint)


def malformed(err: MalformedError, where: str) -> DeviceError:
    """The error for an answer that breaks the protocol."""
    return DeviceError(
        f"the answer breaks the protocol ({err})",
        where=where,
        hint="Generate, build and flash the app again",
    )


def refused(err: RefusedError, where: str) -> DeviceError:
    """The device's reason; ModelFailedError when it is the model's."""
    if err.status == Status.NO_VERSION:
        return DeviceError(
            f"the app speaks version {err.detail} of the link's protocol, this tool version {messages.VERSION}",
            where=where,
            hint="Generate the app with this tool's version, build and flash it",
        )
    if err.status == Status.MODEL:
        stage = messages.STAGES[err.stage] if err.stage < len(messages.STAGES) else "invoke"
        return ModelFailedError(f"{sentence(err.detail, stage)} (code {err.detail} at {stage})", where=where)
    named = {kind.value: kind.name.lower() for kind in Kind}.get(err.kind, str(err.kind))
    reasons: dict[int, str] = {
        Status.UNKNOWN: "does not know it",
        Status.MALFORMED: "finds it malformed",
        Status.RANGE: f"has no such thing ({err.detail})",
        Status.NOT_NOW: "is busy with another",
    }
    why = reasons.get(err.status, f"answers with the unknown status {err.status}")
    return DeviceError(f"request for {named}: the app {why}", where=where, hint="Build and flash the app again")
