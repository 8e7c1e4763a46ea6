# SPDX-License-Identifier: Apache-2.0
"""A device against the reference, byte for byte.

TFLM on this host is the reference: a device runs TFLM, and its reference kernels are what CMSIS-NN reproduces bit by
bit. LiteRT's reference kernels are compared as well, because they sometimes round int8 FULLY_CONNECTED differently.
Where TFLM's package is missing or refuses the model, they are the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tflm_zephyr.device.session import Invocation, Session
from tflm_zephyr.errors import ModelError, ToolError
from tflm_zephyr.host import NAMES, PACKAGES, HostLimits, HostRun, OnRun, available, run_many, seeded_inputs
from tflm_zephyr.model import Model, normalised_for_litert, without_offline_plan
from tflm_zephyr.tensors import Difference, compare_tensors, output_forms
from tflm_zephyr.validation import divergence
from tflm_zephyr.validation.inputs.sample import Sample


@dataclass(frozen=True)
class Expected:
    """Each sample's outputs on this host by `engine`; `other` are LiteRT's where both ran.

    `notes`: the engines that did not run, with the reason.
    """

    engine: str
    version: str
    runs: tuple[tuple[bytes, ...], ...]
    other: HostRun | None
    notes: tuple[str, ...]

    @property
    def source(self) -> str:
        """The engine, its package and version, for reports."""
        return f"{NAMES[self.engine]} ({PACKAGES[self.engine]} {self.version}, reference kernels)"


@dataclass(frozen=True)
class _FirstDifference:
    """The number of the first sample that differs, and the first of its outputs that does."""

    number: int
    output: int
    difference: Difference


@dataclass(frozen=True)
class Failure:
    """The first sample that differs: `output` is the first of its outputs that does.

    `search` names the operator whose captured outputs differ, and counts the compared ones; None where the capture
    failed, for the reason in `note`. `captured_differs`: the model's outputs differed in the captured run too. If they
    did and all operators' outputs were right, the outputs were overwritten later; if not, the captured run was right.
    """

    sample: Sample
    output: int
    difference: Difference
    search: divergence.DivergenceSearch | None
    captured_differs: bool
    note: str = ""

    @property
    def differing(self) -> divergence.DifferingOperator | None:
        """The first operator that differs, where one was found."""
        return self.search.differing if self.search is not None else None


@dataclass(frozen=True)
class Verification:
    """The result: of `count` samples, `equal` are equal byte for byte, `close` more are within the float tolerance.

    `litert_equal`: the number of samples on which LiteRT equals the reference; None when it did not run besides TFLM.
    """

    count: int
    equal: int
    close: int
    expected: Expected
    litert_equal: int | None
    failure: Failure | None

    @property
    def passed(self) -> bool:
        """Whether no sample differs."""
        return self.failure is None


def invoke_all(session: Session, samples: Sequence[Sample]) -> Iterator[Invocation]:
    """Yields each sample's invocation; a fresh sample starts from the model's initial state."""
    return session.invoke_many([sample.inputs for sample in samples], [sample.fresh for sample in samples])


def random_samples(model: Model, count: int, seed: int) -> list[Sample]:
    """`count` seeded inputs, each for a run from the initial state."""
    return [Sample(f"random {k}", seeded_inputs(model, k)) for k in range(seed, seed + count)]


def expect(model: Model, samples: Sequence[Sample], on_run: OnRun | None = None) -> Expected:
    """The outputs of `samples` on this host. `on_run`: gets the engines' progress, see host.OnRun.

    An engine that refuses the model is skipped. An engine that crashes or takes too long raises DeviceError, as the
    reference must not change from case to case. ModelError, with both reasons, when no engine runs the model.
    """
    inputs, fresh = [sample.inputs for sample in samples], [sample.fresh for sample in samples]
    done: dict[str, HostRun] = {}
    notes = []
    for engine in ("tflm", "litert"):
        if not available(engine):
            notes.append(f"{NAMES[engine]} ({PACKAGES[engine]}) is not installed")
            continue
        try:
            data = without_offline_plan(model)
            data = normalised_for_litert(data)[0] if engine == "litert" else data
            done[engine] = run_many(
                data,
                inputs,
                engine=engine,
                reset=fresh,
                limits=HostLimits(timeout_s=HostLimits.timeout_s * len(samples)),
                on_run=None if on_run is None else partial(_report, on_run, engine, len(samples)),
            )
        except ToolError as error:
            if not (isinstance(error, ModelError) or done):
                raise
            notes.append(str(error))
    if not done:
        raise ModelError(
            f"no reference runs it: {'; '.join(notes)}",
            where=model.where,
            hint="Install the toolkit with its host extra: pip install '.[host]' in its checkout",
        )
    engine = "tflm" if "tflm" in done else "litert"
    other = done.get("litert") if engine == "tflm" else None
    return Expected(engine, done[engine].version, done[engine].runs, other, tuple(notes))


def _report(on_run: OnRun, engine: str, total: int, done: int) -> None:
    on_run(engine, done, total)


def verify(
    session: Session,
    model: Model,
    samples: Sequence[Sample],
    planned: Model | None = None,
    on_sample: Callable[[], object] | None = None,
    on_reference: OnRun | None = None,
) -> Verification:
    """Run all `samples` on the device; capture the first one that differs and find the operator.

    `planned` is the model as the app carries it. `on_sample` is called after each, `on_reference` while
    the reference runs them (see host.OnRun). Raises DeviceError, ModelError.
    """
    expected = expect(model, samples, on_reference)
    forms, equal, close = output_forms(model), 0, 0
    first: _FirstDifference | None = None
    for k, (done, want) in enumerate(zip(invoke_all(session, samples), expected.runs, strict=True)):
        got = done.outputs
        found = [compare_tensors(form, *pair) for form, pair in zip(forms, zip(got, want, strict=True), strict=True)]
        worse = [(i, d) for i, d in enumerate(found) if d is not None and not d.close]
        equal += not any(found)
        close += any(found) and not worse
        if worse and first is None:
            first = _FirstDifference(k, *worse[0])
        if on_sample is not None:
            on_sample()
    litert = None
    if expected.other is not None:
        litert = sum(one == other for one, other in zip(expected.runs, expected.other.runs, strict=True))
    failure = None if first is None else _failure(session, model, samples, expected, planned, first)
    return Verification(len(samples), equal, close, expected, litert, failure)


def _failure(
    session: Session,
    model: Model,
    samples: Sequence[Sample],
    expected: Expected,
    planned: Model | None,
    first: _FirstDifference,
) -> Failure:
    sample = samples[first.number]
    start = max(k for k in range(first.number + 1) if samples[k].fresh or k == 0)
    run = samples[start : first.number + 1]
    try:
        captured = divergence.capture_last(session, run)
        found = divergence.find_difference(captured, model, run, expected.engine, planned)
    except ToolError as error:
        return Failure(sample, first.output, first.difference, None, False, f"the operator is not known: {error}")
    pairs = zip(output_forms(model), zip(captured.outputs, expected.runs[first.number], strict=True), strict=True)
    apart = any(d is not None and not d.close for d in (compare_tensors(form, *pair) for form, pair in pairs))
    return Failure(sample, first.output, first.difference, found, apart)
