# SPDX-License-Identifier: Apache-2.0
"""Small chains of operations on rows, and a simulation of their buffers by row numbers."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from tflm_zephyr.row_planner import Chain, Operation, RowTensor, Step, Window


def tensors(rows: Sequence[int], row_bytes: Sequence[int]) -> tuple[RowTensor, ...]:
    """Tensors, each its own storage."""
    return tuple(RowTensor(n, size, k) for k, (n, size) in enumerate(zip(rows, row_bytes, strict=True)))


def conv(
    given: int,
    taken: int,
    *,
    size: int = 1,
    stride: int = 1,
    padding: int = 0,
    scratch: int = 0,
    step_costs: tuple[float, ...] = (0.0,),
) -> Operation:
    """An operation with one window."""
    windows = (Window(given, size, stride, padding),)
    return Operation((given,), (taken,), windows, scratch=scratch, step_costs=step_costs)


def random_chain(rng: random.Random, operations: int = 7) -> Chain:
    """Windows of all kinds, sums of two tensors of one height, and now and then an operation that gathers."""
    found = [RowTensor(rng.randint(4, 12), rng.choice((8, 16, 24)), 0)]
    done: list[Operation] = []
    for k in range(operations):
        new = len(found)
        given = new - 1 if rng.random() < 0.8 else rng.randrange(max(0, new - 3), new)
        rows = found[given].rows
        alike = [t for t in range(max(0, new - 4), new) if t != given and found[t].rows == rows]
        cost = rng.choice((3.0, 10.0))
        if alike and rng.random() < 0.4:
            other = rng.choice(alike)
            done.append(Operation((given, other), (new,), (Window(given), Window(other)), step_costs=(cost,)))
        elif rng.random() < 0.08:
            done.append(Operation((given,), (new,), (Window(given, rows),), gathers=True, step_costs=(cost,)))
            rows = 1
        else:
            size, stride = rng.choice((1, 1, 2, 3, 5)), rng.choice((1, 1, 2, 3))
            padding = rng.randrange(size)
            done.append(
                conv(given, new, size=size, stride=stride, padding=padding, scratch=rng.choice((0, 32)),
                     step_costs=rng.choice(((cost,), (cost + 2.0, cost))))
            )  # fmt: skip
            rows = max(1, (rows + padding - min(rows, size)) // stride + 1)
            last = (rows - 1) * stride - padding
            while rows > 1 and last >= found[given].rows:  # a row that would read nothing
                rows, last = rows - 1, last - stride
        found.append(RowTensor(rows, rng.choice((8, 16, 24)), new))
        if found[-1].rows < 2 and k < operations - 1:
            break
    used = {tensor for operation in done for tensor in operation.reads}
    outputs = tuple(t for t in range(1, len(found)) if t not in used)
    return Chain(tuple(found), tuple(done), (0,), outputs, move_cost=0.25)


def simulate(
    chain: Chain, steps: Sequence[Step], capacities: Mapping[int, int], places: Mapping[int, int] | None = None
) -> str | None:
    """None where all steps find the rows that they read, and all outputs are whole; else what is amiss.

    `places` are the first bytes of row buffers; new rows destroy all that is in buffers that share a byte with theirs.
    """
    spans = {
        tensor: range(at, at + capacities[tensor] * chain.tensors[tensor].row_bytes)
        for tensor, at in (places or {}).items()
    }
    held = {tensor: list(range(chain.tensors[tensor].rows)) for tensor in chain.inputs}
    done = [0] * len(chain.operations)
    for k, count in steps:
        operation = chain.operations[k]
        row = done[k]
        for window in operation.windows:
            rows = chain.tensors[window.tensor].rows
            first = row if operation.gathers else row * window.stride - window.padding
            size = count if operation.gathers else (count - 1) * window.stride + window.size
            for wanted in range(max(0, first), min(rows, first + size)):
                if wanted not in held.get(window.tensor, ()):
                    return f"operation {k} misses row {wanted} of tensor {window.tensor}"
        done[k] += count
        (output,) = operation.writes
        new = list(range(row, row + count))
        if operation.gathers:
            new = [0] if done[k] == chain.rows_of(k) else []
        for other, span in spans.items():
            own = spans.get(output, range(0))
            if new and other != output and span.start < own.stop and own.start < span.stop:
                held[other] = []
        kept = held.setdefault(output, [])
        kept += new
        if output in capacities:
            if len(new) > capacities[output]:
                return f"operation {k} writes more rows than its buffer holds"
            del kept[: max(0, len(kept) - capacities[output])]
    for tensor in chain.outputs:
        if held.get(tensor) != list(range(chain.tensors[tensor].rows)):
            return f"tensor {tensor} is not whole"
    return None
