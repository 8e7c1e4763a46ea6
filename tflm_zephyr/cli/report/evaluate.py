# SPDX-License-Identifier: Apache-2.0
"""The result of an evaluation as text and JSON."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflm_zephyr.cli.report.infer import effort, target_line, ticks_of, who
from tflm_zephyr.device.session import Hello
from tflm_zephyr.tensors import TensorLike, real_values
from tflm_zephyr.validation import Accuracy, Deviation, WorstCase
from tflm_zephyr.validation.evaluation import TickStatistics

if TYPE_CHECKING:
    import numpy

_WIDEST_MATRIX = 20
_SHOWN_PAIRS = 10
_SMALLEST_IMAGE = 4  # pixels a side
_MOST_VALUES = 256


def text(
    hello: Hello, data: Path, found: Accuracy | Deviation, ticks: TickStatistics | None, labels: Sequence[str]
) -> str:
    """Accuracy with its confusion matrix, or deviation; then the cost of a run."""
    lines = [target_line(hello)]
    if len(hello.outputs) > 1:
        lines.append(f"  note: only output 0 of {len(hello.outputs)}, {hello.outputs[0].name}, is evaluated")
    if isinstance(found, Accuracy):
        lines.append(f"  {data.name}: {found.correct} of {found.count} right, accuracy {100 * found.accuracy:.2f} %")
        lines += _confusion(found.confusion, labels)
    else:
        lines.append(
            f"  {data.name}: {found.count} samples, mean absolute error {found.mean_absolute:.4g}, "
            f"largest {found.largest:.4g}"
        )
    if ticks is not None:
        lines.append(
            f"  a run takes {effort(hello, round(ticks.mean))} on average, "
            f"99 % of runs {effort(hello, ticks.p99)} at most"
        )
    return "\n".join(lines)


def _confusion(confusion: Sequence[Sequence[int]], labels: Sequence[str]) -> list[str]:
    names = list(labels) or [str(k) for k in range(len(confusion))]
    if len(confusion) <= _WIDEST_MATRIX:
        rows = [["", *names], *([names[i], *map(str, row)] for i, row in enumerate(confusion))]
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        table = ["    " + "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
        return ["  rows: true class, columns: predicted class", *table]
    wrong = [(n, i, j) for i, row in enumerate(confusion) for j, n in enumerate(row) if n and i != j]
    wrong.sort(key=lambda entry: (-entry[0], entry[1:]))
    lines = [f"    {n} of {names[i]} predicted as {names[j]}" for n, i, j in wrong[:_SHOWN_PAIRS]]
    more = len(wrong) - _SHOWN_PAIRS
    return lines + ([f"    and {more} more pairs"] if more > 0 else [])


def plain(
    hello: Hello, data: Path, found: Accuracy | Deviation, ticks: TickStatistics | None, labels: Sequence[str]
) -> dict[str, Any]:
    """The same as JSON values; they do not depend on the number of sessions."""
    rate = {"accuracy": found.accuracy} if isinstance(found, Accuracy) else {}
    return {
        **who(hello),
        "data": data.name,
        "output": hello.outputs[0].name,
        **asdict(found),
        **rate,
        "labels": list(labels),
        "ticks": None if ticks is None else asdict(ticks),
        **ticks_of(hello),
    }


def worst(hello: Hello, cases: Sequence[WorstCase], inputs: Sequence[Sequence[bytes]]) -> list[dict[str, Any]]:
    """The worst cases as JSON values, each with its first input to look at."""
    return [{**asdict(case), "input": picture(hello.inputs[0], inputs[case.sample][0])} for case in cases]


def picture(tensor: TensorLike, data: bytes) -> dict[str, Any]:
    """An input as a PNG where its shape is that of an image of 1 or 3 channels, else as its values, thinned out."""
    import numpy

    real = real_values(tensor, data)
    shape = [size for k, size in enumerate(tensor.shape) if k or size != 1]  # without the batch
    if len(shape) == 3 and shape[2] in (1, 3) and min(shape[:2]) >= _SMALLEST_IMAGE and real.size == prod(shape):
        span = float(real.max() - real.min()) or 1.0
        pixels = numpy.round((real - real.min()) / span * 255).astype(numpy.uint8).reshape(shape)
        return {"kind": "image", "width": shape[1], "height": shape[0], "png": _png(pixels)}
    step = max(1, -(-real.size // _MOST_VALUES))
    return {"kind": "values", "values": [round(float(v), 6) for v in real[::step]], "elements": int(real.size)}


def _png(pixels: numpy.ndarray) -> str:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(out, "PNG", optimize=True)
    return base64.b64encode(out.getvalue()).decode()


def float_model(
    path: Path, engine: str, float_found: Accuracy | Deviation, found: Accuracy | Deviation
) -> dict[str, Any]:
    """The float model's result beside `found`, that of the quantised one, as JSON values."""
    plain: dict[str, Any] = {"model": path.name, "engine": engine, "count": float_found.count}
    if isinstance(float_found, Accuracy):
        plain |= {
            "correct": float_found.correct,
            "confusion": [list(row) for row in float_found.confusion],
            "accuracy": float_found.accuracy,
        }
        if isinstance(found, Accuracy):
            pairs = zip(float_found.predictions, found.predictions, strict=True)
            plain["agree"] = sum(one == other for one, other in pairs)
        return plain
    return {**plain, "mean_absolute": float_found.mean_absolute, "largest": float_found.largest}


def float_lines(compared: dict[str, Any] | None) -> list[str]:
    """The float model's line, if there is one."""
    if compared is None:
        return []
    where = f"  the float model {compared['model']} ({compared['engine']}):"
    if "accuracy" not in compared:
        return [f"{where} mean absolute error {compared['mean_absolute']:.4g}, largest {compared['largest']:.4g}"]
    right = f"{compared['correct']} of {compared['count']} right, accuracy {100 * compared['accuracy']:.2f} %"
    return [f"{where} {right}; both agree on {compared['agree']}"]
