# SPDX-License-Identifier: Apache-2.0
"""What TFLM's kernels refuse beyond types: quantisation parameters, scales, LSTM and SVDF variants.

Read in Prepare of tensorflow/lite/micro/kernels (and PopulateConvolutionQuantizationParams in
tensorflow/lite/kernels/kernel_util.cc) at revision 8d404de7. Only what these certainly refuse is here; a
tensor that is not quantised has scale 0 and zero point 0, as in TFLM.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tflm_zephyr.errors import ModelError
from tflm_zephyr.model import Model, Operator, Quantization, Subgraph, Tensor, TensorType

_NONE = Quantization((0.0,), (0,), 0)
_REQUANTISE = "Convert the model again with a representative_dataset"
_PLAIN_LSTM = "Use a plain keras LSTM: no peepholes, projection or layer normalisation, time-major or not"
_PER_TENSOR_DENSE = "Convert with _experimental_disable_per_channel_quantization_for_dense_layers = True"
_UNROLL = "Build the LSTM with unroll=True, or convert it with a newer converter"


@dataclass(frozen=True)
class _Node:
    """One operator with its tensors; absent ones are None."""

    model: Model
    subgraph: Subgraph
    operator: Operator

    def input(self, place: int) -> Tensor | None:
        return self._tensor(self.operator.inputs, place)

    def output(self, place: int) -> Tensor | None:
        return self._tensor(self.operator.outputs, place)

    def _tensor(self, indices: tuple[int, ...], place: int) -> Tensor | None:
        if place >= len(indices) or indices[place] < 0:
            return None
        return self.subgraph.tensors[indices[place]]

    def fail(self, what: str, hint: str = _REQUANTISE) -> ModelError:
        where = f"operator {self.operator.index} ({self.operator.key}) of subgraph {self.subgraph.index}"
        return ModelError(f"{where} {what}", where=self.model.where, hint=hint)


def check_details(model: Model, subgraph: Subgraph, operator: Operator, *, pinned: bool = True) -> None:
    """ModelError when TFLM's kernel for this operator certainly refuses it, its types aside.

    `pinned`: also what only the kernels of the revision that Zephyr 4.1 pins cannot do.
    """
    node = _Node(model, subgraph, operator)
    for index in operator.intermediates:
        tensor = subgraph.tensors[index]
        if tensor.elements:
            raise node.fail(
                f"has the intermediate tensor {index} '{tensor.name}' of shape {list(tensor.shape)}, "
                "but TFLM takes only empty ones",
                _UNROLL,
            )
    checks = (_CHECKS.get(operator.key), _PINNED_CHECKS.get(operator.key) if pinned else None)
    for check in checks:
        if check is not None:
            check(node)


def _named(tensor: Tensor) -> str:
    return f"tensor {tensor.index} '{tensor.name}'"


def _quantised(node: _Node, tensor: Tensor | None) -> Quantization:
    if tensor is None:
        return _NONE
    if tensor.quantization is None:
        raise node.fail(f"needs quantisation parameters on {_named(tensor)} ({tensor.type.value})")
    return tensor.quantization


def _same(node: _Node, first: Tensor, second: Tensor) -> None:
    one, two = first.quantization or _NONE, second.quantization or _NONE
    if (one.scales[0], one.zero_points[0]) != (two.scales[0], two.zero_points[0]):
        pairs = [f"{q.scales[0]:g} and {q.zero_points[0]}" for q in (one, two)]
        raise node.fail(
            f"needs the same scale and zero point on {_named(first)} and {_named(second)}, which have "
            f"{pairs[0]}, and {pairs[1]}"
        )


def _zero_point(node: _Node, tensor: Tensor | None, wanted: int) -> None:
    if tensor is None:
        return
    found = (tensor.quantization or _NONE).zero_points[0]
    if found != wanted:
        raise node.fail(f"needs the zero point {wanted} on {_named(tensor)}, which has {found}")


def _convolution(filter_place: int, input_place: int, channel_dimension: int) -> Callable[[_Node], None]:
    def check(node: _Node) -> None:
        source, weights = node.input(input_place), node.input(filter_place)
        if source is None or weights is None or source.type is TensorType.FLOAT32:
            return
        _quantised(node, source)
        _scales(node, weights, channel_dimension)

    return check


def _scales(node: _Node, weights: Tensor, channel_dimension: int) -> None:
    quantization = _quantised(node, weights)
    count = len(quantization.scales)
    if count == 1 or channel_dimension >= len(weights.shape):
        return
    channels = weights.shape[channel_dimension]
    along = quantization.dimension
    if count != channels or not 0 <= along < len(weights.shape) or weights.shape[along] != count:
        raise node.fail(
            f"needs 1 or {channels} scales along dimension {channel_dimension} of {_named(weights)} with "
            f"shape {list(weights.shape)}, and it has {count} along dimension {along}"
        )


def _fully_connected(node: _Node) -> None:
    source, weights = node.input(0), node.input(1)
    if source is None or weights is None or source.type is TensorType.FLOAT32:
        return
    quantization = weights.quantization
    if quantization is None or not quantization.per_channel:
        _bias_scale(node, source, weights)
        return
    if weights.type is TensorType.INT4:
        raise node.fail(
            f"has per-channel scales on {_named(weights)}, which TFLM does not take for int4 weights",
            _PER_TENSOR_DENSE,
        )
    along, count = quantization.dimension, len(quantization.scales)
    if not 0 <= along < len(weights.shape) or weights.shape[along] != count:
        raise node.fail(
            f"has {count} scales along dimension {along} of {_named(weights)} with shape {list(weights.shape)}"
        )


def _fully_connected_int16(node: _Node) -> None:
    source, weights = node.input(0), node.input(1)
    if source is None or weights is None or source.type is not TensorType.INT16:
        return
    if weights.quantization is not None and weights.quantization.per_channel:
        raise node.fail(f"has per-channel scales on {_named(weights)} for int16 activations", _PER_TENSOR_DENSE)


def _bias_scale(node: _Node, source: Tensor, weights: Tensor) -> None:
    """GetQuantizedConvolutionMultipler: the bias has the scale of its products, to 2 % of the output's."""
    bias, output = node.input(2), node.output(0)
    if bias is None or output is None:
        return
    found, unit = ((t.quantization or _NONE).scales[0] for t in (bias, output))
    wanted = (source.quantization or _NONE).scales[0] * (weights.quantization or _NONE).scales[0]
    if not unit or not abs(wanted - found) / unit <= 0.02:
        raise node.fail(f"needs the scale {wanted:g} on {_named(bias)}, its bias, which has {found:g}")


def _quantize(node: _Node) -> None:
    output = node.output(0)
    if output is not None and len(_quantised(node, output).scales) != 1:
        raise node.fail(f"needs one scale on {_named(output)}, which is quantised per channel")


def _concatenation(node: _Node) -> None:
    output = node.output(0)
    if output is None:
        return
    for place in range(len(node.operator.inputs)):
        tensor = node.input(place)
        if tensor is None:
            continue
        if output.type is TensorType.INT8:
            _same(node, tensor, output)
        elif output.type is TensorType.INT16:
            _zero_point(node, tensor, 0)
    if output.type is TensorType.INT16:
        _zero_point(node, output, 0)


def _add_n(node: _Node) -> None:
    first = node.input(0)
    if first is None or first.type is not TensorType.INT8:
        return
    for place in range(1, len(node.operator.inputs)):
        tensor = node.input(place)
        if tensor is not None:
            _same(node, first, tensor)


def _reduce_max(node: _Node) -> None:
    source, output = node.input(0), node.output(0)
    if source is not None and output is not None and source.type is TensorType.INT8:
        _same(node, source, output)


def _sums(node: _Node) -> None:
    """EvalMeanHelper and EvalSumHelper write past arrays of two axes and five dimensions on the stack."""
    source, axis = node.input(0), node.input(1)
    if source is None or axis is None or axis.data is None or not source.shape:
        return
    rank = len(source.shape)
    values = struct.unpack(f"<{axis.elements}i", axis.data[: 4 * axis.elements])
    axes = {value % rank for value in values}
    if len(axes) > 2 or rank > 5:
        raise node.fail(
            f"reduces {len(axes)} of the {rank} dimensions of {_named(source)}, and TFLM's kernel has room for 2 of 5",
            "Reshape first so that the dimensions to be reduced are one, or reduce in steps",
        )


def _zero_int16(node: _Node) -> None:
    """Kernels whose int16 tensors must have zero point 0."""
    for tensor in (node.input(0), node.input(1), node.output(0)):
        if tensor is not None and tensor.type is TensorType.INT16:
            _zero_point(node, tensor, 0)


def _softmax(node: _Node) -> None:
    source, output = node.input(0), node.output(0)
    if source is None or output is None or source.type is TensorType.FLOAT32:
        return
    if source.type is TensorType.INT16:
        _zero_int16(node)
        scale, slack = 2.0**-15, 1e-3
    elif output.type is TensorType.INT16:
        _zero_point(node, output, -32768)
        scale, slack = 2.0**-16, 1e-3
    else:
        _zero_point(node, output, -128)
        scale, slack = 2.0**-8, 0.0
    found = (output.quantization or _NONE).scales[0]
    if abs(found - scale) > slack * scale * 1.001:
        raise node.fail(f"needs the scale {scale:g} on {_named(output)}, which has {found:g}")


def _logistic(node: _Node) -> None:
    source = node.input(0)
    if source is not None and source.type is TensorType.INT8:
        _zero_point(node, node.output(0), -128)
    _zero_int16(node)


def _log_softmax(node: _Node) -> None:
    source, output = node.input(0), node.output(0)
    if source is None or output is None or source.type is not TensorType.INT8:
        return
    _zero_point(node, output, 127)
    found = (output.quantization or _NONE).scales[0]
    if found != 16.0 / 256:
        raise node.fail(f"needs the scale {16 / 256:g} on {_named(output)}, which has {found:g}")


def _lstm(node: _Node) -> None:
    operator = node.operator
    if len(operator.inputs) != 24:
        raise node.fail(f"has {len(operator.inputs)} inputs, and TFLM takes 24", _PLAIN_LSTM)
    for places, name in ((range(9, 12), "peephole"), (range(16, 18), "projection"), (range(20, 24), "norm")):
        for place in places:
            tensor = node.input(place)
            if tensor is not None:
                raise node.fail(f"has a {name} tensor, {_named(tensor)}, which TFLM refuses", _PLAIN_LSTM)
    for place in (*range(1, 9), *range(12, 16)):
        if node.input(place) is None:
            raise node.fail(f"lacks its input {place}, which TFLM requires", _PLAIN_LSTM)
    for place in (18, 19):
        tensor = node.input(place)
        if tensor is None or not tensor.is_variable:
            raise node.fail(f"needs a variable tensor as its input {place} (state)", _PLAIN_LSTM)


def _svdf(node: _Node) -> None:
    if len(node.operator.inputs) != 5:
        raise node.fail(f"has {len(node.operator.inputs)} inputs, and TFLM takes 5", "Convert it again")
    state = node.input(4)
    if state is None or not state.is_variable:
        raise node.fail("needs a variable tensor as its input 4 (activation state)", "Convert it again")


_PINNED_CHECKS: Mapping[str, Callable[[_Node], None]] = {
    "FULLY_CONNECTED": _fully_connected_int16,
    "MEAN": _sums,
    "SUM": _sums,
}
_CHECKS: Mapping[str, Callable[[_Node], None]] = {
    "ADD_N": _add_n,
    "BATCH_MATMUL": _zero_int16,
    "CONCATENATION": _concatenation,
    "CONV_2D": _convolution(1, 0, 0),
    "DEPTHWISE_CONV_2D": _convolution(1, 0, 3),
    "FULLY_CONNECTED": _fully_connected,
    "LOGISTIC": _logistic,
    "LOG_SOFTMAX": _log_softmax,
    "MUL": _zero_int16,
    "QUANTIZE": _quantize,
    "REDUCE_MAX": _reduce_max,
    "SOFTMAX": _softmax,
    "SQUARED_DIFFERENCE": _zero_int16,
    "SVDF": _svdf,
    "TANH": _zero_int16,
    "TRANSPOSE_CONV": _convolution(1, 2, 0),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
}
