# SPDX-License-Identifier: Apache-2.0
"""A model's inspection, as text and JSON. Bytes unless a unit stands beside the number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflm_zephyr.cli.report.words import count
from tflm_zephyr.compiler import OPERATORS, runs_legacy
from tflm_zephyr.errors import ModelError
from tflm_zephyr.kernels import Node, check_types, has_cmsis_nn, macs, miscomputed, why_reference
from tflm_zephyr.model import shown
from tflm_zephyr.tflm import shipped_operator_table

if TYPE_CHECKING:
    from tflm_zephyr.model import Model, Operator, Tensor

_NAMES = {"cmsis_nn": "CMSIS-NN", "reference": "reference", "none": "REFUSED"}


@dataclass(frozen=True)
class OperatorRow:
    """An operator with its work, constants and kernel library.

    `macs`: multiply-accumulates of one run, 0 when refused. `constant_bytes`: its constants, each shared one counted
    for its first operator alone. `library` ("cmsis_nn", "reference", "none") computes it in an app with CMSIS-NN, and
    `why` says why it is not CMSIS-NN, or what CMSIS-NN gets wrong. `refused`: why TFLM does not take it, "" if it does.
    """

    subgraph: int
    operator: Operator
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    macs: int
    constant_bytes: int
    library: str
    why: str
    refused: str


def operator_rows(model: Model) -> tuple[OperatorRow, ...]:
    """The model's operators in the order of its file."""
    return tuple(_each(model))


def _each(model: Model) -> Iterator[OperatorRow]:
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
            yield OperatorRow(
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


def inspection(path: Path, model: Model, rows: Sequence[OperatorRow]) -> str:
    """The model's text: interface, quantisation, operators in order, sums."""
    subgraphs = "" if len(model.subgraphs) == 1 else f", {len(model.subgraphs)} subgraphs"
    lines = [
        f"{path.name}: {count(len(model.data), 'byte')}, {count(len(rows), 'operator')}{subgraphs}, "
        f"{count(constant_bytes(model), 'byte')} of constants, sha256 {model.sha256[:16]}",
        f"  {quantisation_of(model)}",
    ]
    for kind, indices in (("input", model.main.inputs), ("output", model.main.outputs)):
        for place, index in enumerate(indices):
            tensor = model.main.tensors[index]
            lines.append(f"  {kind} {place}  '{shown(tensor.name)}' {_typed(tensor)}, {in_words(tensor)}")
    lines.append(f"  {'':>3}  {'operator':<24} {'MACs':>11} {'constants':>9}  kernel     tensors")
    for row in rows:
        lines += _row(row, len(model.subgraphs) > 1)
    lines += _sums(rows)
    return "\n".join(lines)


def _row(row: OperatorRow, with_subgraph: bool) -> Iterator[str]:
    number = f"{row.subgraph}:{row.operator.index}" if with_subgraph else str(row.operator.index)
    varying = [tensor for tensor in row.inputs if not tensor.is_constant]
    weights = next((tensor for tensor in row.inputs if tensor.is_constant), None)
    shapes = f"{' + '.join(map(_typed, varying)) or 'nothing'} -> {' + '.join(map(_typed, row.outputs))}"
    by = "" if weights is None else f", {'per channel' if _per_channel(weights) else 'constant'} {_typed(weights)}"
    name = shown(row.operator.key)
    yield (
        f"  {number:>3}  {name:<24} {row.macs:>11,} {row.constant_bytes:>9,}  {_NAMES[row.library]:<9}  {shapes}{by}"
    )
    if row.why:
        yield f"       {'':<24} {row.why}"


def _sums(rows: Sequence[OperatorRow]) -> Iterator[str]:
    total = sum(row.macs for row in rows)
    by_cmsis = [row for row in rows if row.library == "cmsis_nn"]
    work = sum(row.macs for row in by_cmsis)
    share = f" ({100 * work / total:.0f} %)" if total else ""
    yield (
        f"  {total:,} MACs a run; with CMSIS-NN on a Cortex-M it computes {len(by_cmsis)} of {len(rows)} operators and "
        f"{work:,} of them{share}"
    )
    refused = [row for row in rows if row.refused]
    if refused:
        yield f"  TFLM refuses {count(len(refused), 'operator')}: no app can run this model"


def inspection_json(path: Path, model: Model, rows: Sequence[OperatorRow]) -> dict[str, Any]:
    """The same for programs."""
    tensors = model.main.tensors
    return {
        "model": path.name,
        "bytes": len(model.data),
        "sha256": model.sha256,
        "constant_bytes": constant_bytes(model),
        "quantisation": quantisation_of(model),
        "inputs": [_tensor_json(tensors[index]) for index in model.main.inputs],
        "outputs": [_tensor_json(tensors[index]) for index in model.main.outputs],
        "macs": sum(row.macs for row in rows),
        "cmsis_nn_macs": sum(row.macs for row in rows if row.library == "cmsis_nn"),
        "operators": [
            {
                "subgraph": row.subgraph,
                "index": row.operator.index,
                "name": row.operator.key,
                "inputs": [_tensor_json(tensor) for tensor in row.inputs],
                "outputs": [_tensor_json(tensor) for tensor in row.outputs],
                "macs": row.macs,
                "constant_bytes": row.constant_bytes,
                "library": None if row.refused else row.library,
                "why": row.why,
                "refused": row.refused,
            }
            for row in rows
        ],
    }


def in_words(tensor: Tensor) -> str:
    """A tensor's quantisation as the formula of its real values."""
    quantization = tensor.quantization
    if quantization is None or not quantization.scales:
        return "real values" if tensor.type.value.startswith(("float", "bfloat")) else "not quantised"
    if quantization.per_channel:
        low, high = min(quantization.scales), max(quantization.scales)
        return (
            f"{len(quantization.scales)} scales from {low:.6g} to {high:.6g}, one for each index of dimension "
            f"{quantization.dimension}"
        )
    zero = quantization.zero_points[0]
    shifted = "q" if zero == 0 else f"(q {'-' if zero > 0 else '+'} {abs(zero)})"
    return f"real = {quantization.scales[0]:.6g} * {shifted}"


def quantisation_of(model: Model) -> str:
    """The model's kind of quantisation, by the types of its main subgraph's activations and constants."""
    tensors = model.main.tensors
    used = {i for op in model.main.operators for i in (*op.inputs, *op.outputs) if i >= 0}
    activations = {tensors[i].type.value for i in used if not tensors[i].is_constant}
    weights = {tensors[i].type.value for i in used if tensors[i].is_constant and tensors[i].quantization is not None}
    integers = activations & {"int8", "int16", "uint8"}
    per_channel = any(_per_channel(tensors[i]) for i in used if tensors[i].is_constant)
    if integers and not activations & {"float32"}:
        how = ", weights per channel" if per_channel else ""
        return f"full integer: {' and '.join(sorted(integers))} activations{how}"
    if integers:
        return f"mixed: float32 and {' and '.join(sorted(integers))} activations"
    if "float32" in activations and weights & {"int8", "uint8", "int4"}:
        return "dynamic range (hybrid): float32 activations with integer weights, which TFLM refuses"
    return f"not quantised: {' and '.join(sorted(activations)) or 'no'} activations"


def constant_bytes(model: Model) -> int:
    """Bytes of constants, a buffer that several tensors share once."""
    return sum({t.buffer: len(t.data) for _, t in model.tensors() if t.data is not None}.values())


def _tensor_json(tensor: Tensor) -> dict[str, Any]:
    quantization = tensor.quantization
    return {
        "name": tensor.name,
        "type": tensor.type.value,
        "shape": list(tensor.shape),
        "constant": tensor.is_constant,
        "scales": list(quantization.scales) if quantization is not None else [],
        "zero_points": list(quantization.zero_points) if quantization is not None else [],
    }


def _typed(tensor: Tensor) -> str:
    return f"{tensor.type.value}[{'x'.join(map(str, tensor.shape))}]"


def _per_channel(tensor: Tensor) -> bool:
    return tensor.quantization is not None and tensor.quantization.per_channel
