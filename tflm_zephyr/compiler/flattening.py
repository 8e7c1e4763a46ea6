# SPDX-License-Identifier: Apache-2.0
"""A model of several subgraphs, or with resource variables, as one subgraph with numbers of its own.

All tensors of all subgraphs come one after the other, and so do the operators; the main subgraph keeps its numbers.
Behind them are variable tensors for what TFLM keeps elsewhere: the bytes of each resource variable
(micro_resource_variable.cc), and for each CALL_ONCE whether it has run (call_once.cc).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tflm_zephyr.errors import ModelError
from tflm_zephyr.model import CALLERS, Model, Operator, Quantization, Subgraph, Tensor, TensorType

VARIABLES = ("ASSIGN_VARIABLE", "READ_VARIABLE", "VAR_HANDLE")
_HINT = "Use the backend interpreter"


@dataclass(frozen=True)
class FlatModel:
    """`model` has the one subgraph. By subgraph of the model as it was: its inputs, outputs and operators there.

    `origins` gives the (subgraph, operator) of each operator, `keys` the (subgraph, tensor) of each tensor that the
    model has. `variables` maps the outputs of VAR_HANDLE to the tensor of their variable, `flags` a CALL_ONCE to its
    own, by operator.
    """

    model: Model
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    operators: tuple[tuple[int, ...], ...]
    origins: tuple[tuple[int, int], ...]
    keys: tuple[tuple[int, int], ...]
    variables: Mapping[int, int]
    flags: Mapping[int, int]

    @property
    def tensor_numbers(self) -> dict[tuple[int, int], int]:
        """(subgraph, tensor) -> number."""
        return {key: number for number, key in enumerate(self.keys)}


def needs_flattening(model: Model) -> bool:
    """Whether the model has subgraphs besides the main one, or variables that operators name."""
    return len(model.subgraphs) > 1 or any(operator.key in VARIABLES for operator in model.main.operators)


def flatten(model: Model) -> FlatModel:
    """The model as one subgraph. ModelError for a variable that is not named in the subgraph that uses it."""
    first, keys = [], []
    tensors: list[Tensor] = []
    for subgraph in model.subgraphs:
        first.append(len(tensors))
        for tensor in subgraph.tensors:
            keys.append((subgraph.index, tensor.index))
            tensors.append(replace(tensor, index=len(tensors)))
    operators: list[Operator] = []
    places: list[tuple[int, ...]] = []
    origins = []
    for subgraph in model.subgraphs:
        places.append(tuple(range(len(operators), len(operators) + len(subgraph.operators))))
        for operator in subgraph.operators:
            origins.append((subgraph.index, operator.index))
            operators.append(_moved(operator, len(operators), first[subgraph.index]))
    added = _Added(model, tensors, operators)
    main = Subgraph(0, model.main.name, tuple(added.tensors), tuple(operators), model.main.inputs, model.main.outputs)
    return FlatModel(
        model=replace(model, subgraphs=(main,)),
        inputs=tuple(tuple(first[s.index] + i for i in s.inputs) for s in model.subgraphs),
        outputs=tuple(tuple(first[s.index] + i for i in s.outputs) for s in model.subgraphs),
        operators=tuple(places),
        origins=tuple(origins),
        keys=tuple(keys),
        variables=added.variables,
        flags=added.flags,
    )


def _moved(operator: Operator, index: int, first: int) -> Operator:
    def there(tensors: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(i if i < 0 else first + i for i in tensors)

    return replace(
        operator,
        index=index,
        inputs=there(operator.inputs),
        outputs=there(operator.outputs),
        intermediates=there(operator.intermediates),
    )


class _Added:
    """The tensors with those of resource variables and flags behind them."""

    def __init__(self, model: Model, tensors: list[Tensor], operators: list[Operator]) -> None:
        self._model, self.tensors, self._operators = model, tensors, operators
        self.variables: dict[int, int] = {}
        self.flags: dict[int, int] = {}
        names = {o.outputs[0]: self._name(o) for o in operators if o.key == "VAR_HANDLE" and o.outputs}
        made = {
            name: self._variable(name, tuple(self._assigned(name, names))) for name in dict.fromkeys(names.values())
        }
        self.variables = {handle: made[name] for handle, name in names.items()}
        for operator in operators:
            if operator.key == "CALL_ONCE":
                self.flags[operator.index] = self._add(f"operator {operator.index} has run", 1, 0)
            elif operator.key in CALLERS:
                self._check_handles(operator)
            elif operator.key in VARIABLES and operator.key != "VAR_HANDLE" and operator.inputs[0] not in names:
                raise self._fail(operator, "takes a variable from another subgraph")

    def _name(self, operator: Operator) -> str:
        return "/".join(str(operator.options.get(key) or "") for key in ("container", "shared_name"))

    def _assigned(self, name: str, names: Mapping[int, str]) -> Iterator[Tensor]:
        for operator in self._operators:
            if operator.key == "ASSIGN_VARIABLE" and names.get(operator.inputs[0]) == name:
                yield self.tensors[operator.inputs[1]]

    def _variable(self, name: str, assigned: tuple[Tensor, ...]) -> int:
        """MicroResourceVariables::Allocate: the first assignment gives its bytes and its first value."""
        if not assigned:
            raise ModelError(f"nothing assigns the variable '{name}'", where=self._model.where, hint=_HINT)
        if len({tensor.size_bytes for tensor in assigned}) > 1:
            raise ModelError(
                f"the variable '{name}' is assigned tensors of several sizes", where=self._model.where, hint=_HINT
            )
        quantization = assigned[0].quantization
        value = 0 if quantization is None else (quantization.zero_points[0] + 128) % 256 - 128
        return self._add(f"variable {name}", assigned[0].size_bytes, value)

    def _add(self, name: str, size: int, value: int) -> int:
        number = len(self.tensors)
        quantization = Quantization((1.0,), (value,), 0)
        self.tensors.append(Tensor(number, name, TensorType.INT8, (size,), 0, None, True, quantization, ()))
        return number

    def _check_handles(self, operator: Operator) -> None:
        given = (self.tensors[i] for i in (*operator.inputs, *operator.outputs) if i >= 0)
        if any(tensor.type is TensorType.RESOURCE for tensor in given):
            raise self._fail(operator, "hands a variable to another subgraph")

    def _fail(self, operator: Operator, what: str) -> ModelError:
        return ModelError(
            f"{operator.label} {what}, for which there is no compiled code", where=self._model.where, hint=_HINT
        )
