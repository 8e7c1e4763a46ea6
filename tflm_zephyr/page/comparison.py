# SPDX-License-Identifier: Apache-2.0
"""Differences between the documents of two or more reports: models, plans, builds, boards or revisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tflm_zephyr.page.bundle import Bundle, ModelDocuments, build_name, way, whole_arena

_TOPICS = ("whole", "arena", "memory", "footprint", "cost", "operators", "model", "facts")
_Key = tuple[str, str]


@dataclass(frozen=True)
class Figure:
    """A value of one report; `unit` is "" for text."""

    value: float | str
    unit: str = ""


def comparison(bundles: Sequence[Bundle], names: Sequence[str]) -> dict[str, Any]:
    """The keys of a `comparison` document: what is not the same in all of `bundles`, by topic, largest change first.

    The topic "whole" comes first: the whole arena, flash, time and accuracy, in this order.

    A model is compared with the one of the same name, or where each report has one model, with that.
    """
    alone = all(len(found.models) == 1 for found in bundles)
    tables = [dict(_figures(found, alone=alone)) for found in bundles]
    changes = [_change(key, tables) for key in dict.fromkeys(key for table in tables for key in table)]
    changes = [change for change in changes if len({str(value) for value in change["values"]}) > 1]
    changes.sort(key=lambda change: (_TOPICS.index(change["topic"]), *_place(change)))
    return {"names": list(names), "changes": changes}


def _place(change: dict[str, Any]) -> tuple[float, str]:
    """The place in its topic; figures of the whole stay in order."""
    return (0, "") if change["topic"] == "whole" else (-abs(change["change"] or 0), change["what"])


def _change(key: _Key, tables: Sequence[dict[_Key, Figure]]) -> dict[str, Any]:
    found = [table.get(key) for table in tables]
    values = [None if figure is None else figure.value for figure in found]
    unit = next((figure.unit for figure in found if figure is not None), "")
    first, last = values[0], values[-1]
    change = ratio = None
    if isinstance(first, (int, float)) and isinstance(last, (int, float)):
        change = last - first
        ratio = change / first if first else None
    return {"topic": key[0], "what": key[1], "unit": unit, "values": values, "change": change, "ratio": ratio}


def _figures(found: Bundle, *, alone: bool) -> Iterator[tuple[_Key, Figure]]:
    yield from _whole(found, alone=alone)
    yield from _facts(found)
    for fit in found.others.get("fit", ())[:1]:
        for board in fit["boards"]:
            for name, use in (("flash", board["flash"]), ("RAM", board["ram"])):
                if use is not None:
                    yield ("memory", f"{name} on {board['board']} (estimated)"), Figure(use["used_bytes"], "bytes")
            yield ("facts", f"fits {board['board']}"), Figure(board["fits"])
    builds = {build_name(built): built for built in reversed(found.others.get("footprint", []))}
    for name, built in sorted(builds.items()):
        on = f" for {name}" if len(builds) > 1 else ""
        for use in built["regions"]:
            yield ("memory", f"{use['name']} as linked{on}"), Figure(use["used_bytes"], "bytes")
        for row in built["rows"]:
            for region, size in row["bytes"].items():
                what = f"{row['part']}: {row['detail']}" if row["detail"] else row["part"]
                yield ("footprint", f"{region}{on}, {what}"), Figure(size, "bytes")
    for model in found.models:
        yield from _of_model(model, "" if alone else f"{model.name}: ")


def _whole(found: Bundle, *, alone: bool) -> Iterator[tuple[_Key, Figure]]:
    arena, taken = whole_arena(found), way(found, "taken")
    if arena is not None:
        yield ("whole", "whole arena"), Figure(arena[0], "bytes")
    if taken is not None and taken["flash_bytes"] is not None:
        yield ("whole", "flash of the models (estimated)"), Figure(taken["flash_bytes"], "bytes")
    if taken is not None and taken["estimated_cycles"] is not None:
        yield ("whole", "time (estimated)"), Figure(taken["estimated_cycles"], "cycles")
    for model in found.models:
        profile, evaluation, name = model.first("profile"), model.first("evaluate"), "" if alone else f"{model.name}: "
        if profile is not None:
            yield ("whole", f"{name}a run on {profile['board']}"), Figure(profile["total"]["median"], profile["unit"])
        if evaluation is not None and "accuracy" in evaluation:
            yield ("whole", f"{name}accuracy on {evaluation['data']}"), Figure(100 * evaluation["accuracy"], "%")
        elif evaluation is not None and evaluation["mean_absolute"] is not None:
            yield ("whole", f"{name}mean absolute error"), Figure(evaluation["mean_absolute"], "")


def _facts(found: Bundle) -> Iterator[tuple[_Key, Figure]]:
    app = found.first("app")
    if app is None:
        return
    for key, what in (
        ("kernels", "kernels"),
        ("zephyr_version", "Zephyr"),
        ("tflm_revision", "TFLM revision"),
        ("cmsis_nn_revision", "CMSIS-NN revision"),
        ("generator", "generated by"),
    ):
        yield ("facts", what), Figure(app[key])
    yield ("facts", "boards"), Figure(", ".join(app["boards"]))
    for arena in [app["shared_arena"]] if app["shared_arena"] else [model["arena"] for model in app["models"]]:
        yield ("facts", "source of the arena's size"), Figure(arena["source"])


def _of_model(model: ModelDocuments, name: str) -> Iterator[tuple[_Key, Figure]]:
    yield ("facts", f"{name}SHA-256"), Figure(model.sha256[:16])
    plan, inspect = model.first("plan"), model.first("inspect")
    if plan is not None and plan.get("backend") != "compiled":
        for key, what in (
            ("head_bytes", "head"),
            ("tail_bytes", "tail"),
            ("greedy_bytes", "head as TFLM places it"),
            ("lower_bound_bytes", "lower bound of the head"),
        ):
            yield ("arena", f"{name}{what}"), Figure(plan[key], "bytes")
        for row in plan["tail"]:
            yield ("arena", f"{name}tail: {row['name']}"), Figure(row["bytes"], "bytes")
    if inspect is not None:
        yield ("model", f"{name}file"), Figure(inspect["bytes"], "bytes")
        yield ("model", f"{name}constants"), Figure(inspect["constant_bytes"], "bytes")
        yield ("model", f"{name}work"), Figure(inspect["macs"], "MACs")
        yield ("model", f"{name}work by CMSIS-NN"), Figure(inspect["cmsis_nn_macs"], "MACs")
        counts: dict[str, int] = {}
        for row in inspect["operators"]:
            counts[row["name"]] = counts.get(row["name"], 0) + 1
        for operator, count in sorted(counts.items()):
            yield ("operators", f"{name}{operator}"), Figure(count, "uses")
    yield from _results(model, name)


def _results(model: ModelDocuments, name: str) -> Iterator[tuple[_Key, Figure]]:
    profile, verdict = model.first("profile"), model.first("verify")
    if profile is not None:
        unit = profile["unit"]
        for k, cost in enumerate(profile["operators"]):
            yield ("cost", f"{name}operator {k}, {cost['name']}"), Figure(cost["median"], unit)
    if verdict is not None:
        yield ("facts", f"{name}verified"), Figure("yes" if verdict["passed"] else "differs")
