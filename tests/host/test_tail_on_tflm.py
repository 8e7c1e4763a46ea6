# SPDX-License-Identifier: Apache-2.0
"""The steps of allocation with the struct sizes of this machine's TFLM: the tail section by section as it records
them, and the smallest arena in which it allocates and runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("tflite_micro")

from tests.helpers.host_runs import run_host
from tflm_zephyr.arena.requests import requests_of
from tflm_zephyr.arena.tail import estimate_tail
from tflm_zephyr.errors import ToolError
from tflm_zephyr.host.golden_outputs import seeded_inputs
from tflm_zephyr.kernels import libraries as kernels
from tflm_zephyr.memory_planner.greedy_planner import greedy
from tflm_zephyr.model.lifetimes import analyse
from tflm_zephyr.model.reader import load_model
from tflm_zephyr.tflm.struct_sizes import ALIGNMENT, LP64, cortex_m_sizes

HERE = cortex_m_sizes(static_memory=True).on(LP64)  # as the tflite-micro package is compiled
RECORDING = {"MicroAllocator": (248, 8), "SingleArenaBufferAllocator": (104, 8)}  # the Recording... classes
X86_64 = replace(HERE, tables={LP64: {**HERE.layouts, **RECORDING}})


def test_sections(shared_model: Path) -> None:
    model = load_model(shared_model)
    run = run_host(model.data, seeded_inputs(model))
    library = kernels.host()
    tail = dict(estimate_tail(analyse(model, library.scratch), library, X86_64).sections)
    recorded = {section.name: section for section in run.sections}

    def used(name: str) -> int:
        return recorded[name].used_bytes if name in recorded else 0

    assert tail["eval tensors"] == used("TfLiteEvalTensor data")
    assert tail["nodes and registrations"] == used("NodeAndRegistration struct")
    assert abs(tail["variables"] - used("TfLiteTensor variable buffer data")) < 16  # what aligns the first
    tensors = used("Persistent TfLiteTensor data") + used("Persistent TfLiteTensor quantization data")
    assert 0 <= tail["input and output tensors"] - tensors <= 2 * (16 + 8)
    kernels_own = used("Persistent buffer data") - (tail["input and output tensors"] - tensors)
    rest = sum(size for name, size in tail.items() if name != "operator data")
    assert kernels_own <= tail["operator data"]  # a bound with 64 bits
    # What is not recorded, the allocator's own objects and builtin data, is a little larger in its revision.
    operators = sum(len(subgraph.operators) for subgraph in model.subgraphs)
    assert -16 <= run.tail_bytes - (rest + kernels_own) <= 64 + 32 * operators


@pytest.mark.slow
def test_the_smallest_arena(shared_model: Path) -> None:
    """To the byte, but for what the tail's structs are larger in this TFLM: 16 bytes less fail."""
    model, library = load_model(shared_model), kernels.host()
    graph, inputs = analyse(model, library.scratch), seeded_inputs(model)
    requests = requests_of(model, library)
    head = greedy(requests.problem(requests.assumed)).size_bytes
    tail = estimate_tail(graph, library, X86_64)
    larger = run_host(model.data, inputs).tail_bytes - tail.tail_bytes
    smallest = max(head + tail.tail_bytes, tail.planning_bytes) + larger
    smallest += -smallest % ALIGNMENT
    assert run_host(model.data, inputs, smallest).head_bytes == head
    with pytest.raises(ToolError):
        run_host(model.data, inputs, smallest - ALIGNMENT)
