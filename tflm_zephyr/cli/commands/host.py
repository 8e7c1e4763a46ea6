# SPDX-License-Identifier: Apache-2.0
"""`run --target host`: the app's planned models in TFLM on this machine, with the reference kernels."""

from __future__ import annotations

import argparse
import os
import struct
from math import prod
from pathlib import Path

from tflm_zephyr.cli.commands.outcome import Done, Say
from tflm_zephyr.cli.report import text
from tflm_zephyr.codegen import AppManifest, AppRequest, ModelSpec, load_config, load_manifest
from tflm_zephyr.device.console import Arena, Check, Output, RunResult, SelfTestRun
from tflm_zephyr.errors import AppError
from tflm_zephyr.host import run_many
from tflm_zephyr.model import parse_model
from tflm_zephyr.tensors import load_dataset, with_class_numbers
from tflm_zephyr.validation import Accuracy, Deviation, evaluate_host

_FLOAT_TOLERANCE = 1e-5  # kFloatTolerance in the app's self_test.cpp


def run_host(args: argparse.Namespace, say: Say) -> Done:
    """The self-test of each model, or with --data a whole data set through the one model."""
    from tflm_zephyr.footprint import generate_within
    from tflm_zephyr.tflm import tflm_of

    manifest = load_manifest(args.app)
    config = load_config(args.app)
    made = generate_within(AppRequest(config, args.app, tflm_of(None), keep_golden=True))
    for model in made.spec.models:
        if manifest.sha256.get(model.ident) != model.sha256:
            raise AppError(
                f"model {model.ident} has changed since the app was generated",
                where=str(args.app),
                hint="Generate the app again",
            )
    if args.data is not None:
        if len(made.spec.models) != 1:
            raise AppError("the app has several models", where=str(args.data), hint="Give each an app of its own")
        measured = _data(made.spec.models[0], args.data)
        return Done(
            text.measured(made.spec.models[0].name, args.data, measured),
            text.measured_json(measured),
            document="run_data",
        )
    results = [_self_test(model, manifest) for model in made.spec.models]
    failed = any(result.status == "fail" for result in results)
    return Done(text.results(results, manifest.scales), text.results_json(results, manifest.scales), 1 if failed else 0)


def _data(spec: ModelSpec, path: Path) -> Accuracy | Deviation:
    dataset = with_class_numbers(load_dataset(path), prod(spec.outputs[0].shape))
    return evaluate_host(spec.runtime.data, dataset)


def _self_test(spec: ModelSpec, manifest: AppManifest) -> RunResult:
    model = parse_model(spec.runtime.data)
    inputs = [run.inputs for run in spec.golden] or [tuple(bytes(t.bytes) for t in spec.inputs)]
    done = run_many(spec.runtime.data, inputs)
    runs = []
    for k, outputs in enumerate(done.runs):
        tensors = [model.main.tensors[index] for index in model.main.outputs]
        wanted = spec.golden[k].outputs if spec.golden else ()
        checks = tuple(_compare(i, outputs[i], want, tensors[i].type.value) for i, want in enumerate(wanted))
        produced = (Output(i, t.type.value, data) for i, (t, data) in enumerate(zip(tensors, outputs, strict=True)))
        runs.append(SelfTestRun(k, tuple(produced), checks))
    passed = all(check.result == "pass" for run in runs for check in run.checks)
    return RunResult(
        app=manifest.name,
        board=f"host/{os.uname().machine}",
        model=spec.ident,
        sha256=spec.sha256[:16],
        kernels="reference",
        tflm=f"tflite-micro {done.version}",
        zephyr="",
        arena=Arena(done.arena_bytes, done.used_bytes, done.head_bytes, done.tail_bytes, "ample"),
        runs=tuple(runs),
        status=("pass" if passed else "fail") if spec.golden else "none",
        where="host",
        link="TFLM on the host",
    )


def _compare(index: int, got: bytes, want: bytes, kind: str) -> Check:
    """As the app's own self-test does: byte for byte, floats by value."""
    step = 4 if kind == "float32" else 1
    for at in range(0, len(want), step):
        one, other = got[at : at + step], want[at : at + step]
        if one != other and (step == 1 or not _close(*struct.unpack("<2f", one + other))):
            return Check(index, "fail", at, one[0], other[0], exact=False)
    return Check(index, "pass", exact=got == want)


def _close(got: float, want: float) -> bool:
    return abs(got - want) <= _FLOAT_TOLERANCE * max(abs(want), 1.0)
