# SPDX-License-Identifier: Apache-2.0
"""Persistent allocations of the reference kernels on a 32-bit device: structs of Init, arrays of Prepare.

Struct sizes were measured by compiling each kernel of tensorflow/lite/micro/kernels and signal/micro/kernels
(revision 8d404de7) with arm-none-eabi-g++ for Cortex-M3, without TF_LITE_STATIC_MEMORY, as Zephyr does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tflm_zephyr.kernels.base import Sizes
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.model import Tensor, TensorType

# sizeof() what Init allocates, for operators that allocate nothing else.
_STRUCTS: Mapping[int, str] = {
    1: "SELECT_V2",
    4: "L2_NORMALIZATION SPACE_TO_BATCH_ND SignalPCAN VAR_HANDLE",
    8: "CALL_ONCE CIRCULAR_BUFFER IF RELU6 SignalEnergy SignalFilterBankLog SignalWindow WHILE",
    12: "ethos-u",
    16: "LOGISTIC TANH",
    20: "HARD_SWISH MIRROR_PAD",
    24: "CONCATENATION LEAKY_RELU",
    28: "ABS DIV PRELU RELU RSQRT",
    32: ("AVERAGE_POOL_2D DEQUANTIZE EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL MAX_POOL_2D NOT_EQUAL QUANTIZE"),
    36: "MUL SVDF",
    40: "MEAN REDUCE_MAX SUM",
    52: "SUB",
    56: "PAD PADV2",
    60: "ADD",
    84: "STRIDED_SLICE",
    112: "SQUARED_DIFFERENCE TFLite_Detection_PostProcess",
    256: "ELU",
}
_EVAL_TENSOR = 12  # sizeof(TfLiteEvalTensor)
_MATMUL_QUANTISATION = 28  # sizeof(*OpDataBatchMatmul::quantization)
_SOFTMAX_TABLE = 2 * 513  # an int16 lookup table
_RING = 24  # sizeof(tflm_signal::CircularBuffer)
_QUANTISED = (TensorType.INT8, TensorType.INT16)


def _fixed(size: int) -> Sizes:
    return lambda node: (size,)


def dims_copy(rank: int) -> int:
    """Bytes of a TfLiteIntArray (CreateWritableTensorDimsWithCopy)."""
    return 4 * (1 + rank)


def channels(node: Node, place: int, dimension: int) -> tuple[int, ...]:
    """A multiplier and a shift for each output channel."""
    return (4 * node.dim(node.input(place), dimension),) * 2


def dense_channels(source: Tensor, weights: Tensor) -> tuple[int, ...]:
    """The same for weights with several scales (CalculateOpDataFullyConnected); nothing for one scale."""
    if source.type is TensorType.FLOAT32 or weights.quantization is None:
        return ()
    count = len(weights.quantization.scales)
    return (4 * count,) * 2 if count > 1 else ()


def lstm_gates(node: Node) -> tuple[int, ...]:
    """dense_channels of the eight weight tensors of an integer LSTM."""
    if node.input(19).type is not TensorType.INT16:
        return ()
    found: list[int] = []
    for gate in (2, 1, 3, 4):  # forget, input, cell, output
        found += dense_channels(node.input(0), node.input(gate))
        found += dense_channels(node.input(18), node.input(gate + 4))
    return tuple(found)


def transposed(node: Node) -> tuple[int, ...]:
    """BATCH_MATMUL's copies of operands that it has to transpose."""
    found: list[int] = []
    for place, needed in ((0, node.option("adj_x")), (1, not node.option("adj_y"))):
        if needed:
            tensor = node.input(place)
            found += (_EVAL_TENSOR, dims_copy(len(tensor.shape)), tensor.size_bytes)
    return tuple(found)


def matmul_quantisation(node: Node) -> tuple[int, ...]:
    """BATCH_MATMUL's multipliers, for integers."""
    return (_MATMUL_QUANTISATION,) if node.input(0).type in _QUANTISED else ()


def softmax_tables(node: Node) -> tuple[int, ...]:
    """Two lookup tables, for int16."""
    return (_SOFTMAX_TABLE,) * 2 if node.input(0).type is TensorType.INT16 else ()


def _if_int8(size: int) -> Sizes:
    return lambda node: (size,) if node.output().type is TensorType.INT8 else ()


def _output_dims(node: Node) -> tuple[int, ...]:
    return (dims_copy(len(node.output().shape)),)


def _batch_matmul(node: Node) -> tuple[int, ...]:
    return (16, *matmul_quantisation(node), *transposed(node), *_output_dims(node))


def _rings(outer: int, capacity: int) -> tuple[int, ...]:
    """Two arrays of pointers, then a ring buffer for each outer index."""
    return (4 * outer, 4 * outer, *((_RING + 4 * capacity,) * outer))


def _outer(node: Node, inner_dimensions: int) -> int:
    source = node.input(0)
    inner = 1
    for dimension in range(1, inner_dimensions + 1):
        inner *= node.dim(source, -dimension)
    return source.elements // inner if inner else 0


def _framer(node: Node) -> tuple[int, ...]:
    size, step = node.flexbuffer(2)  # frame_size, frame_step
    if size < 0 or step <= 0:
        raise node.fail(f"has frames of {size} samples every {step}")
    return (28, *_rings(_outer(node, 1), -(-size // step) * step))


def _delay(node: Node) -> tuple[int, ...]:
    (delay,) = node.flexbuffer(1)  # delay_length
    return (20, *_rings(_outer(node, 1), node.dim(node.input(0), -1) + delay))


def _stacker(node: Node) -> tuple[int, ...]:
    count, left, right = node.flexbuffer(3)  # num_channels, stacker_left_context, stacker_right_context
    return 36, _RING + 4 * count * (left + right + 1)


def _fft(struct: int, inverse: bool) -> Sizes:
    def sizes(node: Node) -> tuple[int, ...]:
        _, length = node.flexbuffer(2)  # T, fft_length
        kind = node.input(0).type
        complex_bytes = 4 if kind is TensorType.INT16 else 8
        half = length // 2
        # kiss_fftr_alloc: its state, kiss_fft's state with the twiddles, a buffer and more twiddles
        state = 12 + 264 + complex_bytes * half + complex_bytes * (half * 3 // 2)
        return struct, state + (8 if inverse else 0)

    return sizes


def _filter_bank(node: Node) -> tuple[int, ...]:
    (count,) = node.flexbuffer(1)  # num_channels
    return 36, 8 * (count + 1)


def _spectral_subtraction(node: Node) -> tuple[int, ...]:
    return 44, 4 * node.flexbuffer(5)[4]  # num_channels


def _overlap_add(node: Node) -> tuple[int, ...]:
    source = node.input(0)
    outer, frame = _outer(node, 2), node.dim(source, -1)
    return (24, 4 * outer, *((frame * source.type.size_bytes,) * outer))


def _table(pairs: Iterable[tuple[int, str]]) -> dict[str, Sizes]:
    return {key: _fixed(size) for size, keys in pairs for key in keys.split()}


REFERENCE_PERSISTENT: Mapping[str, Sizes] = {
    **_table(_STRUCTS.items()),
    "ADD_N": _if_int8(40),
    "ASSIGN_VARIABLE": lambda node: (node.input(1).size_bytes,),  # the first assignment of each variable
    "BATCH_MATMUL": _batch_matmul,
    "CONV_2D": lambda node: (56, *channels(node, 1, 0)),
    "CUMSUM": _if_int8(36),
    "DEPTHWISE_CONV_2D": lambda node: (56, *channels(node, 1, 3)),
    "DEPTH_TO_SPACE": _output_dims,
    "EMBEDDING_LOOKUP": lambda node: (*_output_dims(node), 8),
    "FULLY_CONNECTED": lambda node: (48, *dense_channels(node.input(0), node.input(1))),
    "GATHER": _output_dims,
    "GATHER_ND": _output_dims,
    "L2_POOL_2D": _output_dims,
    "LOG_SOFTMAX": _if_int8(28),
    "SOFTMAX": lambda node: (56, *softmax_tables(node)),
    "SPACE_TO_DEPTH": _output_dims,
    "SignalDelay": _delay,
    "SignalFilterBank": _filter_bank,
    "SignalFilterBankSpectralSubtraction": _spectral_subtraction,
    "SignalFramer": _framer,
    "SignalIrfft": _fft(24, inverse=True),
    "SignalOverlapAdd": _overlap_add,
    "SignalRfft": _fft(32, inverse=False),
    "SignalStacker": _stacker,
    "TRANSPOSE_CONV": lambda node: (72, *channels(node, 1, 0)),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lambda node: (688, *lstm_gates(node)),
}
