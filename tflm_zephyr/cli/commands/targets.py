# SPDX-License-Identifier: Apache-2.0
"""The device that a command line names, and the model's .tflite file where the host needs it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from tflm_zephyr.cli.commands.outcome import Say, refuse_flags
from tflm_zephyr.codegen import identifier, load_config, load_manifest
from tflm_zephyr.device.session import DeviceTarget, Hello, Session, open_session
from tflm_zephyr.device.transport import Capabilities, route
from tflm_zephyr.errors import AppError, DeviceError, ModelError
from tflm_zephyr.model import Model, load_model, without_conversions


def targets(args: argparse.Namespace) -> tuple[DeviceTarget, ...]:
    """One target for each --port or --dev-id, or the one of the other options. Raises AppError when there is none."""
    ports, probes = _ports(args)
    common = DeviceTarget(
        app=args.app,
        board=args.board or "",
        build_dir=args.build_dir,
        baudrate=args.baudrate,
        recording=args.replay,
        host_model=args.host,
        model=args.model or "",
        reply_timeout_s=args.reply_timeout or DeviceTarget.reply_timeout_s,
        run_timeout_s=args.timeout or DeviceTarget.run_timeout_s,
    )
    ways = [bool(args.app or ports), args.host is not None, args.replay is not None]
    if sum(ways) != 1:
        raise AppError(
            "no option says where the model runs" if not any(ways) else "several options say where the model runs",
            where=args.tflm_command,
            hint="Give just one of --app APP, --port URL, --host MODEL, --replay FILE (--port goes with --app)",
        )
    if not (args.app or ports) and not can(common).carries_bytes:
        refuse_flags(args, ["record", "timeout", "reply_timeout"], "is for a link, and no bytes go over one there")
    if args.app is None and not ports:
        refuse_flags(args, ["board", "build_dir"], "is for an app or a port")
    if not ports and (args.host is not None or args.replay is not None):
        refuse_flags(args, ["baudrate"], "is for serial ports")
    if not any(getattr(args, name, None) for name in ("output", "record", "dump", "trace", "resume")):
        refuse_flags(args, ["force"], "replaces files, and no file is written")
    if len(ports) > 1 and args.record is not None:
        raise AppError("records one port", where="--record", hint="Give one --port")
    several = tuple(replace(common, port=port, usb_serial=probe) for port, probe in zip(ports, probes, strict=True))
    return several or (common,)


def can(target: DeviceTarget) -> Capabilities:
    """The capabilities of the transport that leads to `target`. Raises as `route`."""
    return route(target).transport.capabilities


def _ports(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Ports, and for each the serial number that picks it, "" for none."""
    ports, probes = args.port or [], args.dev_id or []
    if not probes:
        return ports, [""] * len(ports)
    if "" in probes:
        raise AppError("is empty", where="--dev-id", hint="Give the serial number that is printed on the board")
    if ports not in ([], ["auto"]):
        raise AppError("a port is named already", where="--dev-id", hint="Give --port auto, or no --port")
    return ["auto"] * len(probes), probes


def one_target(args: argparse.Namespace) -> DeviceTarget:
    """The target of a command that takes only one."""
    found = targets(args)
    if len(found) > 1:
        raise AppError(f"{len(found)} ports were given, one is used here", where=args.tflm_command)
    return found[0]


@contextmanager
def opened(target: DeviceTarget, args: argparse.Namespace, say: Say) -> Iterator[Session]:
    """An open session on `target`; with --verbose its text is shown."""
    on_text = say if args.verbose else None
    with open_session(target, on_text=on_text, record=args.record, force=args.force) as session:
        yield session


def host_model(args: argparse.Namespace, hello: Hello | None = None) -> Model:
    """The model as it was converted: --tflite, --host, or the app's own.

    Raises AppError when nothing names it, DeviceError when it is not the one that `hello` describes.
    """
    path = args.tflite or args.host or (None if args.app is None else _app_model(args.app, args.model))
    if path is None:
        raise AppError("the .tflite file is needed here", where=args.tflm_command, hint="Name it with --tflite FILE")
    model = load_model(path)
    if hello is not None and not hello.runs(model.sha256):
        with suppress(ModelError):
            found = without_conversions(model)  # as an app with io: int8 runs it
            if hello.runs(found.sha256):
                return found
        raise DeviceError(
            f"runs a model with SHA-256 {hello.sha256[:16]}, {path.name} has {model.sha256[:16]}",
            where=hello.link,
            hint="Flash this model, or give that file",
        )
    return model


def _app_model(app: Path, wanted: str) -> Path:
    """The .tflite that the app's model was generated from."""
    manifest = load_manifest(app)
    names = sorted(manifest.models)
    if wanted and wanted not in names:
        raise AppError(f"has no model {wanted} but {', '.join(names)}", where=str(app))
    if not wanted and len(names) > 1:
        raise AppError(f"has the models {', '.join(names)}", where=str(app), hint="Choose one with --model")
    for entry in load_config(app).models:
        if identifier(entry.label) == (wanted or names[0]):
            return entry.model
    raise AppError("its app file does not name its model", where=str(app), hint="Generate the app again")
