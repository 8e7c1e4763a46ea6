# SPDX-License-Identifier: Apache-2.0
"""`fit --into`: what an application that was built leaves for a model, and the ways to run it that fit there."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from tflm_zephyr.boards import AUTO
from tflm_zephyr.cli.commands.configuration import config_of, tflm_for
from tflm_zephyr.cli.commands.outcome import Done, refuse_flags
from tflm_zephyr.cli.report import fit as report
from tflm_zephyr.codegen import AppRequest, SharedWork, identifier, load_config, own_path
from tflm_zephyr.errors import AppError, BuildError, ModelError, PlanError
from tflm_zephyr.footprint import added_bytes, load_built_app, ways_into
from tflm_zephyr.options import AppConfig, app_file


def do_into(args: argparse.Namespace) -> Done:
    """Exit code 1 when no way fits. Without MODEL it is about the models of the generated app that was built."""
    refuse_flags(args, ["app", "board"], "is what the build folder of --into says")
    refuse_flags(args, ["flash", "optimize"], "does not go with --into, which lists all ways")
    found = into(args.into, config_of(args) if args.model else None, args.workspace)
    return Done("\n".join(report.into(found)), report.into_json(found), 1 if found.best is None else 0)


def into(folder: Path, config: AppConfig | None = None, workspace: Path | None = None) -> report.Into:
    """The room in the build in `folder` without the models that those of `config` replace, and the ways against that.

    `config` None: the generated app's own, by any of its ways.
    """
    from tflm_zephyr.build import find_workspace_if_any

    built = load_built_app(folder)
    own = load_config(built.source) if own_path(built.source, app_file.NAME).is_file() else None
    if config is None:
        if own is None:
            raise AppError("no model", where="--into", hint="Name a .tflite file before --into")
        config = replace(own, backend=AUTO, fast_kernels=False, rows=False, ram=None, slower=None)
    found = find_workspace_if_any(workspace, app=folder)
    request = AppRequest(
        replace(config, boards=(built.board.name,), optimize=None, flash=None),
        folder,
        tflm_for(config, (built.board,), found),
        boards=(built.board,),
        golden=False,
        measured=False,
        shared=SharedWork(),
    )
    names = built.replaced([identifier(model.label) for model in config.models])
    share = built.share(names)
    if own is not None:  # its models are among its own code, so that the map does not tell them apart
        names = tuple(identifier(model.label) for model in own.models)
        share = added_bytes(replace(request, config=replace(own, boards=(built.board.name,)), shared=None))
    room = built.left() + share
    return report.Into(built, names, share, room, ways_into(request, room), own is not None)


def overflow(folder: Path, config: AppConfig | None = None) -> list[str]:
    """The lines behind a link that overflowed; none where the build leaves nothing to tell."""
    try:
        return report.into(into(folder, config))
    except (AppError, BuildError, ModelError, PlanError):
        return []
