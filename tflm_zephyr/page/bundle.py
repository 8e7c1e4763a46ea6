# SPDX-License-Identifier: Apache-2.0
"""Documents that belong together: those of the app, and those of each of its models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tflm_zephyr.documents import Document

_OF_MODELS = ("plan", "layers", "inspect", "profile", "verify", "evaluate", "infer")


@dataclass
class ModelDocuments:
    """The documents of one model; of each kind the last one that was given comes first."""

    sha256: str
    name: str = ""
    documents: dict[str, list[Document]] = field(default_factory=dict)

    def first(self, kind: str) -> Any:
        """The newest document of `kind`, None where there is none."""
        return next(iter(self.documents.get(kind, ())), None)

    def is_of(self, sha256: str) -> bool:
        """Whether `sha256`, of which 16 digits are enough, is this model's."""
        return bool(sha256) and (self.sha256.startswith(sha256) or sha256.startswith(self.sha256))


@dataclass
class Bundle:
    """Documents of one app, or of single models. `others`: all that are of no single model, by kind."""

    title: str
    models: list[ModelDocuments]
    others: dict[str, list[Document]]

    def first(self, kind: str) -> Any:
        """The newest document of `kind`, None where there is none."""
        return next(iter(self.others.get(kind, ())), None)

    def all(self) -> Iterator[Document]:
        """Every document."""
        for kind in self.others.values():
            yield from kind
        for model in self.models:
            for found in model.documents.values():
                yield from found


def bundle(documents: Sequence[Document], title: str = "") -> Bundle:
    """The documents in order; of those that say the same of the same, the later one comes first."""
    found = Bundle("", [], {})
    for document in _single(documents):
        kind = document["document"]
        if kind == "app":
            for model in document["models"]:
                _model(found, model["sha256"], model["name"])
        if kind in _OF_MODELS:
            _model(found, document["sha256"], document["model"]).documents.setdefault(kind, []).insert(0, document)
        else:
            found.others.setdefault(kind, []).insert(0, document)
    found.title = title or _title(found)
    return found


def whole_arena(found: Bundle) -> tuple[int, str] | None:
    """Bytes of the whole arenas of the models as they run, and the source of the number; None where not known."""
    app, shared = found.first("app"), found.first("shared_plan")
    plans = [plan for model in found.models if (plan := model.first("plan")) is not None]
    if app is not None:
        arenas = [app["shared_arena"]] if app["shared_arena"] else [model["arena"] for model in app["models"]]
        sizes = [(arena["bytes"], arena["source"]) for arena in arenas]
    elif shared is not None:
        sizes = [(shared["shared_arena_bytes"], "estimated")]
    else:
        sizes = [
            (plan["compiled"]["arena_bytes"], "planned")
            if plan.get("backend") == "compiled"
            else (plan["arena_bytes"], plan["arena_source"])
            for plan in plans
        ]
    sources = {source for _, source in sizes}
    return (sum(size for size, _ in sizes), sources.pop() if len(sources) == 1 else "estimated") if sizes else None


def way(found: Bundle, mark: str) -> Any:
    """The way of the `fit` document with the mark "taken" or "recommended"; None without one."""
    fit = found.first("fit")
    return next((one for one in fit.get("ways", ()) if one.get(mark)), None) if fit is not None else None


def build_name(footprint: Document) -> str:
    """The name of the build folder of a `footprint` document, which is the board's."""
    parts = str(footprint["elf"]).split("/")
    return parts[-3] if len(parts) > 2 else parts[-1]


def _single(documents: Iterable[Document]) -> Iterator[Document]:
    """A shared plan is the plans of its models as well, a self-test's document that of each model."""
    for document in documents:
        yield document
        if document["document"] == "shared_plan":
            for plan in document["models"]:
                yield {**document, "document": "plan", **plan}


def _model(found: Bundle, sha256: str, name: str) -> ModelDocuments:
    for model in found.models:
        if model.is_of(sha256):
            model.sha256 = max(model.sha256, sha256, key=len)
            return model
    made = ModelDocuments(sha256, name.removesuffix(".tflite"))
    found.models.append(made)
    return made


def _title(found: Bundle) -> str:
    for kind, key in (("app", "name"), ("generate", "app")):
        if found.first(kind) is not None:
            return str(found.first(kind)[key])
    names = ", ".join(model.name for model in found.models)
    return names or (str(found.first("fit")["app"]) if found.first("fit") is not None else "report")
