# SPDX-License-Identifier: Apache-2.0
"""Scratch and persistent memory of TFLM's CMSIS-NN kernels (micro/kernels/cmsis_nn, revision 8d404de7).

Zephyr's tflite-micro module takes all of them but transpose_conv.cc. Operators without a CMSIS-NN kernel have
the reference one.
"""

from __future__ import annotations

from collections.abc import Mapping

from tflm_zephyr.kernels import cmsis_nn_sizes as arm
from tflm_zephyr.kernels import persistent as shared
from tflm_zephyr.kernels import reference
from tflm_zephyr.kernels.base import Core, KernelLibrary, Sizes
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.model import TensorType
from tflm_zephyr.tflm import shipped_operator_table

_QUANTISED = (TensorType.INT8, TensorType.INT16)


def build(core: Core) -> KernelLibrary:
    """The library for a core; sizes depend on its DSP and MVE extensions."""
    asks = _Kernels(core)
    scratch = {**reference.scratch_table(core), **asks.scratch()}
    persistent = {**shared.REFERENCE_PERSISTENT, **asks.persistent()}
    return KernelLibrary("cmsis_nn", core, frozenset(shipped_operator_table().calls), scratch, persistent)


class _Kernels:
    def __init__(self, core: Core) -> None:
        self._core = core

    def scratch(self) -> Mapping[str, Sizes]:
        table: dict[str, Sizes] = {
            "AVERAGE_POOL_2D": self._average_pool,
            "BATCH_MATMUL": self._batch_matmul,
            "CONV_2D": self._conv,
            "DEPTHWISE_CONV_2D": self._depthwise,
            "FULLY_CONNECTED": self._fully_connected,
            "SVDF": self._svdf,
            "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
        }
        return table | ({"TRANSPOSE_CONV": self._transpose_conv} if self._core.transpose_conv else {})

    def persistent(self) -> Mapping[str, Sizes]:
        table: dict[str, Sizes] = {
            "AVERAGE_POOL_2D": lambda node: (36,),
            "BATCH_MATMUL": _batch_matmul_persistent,
            "CONV_2D": lambda node: (60, *_channels(node, 0)),
            "DEPTHWISE_CONV_2D": lambda node: (60, *_channels(node, 3)),
            "FULLY_CONNECTED": self._fully_connected_persistent,
            "MAX_POOL_2D": lambda node: (36,),
            "SOFTMAX": lambda node: (64, *shared.softmax_tables(node)),
            "SVDF": self._svdf_persistent,
            "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm_persistent,
        }
        if self._core.transpose_conv:
            table["TRANSPOSE_CONV"] = lambda node: (76, *shared.channels(node, 1, 0))
        return table

    def _conv(self, node: Node) -> tuple[int, ...]:
        kind = node.input(0).type
        if kind not in _QUANTISED:
            return ()
        window = _window(node, node.input(1).shape)
        if kind is TensorType.INT8:
            return _asked(arm.convolve_s8(self._core, window))
        # Prepare looks for the bias among the outputs, finds none, and so asks for int32 biases too.
        return _asked(arm.convolve_s16(self._core, window.input[2], window.filter))

    def _depthwise(self, node: Node) -> tuple[int, ...]:
        if node.input(0).type is not TensorType.INT8:
            return ()
        window, weights = _window(node, node.input(1).shape), node.input(1).type
        sizes = arm.depthwise_s4 if weights is TensorType.INT4 else arm.depthwise_s8
        return _asked(sizes(self._core, window))

    def _fully_connected(self, node: Node) -> tuple[int, ...]:
        weights, output = node.input(1), node.output()
        if node.input(0).type is not TensorType.INT8 or weights.type is TensorType.INT4:
            return ()
        out_depth = node.dim(output, -1)
        if self._as_convolution(node):
            one_scale = not shared.dense_channels(node.input(0), weights)
            return (8 * out_depth,) if one_scale else ()
        if self._core.optimise_for == "speed" and weights.is_constant:
            return ()
        return _asked(arm.fully_connected_s8(self._core, out_depth))

    @staticmethod
    def _as_convolution(node: Node) -> bool:
        return len(node.output().shape) > 2 and node.dim(node.input(1), -1) % 4 == 0

    def _fully_connected_persistent(self, node: Node) -> tuple[int, ...]:
        source, weights = node.input(0), node.input(1)
        sums: tuple[int, ...] = ()
        if (
            self._core.optimise_for == "speed"
            and source.type is TensorType.INT8
            and weights.type is TensorType.INT8
            and weights.is_constant
            and not self._as_convolution(node)
        ):
            sums = _asked(arm.fully_connected_s8(self._core, node.dim(node.output(), -1)))
        return (72, *shared.dense_channels(source, weights), *sums)

    def _average_pool(self, node: Node) -> tuple[int, ...]:
        source = node.input(0)
        if source.type not in _QUANTISED:
            return ()
        return _asked(arm.average_pool(self._core, node.dim(source, 3)))

    def _batch_matmul(self, node: Node) -> tuple[int, ...]:
        if node.input(0).type is not TensorType.INT8:
            return ()
        return _asked(arm.fully_connected_s8(self._core, node.dim(node.output(), -1)))

    def _svdf(self, node: Node) -> tuple[int, ...]:
        asked = reference.svdf(node)
        return (*asked, *self._svdf_sums(node)) if self._core.optimise_for == "size" else asked

    def _svdf_persistent(self, node: Node) -> tuple[int, ...]:
        return (40, *self._svdf_sums(node)) if self._core.optimise_for == "speed" else (40,)

    def _svdf_sums(self, node: Node) -> tuple[int, ...]:
        if node.input(0).type is not TensorType.INT8:
            return ()
        return _asked(arm.fully_connected_s8(self._core, node.dim(node.input(1), 0)))

    def _transpose_conv(self, node: Node) -> tuple[int, ...]:
        source, weights = node.input(2), node.input(1)
        if source.type is not TensorType.INT8:
            return reference.transpose_conv(node)
        return arm.transpose_conv_s8(
            self._core,
            (node.dim(source, 1), node.dim(source, 2), node.dim(source, 3)),
            (node.dim(weights, 1), node.dim(weights, 2)),
            node.dim(weights, 0),
            (node.option("stride_h"), node.option("stride_w")),
        )


def _asked(size: int) -> tuple[int, ...]:
    """A buffer of no bytes is not asked for."""
    return (size,) if size > 0 else ()


def _window(node: Node, filter_shape: tuple[int, ...]) -> arm.Window:
    source, output = node.input(0), node.output()
    if not len(source.shape) == len(output.shape) == len(filter_shape) == 4:
        raise node.fail("needs tensors of four dimensions")
    batch, height, width, depth = source.shape
    filter_height, filter_width = filter_shape[1:3]
    stride = (node.option("stride_h"), node.option("stride_w"))
    dilation = (node.option("dilation_h_factor"), node.option("dilation_w_factor"))
    return arm.Window(
        input=(height, width, depth),
        filter=(filter_height, filter_width),
        output=(output.shape[1], output.shape[2], output.shape[3]),
        stride=stride,
        padding=(
            node.padding(height, filter_height, stride[0], dilation[0]),
            node.padding(width, filter_width, stride[1], dilation[1]),
        ),
        dilation=dilation,
        batch=batch,
    )


def _channels(node: Node, dimension: int) -> tuple[int, ...]:
    return shared.channels(node, 1, dimension) if node.input(0).type in _QUANTISED else ()


def _batch_matmul_persistent(node: Node) -> tuple[int, ...]:
    dims = shared.dims_copy(len(node.output().shape))
    return (36, *shared.transposed(node), dims, *shared.matmul_quantisation(node))


def _is_integer_lstm(node: Node) -> bool:
    return node.input(0).type in _QUANTISED and node.input(19).type is TensorType.INT16


def _lstm(node: Node) -> tuple[int, ...]:
    return reference.lstm(node, 3 if _is_integer_lstm(node) else 4)


def _lstm_persistent(node: Node) -> tuple[int, ...]:
    sums: tuple[int, ...] = ()
    if _is_integer_lstm(node):
        bias = 4 if node.input(0).type is TensorType.INT8 else 8
        sums = (bias * node.dim(node.input(18), 1),) * 8
    return (912, *shared.lstm_gates(node), *sums)
