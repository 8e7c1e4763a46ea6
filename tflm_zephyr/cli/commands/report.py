# SPDX-License-Identifier: Apache-2.0
"""`report`: documents of an app, a model, or from files, as one HTML page; what changed between several of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflm_zephyr.cli.commands.configuration import boards_of, compiler_for, tflm_for, typed
from tflm_zephyr.cli.commands.fit import fit_done, fitting
from tflm_zephyr.cli.commands.outcome import Done, Say, refuse_flags
from tflm_zephyr.cli.commands.plan import with_compiled
from tflm_zephyr.cli.report import compare as report
from tflm_zephyr.cli.report import plan as plan_report
from tflm_zephyr.cli.report.inspect import inspection_json, operator_rows
from tflm_zephyr.codegen import (
    AppManifest,
    AppRequest,
    app_costs,
    app_kernels,
    load_config,
    load_manifest,
    own_path,
    runtime_work,
)
from tflm_zephyr.compiler import layer_costs
from tflm_zephyr.documents import Document, enveloped, load_documents
from tflm_zephyr.errors import AppError, ToolError
from tflm_zephyr.files import read_if_there, write_new
from tflm_zephyr.model import Model, load_model
from tflm_zephyr.options import app_file, options_of
from tflm_zephyr.page import MADE_HERE, bundle, comparison, page, summary
from tflm_zephyr.plain_values import plain_values
from tflm_zephyr.tensors import load_dataset
from tflm_zephyr.validation import quantisation_loss, random_data

if TYPE_CHECKING:
    from tflm_zephyr.boards import Board
    from tflm_zephyr.codegen import Generated
    from tflm_zephyr.tflm import TflmRevision

_GENERATOR_WITHIN = 2048  # bytes from the start of a page


def do_report(args: argparse.Namespace, say: Say) -> Done:
    """`report`: the documents of all sources together, or with --compare of each source for itself."""
    if args.markdown and args.json:
        raise AppError("--markdown and --json contradict each other", where="report", hint="Give one")
    if args.compare:
        return _compare(args, say)
    documents = [document for source in args.source for document in _documents(source, args, say)]
    found = bundle(documents, args.title or "")
    if args.output is not None:
        write_page(args.output, page(documents, args.title or ""), force=args.force)
    else:
        refuse_flags(args, ("force",), "replaces a file, and none is written")
    if args.markdown:
        return Done(summary(documents, args.title or "").rstrip(), {})
    plain = {"title": found.title, "documents": documents}
    return Done(report.figures(found, args.output), plain)


def _compare(args: argparse.Namespace, say: Say) -> Done:
    if len(args.source) < 2:
        raise AppError("compares two sources at least", where="--compare", hint="Name two apps, models or documents")
    sources = [_documents(source, args, say) for source in args.source]
    names = _names(args.source)
    found = comparison([bundle(documents) for documents in sources], names)
    document = enveloped("comparison", found, args.command_line)
    if args.output is not None:
        write_page(args.output, page(sources[-1], args.title or "", document), force=args.force)
    if args.markdown:
        return Done(summary(sources[-1], args.title or "", document).rstrip(), {})
    return Done(report.changes(document, args.output), found, document="comparison")


def _names(sources: Iterable[Path]) -> list[str]:
    """The sources' names: file names where these differ, else paths."""
    paths = list(sources)
    short = [path.stem if path.is_file() else path.resolve().name for path in paths]
    return short if len(set(short)) == len(short) else [str(path) for path in paths]


def write_page(path: Path, text: str, *, force: bool) -> None:
    """Write a page; an older page of this toolkit is replaced, any other file only with `force`, and kept as .orig."""
    old = read_if_there(path)
    if old is not None and MADE_HERE.encode() in old[:_GENERATOR_WITHIN]:
        from tflm_zephyr.files import write_atomically

        write_atomically(path, text.encode())
        return
    write_new(path, text.encode(), force=force)


def _documents(source: Path, args: argparse.Namespace, say: Say) -> list[Document]:
    """The documents of an app's folder, of a .tflite, or in a JSON file."""
    if source.suffix.lower() == ".tflite" and not source.is_dir():
        return of_model(source, args)
    own = ["float", "data", *(row.dest for row in options_of("report"))]
    refuse_flags(args, own, f"is for a .tflite, and {source} is none")
    if source.is_dir():
        return list(_of_app(source, say))
    if source.suffix.lower() != ".json":
        hint = "Name an app's folder, a .tflite, or a .json that --json printed"
        raise ToolError("no such file" if not source.exists() else "is none of these", where=str(source), hint=hint)
    return load_documents(source)


def of_model(path: Path, args: argparse.Namespace | None = None) -> list[Document]:
    """The inspection of a model, and where an app can run it the app's fit, and the model's plan and costs in that app.

    `args` has options of the app, a float model to compare with, and data for that.
    """
    found = [_made("inspect", path)]
    if not any(operator["refused"] for operator in found[0]["operators"]):
        given = argparse.Namespace() if args is None else args
        words = _parsed("fit", path, *typed(given, [row for row in options_of("fit") if row in options_of("report")]))
        asked = fitting(words, lambda text: None)
        request = asked.request
        found += _of_models(asked.made, request.tflm, request.boards, given)
        found.append(enveloped("fit", fit_done(asked).json, words.command_line))
    return found


def _of_models(
    made: Generated, tflm: TflmRevision, boards: Sequence[Board], args: argparse.Namespace | None = None
) -> Iterable[Document]:
    """The plans of an app's models, and what their layers cost as the app runs them."""
    kernels = app_kernels(made.config, [item.model for item in made.prepared], boards, tflm)
    costs = app_costs(made.spec)
    named = f"{' and '.join(made.spec.kernels)} kernels for {', '.join(board.name for board in boards)}"
    for item, model in zip(made.prepared, made.spec.models, strict=True):
        planned = plan_report.PlannedModel(item.config.model, item.plan, named, kernels.choice.notes)
        beside = with_compiled(planned, made.config, item.config, kernels, tflm)
        yield enveloped("plan", {**plan_report.plan_json(beside), "backend": made.spec.backend})
        work = runtime_work(model.runtime, costs)
        layers = layer_costs(item.running, work, costs, item.order, model.arena.bytes)
        loss = None if args is None or getattr(args, "float", None) is None else _loss(item.model, args)
        of = {"model": item.config.model.name, "sha256": model.sha256, "backend": made.spec.backend}
        yield enveloped("layers", {**of, **plain_values(layers), "loss": loss})


def _loss(model: Model, args: argparse.Namespace) -> dict[str, Any]:
    """The loss of accuracy against the float model of --float, with --data or with random inputs."""
    data = load_dataset(args.data) if args.data is not None else random_data(model)
    found = quantisation_loss(model, load_model(args.float), data)
    return {"float": args.float.name, "data": "" if args.data is None else args.data.name, **plain_values(found)}


def _parsed(*words: object) -> argparse.Namespace:
    """The arguments of the command line `words`, with --json."""
    from tflm_zephyr.cli.main import build_parser

    line = [str(word) for word in (*words, "--json")]
    args = build_parser("tflm-zephyr").parse_args(line)
    args.command_line = line
    return args


def _made(*words: object) -> Document:
    """The document that the command line `words` prints with --json."""
    args = _parsed(*words)
    handler = getattr(import_module(f"tflm_zephyr.cli.commands.{words[0]}"), f"do_{words[0]}")
    done: Done = handler(args, lambda text: None)
    return enveloped(done.document or str(words[0]), done.json, args.command_line)


def _of_app(app: Path, say: Say) -> Iterable[Document]:
    """An app's facts, its models' inspections and plans, the boards that it fits, and the builds in its folder."""
    from tflm_zephyr.build import find_workspace_if_any
    from tflm_zephyr.footprint import generate_within

    manifest = load_manifest(app)
    config = load_config(app)
    workspace = find_workspace_if_any(None, app=app)
    boards = boards_of(config, workspace)
    tflm = tflm_for(config, boards, workspace)
    made = generate_within(AppRequest(config, app, tflm, boards=boards, keep_golden=True, compiler=compiler_for(app)))
    for model in made.spec.models:
        if manifest.sha256.get(model.ident) != model.sha256:
            what = f"model {model.ident} has changed since the app was generated"
            raise AppError(what, where=str(app), hint="Generate the app again")
    yield enveloped("app", _app(manifest, made))
    for item in made.prepared:
        rows = operator_rows(item.model)  # as the app runs it, which may be without conversions
        yield enveloped("inspect", inspection_json(item.config.model, item.model, rows))
    yield from _of_models(made, tflm, boards)
    yield _made("fit", "--app", own_path(app, app_file.NAME))
    for board in made.spec.boards:
        if (app / "build" / board.file_stem).is_dir():
            try:
                yield _made("footprint", app, "--board", board.name)
            except ToolError as err:
                say(f"note: the build for {board.name} is left out: {err}")


def _app(manifest: AppManifest, made: Generated) -> dict[str, object]:
    """The keys of an `app` document."""
    return {
        "name": manifest.name,
        "boards": list(manifest.boards),
        "kernels": manifest.kernels,
        "models": [
            {
                "name": model.ident,
                "file": item.config.model.name,
                "sha256": model.sha256,
                "arena": asdict(model.arena),
                "golden": {"runs": len(model.golden), "source": model.golden_source},
            }
            for model, item in zip(made.spec.models, made.prepared, strict=True)
        ],
        "shared_arena": None if made.spec.shared_arena is None else asdict(made.spec.shared_arena),
        "zephyr_version": manifest.zephyr_version,
        "tflm_revision": manifest.tflm_revision,
        "cmsis_nn_revision": manifest.cmsis_nn_revision,
        "generator": manifest.generator,
    }
