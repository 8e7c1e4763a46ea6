# SPDX-License-Identifier: Apache-2.0
"""`inspect`: a model's tensors and operators, and the kernel library that computes each operator."""

from __future__ import annotations

import argparse

from tflm_zephyr.cli.commands.outcome import Done, Say
from tflm_zephyr.cli.report import inspect as report
from tflm_zephyr.model import load_model


def do_inspect(args: argparse.Namespace, say: Say) -> Done:
    """`inspect`. Exit code 1 when TFLM refuses the model."""
    model = load_model(args.model)
    rows = report.operator_rows(model)
    code = 1 if any(row.refused for row in rows) else 0
    lines = report.inspection(args.model, model, rows)
    if args.html is not None:
        from tflm_zephyr.cli.commands.report import of_model, write_page
        from tflm_zephyr.page import page

        write_page(args.html, page(of_model(args.model)), force=False)
        lines += f"\nWritten: {args.html}"
    return Done(lines, report.inspection_json(args.model, model, rows), code)
