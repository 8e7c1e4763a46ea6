# SPDX-License-Identifier: Apache-2.0
"""A model's operators in TFLM's CMSIS-NN kernels: which types they compute, by which registration, how much work.

TFLM's kernels for CMSIS-NN take several tensor types and hand the rest to the reference code; for some types they
have a registration of their own (Register_CONV_2D_INT8), whose Eval leads to that type's functions alone, so that the
linker drops the others. Init and Prepare are the same, and so is what they ask of the arena. Each operator's spec says
which types those are (spec.CmsisNn, read in Eval, the typed Evals and Prepare of micro/kernels/cmsis_nn/*.cc). All
functions take the TFLM commit; "" is the pinned one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tflm_zephyr.kernels.core import CORES
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.registry import operator_specs
from tflm_zephyr.kernels.spec import CmsisNn
from tflm_zephyr.model import Model


def uses_of(model: Model, *, customs: bool = False) -> dict[str, list[Node]]:
    """Every operator of every subgraph by key, in order; custom ones only with `customs`."""
    found: dict[str, list[Node]] = {}
    for subgraph in model.subgraphs:
        for operator in subgraph.operators:
            if customs or operator.custom_code is None:
                found.setdefault(operator.key, []).append(Node(model, subgraph, operator))
    return found


def _cmsis_nn(key: str, revision: str) -> CmsisNn | None:
    spec = operator_specs(revision).get(key)
    return spec.cmsis_nn if spec is not None else None


def has_cmsis_nn(key: str, revision: str = "") -> bool:
    """Whether TFLM has a CMSIS-NN kernel for the operator."""
    return _cmsis_nn(key, revision) is not None


def variant_of(use: Node, revision: str = "") -> str:
    """The end of the name of the registration that serves this operator's types ("INT8"); "" for none."""
    kernel = _cmsis_nn(use.operator.key, revision)
    return next((name for name, row in kernel.computes.items() if use.fits(row)), "") if kernel is not None else ""


def typed_registration(
    key: str, uses: Iterable[Node], available: Iterable[str], *, asserts: bool, revision: str = ""
) -> str:
    """The registration function that serves all of `uses` of the operator `key` and no other type; "" for none.

    `available`: the functions that this TFLM declares for every build. `asserts`: the build keeps TFLM's asserts.
    """
    kernel = _cmsis_nn(key, revision)
    if kernel is None or (asserts and kernel.typed_asserts_wrongly):
        return ""
    variants = {variant_of(use, revision) for use in uses}
    if len(variants) != 1 or "" in variants:
        return ""
    name = f"Register_{key}_{variants.pop()}"
    return name if name in set(available) else ""


def why_reference(use: Node, revision: str = "") -> str:
    """Why TFLM's CMSIS-NN kernel computes this operator with reference code; "" where CMSIS-NN does it."""
    kernel = _cmsis_nn(use.operator.key, revision)
    if kernel is None or not variant_of(use, revision):
        return f"{use.types}, which its CMSIS-NN kernel leaves to reference code"
    return kernel.falls_back(use)


def miscomputed(model: Model, revision: str = "", cores: Collection[str] = ()) -> str:
    """The first operator that TFLM's CMSIS-NN kernels compute wrongly, or not at all, and why; "" where there is none.

    `cores`: names of the cores that are asked about; those without Helium where none is known.
    """
    asked = [CORES[name] for name in cores if name in CORES] or [core for core in CORES.values() if not core.mve]
    for key, uses in sorted(uses_of(model).items()):
        kernel = _cmsis_nn(key, revision)
        for use in uses if kernel is not None else ():
            if kernel is None or why_reference(use, revision):
                continue
            why = next(filter(None, (kernel.miscomputes(use, core) for core in asked)), "")
            if why:
                return f"TFLM's CMSIS-NN kernel of {use.operator.label} {why}"
    return ""


def keeps_state(name: str, revision: str = "") -> bool:
    """Whether a run may depend on earlier ones because of the operator `name`; "CUSTOM", any custom one, may."""
    spec = operator_specs(revision).get(name)
    return name == "CUSTOM" or (spec is not None and spec.keeps_state)


def looks_twice(key: str, revision: str = "") -> bool:
    """Whether Prepare gets the operator's temporary tensors twice (spec.OperatorSpec)."""
    spec = operator_specs(revision).get(key)
    return spec is not None and spec.looks_twice


def reads_positions(key: str, revision: str = "") -> bool:
    """Whether an integer input of the operator may hold positions in another one (spec.OperatorSpec)."""
    spec = operator_specs(revision).get(key)
    return spec is not None and spec.reads_positions


def macs(use: Node, revision: str = "") -> int:
    """Multiply-accumulates of one run of the operator, whichever library computes it; 0 for one without a spec.

    An operator that is no sum of products counts the elements that it reads or writes, the larger.
    """
    spec = operator_specs(revision).get(use.operator.key)
    return spec.macs(use) if spec is not None else 0


def cmsis_nn_work(model: Model, revision: str = "") -> int:
    """Multiply-accumulates of one Invoke() that CMSIS-NN's kernels compute, each subgraph run once.

    An operator that is no sum of products counts the elements that it reads or writes, the larger. What CMSIS-NN's
    kernels hand to the reference code counts nothing.
    """
    return sum(
        macs(use, revision)
        for key, uses in uses_of(model).items()
        if has_cmsis_nn(key, revision)
        for use in uses
        if not why_reference(use, revision)
    )
