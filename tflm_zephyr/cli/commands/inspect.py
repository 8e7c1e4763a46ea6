# SPDX-License-Identifier: Apache-2.0
"""`inspect`: a model's tensors and operators, and the kernel library that computes each operator."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

from tflm_zephyr.cli.commands.outcome import Done, Say
from tflm_zephyr.cli.report import inspect as report
from tflm_zephyr.compiler import OPERATORS, runs_legacy
from tflm_zephyr.errors import ModelError
from tflm_zephyr.kernels import Node, check_types, has_cmsis_nn, macs, miscomputed, why_reference
from tflm_zephyr.model import Model, load_model
from tflm_zephyr.tflm import shipped_operator_table


def do_inspect(args: argparse.Namespace, say: Say) -> Done:
    """`inspect`. Exit code 1 when TFLM refuses the model."""
    model = load_model(args.model)
    rows = tuple(_rows(model))
    code = 1 if any(row.refused for row in rows) else 0
    lines = report.inspection(args.model, model, rows)
    if args.html is not None:
        from tflm_zephyr.cli.commands.report import of_model, write_page
        from tflm_zephyr.page import page

        write_page(args.html, page(of_model(args.model)), force=False)
        lines += f"\nWritten: {args.html}"
    return Done(lines, report.inspection_json(args.model, model, rows), code)


def _rows(model: Model) -> Iterator[report.OperatorRow]:
    for subgraph in model.subgraphs:
        seen: set[int] = set()  # constants that several operators share are counted for the first
        for operator in subgraph.operators:
            constants = {i for i in operator.inputs if i >= 0 and subgraph.tensors[i].is_constant} - seen
            seen |= constants
            use = Node(model, subgraph, operator)
            single = replace(model, subgraphs=(replace(subgraph, operators=(operator,)),))
            refused = _refusal(single, operator.key)
            alone = refused and (operator.key in OPERATORS if _lacks(operator.key) else runs_legacy(use))
            library, why = ("none", refused) if refused else _library(use, single)
            if alone:
                library, why, refused = "reference", f"compiled code alone runs it: {refused.partition('. ')[0]}", ""
            yield report.OperatorRow(
                subgraph.index,
                operator,
                tuple(subgraph.tensors[i] for i in operator.inputs if i >= 0),
                tuple(subgraph.tensors[i] for i in operator.outputs if i >= 0),
                0 if refused else macs(use),
                sum(len(subgraph.tensors[i].data or b"") for i in constants),
                library,
                why,
                refused,
            )


def _lacks(key: str) -> bool:
    return key not in shipped_operator_table().calls


def _refusal(single: Model, key: str) -> str:
    """Why TFLM refuses the model's one operator; "" where it takes it."""
    if _lacks(key):
        return "TFLM has no kernel for it: declare your own in the app file (custom_operators)"
    try:
        check_types(single)
    except ModelError as err:
        return f"{err.what}. {err.hint}" if err.hint else err.what
    return ""


def _library(use: Node, single: Model) -> tuple[str, str]:
    """The library that computes the operator in an app with CMSIS-NN, and why it is not CMSIS-NN."""
    if not has_cmsis_nn(use.operator.key):
        return "reference", "TFLM has no CMSIS-NN kernel for it"
    why = why_reference(use)
    return ("reference", why) if why else ("cmsis_nn", miscomputed(single))
