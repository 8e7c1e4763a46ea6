# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tflm_zephyr.costs import (
    CMSIS_NN,
    FAST,
    OWN,
    ROW_BYTES,
    ROW_STEP,
    OwnForm,
    Shape,
    code_counts,
    core_table,
    costs_of,
    dump,
    work_counts,
)
from tflm_zephyr.costs.counts import FORM
from tflm_zephyr.costs.table import parse

HELD_OUT = Path(__file__).parent / "held_out.json"
FAR_OFF = 0.35
"""A single shape's error; the mean's is a tenth of it."""


@dataclass(frozen=True)
class Sample:
    shape: Shape
    instructions: int
    cycles: int
    code: int | None = None
    call: int = 0


SAMPLES = {
    core: [Sample(Shape(*shape[:-3], OwnForm(*shape[-3:])), *rest) for shape, *rest in rows]
    for core, rows in json.loads(HELD_OUT.read_text()).items()
}
CORES = ("cortex-m3", "cortex-m33", "cortex-m4")


def test_every_core_was_measured_with_the_same_kernels() -> None:
    assert tuple(sorted(SAMPLES)) == CORES
    for name in (OWN, CMSIS_NN):
        libraries = [core_table(core).library(name) for core in CORES]
        names = [{kernel for kernel in one.calls if " " not in kernel} for one in libraries if one is not None]
        assert len(names) == len(CORES)
        assert all(one == names[0] for one in names)


@pytest.mark.parametrize("core", CORES)
def test_a_table_is_what_its_text_says(core: str) -> None:
    table = core_table(core)
    assert parse(json.loads(dump(table))) == table


def test_other_commits_are_priced_by_the_measured_one() -> None:
    library = core_table("cortex-m4").library(CMSIS_NN)
    assert library is not None
    measured, other = costs_of(["cortex-m4"], library.commit), costs_of(["cortex-m4"], "0" * 40)
    assert (measured.stands_in, other.stands_in) == ("", library.commit)
    assert measured.cores == other.cores


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("what", ["instructions", "cycles"])
def test_work_of_shapes_that_the_fit_has_not_seen(core: str, what: str) -> None:
    costs = costs_of([core])
    errors = []
    for sample in SAMPLES[core]:
        work = costs.work(sample.shape)
        assert work is not None
        errors.append(abs(getattr(work, what) / getattr(sample, what) - 1))
    assert len(errors) > 50
    assert sum(errors) / len(errors) < FAR_OFF / 5
    assert max(errors) < FAR_OFF


@pytest.mark.parametrize("core", CORES)
def test_code_of_shapes_that_the_fit_has_not_seen(core: str) -> None:
    costs = costs_of([core])
    for sample in SAMPLES[core]:
        if sample.code is not None:
            found = costs.code_bytes(sample.shape)
            assert found is not None
            assert abs(found / sample.code - 1) < FAR_OFF


@pytest.mark.parametrize("core", CORES)
def test_the_errors_in_the_table_are_those_of_held_out_shapes(core: str) -> None:
    costs = costs_of([core])
    for kernel, fits in costs.cores[0].kernels.items():
        if " " in kernel or kernel in (ROW_BYTES.kernel, ROW_STEP.kernel):  # with errors of their own
            continue
        samples = [sample for sample in SAMPLES[core] if sample.shape.kernel == kernel]
        works = [costs.work(sample.shape) for sample in samples]
        errors = [abs(work.cycles / sample.cycles - 1) for work, sample in zip(works, samples, strict=True) if work]
        assert max(errors) == pytest.approx(fits.cycles.error.most, abs=0.002)


POINTWISE = Shape(f"{FAST}::Pointwise", 5, 5, 32, 5, 5, 16, own=OwnForm("OneFloor"))


def test_several_cores_give_the_mean_work_and_the_most_code() -> None:
    one, other, both = costs_of(["cortex-m3"]), costs_of(["cortex-m4"]), costs_of(["cortex-m4", "cortex-m3"])
    works = [costs.work(POINTWISE) for costs in (one, other, both)]
    cycles = [work.cycles for work in works if work is not None]
    assert cycles[2] == pytest.approx((cycles[0] + cycles[1]) / 2, abs=1)
    codes = [costs.code_bytes(POINTWISE) for costs in (one, other, both)]
    assert codes[2] == max(code for code in codes[:2] if code is not None)


def test_an_unknown_core_has_no_costs() -> None:
    costs = costs_of(["cortex-m4", "cortex-m55"])
    assert costs.work(POINTWISE) is None
    assert costs.code_bytes(POINTWISE) is None


def test_a_form_that_was_not_measured_costs_as_the_dearest() -> None:
    costs = costs_of(["cortex-m3"])
    factors = costs.cores[0].kernels[f"{FAST}::Pointwise"].cycles.factors
    forms = [name.partition(FORM)[2] for name in factors if FORM in name]
    shape = Shape(f"{FAST}::Pointwise", 5, 5, 32, 5, 5, 16)
    known = [costs.work(replace(shape, own=OwnForm(form))) for form in forms]
    other = costs.work(replace(shape, own=OwnForm("Another")))
    assert len(forms) > 2
    assert other is not None and other.cycles == max(work.cycles for work in known if work)


def test_functions_of_the_library_count_once() -> None:
    costs = costs_of(["cortex-m4"])
    called = costs.cores[0].called
    one, other = "arm_convolve_1x1_s8_fast", "arm_convolve_1x1_s8"
    assert set(called[one]) & set(called[other])
    both = costs.library_bytes({one, other})
    assert costs.library_bytes({one}) < both < costs.library_bytes({one}) + costs.library_bytes({other})
    assert costs.library_bytes(()) == 0


def test_terms_count_the_blocks_of_four_pixels() -> None:
    terms = work_counts(POINTWISE)
    assert terms["block"] == 6
    assert terms["pair taps"] == 6 * 8 * 32
    assert terms["one pixel's taps"] == 8 * 32
    assert "two pixels' taps" not in terms
    assert terms["outputs by OneFloor"] == 25 * 16


def test_terms_of_a_window_count_what_is_inside() -> None:
    shape = Shape("arm_depthwise_conv_3x3_s8", 3, 3, 4, 3, 3, 4, high=3, wide=3, top=1, left=1)
    assert work_counts(shape)["taps inside"] == 7 * 7 * 4


def test_code_terms_are_of_our_kernels_alone() -> None:
    with pytest.raises(KeyError):
        code_counts(Shape("arm_convolve_s8", 3, 3, 4, 3, 3, 4))
