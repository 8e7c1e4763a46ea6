# SPDX-License-Identifier: Apache-2.0
"""A model's outputs as text, JSON, CSV or .npz."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tflm_zephyr.cli.report.words import first_values
from tflm_zephyr.device.session import Hello, TensorInfo
from tflm_zephyr.documents import enveloped
from tflm_zephyr.tensors import raw_elements, real_values
from tflm_zephyr.validation import SampleOutputs, ranked_classes, shown_values

if TYPE_CHECKING:
    import numpy

_SHOWN_CHOICES = 3
FORMATS = ("json", "csv", "npz")


def effort(hello: Hello, ticks: int) -> str:
    """Ticks as text: instructions if they repeat exactly, else ticks of the counter."""
    if hello.instructions_per_tick is not None:
        return f"{ticks * hello.instructions_per_tick:,} instructions"
    return f"{ticks:,} ticks at {hello.device.hz:,} Hz"


def who(hello: Hello) -> dict[str, Any]:
    """The model, the board and the kernels, as JSON values."""
    return {
        "model": hello.model,
        "sha256": hello.sha256,
        "board": hello.device.board,
        "where": hello.where,
        "kernels": hello.device.kernels,
    }


def ticks_of(hello: Hello) -> dict[str, Any]:
    """The unit of ticks, as JSON values."""
    return {
        "tick_hz": hello.device.hz,
        "instructions_per_tick": hello.instructions_per_tick,
    }


def target_line(hello: Hello) -> str:
    """The model and where it runs, in one line."""
    kernels = f", {hello.device.kernels} kernels" if hello.device.kernels else ""
    return f"{hello.model} on {hello.device.board or hello.where} ({hello.link}{kernels})"


def text(hello: Hello, answers: Sequence[SampleOutputs], labels: Sequence[str], *, raw: bool) -> str:
    """A line for each sample and output."""
    lines = [target_line(hello)]
    for answer in answers:
        lines += _lines(hello, answer, labels, raw=raw)
    return "\n".join(lines)


def _lines(hello: Hello, answer: SampleOutputs, labels: Sequence[str], *, raw: bool) -> list[str]:
    took = "" if answer.ticks is None else f", {effort(hello, answer.ticks)}"
    lines = [f"  note: {answer.name}: {note}" for note in answer.notes]
    if labels:
        best, *others = ranked_classes(answer, hello.outputs[0], labels)[:_SHOWN_CHOICES]
        rest = ", ".join(f"{other.label} {other.value:.4g}" for other in others)
        lines.append(f"  {answer.name}: {best.label} {best.value:.4g}{f' ({rest})' if rest else ''}{took}")
    else:
        lines.append(f"  {answer.name}: {_values(hello.outputs[0], answer.outputs[0], raw=raw)}{took}")
    for output, data in zip(hello.outputs[1:], answer.outputs[1:], strict=True):
        lines.append(f"    {output.name}: {_values(output, data, raw=raw)}")
    return lines


def _values(output: TensorInfo, data: bytes, *, raw: bool) -> str:
    return first_values(shown_values(output, data, raw=raw))


def plain(hello: Hello, answers: Sequence[SampleOutputs], labels: Sequence[str], *, raw: bool) -> dict[str, Any]:
    """The answers as JSON values."""
    return {
        **who(hello),
        **ticks_of(hello),
        "answers": [_plain(hello, answer, labels, raw=raw) for answer in answers],
    }


def _plain(hello: Hello, answer: SampleOutputs, labels: Sequence[str], *, raw: bool) -> dict[str, Any]:
    outputs = [
        {"name": output.name, "shape": list(output.shape), "values": shown_values(output, data, raw=raw)}
        for output, data in zip(hello.outputs, answer.outputs, strict=True)
    ]
    found: dict[str, Any] = {"sample": answer.name, "outputs": outputs, "ticks": answer.ticks}
    if labels:
        best = ranked_classes(answer, hello.outputs[0], labels)[0]
        found |= {"class": best.index, "label": best.label}
    return {**found, "notes": list(answer.notes)}


def as_bytes(
    kind: str,
    hello: Hello,
    answers: Sequence[SampleOutputs],
    labels: Sequence[str],
    *,
    raw: bool,
    command: Sequence[str] = (),
) -> bytes:
    """A file of `kind`, one of FORMATS; a .json is the document that --json prints for `command`."""
    if kind == "json":
        document = enveloped("infer", plain(hello, answers, labels, raw=raw), command)
        return f"{json.dumps(document, indent=1)}\n".encode()
    return _csv(hello, answers, labels, raw=raw) if kind == "csv" else _npz(hello, answers, labels)


def _csv(hello: Hello, answers: Sequence[SampleOutputs], labels: Sequence[str], *, raw: bool) -> bytes:
    """Columns: sample, label where there are labels, ticks, then every value of every output."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names: list[str] = []
    for number, output in enumerate(hello.outputs):
        count = prod(output.shape)
        names += labels if number == 0 and labels else [f"{output.name}[{k}]" for k in range(count)]
    writer.writerow(["sample", *(["label"] if labels else []), "ticks", *names])
    for answer in answers:
        row: list[object] = [answer.name]
        if labels:
            row.append(ranked_classes(answer, hello.outputs[0], labels)[0].label)
        row.append("" if answer.ticks is None else answer.ticks)
        for output, data in zip(hello.outputs, answer.outputs, strict=True):
            row += shown_values(output, data, raw=raw)
        writer.writerow(row)
    return out.getvalue().encode()


def _npz(hello: Hello, answers: Sequence[SampleOutputs], labels: Sequence[str]) -> bytes:
    """Arrays y0, y1, ... of real values and q0, q1, ... of elements, one row a sample; samples, ticks, labels."""
    import numpy

    arrays: dict[str, numpy.ndarray] = {"samples": numpy.array([answer.name for answer in answers])}
    for number, output in enumerate(hello.outputs):
        rows = [answer.outputs[number] for answer in answers]
        shape = (len(rows), *output.shape)
        arrays[f"q{number}"] = numpy.stack([raw_elements(output, row) for row in rows]).reshape(shape)
        arrays[f"y{number}"] = numpy.stack([real_values(output, row) for row in rows]).reshape(shape)
    if all(answer.ticks is not None for answer in answers):
        arrays["ticks"] = numpy.array([answer.ticks for answer in answers], dtype=numpy.int64)
    if labels:
        best: Mapping[str, list[Any]] = {"label": [], "class": []}
        for answer in answers:
            choice = ranked_classes(answer, hello.outputs[0], labels)[0]
            best["label"].append(choice.label)
            best["class"].append(choice.index)
        arrays |= {name: numpy.array(values) for name, values in best.items()}
    out = io.BytesIO()
    numpy.savez_compressed(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()
