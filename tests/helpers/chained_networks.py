# SPDX-License-Identifier: Apache-2.0
"""Random networks of every operator with direct code: each operator takes tensors of those before it where they fit."""

from __future__ import annotations

import math
from dataclasses import replace

from tests.helpers.model_builder import ModelBuilder, SubgraphBuilder
from tests.helpers.operator_models import Case, Spec
from tests.helpers.random_operators import DRAWS, Operators, Shape

_RECENT = 6


class Chain(Operators):
    """Operators whose inputs are often tensors that were made before; real tensors have few quantisations."""

    def __init__(self, seed: int, kind: str) -> None:
        super().__init__(seed, kind)
        self.made: list[tuple[Spec, int]] = []
        self._quantisations = [super(Chain, self).real(()) for _ in range(2)]

    def shape(self, least: int = 1, most: int = 4) -> Shape:
        """Often that of a recent tensor."""
        fitting = [spec.shape for spec, _ in self.made[-_RECENT:] if least <= len(spec.shape) <= most]
        if fitting and self.rng.random() < 0.85:
            return self.rng.choice(fitting)
        return super().shape(least, most)

    def real(self, shape: Shape, like: Spec | None = None) -> Spec:
        """Quantised as a recent tensor of the shape is, or as one of two."""
        if like is not None or self.kind == "float32":
            return super().real(shape, like)
        alike = [
            spec for spec, _ in self.made[-_RECENT:] if spec.shape == shape and spec.type == self.kind and spec.scale
        ]
        found = self.rng.choice(alike or self._quantisations)
        return replace(found, shape=shape)

    def add(self, main: SubgraphBuilder, case: Case) -> None:
        """Add the operator; a tensor that no operator has made is an input of the model, or a constant."""
        inputs = [-1 if spec is None else self._input(main, spec) for spec in case.inputs]
        outputs = [spec.add_to(main) for spec in case.outputs]
        main.op(case.key, inputs, outputs, options=case.options)
        self.made += zip(case.outputs, outputs, strict=True)

    def _input(self, main: SubgraphBuilder, spec: Spec) -> int:
        if spec.values is None and not spec.variable:
            there = [tensor for made, tensor in self.made[-2 * _RECENT :] if made == spec]
            if there and self.rng.random() < 0.9:
                return self.rng.choice(there)
        tensor = spec.add_to(main)
        if spec.values is None and not spec.variable:
            main.inputs.append(tensor)
            self.made.append((spec, tensor))
        return tensor


def chained_network(seed: int, kind: str = "int8", operators: int = 14) -> bytes:
    """A network of random operators of DRAWS for real tensors of type `kind`; the same seed gives the same bytes."""
    model, chain = ModelBuilder(seed=seed), Chain(seed, kind)
    main = model.subgraph()
    draws = [draw for draw, kinds in DRAWS.values() if kind in kinds]
    while len(main.operators) < operators:
        case = chain.rng.choice(draws)(chain)
        if all(_elements(spec) <= 3000 for spec in case.outputs):
            chain.add(main, case)
    read = {tensor for operator in main.operators for tensor in operator.inputs}
    main.outputs = [tensor for operator in main.operators for tensor in operator.outputs if tensor not in read]
    return model.finish()


def _elements(spec: Spec) -> int:
    return math.prod(spec.shape)
