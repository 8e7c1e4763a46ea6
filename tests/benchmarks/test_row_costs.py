# SPDX-License-Identifier: Apache-2.0
"""benchmarks/row_costs.py: steps and moved bytes are told apart, and only the wanted functions are counted."""

from __future__ import annotations

from benchmarks.kernels import TIMINGS, Cost, Instruction, Trace
from benchmarks.row_costs import Steps, fits
from tflm_zephyr.costs import ROW_BYTES, ROW_STEP, Fit


def test_steps_and_bytes_have_a_price_each() -> None:
    samples = [(8, 0), (50, 20_000), (90, 31_000)]
    found = fits([Steps(steps, moved, Cost(70 * steps + moved // 2, 100 * steps + moved)) for steps, moved in samples])
    step, byte = found[ROW_STEP.kernel], found[ROW_BYTES.kernel]
    assert (price(step.instructions, "call"), price(step.cycles, "call")) == (70, 100)
    assert (price(byte.instructions, "elements"), price(byte.cycles, "elements")) == (0.5, 1)
    assert byte.cycles.factors["call"] == 0


def price(fit: Fit, name: str) -> float:
    return round(fit.factors[name], 2)


def test_a_trace_counts_the_jumps_into_some_functions() -> None:
    log = ["IN:", "0x00000010: add", "Trace 0: 0/00000010/0/0", "IN:", "0x00000020: add", "Trace 0: 0/00000020/0/0"]
    log += ["Trace 0: 0/00000010/0/0", "Trace 0: 0/00000020/0/0"]
    code = {0x10: Instruction("add", "", 2), 0x20: Instruction("add", "", 2)}
    (every,) = Trace(code, TIMINGS["m3"], frozenset()).read(iter(log))
    only = frozenset({0x20})
    (some,) = Trace({0x20: code[0x20]}, TIMINGS["m3"], frozenset(), only).read(iter(log))
    assert (every.instructions, some.instructions) == (4, 2)
    assert (every.mix["taken branches"], some.mix["taken branches"]) == (4, 2)
