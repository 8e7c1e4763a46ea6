# SPDX-License-Identifier: Apache-2.0
"""The wall: what planner, compiler and reports rely on in every model, checked before any of them sees it.

The reader refuses what is no .tflite file; the wall refuses values with which no kernel of TFLM can work: numbers that
are not finite, options outside their range, shapes that an operator cannot have, and tensors that fit no board. Every
model that a command loads passes it, so that no later code has to look again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from tflm_zephyr.errors import ModelError
from tflm_zephyr.model.types import Model, Operator, Subgraph, Tensor, TensorType

LARGEST_BYTES = 64 << 20
"""Arena bytes that no board has: the largest external memories of microcontrollers hold 32 or 64 MiB."""

_RANK = 8  # TFLite's largest rank; a RuntimeShape of TFLM (kernels/internal/runtime_shape.h) holds 6, unchecked
_INT32 = 1 << 31
_EXPORT = "The file is corrupt; export it again"
_VALID = 1  # Padding.VALID in the schema
_QUANTISED = (TensorType.INT8, TensorType.INT16)

_STEP = (1, 0x7FFF)
_RANGES: Mapping[str, tuple[int, int]] = {
    "axis": (-_RANK, _RANK),
    "block_size": _STEP,
    "depth_multiplier": (0, 0x7FFF),
    "dilation_h_factor": _STEP,
    "dilation_w_factor": _STEP,
    "filter_height": _STEP,
    "filter_width": _STEP,
    "fused_activation_function": (0, 5),
    "num": (0, 0x7FFF),
    "num_splits": _STEP,
    "padding": (0, 1),
    "rank": _STEP,
    "stride_h": _STEP,
    "stride_w": _STEP,
}
"""The least and the greatest value of an integer option, by the schema's name."""

_WINDOWS = ("stride_h", "stride_w")
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "AVERAGE_POOL_2D": (*_WINDOWS, "filter_height", "filter_width"),
    "CONV_2D": _WINDOWS,
    "DEPTHWISE_CONV_2D": _WINDOWS,
    "L2_POOL_2D": (*_WINDOWS, "filter_height", "filter_width"),
    "MAX_POOL_2D": (*_WINDOWS, "filter_height", "filter_width"),
    "TRANSPOSE_CONV": _WINDOWS,
}
"""Options that must be there: TFLM would divide by the 0 of an absent one."""


def check(model: Model) -> Model:
    """The same model. ModelError for the first tensor or operator that no later code can take."""
    for subgraph in model.subgraphs:
        for tensor in subgraph.tensors:
            _check_tensor(model, subgraph, tensor)
        for operator in subgraph.operators:
            _Part(model, subgraph, operator).check()
    return model


def _check_tensor(model: Model, subgraph: Subgraph, tensor: Tensor) -> None:
    what = ""
    if len(tensor.shape) > _RANK:
        what = f"has {len(tensor.shape)} dimensions, and TFLM takes up to {_RANK}"
    elif tensor.quantization is not None:
        bad = next((s for s in tensor.quantization.scales if not (math.isfinite(s) and s >= 0)), None)
        zero = next((z for z in tensor.quantization.zero_points if not -_INT32 <= z < _INT32), None)
        if bad is not None:
            what = f"has the scale {bad:g}"
        elif zero is not None:
            what = f"has the zero point {zero}, which is beyond int32"
    if not what and _arena_bytes(tensor) > LARGEST_BYTES:
        what = f"of shape {list(tensor.shape)} takes {_arena_bytes(tensor):,} bytes of memory, more than any board has"
    if what:
        raise ModelError(f"{tensor.label} of subgraph {subgraph.index} {what}", where=model.where, hint=_EXPORT)


def _arena_bytes(tensor: Tensor) -> int:
    """Bytes that a tensor takes of the arena: none for a constant."""
    return 0 if tensor.is_constant or not tensor.type.has_size else tensor.size_bytes


class _Part:
    """One operator with its tensors by place."""

    def __init__(self, model: Model, subgraph: Subgraph, operator: Operator) -> None:
        self._model, self._subgraph, self._operator = model, subgraph, operator

    def check(self) -> None:
        """See the module's `check`."""
        if self._operator.custom_code is None:
            for what in self._wrong_options():
                raise self._fail(what)
            rule = _SHAPES.get(self._operator.name)
            for what in () if rule is None else rule(self):
                raise self._fail(what)
        self._check_memory()

    def input(self, place: int) -> Tensor | None:
        """Input `place`, None when it is absent; TFLM and the later stages name a missing one."""
        return self._at(self._operator.inputs, place)

    def output(self) -> Tensor | None:
        """Output 0, None when it is absent."""
        return self._at(self._operator.outputs, 0)

    def option(self, name: str) -> int:
        """An integer option, 0 when it is absent."""
        return self._operator.option(name)

    def _at(self, indices: tuple[int, ...], place: int) -> Tensor | None:
        return self._subgraph.tensors[indices[place]] if place < len(indices) and indices[place] >= 0 else None

    def _wrong_options(self) -> Iterator[str]:
        options = self._operator.options
        for name in _NEEDED.get(self._operator.name, ()):
            if name not in options:
                yield f"lacks the option {name}"
        for name, value in options.items():
            least, most = _RANGES.get(name, (-_INT32, 2 * _INT32 - 1))
            if isinstance(value, float) and not math.isfinite(value):
                yield f"has the option {name} = {value}"
            elif isinstance(value, int) and not least <= value <= most:
                yield f"has the option {name} = {value}, outside {least} to {most}"

    def _check_memory(self) -> None:
        """No board holds an operator's inputs and outputs, which exist at the same time."""
        indices = {index for index in (*self._operator.inputs, *self._operator.outputs) if index >= 0}
        needed = sum(_arena_bytes(self._subgraph.tensors[index]) for index in indices)
        if needed > LARGEST_BYTES:
            raise self._fail(f"has tensors of {needed:,} bytes in memory at once, more than any board has")

    def _fail(self, what: str) -> ModelError:
        return ModelError(
            f"{self._operator.label} of subgraph {self._subgraph.index} {what}", where=self._model.where, hint=_EXPORT
        )


def _ranks(part: _Part, **wanted: int) -> Iterator[str]:
    """The tensors among i0, i1 ... and o0 whose rank is another one than wanted."""
    for slot, rank in wanted.items():
        tensor = part.output() if slot == "o0" else part.input(int(slot[1:]))
        if tensor is not None and len(tensor.shape) != rank:
            yield f"needs {rank} dimensions of {tensor.label}, whose shape is {list(tensor.shape)}"


def _shape(part: _Part, place: int, *wanted: tuple[int, ...]) -> Iterator[str]:
    tensor = part.input(place)
    if tensor is not None and tensor.shape not in wanted:
        yield f"needs the shape {list(wanted[0])} of {tensor.label}, whose shape is {list(tensor.shape)}"


def _pooled(part: _Part) -> Iterator[str]:
    """A window that lies within its input, or with padding covers it."""
    yield from _ranks(part, i0=4, o0=4)
    source = part.input(0)
    for name, place in (("filter_height", 1), ("filter_width", 2)) if source is not None else ():
        assert source is not None
        size, window = source.shape[place], part.option(name)
        if window > (size if part.option("padding") == _VALID else 2 * size):
            yield f"has the option {name} = {window}, but {source.label} has the shape {list(source.shape)}"


def _convolved(channels_at: int, place: int = 0) -> Callable[[_Part], Iterator[str]]:
    """Images and a filter of four dimensions, and its scales (kernels/conv_common.cc, CalculateOpDataConv, and alike).

    `channels_at`: the filter's dimension of output channels; `place`: of the input that it is laid over.
    """

    def rule(part: _Part) -> Iterator[str]:
        yield from _ranks(part, **{f"i{place}": 4}, i1=4, o0=4)
        source, weights = part.input(place), part.input(1)
        if source is None or weights is None:
            return
        if source.type in _QUANTISED and weights.quantization is None:
            yield f"needs scales of {weights.label}"
        yield from _weights(weights, weights.shape[channels_at])

    return rule


def _weights(weights: Tensor, channels: int) -> Iterator[str]:
    """Elements, and a scale for all of them or for each channel."""
    if not weights.elements:
        yield f"needs elements of {weights.label}, whose shape is {list(weights.shape)}"
    count = 1 if weights.quantization is None else len(weights.quantization.scales)
    if count not in (1, channels):
        yield f"has {count} scales for the {channels} channels of {weights.label}"


def _dense(part: _Part) -> Iterator[str]:
    """FULLY_CONNECTED: a matrix of weights, and an output with a last dimension (LiteRT's Prepare; TFLM's reads on)."""
    yield from _ranks(part, i1=2)
    output, weights = part.output(), part.input(1)
    if weights is not None:
        yield from _weights(weights, weights.shape[0])
    if output is not None and not output.shape:
        yield f"needs a dimension of {output.label}, which has none"


def _svdf(part: _Part) -> Iterator[str]:
    """SVDF (kernels/svdf_common.cc, PrepareSvdf)."""
    yield from _ranks(part, i0=2, i1=2, i2=2, i4=2, o0=2)


def _lstm(part: _Part) -> Iterator[str]:
    """UNIDIRECTIONAL_SEQUENCE_LSTM (kernels/lstm_eval_common.cc, ValidateTensorSize)."""
    yield from _ranks(part, i0=3, i18=2, i19=2, o0=3)
    source, state, output = part.input(0), part.input(18), part.output()
    if source is None or state is None or output is None:
        return
    depth, units = source.shape[2], state.shape[1]
    batch = source.shape[1 if part.option("time_major") else 0]
    for place in range(1, 5):
        yield from _shape(part, place, (units, depth))
    for place in range(5, 9):
        yield from _shape(part, place, (units, units))
    for place in range(12, 16):
        yield from _shape(part, place, (units,))
    for place in (18, 19):
        yield from _shape(part, place, (batch, units))
    if output.shape != (*source.shape[:2], units):
        yield f"needs the shape {[*source.shape[:2], units]} of {output.label}, whose shape is {list(output.shape)}"


_SHAPES: Mapping[str, Callable[[_Part], Iterator[str]]] = {
    "AVERAGE_POOL_2D": _pooled,
    "CONV_2D": _convolved(0),
    "DEPTHWISE_CONV_2D": _convolved(3),
    "FULLY_CONNECTED": _dense,
    "L2_POOL_2D": _pooled,
    "MAX_POOL_2D": _pooled,
    "SVDF": _svdf,
    "TRANSPOSE_CONV": _convolved(0, 2),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
}
