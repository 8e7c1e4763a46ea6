# SPDX-License-Identifier: Apache-2.0
"""An app that was generated again: its models, flash and accuracy, old -> new."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tflm_zephyr.cli.report.words import count
from tflm_zephyr.codegen import ModelChange, ModelFacts, TensorChange, TensorFacts

if TYPE_CHECKING:
    from tflm_zephyr.cli.commands.retraining import AppUpdate, Quality
    from tflm_zephyr.validation import Accuracy, Deviation


def lines(update: AppUpdate) -> list[str]:
    """Interfaces that changed come first, as code of the user's has to follow."""
    found = [line for change in update.models for line in _interface(change)]
    found += [line for change in update.models for line in _model(change)]
    for board, (was, now) in sorted(update.flash.items()):
        found.append(f"  {board}: flash {was} -> {now} bytes, estimated ({now - was:+})")
    if update.models and not update.flash:
        found.append("  flash as before, estimated")
    return found + [_quality(item) for item in update.quality]


def plain(update: AppUpdate) -> dict[str, Any]:
    """The differences for programs; bytes throughout."""
    return {
        "models": [
            {
                "model": change.ident,
                "was": None if change.was is None else asdict(change.was),
                "now": None if change.now is None else asdict(change.now),
                "interface": [{**asdict(item), "breaks": item.breaks} for item in change.interface],
            }
            for change in update.models
        ],
        "flash": {board: {"was": was, "now": now} for board, (was, now) in sorted(update.flash.items())},
        "quality": [{**asdict(item), "was": _figures(item.was), "now": _figures(item.now)} for item in update.quality],
    }


def _interface(change: ModelChange) -> Iterator[str]:
    broken = [f"{item.tensor}: {_difference(item)}" for item in change.interface if item.breaks]
    if broken:
        where = f"tflm/src/models/{change.ident}.hpp"
        yield f"  warning: {change.ident}: the interface changed, your code has to follow {where}: {'; '.join(broken)}"
    for item in change.interface:
        if not item.breaks:
            yield f"  {change.ident}: {item.tensor}: {_difference(item)}; the constants in its header follow"


def _difference(item: TensorChange) -> str:
    was, now = item.was, item.now
    if was is None or now is None:
        return f"{_tensor(was)} -> {_tensor(now)}"
    if (was.scale, was.zero_point) == (now.scale, now.zero_point):
        return f"{_type(was)} -> {_type(now)}"
    if not item.breaks:
        return f"{_quantisation(was)} -> {_quantisation(now)}"
    return f"{_tensor(was)} -> {_tensor(now)}"


def _tensor(facts: TensorFacts | None) -> str:
    return "none" if facts is None else f"{_type(facts)}, {_quantisation(facts)}"


def _type(facts: TensorFacts) -> str:
    return f"{facts.type}{''.join(f'[{n}]' for n in facts.shape)}"


def _quantisation(facts: TensorFacts) -> str:
    return "not quantised" if facts.scale is None else f"scale {facts.scale:.6g}, zero point {facts.zero_point}"


def _model(change: ModelChange) -> Iterator[str]:
    was, now = change.was, change.now
    if was is None or now is None:
        yield f"  {change.ident}: {'a new model' if was is None else 'no model of the app any more'}"
        return
    sizes = [
        f"{name} {old} -> {new} bytes ({new - old:+})" if old != new else f"{name} {new} bytes as before"
        for name, old, new in (
            ("model", was.model_bytes, now.model_bytes),
            ("arena", was.arena_bytes, now.arena_bytes),
        )
    ]
    what = "new weights" if was.sha256 != now.sha256 else "the same model"
    yield f"  {change.ident}: {what}, {', '.join(sizes)}, {_operators(was, now)}"


def _operators(was: ModelFacts, now: ModelFacts) -> str:
    added = [f"+{name}" for name in now.operators if name not in was.operators]
    gone = [f"-{name}" for name in was.operators if name not in now.operators]
    if not added and not gone:
        return f"{count(len(now.operators), 'operator')} as before"
    return f"operators {len(was.operators)} -> {len(now.operators)} ({', '.join([*added, *gone])})"


def _quality(item: Quality) -> str:
    if item.now is None:
        return f"  {item.model}: not tried on {item.data}: {item.why}"
    share = "" if item.count == item.available else f"the first {item.count} samples of "
    was = f"{_figure(item.was)} -> " if item.was is not None else ""
    return f"  {item.model}: {was}{_figure(item.now)} on {share}{item.data}, TFLM on the host"


def _figure(found: Accuracy | Deviation) -> str:
    from tflm_zephyr.validation import Accuracy

    if isinstance(found, Accuracy):
        return f"{found.correct} of {found.count} right ({100 * found.accuracy:.2f} %)"
    return f"mean absolute error {found.mean_absolute:.4g}"


def _figures(found: Accuracy | Deviation | None) -> dict[str, Any] | None:
    from tflm_zephyr.validation import Accuracy

    if found is None:
        return None
    if isinstance(found, Accuracy):
        return {"accuracy": found.accuracy, "correct": found.correct, "count": found.count}
    return {"mean_absolute": found.mean_absolute, "largest": found.largest, "count": found.count}
