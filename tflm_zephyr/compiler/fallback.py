# SPDX-License-Identifier: Apache-2.0
"""A fallback kernel as a layer: an operator without direct code keeps TFLM's own kernel, with its tables as constants.

The kernel gets what the MicroInterpreter would give it: a node, TfLiteEvalTensors, and TfLiteTensors while it prepares.
All of them come from constants; see templates/app/compiled/src/tflm_kernel.hpp.j2. Its Init and Prepare run when the
app starts, with persistent memory of just the bytes that kernels.KernelLibrary knows.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from tflm_zephyr.compiler.builtin_options import builtin_options
from tflm_zephyr.compiler.ir.calls import Access, KernelCall
from tflm_zephyr.compiler.ir.kernels import Kernel
from tflm_zephyr.compiler.ir.layers import FallbackKernel, FallbackLayer, FallbackTensor
from tflm_zephyr.compiler.ir.structs import ConstantArray
from tflm_zephyr.compiler.layer_builder import Constants, NotDirectError, title_of
from tflm_zephyr.kernels import KernelLibrary, Node
from tflm_zephyr.memory_planner import align_up
from tflm_zephyr.model import Operator, Tensor, TensorType
from tflm_zephyr.tflm import ALIGNMENT

_CHANGED_OPTIONS = {"L2_POOL_2D": 40}
"""sizeof of the options that a kernel's Prepare writes to, by operator: TfLitePoolParams has the computed padding
(tensorflow/lite/micro/kernels/l2_pool_2d.cc at 8d404de7 and fcc760af; the only one that does)."""

Registrations = Mapping[tuple[bool, str], Kernel]
"""The function of each operator's registration; the key is whether it is a custom operator, and its key."""


def fallback_layer(
    node: Node, libraries: Sequence[KernelLibrary], constants: Constants, registrations: Registrations
) -> FallbackLayer:
    """The layer that calls TFLM's own kernel of `node`. NotDirectError where none is named."""
    operator = node.operator
    registration = registrations.get((operator.custom_code is not None, operator.key))
    if registration is None:
        raise NotDirectError("has no direct code")
    kernel = _kernel(node, libraries, constants, registration)
    reads, writes = _accesses(node)
    return FallbackLayer(
        operator=operator.index,
        key=operator.key,
        title=title_of(node),
        calls=(KernelCall(registration, (), reads, writes),),
        scratch_bytes=sum(align_up(size, ALIGNMENT) for size in kernel.scratch_bytes),
        kernel=kernel,
    )


def _kernel(
    node: Node, libraries: Sequence[KernelLibrary], constants: Constants, registration: Kernel
) -> FallbackKernel:
    operator, tensors = node.operator, node.subgraph.tensors
    try:
        options = builtin_options(operator, libraries[0].core.revision)
    except ValueError as why:
        raise NotDirectError(str(why)) from None
    custom = ""
    if operator.custom_options:
        name, data = f"options_{operator.index}", operator.custom_options
        comment = f"layer {operator.index}: options"
        custom = constants.array(ConstantArray(name, TensorType.UINT8, len(data), data, comment))
    looked_at = operator.intermediates if operator.custom_code is not None else ()
    used = tuple(dict.fromkeys(i for i in (*operator.inputs, *operator.outputs, *looked_at) if i >= 0))
    place = {tensor: number for number, tensor in enumerate(used)} | {-1: -1}
    asked = [library.scratch(node.model, node.subgraph, operator) for library in libraries]
    kept = [library.persistent(node.model, node.subgraph, operator) for library in libraries]
    return FallbackKernel(
        registration=registration,
        tensors=tuple(_tensor(operator, tensors[i], constants) for i in used),
        inputs=tuple(place[i] for i in operator.inputs),
        outputs=tuple(place[i] for i in operator.outputs),
        intermediates=tuple(place[i] for i in looked_at),
        options=options,
        custom_options=custom,
        custom_bytes=len(operator.custom_options),
        is_custom=operator.custom_code is not None,
        scratch_bytes=tuple(max(sizes) for sizes in zip_longest(*asked, fillvalue=0)),
        persistent_bytes=max(sum(align_up(size, ALIGNMENT) for size in sizes) for sizes in kept),
        known=all(library.knows(operator.key) for library in libraries),
        options_copy_bytes=align_up(0 if operator.custom_code else _CHANGED_OPTIONS.get(operator.key, 0), ALIGNMENT),
    )


def _tensor(operator: Operator, tensor: Tensor, constants: Constants) -> FallbackTensor:
    where = f"layer {operator.index}: "
    constant = scales = zero_points = ""
    if tensor.data is not None:
        packed = len(tensor.data) != tensor.size_bytes
        kind, elements = (TensorType.UINT8, len(tensor.data)) if packed else (tensor.type, tensor.elements)
        name = f"tensor{tensor.index}_{operator.index}"
        own = operator.custom_code is not None
        array = ConstantArray(name, kind, elements, tensor.data, where + tensor.label, as_in_models=own)
        constant = constants.array(array)
    if tensor.quantization is not None:
        count = len(tensor.quantization.scales)
        name = f"{tensor.index}_{operator.index}"

        def named(kind: str, code: str, values: Sequence[float], comment: str) -> str:
            data = struct.pack(f"<i{count}{code}", count, *values)
            text = f"{where}number of {comment} {tensor.label}"
            return constants.array(ConstantArray(f"{kind}{name}", TensorType.INT32, 1 + count, data, text))

        scales = named("scales", "f", tensor.quantization.scales, "scales, scales of")
        zero_points = named("zero_points", "i", tensor.quantization.zero_points, "zero points, those of")
    return FallbackTensor(
        tensor=tensor.index,
        type=tensor.type,
        shape=tensor.shape,
        size_bytes=tensor.size_bytes,
        constant=constant,
        scales=scales,
        zero_points=zero_points,
        dimension=0 if tensor.quantization is None else tensor.quantization.dimension,
        variable=tensor.is_variable,
    )


def _accesses(node: Node) -> tuple[tuple[Access, ...], tuple[Access, ...]]:
    """All inputs are read, all outputs and the variables among the inputs are written; each whole."""
    tensors, operator = node.subgraph.tensors, node.operator
    given = [tensors[i] for i in dict.fromkeys(operator.inputs) if i >= 0 and not tensors[i].is_constant]
    taken = [tensors[i] for i in dict.fromkeys(operator.outputs)] + [one for one in given if one.is_variable]
    reads, writes = (
        tuple(Access(tensor.index, 0, tensor.size_bytes) for tensor in side if tensor.size_bytes)
        for side in (given, taken)
    )
    return reads, writes
