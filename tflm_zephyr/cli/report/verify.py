# SPDX-License-Identifier: Apache-2.0
"""The result of `verify` as text, JSON and arrays."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from tflm_zephyr.cli.report.infer import target_line
from tflm_zephyr.device.session import Hello
from tflm_zephyr.model import Model, Tensor
from tflm_zephyr.tensors import Difference, form_of, raw_elements
from tflm_zephyr.validation import DifferingOperator, DivergenceSearch, Failure, OperatorInput, Verification

if TYPE_CHECKING:
    import numpy


def text(hello: Hello, model: Model, found: Verification, *, itself: bool = False) -> str:
    """The verdict; if outputs differ, the first operator that does, with its inputs.

    `itself`: the device was the reference's own engine.
    """
    lines = [target_line(hello), f"  {found.equal} of {found.count} equal byte for byte to {found.expected.source}"]
    if found.close:
        lines.append(f"  {found.close} more within 1e-5, the tolerance for floats")
    if found.litert_equal is not None and found.expected.other is not None:
        lines.append(
            f"  LiteRT {found.expected.other.version}'s reference kernels give the same for "
            f"{found.litert_equal} of {found.count}"
        )
    lines += [f"  note: {note}" for note in _notes(found, itself=itself)]
    return "\n".join(lines + (_failure(model, found.failure) if found.failure else []))


def _notes(found: Verification, *, itself: bool) -> list[str]:
    alone = "both sides are TFLM on this host: that says nothing about a device; give --app or --port"
    return [*([alone] if itself else []), *found.expected.notes]


def _failure(model: Model, failure: Failure) -> list[str]:
    output = model.main.tensors[model.main.outputs[failure.output]]
    lines = [f"  DIFFERS: {failure.sample.name}, output {failure.output}, {_where(output)}: {_far(failure.difference)}"]
    search = failure.search
    if search is None:
        return [*lines, f"  {failure.note}"]
    if search.differing is not None:
        lines += _differing(search.differing)
    elif not failure.captured_differs:
        lines.append("  a second run with its operators captured was right: the difference does not repeat")
    elif search.compared == search.operators and not search.elsewhere:
        lines.append("  each operator's outputs were right when it ended: the model's output was overwritten later")
    else:
        lines.append("  which operator differs is not known: it is none of those whose outputs were compared")
    return lines + _not_compared(search)


def _not_compared(search: DivergenceSearch) -> list[str]:
    """Notes on operators whose outputs could not be compared."""
    lines = []
    if search.compared < search.operators:
        of = f"{search.compared} of {search.operators}" if search.compared else f"none of {search.operators}"
        lines.append(f"  note: the device gave whole outputs of {of} operators")
    if search.elsewhere:
        lines.append(f"  note: the {search.elsewhere} operators of other subgraphs were not compared")
    return lines


def _differing(differing: DifferingOperator) -> list[str]:
    lines = [
        f"  first operator that differs: {differing.operator.label}, its output {_where(differing.tensor)}: "
        f"{_far(differing.difference)}",
        "    its inputs, which were right when they were written:",
    ]
    lines += [f"      {_where(given.tensor)}, {given.source}{_span(given)}" for given in differing.inputs]
    for entry in differing.overwritten:
        lines.append(
            f"    the plan puts {entry.output.label}, which {entry.writer.label} writes, over {entry.input.label}"
        )
    return lines


def _where(tensor: Tensor) -> str:
    return f"{tensor.label} ({tensor.type.value} {'x'.join(map(str, tensor.shape)) or 'scalar'})"


def _far(difference: Difference) -> str:
    index = ",".join(map(str, difference.at))
    real = f" ({difference.largest_real:.4g})" if difference.largest_real != difference.largest else ""
    return (
        f"{difference.differing} of {difference.count} elements, largest difference {difference.largest:.6g}{real}, "
        f"first at ({index}): {difference.got:.7g}, not {difference.want:.7g}"
    )


def _span(given: OperatorInput) -> str:
    values = _array(given)
    return f", {values.min():.6g} to {values.max():.6g}" if values is not None and values.size else ""


def _array(given: OperatorInput) -> numpy.ndarray | None:
    """An input's elements in its shape; None for a type that arrays cannot hold, or packed data."""
    tensor = given.tensor
    if not given.data or not tensor.type.has_size or len(given.data) != tensor.size_bytes:
        return None
    if tensor.type.value in ("resource", "bfloat16", "int4"):
        return None
    return raw_elements(form_of(tensor), given.data).reshape(tensor.shape)


def plain(hello: Hello, model: Model, found: Verification, *, itself: bool = False) -> dict[str, Any]:
    """The verdict as JSON values; `itself` as for `text`."""
    failure = found.failure
    return {
        "model": hello.model,
        "sha256": model.sha256,
        "board": hello.device.board,
        "kernels": hello.device.kernels,
        "where": hello.where,
        "passed": found.passed,
        "samples": found.count,
        "equal": found.equal,
        "close": found.close,
        "reference": found.expected.source,
        "litert_equal": found.litert_equal,
        "notes": _notes(found, itself=itself),
        "failure": None if failure is None else _failure_json(model, failure),
    }


def _failure_json(model: Model, failure: Failure) -> dict[str, Any]:
    tensor = model.main.tensors[model.main.outputs[failure.output]]
    found: dict[str, Any] = {
        "sample": failure.sample.name,
        "output": failure.output,
        "tensor": _tensor_json(tensor),
        "difference": _difference_json(failure.difference),
        "captured_differs": failure.captured_differs,
        "note": failure.note,
        "operators_compared": None if failure.search is None else failure.search.compared,
        "operators": None if failure.search is None else failure.search.operators,
        "operators_elsewhere": None if failure.search is None else failure.search.elsewhere,
        "operator": None,
    }
    differing = failure.differing
    if differing is not None:
        found["operator"] = {
            "index": differing.operator.index,
            "name": differing.operator.key,
            "tensor": _tensor_json(differing.tensor),
            "difference": _difference_json(differing.difference),
            "inputs": [{**_tensor_json(given.tensor), "source": given.source} for given in differing.inputs],
            "overwritten": [
                {"tensor": o.input.index, "by_operator": o.writer.index, "with_tensor": o.output.index}
                for o in differing.overwritten
            ],
        }
    return found


def _tensor_json(tensor: Tensor) -> dict[str, Any]:
    return {"index": tensor.index, "name": tensor.name, "type": tensor.type.value, "shape": list(tensor.shape)}


def _difference_json(difference: Difference) -> dict[str, Any]:
    return {
        "differing": difference.differing,
        "elements": difference.count,
        "at": list(difference.at),
        "got": difference.got,
        "want": difference.want,
        "largest": difference.largest,
        "largest_real": difference.largest_real,
    }


def arrays(differing: DifferingOperator) -> bytes:
    """An .npz of the operator's inputs (input0, ...), its output (got) and the expected output (want)."""
    import numpy

    form = form_of(differing.tensor)
    found = {
        "got": raw_elements(form, differing.got).reshape(differing.tensor.shape),
        "want": raw_elements(form, differing.want).reshape(differing.tensor.shape),
    }
    for number, given in enumerate(differing.inputs):
        values = _array(given)
        if values is not None:
            found[f"input{number}"] = values
    out = io.BytesIO()
    numpy.savez_compressed(out, **found)  # type: ignore[arg-type]
    return out.getvalue()
