# SPDX-License-Identifier: Apache-2.0
"""Documents -> one HTML file: a pure function, the same documents give the same bytes.

The pictures are plain SVG that is drawn here, and the script is a page long. A chart library would bring 50 to 700 KB
into every report, would need the script to run before anything shows, and knows no map of an arena; a content security
policy that allows the page's own style and script by their hashes, and nothing else, is easy to check this way.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any

import jinja2
from markupsafe import Markup

from tflm_zephyr import __version__
from tflm_zephyr.documents import Document
from tflm_zephyr.page import views, words
from tflm_zephyr.page.bundle import Bundle, ModelDocuments, build_name, bundle
from tflm_zephyr.page.drawing import inline
from tflm_zephyr.resources import data_dir

MADE_HERE = '<meta name="generator" content="tflm-zephyr '
"""Stands in every page."""
_WANTED = (
    ("Profile", "profile", "tflm-zephyr profile --app APP --json > profile.json"),
    ("Verification", "verify", "tflm-zephyr verify --app APP --json > verify.json"),
    ("Evaluation", "evaluate", "tflm-zephyr evaluate DATA --app APP --json > evaluate.json"),
)


class _Model:
    """A model as the template sees it; `several`: its name is part of each heading."""

    def __init__(self, number: int, model: ModelDocuments, found: Bundle) -> None:
        self.id = f"m{number}"
        self.name = words.seen(model.name, 60)
        self._several = len(found.models) > 1
        self.plan, self.inspect = model.first("plan"), model.first("inspect")
        self.verify = model.first("verify")
        self.runs = [
            result
            for run in found.others.get("run", ())[:1]
            for result in run["results"]
            if model.is_of(result["sha256"])
        ]
        self.arena = views.arena(self.plan) if self.plan is not None else None
        self.operators = views.operators(model)
        self.training = views.training(model)
        self.profile = views.profile(model)
        self.evaluation = views.evaluation(model)
        self.interface = views.interface(model)

    def heading(self, what: str) -> str:
        """`what`, of this model where there are several."""
        return f"{what}: {self.name}" if self._several else what


def page(documents: Sequence[Document], title: str = "", comparison: Document | None = None) -> str:
    """The page for documents of one app, or of models, in the order in which they were made.

    `comparison`: a document with what changed since another, to be shown first. Text of documents is shown as text,
    whatever is in it.
    """
    found = bundle(documents, title)
    models = [_Model(k, model, found) for k, model in enumerate(found.models)]
    fit = found.first("fit")
    footprints = [
        {**views.footprint(document), "title": words.seen(build_name(document))}
        for document in found.others.get("footprint", ())
    ]
    style, script = (_asset(name) for name in ("style.css", "script.js"))
    values = {
        "title": words.seen(found.title, 80),
        "kicker": "TensorFlow Lite Micro on Zephyr",
        "subtitle": _subtitle(found),
        "ways": views.ways(found),
        "figures": views.key_figures(found),
        "models": models,
        "app": found.first("app"),
        "fits": views.fits(found),
        "fit_notes": fit["notes"] if fit is not None else [],
        "footprints": footprints,
        "comparison": comparison,
        "absent": _absent(found),
        "provenance": views.provenance(found),
        "commands": views.commands(found),
        "notes": _notes(found),
        "tool_version": __version__,
        "style": Markup(style),
        "script": Markup(script),
        "style_hash": _hash(style),
        "script_hash": _hash(script),
    }
    values["sections"] = list(_sections(values))
    return _environment().get_template("page.html.j2").render(values)


def _subtitle(found: Bundle) -> str:
    app = found.first("app")
    if app is not None:
        names = ", ".join(words.seen(model["file"], 60) for model in app["models"])
        return f"{names} for {', '.join(app['boards'])}"
    return ", ".join(plan["for"] for model in found.models if (plan := model.first("plan")) is not None)


def _absent(found: Bundle) -> list[tuple[str, str]]:
    """Results that would be on the page, and the commands that make them."""
    if found.first("app") is None:
        return []
    return [(title, command) for title, kind, command in _WANTED if not any(m.first(kind) for m in found.models)]


def _notes(found: Bundle) -> list[str]:
    notes = [note for model in found.models if (plan := model.first("plan")) for note in plan["notes"]]
    notes += [note for fit in found.others.get("fit", ()) for note in fit["notes"]]
    return [words.seen(note, 400) for note in dict.fromkeys(notes)]


def _sections(values: Mapping[str, Any]) -> Iterable[dict[str, str]]:
    """The table of contents."""
    if values["comparison"]:
        yield {"id": "comparison", "title": "Changes"}
    if values["ways"]:
        yield {"id": "ways", "title": "Ways"}
    if values["figures"]:
        yield {"id": "summary", "title": "Summary"}
    if values["fits"]:
        yield {"id": "fit", "title": "Fit"}
    for key, anchor, title in (
        ("arena", "arena", "Arena"),
        ("training", "training", "Training"),
        ("operators", "graph", "Graph"),
        ("", "footprint", "Footprint"),
        ("profile", "profile", "Profile"),
        ("verify", "verify", "Verification"),
        ("evaluation", "evaluation", "Evaluation"),
    ):
        if not key:
            if values["footprints"] or values["app"]:
                yield {"id": anchor, "title": title}
            continue
        for model in values["models"]:
            if getattr(model, key) or (key == "verify" and model.runs):
                yield {"id": f"{anchor}-{model.id}", "title": model.heading(title)}
    yield {"id": "provenance", "title": "Provenance"}


def _asset(name: str) -> str:
    return (data_dir("templates") / "report" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _json_text(value: object) -> Markup:
    """`value` as JSON that ends no script element and starts no comment in it."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _direction(change: Mapping[str, Any]) -> str:
    """Whether a change is for the better: fewer bytes and less work are, more accuracy is."""
    if not change["change"]:
        return ""
    return "better" if (change["change"] > 0) == (change["unit"] == "%") else "worse"


@cache
def _environment() -> jinja2.Environment:
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("templates") / "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(
        number=words.number,
        size=words.size,
        signed=words.signed,
        seen=words.seen,
        ratio=lambda value: f"{value:+.1f} %".replace("-", "−"),
        percent_of=lambda whole, part: words.share(part, whole),
        json_text=_json_text,
        drawn=lambda picture: Markup(inline(picture)),
        short=words.short,
        direction=_direction,
        groupby_in_order=lambda rows, key: [
            (name, list(group)) for name, group in groupby(rows, key=lambda row: row[key])
        ],
    )
    return env
