# SPDX-License-Identifier: Apache-2.0
"""sizeof() and alignof() of what TFLM puts into its arena, on a 32-bit Arm core.

Measured on tflite-micro at revision 8d404de7 with arm-none-eabi-g++ 12.2 (-mcpu=cortex-m3 -mthumb -std=c++17; its
ABI has short enums), without TF_LITE_STATIC_MEMORY, as Zephyr's tflite-micro module compiles it; the sizes that
differ with it are in CORTEX_M_STATIC. tests/zephyr/test_struct_sizes.py measures them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

Layout = tuple[int, int]
"""sizeof and alignof, in bytes."""


@dataclass(frozen=True, eq=False)
class StructSizes:
    """The layouts of one target. `own_objects` are what MicroAllocator::Create() allocates, in order.

    planner_record_bytes: GreedyMemoryPlanner::per_buffer_size().
    """

    pointer_bytes: int
    planner_record_bytes: int
    own_objects: tuple[str, ...]
    layouts: Mapping[str, Layout]

    def of(self, name: str) -> Layout:
        """sizeof and alignof of a struct."""
        return self.layouts[name]


def _layouts(rows: Mapping[Layout, str]) -> dict[str, Layout]:
    return {name: layout for layout, names in rows.items() for name in names.split()}


CORTEX_M = StructSizes(
    pointer_bytes=4,
    planner_record_bytes=40,
    own_objects=("SingleArenaBufferAllocator", "GreedyMemoryPlanner", "MicroAllocator"),
    layouts=MappingProxyType(
        _layouts(
            {
                (1, 1): "TfLiteArgMaxParams TfLiteArgMinParams TfLiteDivParams TfLiteL2NormParams "
                "TfLiteMirrorPaddingParams TfLiteMulParams TfLiteReducerParams TfLiteShapeParams",
                (2, 1): "TfLiteAddParams TfLiteCastParams TfLiteCumsumParams TfLiteResizeBilinearParams "
                "TfLiteResizeNearestNeighborParams TfLiteSubParams",
                (3, 1): "TfLiteBatchMatMulParams",
                (4, 4): "TfLiteCallOnceParams TfLiteDepthToSpaceParams TfLiteLeakyReluParams TfLiteSoftmaxParams "
                "TfLiteSpaceToDepthParams TfLiteSplitParams TfLiteSplitVParams ScratchBufferHandle",
                (5, 1): "TfLiteFullyConnectedParams",
                (8, 4): "TfLiteConcatenationParams TfLiteGatherParams TfLiteIfParams TfLitePackParams "
                "TfLiteSVDFParams TfLiteUnpackParams TfLiteVarHandleParams TfLiteWhileParams SubgraphAllocations "
                "MicroBuiltinDataAllocator",
                (12, 4): "TfLiteEvalTensor TfLiteAffineQuantization ScratchBufferRequest MicroResourceVariables",
                (16, 4): "TfLiteTransposeConvParams TfLiteUnidirectionalSequenceLSTMParams",
                (20, 4): "MicroResourceVariable",
                (24, 4): "TfLiteStridedSliceParams AllocationInfo",
                (28, 4): "TfLiteConvParams TfLiteDepthwiseConvParams",
                (36, 4): "TfLiteReshapeParams TfLiteSqueezeParams SingleArenaBufferAllocator MicroAllocator",
                (40, 4): "TfLitePoolParams",
                (44, 4): "GreedyMemoryPlanner NodeAndRegistration",
                (64, 4): "TfLiteTensor",
            }
        )
    ),
)

CORTEX_M_STATIC = replace(
    CORTEX_M,
    layouts=MappingProxyType({**CORTEX_M.layouts, "NodeAndRegistration": (32, 4), "TfLiteTensor": (32, 4)}),
)
"""With TF_LITE_STATIC_MEMORY, as TFLM's own Makefile compiles it."""


def with_layout(sizes: StructSizes, name: str, layout: Layout) -> StructSizes:
    """`sizes` where the struct `name` has another layout."""
    return replace(sizes, layouts=MappingProxyType({**sizes.layouts, name: layout}))


PREALLOCATED_ALLOCATOR: Layout = (48, 4)
"""PreallocatedAllocator (templates/app/interpreter/src/preallocated.hpp.j2), which takes MicroAllocator's place."""

# What an operator's parse function allocates (tensorflow/lite/core/api/flatbuffer_conversions.cc with the parse
# functions of micro_mutable_op_resolver.h); those that are not here allocate nothing.
BUILTIN_DATA: Mapping[str, str] = MappingProxyType(
    {
        "ADD": "TfLiteAddParams",
        "ARG_MAX": "TfLiteArgMaxParams",
        "ARG_MIN": "TfLiteArgMinParams",
        "AVERAGE_POOL_2D": "TfLitePoolParams",
        "BATCH_MATMUL": "TfLiteBatchMatMulParams",
        "CALL_ONCE": "TfLiteCallOnceParams",
        "CAST": "TfLiteCastParams",
        "CONCATENATION": "TfLiteConcatenationParams",
        "CONV_2D": "TfLiteConvParams",
        "CUMSUM": "TfLiteCumsumParams",
        "DEPTHWISE_CONV_2D": "TfLiteDepthwiseConvParams",
        "DEPTH_TO_SPACE": "TfLiteDepthToSpaceParams",
        "DIV": "TfLiteDivParams",
        "FULLY_CONNECTED": "TfLiteFullyConnectedParams",
        "GATHER": "TfLiteGatherParams",
        "IF": "TfLiteIfParams",
        "L2_NORMALIZATION": "TfLiteL2NormParams",
        "L2_POOL_2D": "TfLitePoolParams",
        "LEAKY_RELU": "TfLiteLeakyReluParams",
        "MAX_POOL_2D": "TfLitePoolParams",
        "MEAN": "TfLiteReducerParams",
        "MIRROR_PAD": "TfLiteMirrorPaddingParams",
        "MUL": "TfLiteMulParams",
        "PACK": "TfLitePackParams",
        "REDUCE_MAX": "TfLiteReducerParams",
        "RESHAPE": "TfLiteReshapeParams",
        "RESIZE_BILINEAR": "TfLiteResizeBilinearParams",
        "RESIZE_NEAREST_NEIGHBOR": "TfLiteResizeNearestNeighborParams",
        "SHAPE": "TfLiteShapeParams",
        "SOFTMAX": "TfLiteSoftmaxParams",
        "SPACE_TO_DEPTH": "TfLiteSpaceToDepthParams",
        "SPLIT": "TfLiteSplitParams",
        "SPLIT_V": "TfLiteSplitVParams",
        "SQUEEZE": "TfLiteSqueezeParams",
        "STRIDED_SLICE": "TfLiteStridedSliceParams",
        "SUB": "TfLiteSubParams",
        "SUM": "TfLiteReducerParams",
        "SVDF": "TfLiteSVDFParams",
        "TRANSPOSE_CONV": "TfLiteTransposeConvParams",
        "UNIDIRECTIONAL_SEQUENCE_LSTM": "TfLiteUnidirectionalSequenceLSTMParams",
        "UNPACK": "TfLiteUnpackParams",
        "VAR_HANDLE": "TfLiteVarHandleParams",
        "WHILE": "TfLiteWhileParams",
    }
)
