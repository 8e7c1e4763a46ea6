# SPDX-License-Identifier: Apache-2.0
"""Which sources an operator needs, found by includes, on a small stand-in for a tflite-micro checkout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tflm_zephyr.errors import BuildError
from tflm_zephyr.resources import package_data
from tflm_zephyr.tflm import sources
from tflm_zephyr.tflm.pins import KNOWN_PINS, data_folder
from tflm_zephyr.tflm.sources import (
    CORE_ROOTS,
    SourceTable,
    TflmTree,
    dump_source_table,
    shipped_source_table,
    source_table_for,
    sources_file,
)

MICRO = "tensorflow/lite/micro"
KERNELS = f"{MICRO}/kernels"
FILES = {
    f"{MICRO}/micro_interpreter.cc": '#include "tensorflow/lite/micro/micro_interpreter.h"\n',
    f"{MICRO}/micro_interpreter.h": '  #  include "tensorflow/lite/micro/allocator.h"\n#include <vector>\n',
    f"{MICRO}/allocator.h": '#include "tensorflow/lite/micro/micro_interpreter.h"\n',  # a circle
    f"{MICRO}/allocator.cc": '#include "tensorflow/lite/micro/micro_time.h"\n',
    f"{MICRO}/micro_time.h": "",
    f"{MICRO}/micro_time.cc": "",  # the app brings its own
    f"{MICRO}/micro_mutable_op_resolver.h": '#include "tensorflow/lite/micro/kernels/other.h"\n',
    f"{KERNELS}/relu.cc": (
        '#include "tensorflow/lite/micro/kernels/relu.h"\n#include "ruy/profiler.h"\n#include "not/there.h"\n'
        '// #include "tensorflow/lite/micro/kernels/other.h" in a comment does not start the line\n'
        '#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"\n'
        '#include "tensorflow/lite/micro/kernels/micro_ops.h"\n'
        "TFLMRegistration Register_RELU() {\n}\nTFLMRegistration Register_RELU6 ( ) {\n}\n"
    ),
    f"{KERNELS}/relu.h": "",
    f"{KERNELS}/micro_ops.h": '#include "tensorflow/lite/micro/kernels/other.h"\n',  # declares all, calls none
    f"{KERNELS}/relu_common.cc": "",
    f"{KERNELS}/relu_test.cc": "TFLMRegistration Register_RELU() {\n}\n",
    f"{KERNELS}/fft.cc": (
        '#include "signal/src/fft.h"\nnamespace tflite {\nnamespace tflm_signal {\n'
        "TFLMRegistration* Register_FFT() {\n}\n}\n}\n"
    ),
    f"{KERNELS}/other.h": "",
    f"{KERNELS}/other.cc": '#include "tensorflow/lite/micro/kernels/other.h"\nTFLMRegistration Register_OTHER();\n',
    f"{KERNELS}/cmsis_nn/relu.cc": "TFLMRegistration Register_RELU() {\n}\n",
    "signal/micro/kernels/delay.cc": "tflite::TFLMRegistration* Register_DELAY() {\n}\n",
    f"{KERNELS}/scale_kernel.cc": (
        '#include "tensorflow/lite/micro/kernels/scale_kernel.h"\nTFLMRegistration Register_SCALE() {\n}\n'
    ),
    f"{KERNELS}/scale_kernel.h": "",
    f"{KERNELS}/scale_common.cc": '#include "signal/src/beside.h"\n#include "../../../../../outside.h"\n',
    f"{KERNELS}/scale.cc": "",
    "signal/src/beside.h": '#include "bits.h"\n#include "../src/fft.h"\n',
    "signal/src/bits.h": "",
    "signal/src/bits_32.cc": "",
    "bits.h": "",  # where an include is looked for when it is not beside the file
    "bits.cc": "",
    "signal/src/fft.h": "",
    "signal/src/fft_float.cc": "",
    "signal/src/fft_int16.cc": "",
    "signal/src/fft_int16_test.cc": "",
    "third_party_static/ruy/ruy/profiler.h": "",
    "third_party_static/ruy/ruy/profiler.cc": "",
}
REGISTRATIONS = {"Register_RELU", "Register_RELU6", "Register_FFT", "Register_DELAY", "Register_SCALE"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


@pytest.fixture
def table(checkout: Path) -> SourceTable:
    return TflmTree(checkout).table("abc")


def test_core_follows_include_cycles_without_the_apps_own(table: SourceTable) -> None:
    assert table.core == (f"{MICRO}/allocator.cc", f"{MICRO}/micro_interpreter.cc")


def test_registrations_are_found_in_reference_kernels_alone(table: SourceTable) -> None:
    assert set(table.kernels) == REGISTRATIONS


def test_a_header_brings_its_source_and_its_common_source(table: SourceTable) -> None:
    assert table.kernels["Register_RELU"] == (
        f"{KERNELS}/relu.cc",
        f"{KERNELS}/relu_common.cc",
        "third_party_static/ruy/ruy/profiler.cc",
    )
    assert table.kernels["Register_RELU6"] == table.kernels["Register_RELU"]


def test_a_header_without_source_brings_its_variants(table: SourceTable) -> None:
    assert table.kernels["Register_FFT"] == ("signal/src/fft_float.cc", "signal/src/fft_int16.cc", f"{KERNELS}/fft.cc")


def test_a_kernel_header_brings_its_common_source(checkout: Path, table: SourceTable) -> None:
    (checkout.parent / "outside.h").touch()
    (checkout.parent / "outside.cc").touch()
    assert table.kernels["Register_SCALE"] == (
        "signal/src/bits_32.cc",
        "signal/src/fft_float.cc",
        "signal/src/fft_int16.cc",
        f"{KERNELS}/scale_common.cc",
        f"{KERNELS}/scale_kernel.cc",
    )


def test_select_is_sorted_and_whole(table: SourceTable) -> None:
    chosen = table.select(["Register_RELU", "Register_FFT", "Register_RELU"])
    assert list(chosen) == sorted(set(chosen))
    assert set(chosen) == {*table.core, *table.kernels["Register_RELU"], *table.kernels["Register_FFT"]}
    assert table.select([]) == table.core


def test_select_of_what_is_not_there(table: SourceTable) -> None:
    with pytest.raises(BuildError, match=r"no kernel source defines Register_OTHER\(\)\. Use --tflm module"):
        table.select(["Register_OTHER"])


def test_dump_is_what_the_shipped_table_reads(table: SourceTable, monkeypatch: pytest.MonkeyPatch) -> None:
    text = dump_source_table(table)
    monkeypatch.setattr(sources, "package_data", lambda name: text)
    assert shipped_source_table() == table
    assert text == dump_source_table(shipped_source_table()) and str(json.loads(text)["revision"]) == "abc"


@pytest.mark.parametrize("revision", KNOWN_PINS)
def test_the_shipped_table_is_as_dump_writes_it(revision: str) -> None:
    for library in ("reference", "cmsis_nn"):
        table = shipped_source_table(library, revision)
        assert table.revision == revision
        assert dump_source_table(table) == package_data(f"{data_folder(revision)}/{sources_file(library)}")
        assert set(CORE_ROOTS) <= set(table.core)
        assert not set(table.core) & sources.LEFT_OUT
    assert table.library_revision == KNOWN_PINS[revision].cmsis_nn


def test_table_for(checkout: Path) -> None:
    assert source_table_for(None) == shipped_source_table()
    assert (
        source_table_for(checkout, shipped_source_table().revision) == shipped_source_table()
    )  # known already, nothing is read
    assert source_table_for(checkout, "abc").kernels.keys() == REGISTRATIONS


def test_the_functions_follow_the_cmsis_nn_that_is_there(checkout: Path) -> None:
    shipped = shipped_source_table("cmsis_nn")
    (checkout / KERNELS / "cmsis_nn" / "relu.cc").write_text("TFLMRegistration Register_RELU() { arm_relu(); }\n")
    library = checkout / "library"
    (library / "Source").mkdir(parents=True)
    (library / "Source" / "renamed.c").write_text("void arm_relu(void) {\n}\n")
    at = (checkout, shipped.revision, "cmsis_nn", library)
    assert source_table_for(*at, shipped.library_revision) == shipped  # known already, nothing is read
    for other in ("", "c" * 40):  # "": git could not tell
        found = source_table_for(*at, other)
        assert found.functions == {f"{KERNELS}/cmsis_nn/relu.cc": ("Source/renamed.c",)}
        assert found.library_revision == other
    assert source_table_for(checkout, shipped.revision, "reference", library, "c" * 40) == shipped_source_table()


def test_an_empty_checkout_ends_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BuildError):
        source_table_for(tmp_path, "abc").select(["Register_RELU"])
