# SPDX-License-Identifier: Apache-2.0
"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR.

Sources: resize_bilinear.cc, resize_nearest_neighbor.cc (tensorflow/lite/micro/kernels).
"""

from __future__ import annotations

from collections.abc import Mapping

from tflm_zephyr.compiler.ir.kernels import Kernel, reference_kernel
from tflm_zephyr.compiler.layer_builder import LayerBuilder, integers
from tflm_zephyr.compiler.lowering import Lowering
from tflm_zephyr.compiler.operators.weights import reference_params
from tflm_zephyr.kernels import takes_half_pixels
from tflm_zephyr.model import TensorType


def _resize(b: LayerBuilder, kernel: Kernel, params: str, *, half_pixels: bool) -> None:
    node = b.node
    source, size, output = node.input(0), node.input(1), node.output()
    batches, _, _, depth = source.shape
    if integers(b, 1) != output.shape[1:3] or (batches, depth) != (output.shape[0], output.shape[3]):
        raise b.refuse("has shapes that do not fit each other")
    corners = bool(node.option("align_corners"))
    parameters = reference_params(b, params, align_corners=corners, half_pixel_centers=half_pixels)
    b.call(
        kernel,
        parameters,
        b.shape(source.shape),
        b.source(0, "input"),
        b.shape(size.shape),
        b.source(1, "size"),
        b.shape(output.shape),
        b.result(),
    )


def _check(b: LayerBuilder, *kinds: TensorType) -> None:
    source, size, output = b.node.input(0), b.node.input(1), b.node.output()
    if source.type not in kinds or source.type is not output.type or size.type is not TensorType.INT32:
        raise b.refuse(f"has no direct code for {b.node.types}")
    if not len(source.shape) == len(output.shape) == 4:
        raise b.refuse("has tensors that are not of four dimensions")


def resize_bilinear(b: LayerBuilder) -> None:
    """RESIZE_BILINEAR in int8 and float."""
    _check(b, TensorType.FLOAT32, TensorType.INT8, TensorType.UINT8)
    function = "ResizeBilinearInteger" if b.node.input(0).type is TensorType.INT8 else "ResizeBilinear"
    half_pixels = bool(b.node.option("half_pixel_centers"))
    if half_pixels and b.node.option("align_corners"):
        raise b.refuse("has both half_pixel_centers and align_corners")
    kernel = reference_kernel("resize_bilinear.h", function)
    _resize(b, kernel, "ResizeBilinearParams", half_pixels=half_pixels)


def resize_nearest_neighbor(b: LayerBuilder) -> None:
    """RESIZE_NEAREST_NEIGHBOR in int8, int16 and float; up to TFLM 8d404de7 without half_pixel_centers."""
    _check(b, TensorType.FLOAT32, TensorType.INT8, TensorType.INT16, TensorType.UINT8)
    _resize(
        b,
        reference_kernel("resize_nearest_neighbor.h", "ResizeNearestNeighbor"),
        "ResizeNearestNeighborParams",
        half_pixels=bool(b.node.option("half_pixel_centers")) and takes_half_pixels(b.libraries[0].core),
    )


OPERATORS: Mapping[str, Lowering] = {
    "RESIZE_BILINEAR": Lowering(resize_bilinear, legacy=True),
    "RESIZE_NEAREST_NEIGHBOR": Lowering(resize_nearest_neighbor, legacy=True),
}
