# SPDX-License-Identifier: Apache-2.0
"""Real values to a tensor's elements and back, with the tensor's own type, scale and zero point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tflm_zephyr.errors import ModelError, ToolError
from tflm_zephyr.model import Model, Tensor

if TYPE_CHECKING:
    import numpy


class TensorLike(Protocol):
    """An input or output as a model or a device describes it. `scale` is None or 0 when not quantised."""

    @property
    def name(self) -> str:
        """Its name in the model."""
        ...

    @property
    def type(self) -> str:
        """Numpy's name of its elements' type."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dimensions."""
        ...

    @property
    def scale(self) -> float | None:
        """The real value of one step."""
        ...

    @property
    def zero_point(self) -> int:
        """The element that stands for 0."""
        ...


@dataclass(frozen=True)
class TensorForm:
    """A model's tensor; see TensorLike."""

    name: str
    type: str
    shape: tuple[int, ...]
    scale: float | None
    zero_point: int


def form_of(tensor: Tensor) -> TensorForm:
    """A model's tensor; one with a scale for each channel counts as not quantised."""
    quantization = tensor.quantization
    if quantization is None or len(quantization.scales) != 1 or quantization.scales[0] <= 0:
        return TensorForm(tensor.name, tensor.type.value, tensor.shape, None, 0)
    return TensorForm(tensor.name, tensor.type.value, tensor.shape, quantization.scales[0], quantization.zero_points[0])


def input_forms(model: Model) -> tuple[TensorForm, ...]:
    """The main subgraph's inputs."""
    return tuple(form_of(model.main.tensors[index]) for index in model.main.inputs)


def output_forms(model: Model) -> tuple[TensorForm, ...]:
    """The main subgraph's outputs."""
    return tuple(form_of(model.main.tensors[index]) for index in model.main.outputs)


def element_type(tensor: TensorLike) -> numpy.dtype[Any]:
    """Numpy's dtype of the elements, little endian. Raises ModelError for a type that arrays cannot hold."""
    import numpy

    try:
        found: numpy.dtype[Any] = numpy.dtype(tensor.type).newbyteorder("<")
        return found
    except TypeError:
        raise ModelError(f"tensor {tensor.name} is of type {tensor.type}, which arrays cannot hold") from None


def elements(values: numpy.ndarray, tensor: TensorLike, where: str, *, raw: bool = False) -> numpy.ndarray:
    """`values` as elements of `tensor`, in their shape.

    An array of the tensor's own type is taken as it is. Floats for a quantised tensor are quantised with the
    tensor's scale and zero point: real / scale in float32, rounded to nearest with halves away from zero,
    clamped (AffineQuantize in TFLM's kernels/internal/reference/quantize.h). Other integers are refused for
    a quantised tensor, since they could mean either, unless `raw` says that they are elements, as are whole
    numbers in floats then. Raises ToolError with `where`.
    """
    import numpy

    target = element_type(tensor)
    if values.dtype.newbyteorder("=") == target.newbyteorder("=") or target.kind in "fc":
        return values.astype(target)
    if values.dtype.kind == "f":
        if not numpy.isfinite(values).all():
            raise ToolError("holds values that are not finite", where=where)
        if raw and (values == numpy.trunc(values)).all():
            return _in_range(values, tensor, target, where)
        if tensor.scale and not raw:
            counted = steps(values, tensor.scale) + tensor.zero_point
            clamped: numpy.ndarray = numpy.clip(counted, *limits(target)).astype(target)
            return clamped
    elif raw or not tensor.scale:
        return _in_range(values, tensor, target, where)
    accepted = f"{tensor.type} (already quantised) or float (real values)" if tensor.scale else tensor.type
    raise ToolError(f"is {values.dtype}, the model's input {tensor.name} takes {accepted}", where=where)


def _in_range(values: numpy.ndarray, tensor: TensorLike, target: numpy.dtype[Any], where: str) -> numpy.ndarray:
    low, high = limits(target)
    if values.size and not (low <= values.min() and values.max() <= high):
        raise ToolError(f"holds values outside {low} to {high}, the range of {tensor.type}", where=where)
    return values.astype(target)


def steps(real: numpy.ndarray, scale: float) -> numpy.ndarray:
    """`real` in steps of `scale`, rounded to nearest, halves away from zero."""
    import numpy

    # The kernel divides in float32; float64 then holds every half exactly.
    ratio = (real.astype(numpy.float32) / numpy.float32(scale)).astype(numpy.float64)
    nearest: numpy.ndarray = numpy.copysign(numpy.floor(numpy.abs(ratio) + 0.5), ratio)
    return nearest


def limits(kind: numpy.dtype[Any]) -> tuple[int, int]:
    """The smallest and the largest whole number of an integer type; 0 and 1 for others (bool)."""
    import numpy

    if kind.kind not in "iu":
        return 0, 1
    found = numpy.iinfo(kind)
    return int(found.min), int(found.max)


def raw_elements(tensor: TensorLike, data: bytes) -> numpy.ndarray:
    """The elements in `data`, the raw bytes of `tensor`, flat."""
    import numpy

    return numpy.frombuffer(data, element_type(tensor))


def real_values(tensor: TensorLike, data: bytes) -> numpy.ndarray:
    """The real values in `data`, the raw bytes of `tensor`, flat, as float64."""
    import numpy

    values = raw_elements(tensor, data).astype(numpy.float64)
    return (values - tensor.zero_point) * tensor.scale if tensor.scale else values
