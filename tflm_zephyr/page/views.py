# SPDX-License-Identifier: Apache-2.0
"""The parts of a page as plain values for its template: no markup, all text as it came out of the documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from tflm_zephyr.documents import Document
from tflm_zephyr.page import arena_map, words
from tflm_zephyr.page.bundle import Bundle, ModelDocuments, way, whole_arena
from tflm_zephyr.page.treemap import Box, squarified
from tflm_zephyr.page.ways_picture import ways_pictures

_WIDE_STEPS = 240  # from here on the map scrolls sideways
_STEP_PIXELS = 5
_MOST_DEAR = 8  # layers that are listed by their cycles
_MOST_CELLS = 36  # of a part in a treemap; the rest is one cell
COMPILED = "compiled"  # of backends, and of their plans
_KERNELS = {"cmsis_nn": "CMSIS-NN", "reference": "reference"}
_GROUPS = {
    "model data": "model",
    "golden data": "model",
    "arena": "arena",
    "kernels": "kernels",
    "TFLM core": "tflm",
    "TFLM with kernels": "tflm",
    "app code": "app",
    "thread stacks": "stacks",
    "padding": "padding",
    "unattributed": "padding",
}


def ways(found: Bundle) -> dict[str, Any] | None:
    """The ways of a `fit` document in words, the one that the app takes and the one recommended; None without them."""
    fit = found.first("fit") or {}
    if len(fit.get("ways", ())) < 2:
        return None
    unmarked = {"taken": False, "recommended": False, "command": "", "stand_ins": ()}  # in older documents
    rows = [{**unmarked, **way, "number": k} for k, way in enumerate(fit["ways"], 1)]
    taken, best = way(found, "taken"), way(found, "recommended")
    changes = [
        (name, _ratio(best[key], taken[key]))
        for key, name in (("ram_bytes", "RAM"), ("flash_bytes", "flash"), ("estimated_cycles", "time"))
        if taken and best and taken is not best and taken[key] and best[key] is not None
    ]
    return {
        "rows": rows,
        "taken": taken,
        "best": best,
        "changes": changes,
        "pictures": ways_pictures(rows),
        "marked": "recommended" in fit["ways"][0],
        "stand_ins": sorted({why for row in rows for why in row["stand_ins"]})[:3],
        "timed": any(row["estimated_cycles"] is not None for row in rows),
        "boards": ", ".join(board["board"] for board in fit["boards"]),
    }


def arena(plan: Document) -> dict[str, Any]:
    """The map of a plan: placings, axes, and what the script shows of a buffer; of compiled code its own plan alone."""
    compiled = plan.get("backend") == COMPILED
    placings = [one for one in plan["placings"] if (one["name"] == COMPILED) == compiled]
    plan = {**plan, "placings": placings}
    placed = arena_map.maps(plan)
    steps = max((len(placing["steps"]) for placing in plan["placings"]), default=1)
    top = max((one.head_bytes for one in placed), default=0) or 16
    stock = plan["arena_bytes" if compiled else "greedy_bytes"]
    return {
        "steps": steps,
        "top": top,
        "wide": steps * _STEP_PIXELS if steps > _WIDE_STEPS else 0,
        "ticks": [(100 - 100 * at / top, words.size(at)) for at in arena_map.ticks(top)],
        "step_ticks": [(100 * (at + 0.5) / steps, at) for at in range(0, steps, _step_of(steps))],
        "maps": [_map(one, top, stock) for one in placed],
        "kinds": sorted({r.kind for one in placed for r in one.rectangles}, key=arena_map.KINDS.index),
        "data": _map_data(plan, placed),
        "compiled": plan["compiled"] if compiled else None,
        "tail": [] if compiled else _tail(plan),
        "arenas": plan["arenas"] if len(plan["arenas"]) > 1 and not compiled else [],
    }


def _step_of(steps: int) -> int:
    """Steps between two numbers of the axis."""
    return next((step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if steps / step <= 16), 1000)


def _map(one: arena_map.Placed, top: int, stock: int) -> dict[str, Any]:
    saved = stock - one.head_bytes
    return {
        "names": " ".join(one.names),
        "title": one.title,
        "about": arena_map.ABOUT[one.names[-1]],
        "head_bytes": one.head_bytes,
        "saved": saved,
        "saved_share": words.share(saved, stock),
        "shipped": "shipped" in one.names or one.names == (COMPILED,),
        "rectangles": [(r.index, r.x, top - r.y - r.height, r.width, r.height, r.kind) for r in one.rectangles],
        "shared": [(r.index, r.x, top - r.y - r.height, r.width, r.height) for r in one.shared],
        "shared_bytes": max((r.height for r in one.shared), default=0),
        "peaks": one.peak_steps[:8],
    }


def _map_data(plan: Document, placed: Sequence[arena_map.Placed]) -> dict[str, Any]:
    """Columns for the script: names of operators and tensors, and each map's buffers."""
    names = {(op["subgraph"], op["index"]): op["name"] for op in plan["operators"]}
    tensors = {(t["subgraph"], t["index"]): t for t in plan["tensors"]}
    maps = {}
    for placing in plan["placings"]:
        if any(one.names[0] == placing["name"] for one in placed):
            over = {pair["output"]: pair["input"] for pair in placing["in_place"]}
            maps[placing["name"]] = {
                "steps": ["" if step is None else _operator(names, step) for step in placing["steps"]],
                "buffers": [
                    [*_named(b, tensors), b["lower"], b["upper"] - 1, b["offset"], b["size"], over.get(i, -1)]
                    for i, b in enumerate(placing["buffers"])
                ],
            }
    return maps


def _operator(names: Mapping[tuple[int, int], str], step: Sequence[int]) -> str:
    where = f"{step[0]}:{step[1]}" if step[0] else str(step[1])
    return f"{where} {words.seen(names.get((step[0], step[1]), '?'), 60)}"


def _named(buffer: Mapping[str, Any], tensors: Mapping[tuple[int, int], Any]) -> tuple[str, str, str]:
    """A buffer's name, its type and shape, and its kind."""
    tensor = tensors.get((buffer["subgraph"], buffer["index"]))
    if buffer["kind"] == "scratch" or tensor is None:
        return words.seen(buffer["id"]), "", "scratch"
    return words.seen(tensor["name"]) or "(no name)", words.typed(tensor["type"], tensor["shape"]), tensor["role"]


def _tail(plan: Document) -> list[dict[str, Any]]:
    """The tail's sections, the largest first, with where each begins in a bar of the whole."""
    total, at, found = sum(row["bytes"] for row in plan["tail"]) or 1, 0.0, []
    for row in sorted(plan["tail"], key=lambda row: -row["bytes"]):
        if row["bytes"]:
            percent = 100 * row["bytes"] / total
            found.append({**row, "x": at, "percent": percent})
            at += percent
    return found


def operators(model: ModelDocuments) -> dict[str, Any] | None:
    """The graph's operators in order, with MACs, cost and kernel; None without an inspection."""
    inspect, profile = model.first("inspect"), model.first("profile")
    if inspect is None:
        return None
    rows = inspect["operators"]
    costs = profile["operators"] if profile is not None and len(profile["operators"]) == len(rows) else None
    document = model.first("layers")
    layers = {one["operator"]: one for one in document["layers"]} if document is not None else {}
    weights = [layer["cycles"] for layer in layers.values()] or [row["macs"] for row in rows]
    most, compiled = max(weights, default=0) or 1, document is not None and document["backend"] == COMPILED
    several = any(row["subgraph"] for row in rows)
    differing = _differing(model)
    found = []
    for k, row in enumerate(rows):
        varying = [t for t in row["inputs"] if not t["constant"]]
        layer = None if row["subgraph"] else layers.get(row["index"])
        found.append(
            {
                "number": f"{row['subgraph']}:{row['index']}" if several else str(row["index"]),
                "name": words.seen(row["name"], 60),
                "inputs": " + ".join(words.typed(t["type"], t["shape"]) for t in varying[:3]) or "–",
                "outputs": " + ".join(words.typed(t["type"], t["shape"]) for t in row["outputs"][:3]),
                "macs": row["macs"],
                "percent": 100 * (layer["cycles"] if layer else 0 if layers else row["macs"]) / most,
                "cycles": layer and layer["cycles"],
                "constants": row["constant_bytes"],
                "cost": costs[k]["median"] if costs else None,
                "library": row["library"] or "refused",
                "kernel": _kernel(layer) if compiled else _KERNELS.get(row["library"] or "", "refused"),
                "why": words.seen(row["refused"] or ("" if compiled else row["why"]), 240),
                "refused": bool(row["refused"]),
                "differs": differing == row["index"] and not row["subgraph"],
            }
        )
    return {"rows": found, "unit": profile["unit"] if costs else "", "core": document["core"] if document else ""}


def _kernel(layer: Mapping[str, Any] | None) -> str:
    return "TFLM’s own" if layer is None else words.seen(layer["kernel"], 80) or "no code"


def training(model: ModelDocuments) -> dict[str, Any] | None:
    """The dearest layers, what to change in the network, and where accuracy is lost; None without `layers`."""
    found = model.first("layers")
    if found is None:
        return None
    layers = sorted(found["layers"], key=lambda layer: -layer["cycles"])[:_MOST_DEAR]
    sums = list(accumulate((layer["cycles"] for layer in layers), initial=0))
    dear = [
        layer for layer, before in zip(layers, sums, strict=False) if layer["cycles"] and before < 0.8 * found["cycles"]
    ]
    operators = (model.first("inspect") or {"operators": ()})["operators"]
    outputs = {row["index"]: row["outputs"] for row in operators if not row["subgraph"]}
    loss = found["loss"] or {"layers": ()}
    return {
        "document": found,
        "dear": [
            {
                **layer,
                "share": words.share(layer["cycles"], found["cycles"]),
                "tensor": words.seen(tensors[0]["name"].partition(";")[0], 48) if tensors else "",
                "percent": 100 * layer["cycles"] / dear[0]["cycles"],
            }
            for layer in dear
            for tensors in [outputs.get(layer["operator"])]
        ],
        "dear_share": words.share(sums[len(dear)], found["cycles"]),
        "stand_ins": sum(bool(layer["stands_in"]) for layer in found["layers"]),
        "changes": [
            {**change, "gains": _gains(change), "layers": ", ".join(map(str, change["operators"][:12]))}
            for change in found["changes"]
        ],
        "loss": found["loss"],
        "worst": max((layer["error"] for layer in loss["layers"]), default=0) or 1,
        "begins": next((layer for layer in loss["layers"] if layer["begins"]), None),
    }


def _gains(change: Mapping[str, Any]) -> str:
    time, ram = (f"{100 * change[key]:.1f} % of the" for key in ("cycles_share", "ram_share"))
    gains = [f"{time} time"] if change["cycles_share"] > 0 else []
    gains += [f"{words.size(change['ram_bytes'])} of RAM ({ram} arena)"] if change["ram_bytes"] > 0 else []
    return ", ".join(gains)


def _differing(model: ModelDocuments) -> int | None:
    verify = model.first("verify")
    operator = verify and verify["failure"] and verify["failure"]["operator"]
    return operator["index"] if operator else None


def profile(model: ModelDocuments) -> dict[str, Any] | None:
    """Each operator's cost with its share, its MACs per unit, and its change; None without a profile."""
    found, inspect = model.first("profile"), model.first("inspect")
    if found is None:
        return None
    macs = [row["macs"] for row in inspect["operators"]] if inspect is not None else []
    known = len(macs) == len(found["operators"])
    total = found["total"]["median"] or 1
    most = max((cost["median"] for cost in found["operators"]), default=1) or 1
    changes = {change["operator"]: change for change in found.get("changes", ())}
    rows = [
        {
            "number": k,
            "name": words.seen(cost["name"], 60),
            "median": cost["median"],
            "spread": cost["most"] - cost["least"],
            "percent": 100 * cost["median"] / most,
            "share": words.share(cost["median"], total),
            "macs_per": f"{macs[k] / cost['median']:.3f}" if known and cost["median"] and macs[k] else "",
            "change": _change(changes.get(k)),
            "slower": bool(changes.get(k) and changes[k]["slower"]),
        }
        for k, cost in enumerate(found["operators"])
    ]
    per = "instruction" if found["unit"] == "instructions" else "tick"
    whole = sum(macs) / total if known and sum(macs) else 0
    return {
        "document": found,
        "rows": rows,
        "per": per,
        "macs_per": f"{whole:.3f}" if whole else "",
        "time_ms": total / found["hz"] * 1e3 if found["unit"] == "ticks" else None,
        "change": _change(changes.get(None)),
        "compared": bool(changes),
    }


def _change(change: Mapping[str, Any] | None) -> str:
    return "" if change is None or not change["before"] else _ratio(change["after"], change["before"], 1)


def _ratio(after: float, before: float, digits: int = 0) -> str:
    """A change in percent."""
    return f"{100 * (after / before - 1):+.{digits}f} %".replace("-", "−")


def fits(found: Bundle) -> list[dict[str, Any]]:
    """A board a row: estimated flash and RAM with bounds, and a build's measured bytes where it is there."""
    document = found.first("fit")
    rows = []
    for board in document["boards"] if document is not None else ():
        uses = [{"name": name, **_use(board[key])} for name, key in (("Flash", "flash"), ("RAM", "ram")) if board[key]]
        rows.append({**board, "kernels": _KERNELS.get(board["kernels"], board["kernels"]), "uses": uses})
    return rows


def _use(use: Mapping[str, Any]) -> dict[str, Any]:
    there, used = max(1, use["available_bytes"]), use["used_bytes"]
    above = use["above_bytes"]
    whole = max(there, used + (above or 0))
    return {
        **use,
        "percent": 100 * used / whole,
        "room": 100 * there / whole,
        "low": 100 * (used - use["below_bytes"]) / whole,
        "high": 100 * (used + above) / whole if above is not None else 100.0,
        "share": words.share(used, there),
        "verdict": "full" if used > there else "",
    }


def footprint(document: Document) -> dict[str, Any]:
    """A built app's memory: a treemap for each region, and the table of parts."""
    regions = [use for use in document["regions"] if use["used_bytes"]]
    names = [use["name"] for use in regions]
    old = document.get("against")
    parts = [
        {
            "name": part,
            "group": _GROUPS.get(part, "zephyr" if part.startswith("Zephyr") else "library"),
            "bytes": [sums.get(name, 0) for name in names],
            "changes": [sums.get(name, 0) - old["parts"].get(part, {}).get(name, 0) for name in names] if old else [],
        }
        for part, sums in document["parts"].items()
    ]
    return {
        "document": document,
        "names": names,
        "regions": [{**use, "share": words.share(use["used_bytes"], use["size_bytes"] or 0)} for use in regions],
        "maps": [{"name": use["name"], "used": use["used_bytes"], "cells": _cells(document, use)} for use in regions],
        "parts": parts,
        "old": old,
        "changes": old["changes"][:25] if old else [],
    }


def _cells(document: Document, use: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The treemap of one region: boxes of parts, and in each the boxes of its details; all in percent."""
    region = use["name"]
    parts = sorted(((s.get(region, 0), part) for part, s in document["parts"].items()), key=lambda row: -row[0])
    parts = [row for row in parts if row[0] > 0]
    boxes = squarified([row[0] for row in parts], Box(0, 0, 2.0, 1.0))
    found = []
    for (total, part), box in zip(parts, boxes, strict=True):
        rows = sorted(
            ((row["bytes"].get(region, 0), row["detail"] or part) for row in document["rows"] if row["part"] == part),
            key=lambda row: -row[0],
        )
        rows = [row for row in rows if row[0] > 0]
        rest = sum(row[0] for row in rows[_MOST_CELLS:])
        rows = rows[:_MOST_CELLS] + ([(rest, f"{len(rows) - _MOST_CELLS} more")] if rest else [])
        group = _GROUPS.get(part, "zephyr" if part.startswith("Zephyr") else "library")
        for (bytes_, detail), inner in zip(rows, squarified([row[0] for row in rows], box), strict=True):
            found.append(
                {
                    "part": part,
                    "detail": words.seen(detail),
                    "bytes": bytes_,
                    "total": total,
                    "group": group,
                    "x": 50 * inner.x,
                    "y": 100 * inner.y,
                    "width": 50 * inner.width,
                    "height": 100 * inner.height,
                    "labelled": inner.width > 0.16 and inner.height > 0.07,
                }
            )
    return found


def evaluation(model: ModelDocuments) -> dict[str, Any] | None:
    """Accuracy with the confusion matrix, or deviation; None without an evaluation."""
    found = model.first("evaluate")
    if found is None:
        return None
    confusion = found.get("confusion", [])
    names = [words.seen(label, 24) for label in found["labels"]] or [str(k) for k in range(len(confusion))]
    most = max((n for i, row in enumerate(confusion) for j, n in enumerate(row) if i != j), default=0) or 1
    matrix = [
        {
            "name": names[i],
            "cells": [
                (n, i == j, 0 if i == j or not n else 1 + min(3, 4 * (n - 1) // most)) for j, n in enumerate(row)
            ],
            "recall": words.share(row[i], sum(row)),
        }
        for i, row in enumerate(confusion)
    ]
    worst = [
        {
            **case,
            "truth_name": _class(names, case["truth"]),
            "predicted_name": _class(names, case["predicted"]),
            "line": _polyline(case["input"]),
        }
        for case in found.get("worst", ())
    ]
    return {"document": found, "names": names, "matrix": matrix, "worst": worst}


def _class(names: Sequence[str], number: int | None) -> str:
    return "" if number is None else names[number] if number < len(names) else str(number)


def _polyline(picture: Mapping[str, Any] | None) -> str:
    """A sample's values as the points of a line in a box of 100 by 40."""
    values = [value for value in (picture or {}).get("values", ()) if value is not None]
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span = (high - low) or 1
    return " ".join(f"{100 * k / (len(values) - 1):.1f},{38 - 36 * (v - low) / span:.1f}" for k, v in enumerate(values))


def interface(model: ModelDocuments) -> list[dict[str, str]]:
    """The model's inputs and outputs in words."""
    inspect = model.first("inspect")
    if inspect is None:
        return []
    return [
        {
            "role": f"{role} {k}" if len(inspect[f"{role}s"]) > 1 else role,
            "name": words.seen(tensor["name"]) or "(no name)",
            "typed": words.typed(tensor["type"], tensor["shape"]),
            "quantised": words.quantised(tensor),
        }
        for role in ("input", "output")
        for k, tensor in enumerate(inspect[f"{role}s"])
    ]


def key_figures(found: Bundle) -> list[dict[str, str]]:
    """The figures at the top: value, unit, a note, and whether each is measured or estimated."""
    return [*_model_figures(found), *_app_figures(found), *_result_figures(found)]


def _model_figures(found: Bundle) -> Iterator[dict[str, str]]:
    arena = whole_arena(found)
    plans = [plan for model in found.models if (plan := model.first("plan")) is not None]
    if arena is not None and plans:
        head, stock = sum(p["head_bytes"] for p in plans), sum(p["greedy_bytes"] for p in plans)
        note = f"head {words.size(stock - head)} below TFLM’s own" if head < stock else "head as TFLM’s own placing"
        if arena[1] == "planned":
            other = sum(p["arena_bytes"] for p in plans)
            note = f"all RAM of compiled code; the interpreter’s arena has {words.size(other)}"
        yield _figure("Arena", words.size(arena[0]), note, arena[1])
    inspections = [i for model in found.models if (i := model.first("inspect")) is not None]
    if inspections:
        operators = sum(len(i["operators"]) for i in inspections)
        macs = sum(i["macs"] for i in inspections)
        yield _figure("MACs a run", words.short(macs), f"{words.number(operators)} operators", "exact")
        total = sum(i["bytes"] for i in inspections)
        constants = sum(i["constant_bytes"] for i in inspections)
        yield _figure("Model", words.size(total), f"{words.size(constants)} of constants", "exact")


def _app_figures(found: Bundle) -> Iterator[dict[str, str]]:
    built, fit = found.first("footprint"), found.first("fit") or {"boards": ()}
    for use in built["regions"] if built is not None else ():
        if use["name"] in ("FLASH", "RAM"):
            note = f"of {words.size(use['size_bytes'])}" if use["size_bytes"] else "as linked"
            yield _figure({"FLASH": "Flash"}.get(use["name"], "RAM"), words.size(use["used_bytes"]), note, "measured")
    for board in [board for board in fit["boards"] if board["flash"] and built is None][:1]:
        for name, use in (("Flash", board["flash"]), ("RAM", board["ram"])):
            note = f"of {words.size(use['available_bytes'])} on {board['board']}"
            yield _figure(name, words.size(use["used_bytes"]), note, "estimated")


def _result_figures(found: Bundle) -> Iterator[dict[str, str]]:
    taken = way(found, "taken")
    if taken is not None and taken["estimated_cycles"] and not any(model.first("profile") for model in found.models):
        note = f"{taken['name']}, without wait states"
        yield _figure("Cycles a run", words.short(taken["estimated_cycles"]), note, "estimated")
    for model in found.models:
        cost = model.first("profile")
        if cost is not None:
            unit = "Instructions" if cost["unit"] == "instructions" else "Ticks"
            yield _figure(
                f"{unit} a run", words.short(cost["total"]["median"]), f"{model.name} on {cost['board']}", "measured"
            )
        score = model.first("evaluate")
        if score is not None and "accuracy" in score:
            note = f"{words.number(score['correct'])} of {words.number(score['count'])} right"
            yield _figure("Accuracy", f"{100 * score['accuracy']:.2f} %", note, "measured")
        verdict = model.first("verify")
        if verdict is not None:
            note = f"{verdict['equal']} of {verdict['samples']} equal byte for byte"
            yield _figure("Verified", "yes" if verdict["passed"] else "differs", note, "measured")


def _figure(title: str, value: str, note: str, source: str) -> dict[str, str]:
    return {"title": title, "value": value, "note": note, "source": source}


def provenance(found: Bundle) -> list[tuple[str, str]]:
    """Versions, hashes and boards by their names."""
    app = found.first("app")
    rows: list[tuple[str, str]] = []
    if app is not None:
        rows += [
            ("Boards", ", ".join(app["boards"])),
            ("Kernels", _KERNELS.get(app["kernels"], app["kernels"])),
            ("Zephyr", app["zephyr_version"]),
            ("TFLM", app["tflm_revision"]),
            ("CMSIS-NN", app["cmsis_nn_revision"]),
            ("Generated by", f"tflm-zephyr {app['generator']}"),
        ]
    for model in found.models:
        rows.append((f"SHA-256 of {words.seen(model.name, 60)}", model.sha256))
    for build in found.others.get("build", ()):
        rows.append(("Built for", build["board"]))
    sizes = found.first("size")
    if sizes is not None:
        rows += [("Compiler", board["compiler"]) for board in sizes["boards"][:1]]
    return [(name, words.seen(value)) for name, value in rows if value]


def commands(found: Bundle) -> list[str]:
    """The command lines that made the documents, each once."""
    import shlex

    lines = (" ".join(map(shlex.quote, doc["command"])) for doc in found.all() if doc["command"])
    return [f"tflm-zephyr {words.seen(line, 240)}" for line in dict.fromkeys(lines)]
