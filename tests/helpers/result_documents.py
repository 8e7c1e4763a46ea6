# SPDX-License-Identifier: Apache-2.0
"""Documents of results as commands print them, for pages."""

from __future__ import annotations

import base64
from typing import Any

from tflm_zephyr.documents import enveloped
from tflm_zephyr.footprint import CLOSE, NO, UNKNOWN, YES

TICKS = {"tick_hz": 1000, "instructions_per_tick": None}


def results(sha256: str) -> list[Any]:
    """A profile, a verification that failed, an evaluation and a footprint."""
    who = {"model": "net", "sha256": sha256[:16], "board": "mps2/an385", "where": "qemu", "kernels": "cmsis_nn"}
    cost = {"name": "RELU", "least": 90, "median": 100, "most": 110}
    difference = {
        "differing": 1,
        "elements": 4,
        "at": [0],
        "got": 1.0,
        "want": 2.0,
        "largest": 1.0,
        "largest_real": 1.0,
    }
    tensor = {"index": 1, "name": "t1", "type": "int8", "shape": [1, 4]}
    operator = {"index": 1, "name": "RELU", "tensor": tensor, "difference": difference, "inputs": [], "overwritten": []}
    failure = {
        "sample": "random 0",
        "output": 0,
        "tensor": tensor,
        "difference": difference,
        "captured_differs": True,
        "note": "",
        "operators_compared": 3,
        "operators": 3,
        "operators_elsewhere": 0,
        "operator": operator,
    }
    rows = [{"part": "model data", "detail": "net", "bytes": {"FLASH": 600}}] + [
        {"part": "kernels", "detail": f"function_{k}", "bytes": {"FLASH": 10, "RAM": k}} for k in range(60)
    ]
    rows.append({"part": "arena", "detail": "models::net::g_arena", "bytes": {"RAM": 230}})
    parts = {"model data": {"FLASH": 600}, "kernels": {"FLASH": 600, "RAM": 1770}, "arena": {"RAM": 230}}
    region = {"size_bytes": 4096, "linker_bytes": None}
    kernels = {"asked": "cmsis_nn", "why_not": None, "operators": []}
    bits = base64.b64encode(b"not a picture, but nobody looks").decode()
    worst = [
        {
            "sample": 7,
            "truth": 0,
            "predicted": 1,
            "score": 0.5,
            "input": {"kind": "image", "width": 1, "height": 1, "png": bits},
        },
        {
            "sample": 9,
            "truth": 1,
            "predicted": 0,
            "score": 0.2,
            "input": {"kind": "values", "values": [0, 1, 0], "elements": 3},
        },
    ]
    use = {"used_bytes": 1000, "below_bytes": 100, "above_bytes": 100, "available_bytes": 1024}
    board = {"board": "b", "kernels": "reference", "reason": "", "flash": use, "ram": None, "parts": [], "notes": []}
    verdicts = [{**board, "fits": fits, "remedies": [], "own_buffers": []} for fits in (YES, NO, CLOSE, UNKNOWN)]
    return [
        enveloped("fit", {"app": "net", "boards": verdicts, "notes": []}),
        enveloped(
            "profile",
            {
                "version": 1,
                **{k: v for k, v in who.items() if k != "where"},
                "unit": "ticks",
                "hz": 1000,
                "resolution": 1,
                "runs": 3,
                "operators": [cost] * 3,
                "total": {**cost, "median": 300},
                "changes": [{"operator": 0, "name": "RELU", "before": 50, "after": 100, "slower": True}],
            },
        ),
        enveloped(
            "verify",
            {
                **who,
                "passed": False,
                "samples": 2,
                "equal": 1,
                "close": 0,
                "reference": "TFLM on the host",
                "litert_equal": None,
                "notes": ["a note"],
                "failure": failure,
            },
        ),
        enveloped(
            "evaluate",
            {
                **who,
                "data": "d.npz",
                "output": "y",
                "count": 10,
                "correct": 8,
                "predictions": [0] * 10,
                "confusion": [[5, 1], [1, 3]],
                "accuracy": 0.8,
                "labels": ["cat", "dog"],
                "ticks": None,
                **TICKS,
                "worst": worst,
            },
        ),
        enveloped(
            "footprint",
            {
                "elf": "app/build/mps2_an385/zephyr/zephyr.elf",
                "source": "linker map",
                "kernels": kernels,
                "regions": [
                    {"name": "FLASH", "used_bytes": 1200, **region},
                    {"name": "RAM", "used_bytes": 2000, **region},
                ],
                "parts": parts,
                "rows": rows,
                "notes": [],
            },
        ),
    ]
