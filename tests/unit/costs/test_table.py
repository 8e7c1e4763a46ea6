# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pytest

from tflm_zephyr.costs import (
    CMSIS_NN,
    FAST,
    OWN,
    ROW_BYTES,
    ROW_STEP,
    Costs,
    OwnForm,
    Prices,
    Shape,
    code_counts,
    core_table,
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
    measured, other = (Prices("cortex-m4", CMSIS_NN, commit) for commit in (library.commit, "0" * 40))
    assert (measured.stands_in, other.stands_in) == ("", library.commit)
    assert other.of_measured == measured


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("what", ["instructions", "cycles"])
def test_work_of_shapes_that_the_fit_has_not_seen(core: str, what: str) -> None:
    errors = []
    for sample in SAMPLES[core]:
        price = Prices(core, CMSIS_NN).call(sample.shape)
        assert price.measured
        errors.append(abs(getattr(price, what) / getattr(sample, what) - 1))
    assert len(errors) > 50
    assert sum(errors) / len(errors) < FAR_OFF / 5
    assert max(errors) < FAR_OFF


@pytest.mark.parametrize("core", CORES)
def test_code_of_shapes_that_the_fit_has_not_seen(core: str) -> None:
    for sample in SAMPLES[core]:
        if sample.code is not None:
            found = Prices(core, CMSIS_NN).function_bytes(sample.shape)
            assert found is not None
            size, error = found
            assert abs(size / sample.code - 1) <= min(error + 0.002, FAR_OFF)


@pytest.mark.parametrize("core", CORES)
def test_the_errors_in_the_table_are_those_of_held_out_shapes(core: str) -> None:
    prices = Prices(core, CMSIS_NN)
    kernels = {kernel: fits for table in core_table(core).libraries for kernel, fits in table.calls.items()}
    for kernel, fits in kernels.items():
        if " " in kernel or kernel in (ROW_BYTES.kernel, ROW_STEP.kernel):  # with errors of their own
            continue
        samples = [sample for sample in SAMPLES[core] if sample.shape.kernel == kernel]
        errors = [abs(prices.call(sample.shape).cycles / sample.cycles - 1) for sample in samples]
        assert max(errors) == pytest.approx(fits.cycles.error.most, abs=0.002)


POINTWISE = Shape(f"{FAST}::Pointwise", 5, 5, 32, 5, 5, 16, own=OwnForm("OneFloor"))


def costs_on(*cores: str) -> Costs:
    return Costs(tuple(Prices(core, CMSIS_NN) for core in cores))


def test_several_cores_give_the_mean_work_and_the_most_code() -> None:
    every = costs_on("cortex-m3"), costs_on("cortex-m4"), costs_on("cortex-m4", "cortex-m3")
    cycles = [costs.call(POINTWISE).cycles for costs in every]
    assert cycles[2] == pytest.approx((cycles[0] + cycles[1]) / 2)
    codes = [found[0] for costs in every if (found := costs.function_bytes(POINTWISE)) is not None]
    assert codes[2] == max(codes[:2])
    assert len({costs.call_bytes(POINTWISE.kernel) for costs in every}) == 2


def test_a_core_without_our_kernels_has_a_stand_in_and_no_code() -> None:
    costs = costs_on("cortex-m4", "cortex-m55")
    assert costs.call(POINTWISE).why == "cortex-m33 stands in for cortex-m55"
    assert costs.function_bytes(POINTWISE) is None


def test_a_form_that_was_not_measured_costs_as_the_dearest() -> None:
    prices = Prices("cortex-m3", CMSIS_NN)
    library = core_table("cortex-m3").library(OWN)
    assert library is not None
    factors = library.calls[f"{FAST}::Pointwise"].cycles.factors
    forms = [name.partition(FORM)[2] for name in factors if FORM in name]
    shape = Shape(f"{FAST}::Pointwise", 5, 5, 32, 5, 5, 16)
    known = [prices.call(replace(shape, own=OwnForm(form))).cycles for form in forms]
    other = prices.call(replace(shape, own=OwnForm("Another")))
    assert len(forms) > 2
    assert other.measured and other.cycles == max(known)


def test_functions_of_the_library_count_once() -> None:
    costs = costs_on("cortex-m4")
    library = core_table("cortex-m4").library(CMSIS_NN)
    assert library is not None
    called = library.called
    one, other = "arm_convolve_1x1_s8_fast", "arm_convolve_1x1_s8"
    assert set(called[one]) & set(called[other])
    both = costs.library_bytes({one, other})
    assert costs.library_bytes({one}) < both < costs.library_bytes({one}) + costs.library_bytes({other})
    assert costs.library_bytes(()) == 0


def test_terms_count_the_blocks_of_four_pixels() -> None:
    terms = work_counts(POINTWISE, "cortex-m3")
    assert terms["block"] == 6
    assert terms["pair taps"] == 6 * 8 * 32
    assert terms["one pixel's taps"] == 8 * 32
    assert "two pixels' taps" not in terms
    assert terms["outputs by OneFloor"] == 25 * 16
    assert work_counts(POINTWISE, "cortex-m4")["fours' quads"] == 4 * 8


def test_terms_of_a_window_count_what_is_inside() -> None:
    shape = Shape("arm_depthwise_conv_3x3_s8", 3, 3, 4, 3, 3, 4, high=3, wide=3, top=1, left=1)
    assert work_counts(shape, "cortex-m3")["taps inside"] == 7 * 7 * 4


def test_code_terms_are_of_our_kernels_alone() -> None:
    with pytest.raises(KeyError):
        code_counts(Shape("arm_convolve_s8", 3, 3, 4, 3, 3, 4))


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", ["Convolution", "Dense", "Depthwise", "Pointwise"])
def test_no_shape_has_counts_that_the_grid_lacks(core: str, name: str) -> None:
    """A count without a factor would leave a layer with our kernel, whatever it costs."""
    prices, dsp, rng = Prices(core, CMSIS_NN), core != "cortex-m3", random.Random(3)
    for channels, depth in product(range(1, 18), range(1, 20)):
        height, width, wide = rng.randint(3, 9), rng.randint(3, 9), rng.choice((1, 2, 3, 5))
        shape = Shape(f"{FAST}::{name}", 1, 1, depth, 1, 1, channels, own=OwnForm("OneFloor"))
        if name != "Dense":
            shape = replace(shape, height=height, width=width, out_height=height, out_width=width)
        if name in ("Convolution", "Depthwise"):
            shape = replace(shape, high=wide, wide=wide, top=wide // 2, left=wide // 2)
        if name == "Depthwise":
            step = 3 * (dsp and wide == 3 and channels % 4 == 0)
            shape = replace(shape, depth=channels, own=OwnForm("OneFloor", rng.randint(1, 4), step))
        price = prices.call(shape)
        assert price.measured, (price.why, shape)
        assert prices.function_bytes(shape) is not None, shape
