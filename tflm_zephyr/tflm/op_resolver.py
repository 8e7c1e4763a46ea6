# SPDX-License-Identifier: Apache-2.0
"""TFLM's op resolver: the `Add...()` call that each operator of a model needs, and the resolver's N.

The table of calls is read from tensorflow/lite/micro/micro_mutable_op_resolver.h of the TFLM in the user's
workspace; tables of the known revisions ship for when there is none. The resolver takes each builtin operator
and each custom name once, whatever versions of it the model lists, and TFLM looks up the operators of every
subgraph, called or not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tflm_zephyr.errors import BuildError, ModelError
from tflm_zephyr.model import Model, Operator, Subgraph, shown
from tflm_zephyr.resources import package_data
from tflm_zephyr.tflm.pins import PINNED_REVISION, data_folder

if TYPE_CHECKING:
    from tflm_zephyr.model import Graph


OPERATORS_FILE = "operators.json"
HEADER = Path("tensorflow/lite/micro/micro_mutable_op_resolver.h")

# Names that the header takes from a function (tensorflow/lite/micro/kernels/ethos_u/ethosu.cc).
_NAME_FUNCTIONS = {"GetString_ETHOSU": "ethos-u"}
_COMMENTS = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.S)
_METHOD = re.compile(r"\bTfLiteStatus\s+(Add\w+)\s*\(")
_BUILTIN = re.compile(r"\bAddBuiltin\s*\(\s*(?:\w+\s*::\s*)*BuiltinOperator_(\w+)")
_CUSTOM_TEXT = re.compile(r'\bAddCustom\s*\(\s*((?:"(?:\\.|[^"\\])*"\s*)+)')
_CUSTOM_CALL = re.compile(r"\bAddCustom\s*\(\s*(?:\w+\s*::\s*)*(\w+)\s*\(\s*\)")
_REGISTER = re.compile(r"\b(Register_\w+)\s*\(\s*\)")
_OPENING, _CLOSING = "({[", ")}]"
_OUTSIDE = "Export the model without that step, and do it in the application"
_EXPORTS: Mapping[str, str] = {
    **dict.fromkeys(("HASHTABLE", "HASHTABLE_FIND", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"), _OUTSIDE),
    **dict.fromkeys(("TOPK_V2", "UNIQUE", "WHERE"), _OUTSIDE),
    **dict.fromkeys(("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"), "Convert the model as for inference"),
    "CONV_3D": "Use Conv2D, with time or depth as channels",
    "DENSIFY": "Convert without optimizations = [EXPERIMENTAL_SPARSITY]",
    "FAKE_QUANT": "Convert to int8, with optimizations = [tf.lite.Optimize.DEFAULT]",
    "GELU": "Train with ReLU or HardSwish in place of GELU",
    "LOCAL_RESPONSE_NORMALIZATION": "Use batch normalization, which the converter folds into weights",
    "ONE_HOT": "Give the one-hot vector as the model's input",
    "POW": "Write powers as products: x * x is MUL",
    "RANGE": "Convert with fixed shapes: a constant takes its place",
    "REVERSE_SEQUENCE": "Use tf.reverse with a fixed length, which is REVERSE_V2",
}
"""The way to export a model without an operator that TFLM lacks."""
_COMPILED = "Use the backend compiled, which has code of its own for it"


@dataclass(frozen=True)
class ResolverCall:
    """One call of MicroMutableOpResolver: `method`() adds the operator `key`.

    key: "CONV_2D", or a custom operator's name ("SignalWindow"). register: the registration function whose
    kernel the call adds ("Register_CONV_2D"), "" when the header does not name one.
    """

    key: str
    method: str
    custom: bool
    register: str = ""


@dataclass(frozen=True)
class OperatorTable:
    """Every operator that a revision of TFLM registers, by key. source: "workspace" or "shipped"."""

    calls: Mapping[str, ResolverCall]
    revision: str
    source: str


@dataclass(frozen=True)
class CustomOperator:
    """A kernel that the user brings.

    register: the C++ function, without arguments, that returns its TFLMRegistration*; header: the header that declares
    the function; sources: the sources that define it.
    """

    name: str
    register: str
    header: str
    sources: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Its identity for the resolver."""
        return self.name


@dataclass(frozen=True)
class ResolvedOperators:
    """The registrations in an op resolver, in the order in which a model first runs them.

    `refusal`: why no op resolver serves the model, where an operator of it has compiled code alone.
    """

    calls: tuple[ResolverCall | CustomOperator, ...]
    refusal: ModelError | None = None

    @property
    def size(self) -> int:
        """The N of MicroMutableOpResolver<N>."""
        return len(self.calls)


def parse_resolver_header(text: str, revision: str, source: str = "workspace") -> OperatorTable:
    """Read the text of micro_mutable_op_resolver.h. BuildError when it has no calls that can be used.

    A method counts when it can be called without arguments and adds one operator whose name is known.
    """
    text = _COMMENTS.sub(lambda match: match[0] if match[0].startswith('"') else " ", text)
    calls: dict[str, ResolverCall] = {}
    for match in _METHOD.finditer(text):
        call = _call(text, match)
        if call is not None:
            calls.setdefault(call.key, call)
    if not calls:
        raise BuildError(
            "it has no Add...() methods that can be read",
            where=str(HEADER),
            hint="Use the TFLM revision that Zephyr's manifest pins",
        )
    return OperatorTable(dict(sorted(calls.items())), revision, source)


def _call(text: str, match: re.Match[str]) -> ResolverCall | None:
    arguments, after = _balanced(text, match.end() - 1)
    body_start = re.compile(r"\s*\{").match(text, after)
    if body_start is None or _required(arguments):
        return None
    body, _ = _balanced(text, body_start.end() - 1)
    register = _REGISTER.search(body) or _REGISTER.search(arguments)
    name = register[1] if register else ""
    if builtin := _BUILTIN.search(body):
        return ResolverCall(builtin[1], match[1], False, name)
    if literal := _CUSTOM_TEXT.search(body):
        key = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', literal[1]))
        return ResolverCall(key, match[1], True, name)
    if function := _CUSTOM_CALL.search(body):
        known = _NAME_FUNCTIONS.get(function[1])
        return ResolverCall(known, match[1], True, name) if known else None
    return None


def _balanced(text: str, start: int) -> tuple[str, int]:
    """The text between the bracket at `start` and its partner, and the index behind the partner."""
    depth = 0
    for match in re.compile(r'"(?:\\.|[^"\\\n])*"|[()\[\]{}]').finditer(text, start):
        if match[0] in _OPENING:
            depth += 1
        elif match[0] in _CLOSING:
            depth -= 1
            if depth == 0:
                return text[start + 1 : match.start()], match.end()
    return text[start + 1 :], len(text)


def _required(arguments: str) -> bool:
    """Whether a parameter list has a parameter without a default."""
    parts, depth = [""], 0
    for character in arguments:
        depth += (character in "({[<") - (character in ")}]>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return any(part.strip() not in ("", "void") and "=" not in part for part in parts)


@lru_cache
def shipped_operator_table(revision: str = PINNED_REVISION) -> OperatorTable:
    """The shipped table of a known TFLM revision."""
    raw = json.loads(package_data(f"{data_folder(revision)}/{OPERATORS_FILE}"))
    calls = {key: ResolverCall(key, method, custom, name) for key, method, custom, name in raw["calls"]}
    return OperatorTable(calls, raw["revision"], "shipped")


def dump_operator_table(table: OperatorTable) -> str:
    """`table` as the JSON text that `shipped_operator_table` reads."""
    rows = [json.dumps([call.key, call.method, call.custom, call.register]) for _, call in sorted(table.calls.items())]
    listed = ",\n  ".join(rows)
    return f'{{\n "revision": {json.dumps(table.revision)},\n "calls": [\n  {listed}\n ]\n}}\n'


def operator_table_for(tflm_dir: Path | None, revision: str = "") -> OperatorTable:
    """The table of the tflite-micro checkout `tflm_dir` at `revision`, or that of the pinned revision when None.

    BuildError when the checkout lacks the header.
    """
    if tflm_dir is None:
        return shipped_operator_table()
    try:
        text = (tflm_dir / HEADER).read_text(encoding="utf-8", errors="replace")
    except OSError:
        raise BuildError(
            f"no {HEADER.name} in it", where=str(tflm_dir), hint="Run west update, or name another workspace"
        ) from None
    return parse_resolver_header(text, revision)


def resolve(
    graph: Graph, table: OperatorTable, custom: Sequence[CustomOperator] = (), compiled: Collection[str] = ()
) -> ResolvedOperators:
    """The resolver calls for all of the model's operators, each once, in the order of execution.

    A custom operator declared in `custom` goes before TFLM's own of the same name; one that the model does
    not use is left out. ModelError for an operator that neither has; those in `compiled`, which have compiled code, are
    left out of the calls.
    """
    declared: dict[str, CustomOperator] = {}
    for item in custom:
        if declared.setdefault(item.name, item) != item:
            raise ModelError(
                f"custom operator {item.name} is declared twice",
                where=graph.model.where,
                hint="Keep one of them",
            )
    order = {key: place for place, key in enumerate(graph.operators)}
    chosen: dict[tuple[bool, str], ResolverCall | CustomOperator] = {}
    found: list[tuple[int, tuple[bool, str]]] = []
    refusal: ModelError | None = None
    for subgraph in graph.model.subgraphs:
        for operator in subgraph.operators:
            identity = (operator.custom_code is not None, operator.key)
            if identity in chosen:
                continue
            try:
                chosen[identity] = _choose(graph.model, subgraph, operator, table, declared)
            except ModelError as error:
                if identity[0] or operator.key not in compiled:
                    raise
                refusal = refusal or ModelError(error.what, where=error.where, hint=_COMPILED)
                continue
            found.append((order.get(operator.key, len(order)), identity))
    found.sort(key=lambda item: item[0])
    return ResolvedOperators(tuple(chosen[identity] for _, identity in found), refusal)


def union(specs: Iterable[ResolvedOperators]) -> ResolvedOperators:
    """One resolver for several models."""
    calls = {(isinstance(c, CustomOperator) or c.custom, c.key): c for s in specs for c in s.calls}
    return ResolvedOperators(tuple(calls.values()))


def _choose(
    model: Model,
    subgraph: Subgraph,
    operator: Operator,
    table: OperatorTable,
    declared: Mapping[str, CustomOperator],
) -> ResolverCall | CustomOperator:
    is_custom = operator.custom_code is not None
    if is_custom and operator.key in declared:
        return declared[operator.key]
    call = table.calls.get(operator.key)
    if call is not None and call.custom == is_custom:
        return call
    tflm = f"TFLM {table.revision[:12]}".rstrip()
    raise ModelError(
        f"{tflm} has no kernel for {operator.label} of subgraph {subgraph.index}, which {_tensors(subgraph, operator)}",
        where=model.where,
        hint=_hint(operator),
    )


def _tensors(subgraph: Subgraph, operator: Operator) -> str:
    def names(indices: Iterable[int]) -> str:
        listed = [f"{i} '{shown(subgraph.tensors[i].name)}'" for i in indices if i >= 0]
        more = f" and {len(listed) - 4} more" if len(listed) > 4 else ""
        return (", ".join(listed[:4]) + more) or "nothing"

    return f"reads {names(operator.inputs)} and writes {names(operator.outputs)}"


def _hint(operator: Operator) -> str:
    key = operator.key
    if operator.custom_code is not None:
        if key == "edgetpu-custom-op":
            return "It is code for an Edge TPU: use the .tflite from before that compiler"
        if key.startswith("Flex"):
            return (
                "It is a TensorFlow operator (Select TF ops), which TFLM never has: convert with "
                "supported_ops = [TFLITE_BUILTINS] or TFLITE_BUILTINS_INT8, without SELECT_TF_OPS, and "
                f"replace tf.{shown(key.removeprefix('Flex'))} in the model"
            )
        return "Declare it as a custom operator: its name, registration function, header and sources"
    if key.startswith("STABLEHLO_"):
        return "Convert without StableHLO operators: supported_ops = [TFLITE_BUILTINS]"
    if key in ("LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"):
        return (
            "Use a one-directional keras LSTM, which converts to UNIDIRECTIONAL_SEQUENCE_LSTM, "
            "or build the layer with unroll=True"
        )
    return _EXPORTS.get(
        key, "Rebuild that part of the model from operators that TFLM has, or convert it as a custom operator"
    )
