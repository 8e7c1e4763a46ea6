# SPDX-License-Identifier: Apache-2.0
"""TFLM's own kernel as a layer: an operator without direct code keeps its kernel, in a frame of constants.

The kernel gets what the MicroInterpreter would give it: a node, TfLiteEvalTensors, and TfLiteTensors while it prepares.
All of them come from constants; see templates/app/compiled/src/tflm_kernel.hpp.j2. Its Init and Prepare run when the
app starts, with persistent memory of just the bytes that kernels.KernelLibrary knows.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from tflm_zephyr.compiler.builtin_options import builtin_options
from tflm_zephyr.compiler.layer_builder import Constants, NotDirectError, title_of
from tflm_zephyr.compiler.program import Access, Call, Framed, FramedTensor, Layer
from tflm_zephyr.kernels import KernelLibrary, Node, macs
from tflm_zephyr.memory_planner import align_up
from tflm_zephyr.model import Operator, Tensor
from tflm_zephyr.tflm import ALIGNMENT

_CHANGED_OPTIONS = {"L2_POOL_2D": 40}
"""sizeof of the options that a kernel's Prepare writes to, by operator: TfLitePoolParams has the computed padding
(tensorflow/lite/micro/kernels/l2_pool_2d.cc at 8d404de7 and fcc760af; the only one that does)."""

Registrations = Mapping[tuple[bool, str], str]
"""The C++ expression of each operator's registration; the key is whether it is a custom operator, and its key."""


def framed_layer(
    node: Node, libraries: Sequence[KernelLibrary], constants: Constants, registrations: Registrations
) -> Layer:
    """The layer that calls the kernel of `node` in its frame. NotDirectError where none is named."""
    operator = node.operator
    register = registrations.get((operator.custom_code is not None, operator.key), "")
    if not register:
        raise NotDirectError("has no direct code")
    framed = _framed(node, libraries, constants, register)
    reads, writes = _accesses(node)
    return Layer(
        operator=operator.index,
        key=operator.key,
        title=title_of(node),
        pointers=(),
        values=(),
        calls=(Call(register.removesuffix("()"), (), reads, writes),),
        headers=(),
        functions=(),
        scratch_bytes=sum(align_up(size, ALIGNMENT) for size in framed.scratch_bytes),
        macs=macs(node),
        framed=framed,
    )


def _framed(node: Node, libraries: Sequence[KernelLibrary], constants: Constants, register: str) -> Framed:
    operator, tensors = node.operator, node.subgraph.tensors
    try:
        options = builtin_options(operator, libraries[0].core.revision)
    except ValueError as why:
        raise NotDirectError(str(why)) from None
    custom = ""
    if operator.custom_options:
        custom = constants.array(
            f"options_{operator.index}", "uint8_t", len(operator.custom_options), operator.custom_options,
            f"layer {operator.index}: options",
        )  # fmt: skip
    looked_at = operator.intermediates if operator.custom_code is not None else ()
    used = tuple(dict.fromkeys(i for i in (*operator.inputs, *operator.outputs, *looked_at) if i >= 0))
    place = {tensor: number for number, tensor in enumerate(used)} | {-1: -1}
    asked = [library.scratch(node.model, node.subgraph, operator) for library in libraries]
    kept = [library.persistent(node.model, node.subgraph, operator) for library in libraries]
    return Framed(
        register=register,
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


def _tensor(operator: Operator, tensor: Tensor, constants: Constants) -> FramedTensor:
    where = f"layer {operator.index}: "
    constant = scales = zero_points = ""
    if tensor.data is not None:
        packed = len(tensor.data) != tensor.size_bytes
        c_type, elements = ("uint8_t", len(tensor.data)) if packed else (tensor.type.c_type, tensor.elements)
        name = f"tensor{tensor.index}_{operator.index}"
        own = operator.custom_code is not None
        constant = constants.array(name, c_type, elements, tensor.data, where + tensor.label, as_in_models=own)
    if tensor.quantization is not None:
        found = tensor.quantization
        count = len(found.scales)
        name = f"{tensor.index}_{operator.index}"
        data = struct.pack(f"<i{count}f", count, *found.scales)
        scales = constants.array(
            f"scales{name}", "int32_t", 1 + count, data, f"{where}number of scales, scales of {tensor.label}"
        )
        data = struct.pack(f"<{1 + count}i", count, *found.zero_points)
        zero_points = constants.array(
            f"zero_points{name}", "int32_t", 1 + count, data, f"{where}number of zero points, those of {tensor.label}"
        )
    return FramedTensor(
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
