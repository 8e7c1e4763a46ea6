# SPDX-License-Identifier: Apache-2.0
"""Known revisions as values, and what stands in for an unknown one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tflm_zephyr.tflm import pins
from tflm_zephyr.tflm.op_resolver import HEADER
from tflm_zephyr.tflm.pins import (
    KERNEL_SIZES_FILE,
    KNOWN_PINS,
    PINNED_REVISION,
    PINNED_ZEPHYR,
    ZEPHYR_4_4_REVISION,
    data_folder,
    known_revision,
    sized_revision,
)
from tflm_zephyr.tflm.revision import KNOWN_REVISIONS, tflm_of
from tflm_zephyr.tflm.struct_sizes import TARGETS, cortex_m_sizes
from tflm_zephyr.tflm.zephyr_version import ZephyrVersion

UNKNOWN = "f" * 40


@pytest.mark.parametrize("commit", KNOWN_PINS)
def test_a_known_revision_is_whole(commit: str) -> None:
    found = KNOWN_REVISIONS[commit]()
    assert (found.revision, found.facts, found.operators.revision) == (commit, commit, commit)
    assert {table.revision for table in found.sources.values()} == {commit}
    assert found.zephyr == KNOWN_PINS[commit].zephyr
    assert found.revisions(["cmsis_nn"]) == {"TFLM": commit, "CMSIS-NN": KNOWN_PINS[commit].cmsis_nn}
    assert found.revisions(["reference"]) == {"TFLM": commit}
    for call in found.operators.calls.values():
        assert found.sources["reference"].select([call.register]), call.key


@pytest.mark.parametrize("commit", KNOWN_PINS)
@pytest.mark.parametrize("static_memory", [False, True])
def test_struct_sizes_have_all_that_operators_allocate(commit: str, static_memory: bool) -> None:
    sizes = cortex_m_sizes(commit, static_memory=static_memory)
    assert set(sizes.builtin_data.values()) <= sizes.layouts.keys()
    assert set(sizes.own_objects) <= sizes.layouts.keys()
    own, base = sizes.preallocating().of("MicroAllocator"), sizes.of("MicroAllocator")
    assert own == (base[0] + 12, base[1])  # a list, its length, the subgraph


def test_static_memory_shrinks_tensors_and_nodes() -> None:
    plain, static = cortex_m_sizes(), cortex_m_sizes(static_memory=True)
    differ = {name for name, layout in plain.layouts.items() if static.of(name) != layout}
    assert differ == {"NodeAndRegistration", "TfLiteTensor"}


def test_revisions_differ_in_their_operators() -> None:
    old, new = (KNOWN_REVISIONS[commit]().operators.calls for commit in (PINNED_REVISION, ZEPHYR_4_4_REVISION))
    assert old.keys() < new.keys()
    assert {"REDUCE_ALL", "REDUCE_MIN", "REVERSE_V2", "DYNAMIC_UPDATE_SLICE", "TFLM_DECODE"} <= new.keys() - old.keys()


def test_without_a_checkout() -> None:
    assert tflm_of(None) == KNOWN_REVISIONS[PINNED_REVISION]()
    assert tflm_of(None).zephyr == PINNED_ZEPHYR
    assert tflm_of(None, ZEPHYR_4_4_REVISION).revision == ZEPHYR_4_4_REVISION


def test_an_unknown_commit_takes_the_newest_facts(tmp_path: Path) -> None:
    (tmp_path / HEADER.parent).mkdir(parents=True)
    text = "TfLiteStatus AddAbs() { return AddBuiltin(BuiltinOperator_ABS, Register_ABS(), ParseAbs); }"
    (tmp_path / HEADER).write_text(text)
    found = tflm_of(tmp_path, UNKNOWN, ["reference"], zephyr=ZephyrVersion("4.9.0"))
    assert set(found.operators.calls) == {"ABS"}  # its own
    assert (found.revision, found.facts) == (UNKNOWN, list(KNOWN_PINS)[-1])
    assert not found.tried


def test_known_revision() -> None:
    assert known_revision("") == PINNED_REVISION
    assert known_revision(PINNED_REVISION) == PINNED_REVISION
    assert known_revision(UNKNOWN) == list(KNOWN_PINS)[-1]


def test_sizes_that_were_not_measured_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = f"{data_folder(ZEPHYR_4_4_REVISION)}/{KERNEL_SIZES_FILE}"
    monkeypatch.setattr(pins, "has_package_data", lambda name: name != lacking)
    assert sized_revision(ZEPHYR_4_4_REVISION) == sized_revision(UNKNOWN) == PINNED_REVISION
    monkeypatch.setattr(pins, "has_package_data", lambda name: True)
    assert sized_revision(ZEPHYR_4_4_REVISION) == sized_revision(UNKNOWN) == ZEPHYR_4_4_REVISION


def test_only_the_definition_names_the_commits() -> None:
    known = re.compile("|".join(KNOWN_PINS))
    found = {path.name for path in (ROOT / "tflm_zephyr").rglob("*.py") if known.search(path.read_text())}
    assert found == {"pins.py"}


@pytest.mark.parametrize("commit", KNOWN_PINS)
@pytest.mark.parametrize("static_memory", [False, True])
def test_structs_are_no_smaller_on_other_cores(commit: str, static_memory: bool) -> None:
    """Enums of 4 bytes, where 32-bit Arm has the shortest that do; and pointers of 8."""
    arm, ilp32, lp64 = (cortex_m_sizes(commit, static_memory=static_memory).on(target) for target in TARGETS)
    assert arm.layouts.keys() == ilp32.layouts.keys() == lp64.layouts.keys()
    for name in arm.layouts:
        assert arm.of(name) <= ilp32.of(name) <= lp64.of(name)
    assert [sizes.pointer_bytes for sizes in (arm, ilp32, lp64)] == [4, 4, 8]
    assert [sizes.of("TfLiteAddParams") for sizes in (arm, ilp32, lp64)] == [(2, 1), (8, 4), (8, 4)]
    own = [sizes.preallocating().of("MicroAllocator")[0] - sizes.of("MicroAllocator")[0] for sizes in (ilp32, lp64)]
    assert own == [12, 24]
