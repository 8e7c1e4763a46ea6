# SPDX-License-Identifier: Apache-2.0
"""Preallocated tensors, which buffers of the app hold: found in a model by name or index, and refused where TFLM
does not allow it.

TFLM plans no tensor whose data pointer is set before (micro_allocation_info.cc, revision 8d404de7). As its RFC 001
says (tensorflow/lite/micro/docs/rfc), a tensor that an offline plan places cannot be preallocated as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from tflm_zephyr.errors import AppError, PlanError
from tflm_zephyr.model import Model, Tensor, TensorType, resource_handles, shown


def preallocated_tensors(model: Model, names: Sequence[str | int]) -> tuple[int, ...]:
    """Indices in the main subgraph of the tensors `names`, in their order.

    AppError for a tensor that does not exist, is named twice, needs no memory, or is a variable, a constant or the
    handle of a resource variable; PlanError for a tensor that a plan in the model places.
    """
    found: list[int] = []
    rows, handles = model.offline_plan, resource_handles(model.main)
    for name in names:
        tensor = _find(model, name)
        if tensor.index in found:
            raise _refused(model, f"{tensor.label} is preallocated twice", "Name it once")
        if tensor.is_constant or tensor.is_variable:
            kind = "a constant" if tensor.is_constant else "a variable"
            raise _refused(model, f"{tensor.label} is {kind}, which TFLM keeps itself", "Name another tensor")
        if tensor.type is TensorType.RESOURCE or tensor.index in handles:
            what = f"{tensor.label} is a handle of a resource variable, which its kernel keeps itself"
            raise _refused(model, what, "Name another tensor")
        if not tensor.type.has_size or tensor.size_bytes == 0:
            raise _refused(model, f"{tensor.label} needs no memory", "Name another tensor")
        if rows is not None and rows[tensor.index] >= 0:  # the main subgraph's rows come first
            raise PlanError(
                f"{tensor.label} is preallocated, but the model's plan places it at offset {rows[tensor.index]}",
                where=model.where,
                hint="Take the tensor out of the plan, or plan the model again",
            )
        found.append(tensor.index)
    return tuple(found)


def _find(model: Model, name: str | int) -> Tensor:
    tensors = model.main.tensors
    named = [] if isinstance(name, int) else [tensor for tensor in tensors if tensor.name == name]
    if len(named) == 1:
        return named[0]
    if named:
        indices = ", ".join(str(tensor.index) for tensor in named)
        raise _refused(model, f"tensors {indices} are all named '{shown(str(name))}'", "Name it by its index")
    if isinstance(name, int) or (name.isascii() and name.isdigit()):
        index = int(name)
        if 0 <= index < len(tensors):
            return tensors[index]
        raise _refused(model, f"no tensor {shown(str(name))}; it has {len(tensors)}", "Name another tensor")
    ends = [f"{tensors[i].label}" for i in (*model.main.inputs, *model.main.outputs)]
    hint = f"Its inputs and outputs are {', '.join(ends[:6])}{', ...' if len(ends) > 6 else ''}"
    raise _refused(model, f"no tensor named '{shown(name)}'", hint)


def _refused(model: Model, what: str, hint: str) -> AppError:
    return AppError(f"preallocated: {what}", where=model.where, hint=hint)
