# SPDX-License-Identifier: Apache-2.0
"""The beginning of a session: say hello, select a model, read its tables."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tflm_zephyr.device.console.result import Arena
from tflm_zephyr.device.protocol import messages
from tflm_zephyr.device.protocol.messages import Cursor, DeviceHello, Kind, MalformedError, ModelHello, Status, TableOf
from tflm_zephyr.device.session.base import Hello, OperatorInfo, TensorInfo
from tflm_zephyr.device.session.channel import Channel, RefusedError, checked
from tflm_zephyr.device.transport.link import Link
from tflm_zephyr.errors import DeviceError
from tflm_zephyr.kernels import keeps_state
from tflm_zephyr.model import TensorType, operator_name, type_name

_CUSTOM = 32
_TABLES = 3
"""The reply timeouts within which all tables of the hello come: 30 s are 2,500 tensors at 115,200 baud."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class DescribedModel:
    """The hello of a session, after its model was selected; `stateful`: a run may depend on earlier runs."""

    hello: Hello
    stateful: bool


def read_hello(
    channel: Channel,
    model: str,
    link: Link,
    *,
    patience_s: float,
    init_s: float,
) -> DescribedModel:
    """Begin a session and select `model` (the first when "" or unknown).

    `patience_s`: the wait for an answer, for all tables _TABLES times that; `init_s`: for the model's initialisation.
    Raises as Channel.exchange, RefusedError.
    """
    answer = checked(channel.hello(messages.hello(), patience_s))
    if answer[:1] and answer[0] != messages.VERSION:  # what follows may be of another form
        raise RefusedError(Kind.HELLO, Status.NO_VERSION, answer[0], 0)
    device = DeviceHello.parse(answer)
    channel.widen(device.window_bytes)
    models = read_table(channel, patience_s, TableOf.MODELS, device.models, lambda _, cursor: cursor.text())
    number = models.index(model) if model in models else 0
    found = ModelHello.parse(checked(channel.exchange([messages.select(number)], init_s)[0]))
    ends = time.monotonic() + _TABLES * patience_s

    def table(which: TableOf, total: int, entry: Callable[[int, Cursor], _T]) -> tuple[_T, ...]:
        return read_table(channel, patience_s, which, total, entry, ends=ends)

    tensors = table(TableOf.TENSORS, found.tensors, _tensor)
    operators = table(TableOf.OPERATORS, found.operators, _operator)
    inputs, outputs = table(TableOf.INPUTS, found.inputs, _index), table(TableOf.OUTPUTS, found.outputs, _index)
    _check_inputs_and_outputs(tensors, (*inputs, *outputs))
    hello = Hello(
        device=device,
        model=found.name,
        sha256=found.sha256,
        models=models,
        inputs=tuple(tensors[index] for index in inputs),
        outputs=tuple(tensors[index] for index in outputs),
        tensors=tensors,
        operators=tuple(operator for operator, _ in operators),
        arena=Arena(
            found.arena_bytes,
            found.head_bytes + found.tail_bytes,
            found.head_bytes,
            found.tail_bytes,
            found.arena_source,
        ),
        instructions_per_tick=link.instructions_per_tick,
        where=link.where,
        link=link.name,
    )
    stateful = any(tensor.variable for tensor in tensors) or any(stateful for _, stateful in operators)
    return DescribedModel(hello, stateful)


def read_table(
    channel: Channel,
    patience_s: float,
    which: TableOf,
    total: int,
    entry: Callable[[int, Cursor], _T],
    *,
    ends: float | None = None,
) -> tuple[_T, ...]:
    """All `total` entries; `entry` reads each from its number and a cursor. Raises as read_hello.

    `ends`: the time (time.monotonic) by which they have to come; by default _TABLES times `patience_s` from now.
    """
    ends = time.monotonic() + _TABLES * patience_s if ends is None else ends
    entries: list[_T] = []
    while len(entries) < total:
        if time.monotonic() > ends:
            what = f"{len(entries)} of {total} entries of its table of {which.name.lower()} came in time"
            hint = "Is another program there? A slow link gets more time with --reply-timeout"
            raise DeviceError(what, where=channel.name, hint=hint)
        cursor = Cursor(checked(channel.exchange([messages.table(which, len(entries))], patience_s)[0]))
        (following,) = cursor.take("H")
        if following <= len(entries) or following > total:
            raise MalformedError(f"table {which.name} has {following} entries, not {total}")
        for index in range(len(entries), following):
            entries.append(entry(index, cursor))
    return tuple(entries)


def _index(_: int, cursor: Cursor) -> int:
    return cursor.take("i")[0]


def _tensor(index: int, cursor: Cursor) -> TensorInfo:
    kind, flags, size = cursor.take("BBI")
    scale = cursor.real()
    zero_point, rank = cursor.take("iB")
    shape = cursor.take(f"{rank}i")
    name = cursor.text()
    type_ = type_name(kind)
    if type_ is None:
        raise MalformedError(f"tensor {index} is of type {kind}")
    quantized = bool(flags & 2) and scale != 0.0
    if size > _sizes(type_, shape)[-1]:  # a kernel may have made it smaller
        raise MalformedError(f"tensor {index} ({name}), {type_} of shape {list(shape)}, has {size} bytes")
    return TensorInfo(
        index=index,
        name=name,
        type=type_,
        shape=shape,
        bytes=size,
        scale=scale if quantized else None,
        zero_point=zero_point if quantized else 0,
        variable=bool(flags & 1),
        streamed=bool(flags & 4),
    )


def _sizes(type_: str, shape: tuple[int, ...]) -> Sequence[int]:
    """The numbers of bytes that a tensor may have, the largest last; any number for strings and the like."""
    kind = TensorType(type_) if type_ in set(TensorType) else None
    if kind is None or not kind.has_size:
        return range(1 << 32)
    count = math.prod(max(length, 0) for length in shape)
    return ((count + 1) // 2, count) if kind is TensorType.INT4 else (count * kind.size_bytes,)


def _check_inputs_and_outputs(tensors: Sequence[TensorInfo], indices: Sequence[int]) -> None:
    if not all(0 <= index < len(tensors) for index in indices):
        raise MalformedError("an input or output is none of the tensors")
    for index in indices:
        _check_input_or_output(tensors[index])


def _check_input_or_output(tensor: TensorInfo) -> None:
    """MalformedError for an input or output that nobody could fill or read."""
    what = f"tensor {tensor.index} ({tensor.name}), an input or output,"
    bad_shape = any(length <= 0 for length in tensor.shape)
    if bad_shape or not tensor.bytes or tensor.bytes not in _sizes(tensor.type, tensor.shape):
        described = f"is {tensor.type} of shape {list(tensor.shape)} and has {tensor.bytes} bytes"
        raise MalformedError(f"{what} {described}")
    if tensor.scale is not None and not 0.0 < tensor.scale < math.inf:
        raise MalformedError(f"{what} has the scale {tensor.scale}")


def _operator(index: int, cursor: Cursor) -> tuple[OperatorInfo, bool]:
    code, subgraph, position = cursor.take("iHH")
    custom = cursor.text()
    builtin = operator_name(code)
    name = custom if code == _CUSTOM and custom else builtin
    return OperatorInfo(index, name, subgraph, position), keeps_state(builtin)
