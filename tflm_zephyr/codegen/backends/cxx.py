# SPDX-License-Identifier: Apache-2.0
"""Values of the compiler's intermediate form as C++: operands, structs and kernels. Nothing reads this text back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tflm_zephyr.codegen.escape import c_float
from tflm_zephyr.compiler import Geometry, Kernel, KernelCall, Library, Rounding, TemplateArgument, structs
from tflm_zephyr.compiler import operands as ops
from tflm_zephyr.compiler import row_operands as rows
from tflm_zephyr.costs import FAST
from tflm_zephyr.model import TensorType

SUCCESS = "ARM_CMSIS_NN_SUCCESS"
"""The value that CMSIS-NN's functions return when their arguments are right."""
_LOWEST = -(2**31)


def number(value: float) -> str:
    """A literal of int32_t, bool or float."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return c_float(value)
    return "std::numeric_limits<int32_t>::lowest()" if value == _LOWEST else str(value)


def operand(value: ops.Operand) -> str:
    """An argument of a call."""
    if isinstance(value, bool | int | float):
        return number(value)
    return _OPERANDS[type(value)](value)


def _behind(place: str, elements: int) -> str:
    return f"{place} + {elements}" if elements else place


def _null(value: ops.Null) -> str:
    return "nullptr" if value.type is None else f"static_cast<const {value.type.c_type} *>(nullptr)"


def _scratch(value: structs.Scratch) -> str:
    if value.type is None:
        return _behind("scratch", value.first)
    return f"reinterpret_cast<{value.type.c_type} *>(scratch + {value.first})"


def dims_name(value: ops.Dims) -> str:
    """The name of a file's cmsis_nn_dims."""
    return "kDims" + "x".join(map(str, value.sizes))


def shape_name(value: ops.Shape) -> str:
    """The name of the array of a shape's sizes."""
    return "kShape" + "x".join(map(str, value.sizes))


def _shape(value: ops.Shape) -> str:
    if not value.sizes:
        return "tflite::RuntimeShape()"
    return f"tflite::RuntimeShape({len(value.sizes)}, {shape_name(value)})"


def _clamp(value: ops.Clamp) -> str:
    kind, least = value.type.c_type, number(value.least)
    body = f"value < {least} ? {least} : value"
    if value.most is not None:
        most = number(value.most)
        body = f"value > {most} ? {most} : {body}"
    return f"[]({kind} value) -> {kind} {{ return {body}; }}"


def _convert(value: ops.Convert) -> str:
    return f"[]({value.source.c_type} value) {{ return static_cast<{value.target.c_type}>(value); }}"


def _pick(value: ops.Pick) -> str:
    kind, sign = value.type.c_type, ">" if value.larger else "<"
    return f"[]({kind} one, {kind} other) {{ return one {sign} other ? one : other; }}"


def _pick_next(value: ops.PickNext) -> str:
    kind, sign = value.type.c_type, ">" if value.larger else "<"
    return f"[]({kind} found, {kind} value) {{ return value {sign} found ? value : found; }}"


def _limit(value: ops.Limit) -> str:
    return f"std::numeric_limits<{value.type.c_type}>::{'max' if value.largest else 'lowest'}()"


def _divide(value: ops.DivideFloat) -> str:
    return f"[](float sum) {{ return {'sum' if value.divisor is None else f'sum / {number(value.divisor)}'}; }}"


def _scaling(value: rows.EachScaling) -> str:
    if isinstance(value.of, structs.Struct):
        name = value.of.name
        return f"[&](int32_t k) {{ return Scaling{{{name}.multiplier[k], {name}.shift[k]}}; }}"
    one, other = value.of
    if isinstance(one, structs.ConstantAt) and isinstance(other, structs.ConstantAt):
        return f"[&](int32_t k) {{ return Scaling{{{one.name}[k], {other.name}[k]}}; }}"
    return f"[&](int32_t) {{ return Scaling{{{one}, {other}}}; }}"


def row_name(side: rows.Side, what: str) -> str:
    """The name of a local that is about a tensor: "input_dims", or "dims" for both."""
    return f"{side.value}_{what}" if side.value else what


_OPERANDS: Mapping[type, Callable[[Any], str]] = {
    structs.Double: lambda value: repr(value.value),
    ops.Null: _null,
    structs.TensorAt: lambda value: _behind(value.pointer.name, value.element),
    structs.ConstantAt: lambda value: _behind(value.name, value.element),
    ops.AsInts: lambda value: f"reinterpret_cast<const int *>({operand(value.array)})",
    ops.FirstOf: lambda value: f"&{value.array.name}[{value.array.element}]",
    structs.Scratch: _scratch,
    ops.AddressOf: lambda value: f"&{value.value.name}",
    structs.Struct: lambda value: value.name,
    structs.Numbers: lambda value: value.name,
    ops.NoContext: lambda _: "&kNoContext",
    ops.Dims: lambda value: f"&{dims_name(value)}",
    ops.Shape: _shape,
    ops.RunDims: lambda _: "&pixels",
    ops.Clamp: _clamp,
    ops.Convert: _convert,
    ops.Pick: _pick,
    ops.PickNext: _pick_next,
    ops.Limit: _limit,
    ops.Unchanged: lambda value: f"[]({value.type.c_type} found) {{ return found; }}",
    ops.AddFloat: lambda _: "[](float sum, float value) { return value + sum; }",
    ops.DivideFloat: _divide,
    ops.Order: lambda value: f"std::{'greater' if value.greater else 'less'}<{value.type.c_type}>()",
    rows.RowCount: lambda _: "count",
    rows.RowTimes: lambda value: f"count * {value.each}",
    rows.WindowRows: lambda _: "window.rows",
    rows.WindowPadding: lambda _: "window.padding",
    rows.RowDims: lambda value: f"&{row_name(value.side, 'dims')}",
    rows.RowShape: lambda value: row_name(value.side, "shape"),
    rows.RowElements: lambda _: "elements",
    rows.FlatRowShape: lambda _: "shape",
    rows.RowEnd: lambda value: f"{operand(value.begin)} + elements",
    rows.RowParameters: lambda value: "&params" if value.pointer else "params",
    rows.RowWeights: lambda value: f"{operand(value.array)} + result.next * {value.each}",
    rows.Sums: lambda _: "sums",
    rows.EachScaling: _scaling,
}


# Structs


def field(value: structs.FieldValue) -> str:
    """A field of a struct with its fields in braces."""
    if value is None:
        return "nullptr"
    if isinstance(value, structs.Members):
        return "{" + braced(value.fields) + "}"
    if isinstance(value, structs.Elements):
        return "{" + ", ".join(map(str, value.values)) + "}"
    if isinstance(value, structs.Enumerator):
        return value.name
    if isinstance(value, structs.Mutable):
        return f"const_cast<{value.type.c_type} *>({value.array.name})"
    return operand(value)


def braced(fields: structs.Fields) -> str:
    """The initialiser of a struct without its braces: all of its fields, in their order."""
    return ", ".join(field(value) for _, value in fields)


def assignments(fields: structs.Fields, path: str = "") -> Iterator[tuple[str, str]]:
    """The assignments, field and value, to a struct that was zero."""
    for name, value in fields:
        if isinstance(value, structs.Members):
            yield from assignments(value.fields, f"{path}{name}.")
        elif isinstance(value, structs.Elements):
            yield from ((f"{path}{name}[{k}]", str(element)) for k, element in enumerate(value.values))
        else:
            yield path + name, field(value)


# Kernels


def class_of(value: Geometry | Rounding) -> str:
    """A class among the arguments of one of our kernels' template."""
    if isinstance(value, Rounding):
        arguments = (class_of(one) if isinstance(one, Rounding) else number(one) for one in value.arguments)
        return f"{FAST}::{value.form}<{', '.join(arguments)}>"
    return f"{FAST}::Geometry<{', '.join(str(one) for one in vars(value).values())}>"


def aliases(kernel: Kernel) -> Iterator[str]:
    """The names that a function gives these classes, "Rounding" and "Shape"."""
    classes = [one for one in kernel.template if isinstance(one, Geometry | Rounding)]
    for kind, name in _ALIASES.items():
        yield from (f"using {name} = {class_of(one)};" for one in classes if isinstance(one, kind))


_ALIASES: Mapping[type, str] = {Rounding: "Rounding", Geometry: "Shape"}


def kernel_name(kernel: Kernel, *, whole: bool = False) -> str:
    """A kernel with its template's arguments; `whole`: without the names that aliases() declares."""

    def argument(value: TemplateArgument) -> str:
        if isinstance(value, Geometry | Rounding):
            return class_of(value) if whole else _ALIASES[type(value)]
        return value.c_type if isinstance(value, TensorType) else number(value)

    arguments = ", ".join(map(argument, kernel.template))
    return f"{kernel.qualified_name}<{arguments}>" if arguments else kernel.qualified_name


def listed_name(kernel: Kernel) -> str:
    """A kernel's name for people: without TFLM's outer namespace, and ours without the shape."""
    if kernel.library is Library.OWN:
        return kernel.qualified_name
    outer = kernel.namespace[:1] == ("tflite",)
    return kernel_name(replace(kernel, namespace=kernel.namespace[1:]) if outer else kernel)


def call(value: KernelCall) -> str:
    """A call as an expression."""
    return f"{kernel_name(value.kernel)}({', '.join(map(operand, value.operands))})"
