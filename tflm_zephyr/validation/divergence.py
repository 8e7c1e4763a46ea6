# SPDX-License-Identifier: Apache-2.0
"""The first operator whose outputs on a device differ from the reference, with its inputs.

The device captures each operator's outputs as it ends, under the plan and the kernels that it ships with; the
reference keeps every tensor in memory of its own. So the first difference points to the operator, or to a plan that
let another operator write over its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tflm_zephyr.device.session import Captured, Session
from tflm_zephyr.host import run_many
from tflm_zephyr.model import Model, Operator, Tensor, normalised_for_litert, without_offline_plan
from tflm_zephyr.tensors import Difference, compare_tensors, form_of
from tflm_zephyr.validation.inputs.sample import Sample


@dataclass(frozen=True)
class OperatorInput:
    """An input of the operator. `source`: "constant", "model input", "variable", or the operator that made it."""

    tensor: Tensor
    source: str
    data: bytes


@dataclass(frozen=True)
class OverwrittenInput:
    """The plan puts `output`, which `writer` writes, over `input`, which is read meanwhile or later."""

    input: Tensor
    output: Tensor
    writer: Operator


@dataclass(frozen=True)
class DifferingOperator:
    """`operator`'s output `tensor` is the first that differs; `inputs` are its inputs in the reference.

    On the device, its inputs were right when they were written. `overwritten`: outputs that the app's plan puts over
    them afterwards. The operator's own output may be one of these; that is safe if its kernel reads before it writes.
    """

    operator: Operator
    tensor: Tensor
    difference: Difference
    got: bytes
    want: bytes
    inputs: tuple[OperatorInput, ...]
    overwritten: tuple[OverwrittenInput, ...] = ()


@dataclass(frozen=True)
class DivergenceSearch:
    """The result of a search. `differing`: None if no output of the compared operators differs.

    `compared` is the number of compared operators, `operators` the number in the main subgraph, `elsewhere` that of
    operators in other subgraphs, which are not compared.
    """

    differing: DifferingOperator | None
    compared: int
    operators: int
    elsewhere: int


def capture_last(session: Session, samples: Sequence[Sample]) -> Captured:
    """The last of `samples`, captured after a run of the earlier samples that its state depends on."""
    session.reset()
    for sample in samples[:-1]:
        session.invoke(sample.inputs)
    return session.capture(samples[-1].inputs)


def find_difference(
    captured: Captured, model: Model, samples: Sequence[Sample], engine: str, planned: Model | None = None
) -> DivergenceSearch:
    """The first operator whose outputs in `captured` differ from those of `engine` on this host, if any does.

    `samples`: as for `capture_last`. `planned`: the model as the app carries it, with its plan. Raises as `run_many`.
    """
    kept = sorted({index for operator in model.main.operators for index in (*operator.outputs, *operator.inputs)})
    plain = [index for index in kept if index >= 0 and not model.main.tensors[index].is_constant]
    wanted = [index for index in plain if model.main.tensors[index].type.value not in ("resource", "variant", "string")]
    data = without_offline_plan(model)
    if engine == "litert":
        data = normalised_for_litert(data)[0]
    flags = [k == 0 for k in range(len(samples))]
    run = run_many(data, [sample.inputs for sample in samples], engine=engine, reset=flags, tensors=wanted)
    reference = dict(zip(wanted, run.tensors[-1], strict=True))
    seen = {o.tensor for o in captured.operators if not o.subgraph and len(o.data) == len(reference.get(o.tensor, b""))}
    # An output that is optional or of a type that cannot be compared is left out.
    compared = sum(seen >= set(operator.outputs) & set(wanted) for operator in model.main.operators)
    counts = compared, len(model.main.operators), sum(len(subgraph.operators) for subgraph in model.subgraphs[1:])
    for output in captured.operators:
        if output.subgraph or output.tensor not in seen:
            continue
        tensor, want = model.main.tensors[output.tensor], reference[output.tensor]
        if len(output.data) != len(want):
            continue
        difference = compare_tensors(form_of(tensor), output.data, want)
        if difference is not None and not difference.close:
            # By tensor: the app may run the operators in another order.
            operator = next(op for op in model.main.operators if output.tensor in op.outputs)
            differing = DifferingOperator(
                operator,
                tensor,
                difference,
                output.data,
                want,
                tuple(_operator_input(model, index, reference) for index in operator.inputs if index >= 0),
                () if planned is None else overwritten(planned, operator),
            )
            return DivergenceSearch(differing, *counts)
    return DivergenceSearch(None, *counts)


def _operator_input(model: Model, index: int, reference: dict[int, bytes]) -> OperatorInput:
    tensor = model.main.tensors[index]
    maker = next((op for op in model.main.operators if index in op.outputs), None)
    if tensor.data is not None:
        source = "constant"
    elif index in model.main.inputs:
        source = "model input"
    elif tensor.is_variable:
        source = "variable"
    else:
        source = maker.label if maker is not None else "nobody"
    return OperatorInput(tensor, source, tensor.data if tensor.data is not None else reference.get(index, b""))


def overwritten(planned: Model, operator: Operator) -> tuple[OverwrittenInput, ...]:
    """The inputs of `operator` that the file's plan overlaps with later outputs, up to the operator's own."""
    offsets, main = planned.offline_plan, planned.main
    if offsets is None:
        return ()
    found = []
    # The app may run the operators in another order.
    last = next(op.index for op in main.operators if op.outputs == operator.outputs)
    for index in dict.fromkeys(operator.inputs):
        read = main.tensors[index]
        if index < 0 or read.is_constant or offsets[index] < 0:
            continue
        made = next((op.index for op in main.operators if index in op.outputs), -1)
        for writer in main.operators[made + 1 : last + 1]:
            for other in writer.outputs:
                if other != index and _overlap(offsets, read, main.tensors[other]):
                    found.append(OverwrittenInput(read, main.tensors[other], writer))
    return tuple(found)


def _overlap(offsets: Sequence[int], one: Tensor, other: Tensor) -> bool:
    first, second = offsets[one.index], offsets[other.index]
    return second >= 0 and first < second + other.size_bytes and second < first + one.size_bytes
