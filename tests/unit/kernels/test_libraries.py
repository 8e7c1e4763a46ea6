# SPDX-License-Identifier: Apache-2.0
"""Scratch and persistent memory by operator, against values worked out from TFLM's sources."""

from __future__ import annotations

from typing import Any

import pytest
from flatbuffers import flexbuffers

from tests.helpers.typed_models import CONV, conv, dense, lstm, model_of
from tflm_zephyr.errors import AppError, ModelError
from tflm_zephyr.kernels import libraries as kernels
from tflm_zephyr.kernels.core import CORES
from tflm_zephyr.kernels.library import UNKNOWN_PERSISTENT_BYTES, KernelLibrary
from tflm_zephyr.model.types import Model
from tflm_zephyr.tflm.pins import ZEPHYR_4_4_REVISION

REFERENCE = kernels.kernel_library("reference")
PLAIN = kernels.kernel_library("cmsis_nn")
DSP = kernels.kernel_library("cmsis_nn", dsp=True)
MVE = kernels.kernel_library("cmsis_nn", mve=True)


def scratch(library: KernelLibrary, model: Model) -> tuple[int, ...]:
    return library.scratch(model, model.main, model.main.operators[0])


def persistent(library: KernelLibrary, model: Model) -> tuple[int, ...]:
    return library.persistent(model, model.main, model.main.operators[0])


def test_names() -> None:
    assert [kernels.kernel_library(name).name for name in kernels.NAMES] == ["cmsis_nn", "reference"]
    with pytest.raises(AppError, match=r"no kernel library 'fast'\. Choose one of cmsis_nn, reference"):
        kernels.kernel_library("fast")
    assert CORES["cortex-m3"] == kernels.kernel_library("reference").core
    assert CORES["cortex-m55"] == MVE.core


def test_what_is_not_known() -> None:
    model = model_of("X", [{}], [{}], custom_code="mine")
    assert not REFERENCE.knows("mine")
    assert scratch(REFERENCE, model) == ()
    assert persistent(REFERENCE, model) == (UNKNOWN_PERSISTENT_BYTES,)
    assert REFERENCE.knows("SignalRfft")
    assert not REFERENCE.without(["SignalRfft"]).knows("SignalRfft")


def test_operators_that_ask_for_nothing() -> None:
    model = model_of("NEG", [{"type": "float32"}], [{"type": "float32"}])
    assert scratch(REFERENCE, model) == persistent(REFERENCE, model) == ()
    assert REFERENCE.knows("NEG")


@pytest.mark.parametrize(
    ("kind", "expected"), [("int4", {REFERENCE: (32,), PLAIN: ()}), ("int8", {REFERENCE: (), MVE: (32,)})]
)
def test_dense(kind: str, expected: dict[KernelLibrary, tuple[int, ...]]) -> None:
    model = dense("int8", kind, "int8")
    for library, sizes in expected.items():
        assert scratch(library, model) == sizes


def test_dense_persistent() -> None:
    assert persistent(REFERENCE, dense("int8", "int8", "int8")) == (48,)
    assert persistent(REFERENCE, dense("int8", "int8", "int8", scales=[0.5] * 8)) == (48, 32, 32)
    assert persistent(PLAIN, dense("int8", "int8", "int8", scales=[0.5] * 8)) == (72, 32, 32)
    assert persistent(
        kernels.kernel_library("cmsis_nn", mve=True, optimise_for="speed"), dense("int8", "int8", "int8")
    ) == (
        72,
        32,
    )


def test_sums_of_a_dense_layer_whose_bias_is_no_constant() -> None:
    """From fcc760af on they are computed in Prepare for constant weights and biases alone."""
    model = model_of(
        "FULLY_CONNECTED",
        [
            {"scale": 0.5},
            {"shape": (8, 4), "data": "random", "scale": 0.5},
            {"shape": (8,), "type": "int32", "scale": 0.25},
        ],
        [{"shape": (1, 8), "scale": 1.0}],
    )
    for revision, kept, asked in (("", (72, 32), ()), (ZEPHYR_4_4_REVISION, (72,), (32,))):
        library = kernels.kernel_library("cmsis_nn", mve=True, optimise_for="speed", revision=revision)
        assert (persistent(library, model), scratch(library, model)) == (kept, asked)


def test_dense_as_convolution() -> None:
    model = model_of(
        "FULLY_CONNECTED",
        [
            {"shape": (1, 2, 4), "scale": 0.5},
            {"shape": (8, 4), "data": "random", "scale": 0.5},
            None,
        ],
        [{"shape": (1, 2, 8), "scale": 1.0}],
    )
    assert scratch(PLAIN, model) == scratch(MVE, model) == (64,)


def test_convolution() -> None:
    model = conv([0.5] * 3)
    assert scratch(REFERENCE, model) == ()
    assert scratch(PLAIN, model) == scratch(DSP, model) == (32,)  # 2 columns of 8 int16
    assert scratch(MVE, model) == (64,)  # 4 columns of 16 int8
    assert persistent(REFERENCE, model) == (56, 12, 12)
    assert persistent(PLAIN, model) == (60, 12, 12)


def _conv(shape: tuple[int, ...], filters: tuple[int, ...], output: tuple[int, ...], **options: int) -> Model:
    return model_of(
        "CONV_2D",
        [{"shape": shape, "scale": 0.5}, {"shape": filters, "data": "random", "scale": 0.5}, None],
        [{"shape": output, "scale": 1.0}],
        options={**CONV, **options},
    )


def test_convolution_one_by_one() -> None:
    model = _conv((1, 5, 5, 3), (4, 1, 1, 3), (1, 5, 5, 4))
    assert scratch(PLAIN, model) == scratch(MVE, model) == ()
    dilated = _conv((1, 5, 5, 3), (4, 1, 1, 3), (1, 5, 5, 4), dilation_w_factor=2)
    assert scratch(PLAIN, dilated) == (16,)


def test_convolution_of_one_row_on_helium() -> None:
    # kernel 3, padded by one on each side: 3 * 4 + 4 bytes left and right
    assert scratch(MVE, _conv((1, 1, 10, 4), (2, 1, 3, 4), (1, 1, 10, 2))) == (16,)
    # stride * depth is no multiple of 4: the general case
    assert scratch(MVE, _conv((1, 1, 10, 3), (2, 1, 3, 3), (1, 1, 10, 2))) == (64,)


def _depthwise(depth: int, size: int, *, filters: str = "int8", dilation: int = 1) -> Model:
    return model_of(
        "DEPTHWISE_CONV_2D",
        [
            {"shape": (1, 8, 8, depth), "scale": 0.5},
            {"shape": (1, size, size, 8), "type": filters, "data": "random", "scale": 0.5},
            None,
        ],
        [{"shape": (1, 8, 8, 8), "scale": 1.0}],
        options={
            **CONV,
            "depth_multiplier": 8 // depth,
            "dilation_w_factor": dilation,
            "dilation_h_factor": dilation,
        },
    )


@pytest.mark.parametrize(
    ("model", "plain", "dsp", "mve"),
    [
        (_depthwise(8, 3), (), (), (4464,)),
        (_depthwise(8, 5), (), (400,), (12400,)),
        (_depthwise(8, 5, dilation=2), (), (), ()),
        (_depthwise(8, 3, filters="int4"), (144,), (144,), (4464,)),
        (_depthwise(1, 3), (), (), (136,)),  # as a convolution: 4 columns of 16, and 8 filters of 9
    ],
)
def test_depthwise(model: Model, plain: tuple[int, ...], dsp: tuple[int, ...], mve: tuple[int, ...]) -> None:
    assert (scratch(PLAIN, model), scratch(DSP, model), scratch(MVE, model)) == (plain, dsp, mve)
    assert persistent(REFERENCE, model) == (56, 32, 32)


def _pool(kind: str) -> Model:
    return model_of(
        "AVERAGE_POOL_2D",
        [{"shape": (1, 4, 4, 6), "type": kind, "scale": 0.5}],
        [{"shape": (1, 2, 2, 6), "type": kind, "scale": 0.5}],
        options={"stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2, "padding": 1},
    )


def test_average_pool() -> None:
    assert scratch(DSP, _pool("int8")) == scratch(DSP, _pool("int16")) == (24,)
    assert scratch(PLAIN, _pool("int8")) == scratch(MVE, _pool("int8")) == ()
    assert scratch(DSP, _pool("float32")) == scratch(REFERENCE, _pool("int8")) == ()


def _transpose_conv(kind: str, depth: int, bias: str | None = None) -> Model:
    return model_of(
        "TRANSPOSE_CONV",
        [
            {"shape": (4,), "type": "int32", "data": "random"},
            {"shape": (3, 2, 2, depth), "data": "random", "scale": 0.5},
            {"shape": (1, 4, 4, depth), "type": kind, "scale": 0.5},
            {"shape": (3,), "type": bias, "data": "random", "scale": 0.25} if bias else None,
        ],
        [{"shape": (1, 8, 8, 3), "type": kind, "scale": 1.0}],
        options={"padding": 0, "stride_w": 2, "stride_h": 2},
    )


def test_transpose_conv() -> None:
    assert scratch(REFERENCE, _transpose_conv("int8", 2)) == (768,)
    assert scratch(PLAIN, _transpose_conv("int8", 2)) == (768,)  # Zephyr's module takes the reference kernel
    assert scratch(REFERENCE, _transpose_conv("int16", 2, "int16")) == (1536, 24)
    assert scratch(REFERENCE, _transpose_conv("int16", 2, "int64")) == (1536,)
    own = kernels.kernel_library("cmsis_nn", transpose_conv=True)
    assert scratch(own, _transpose_conv("int8", 2)) == ((3 * 2 + 2) * 3 * 2 * 4, 0)
    assert scratch(own, _transpose_conv("int8", 17)) == (2 * 2 * 68, 17 * 4 * 3)


def test_lstm() -> None:
    model = lstm()
    assert scratch(REFERENCE, model) == (8, 8, 8, 8)
    assert scratch(PLAIN, model) == (8, 8, 8)
    assert persistent(REFERENCE, model) == (688,)
    assert persistent(PLAIN, model) == (912, *[16] * 8)


def _svdf() -> Model:
    return model_of(
        "SVDF",
        [
            {"shape": (1, 4), "scale": 0.5},
            {"shape": (6, 4), "data": "random", "scale": 0.5},
            {"shape": (6, 3), "data": "random", "scale": 0.5},
            None,
            {"shape": (1, 18), "variable": True, "scale": 0.5},
        ],
        [{"shape": (1, 3), "scale": 0.5}],
        options={"rank": 2},
    )


def test_svdf() -> None:
    assert scratch(REFERENCE, _svdf()) == scratch(MVE, _svdf()) == (24, 12)
    assert scratch(kernels.kernel_library("cmsis_nn", mve=True, optimise_for="size"), _svdf()) == (24, 12, 24)
    assert persistent(kernels.kernel_library("cmsis_nn", mve=True, optimise_for="speed"), _svdf()) == (40, 24)


def _reduction(key: str, kind: str) -> Model:
    return model_of(
        key,
        [{"shape": (1, 4, 4, 5), "type": kind, "scale": 0.5}, {"shape": (2,), "type": "int32", "data": "random"}],
        [{"shape": (1, 5), "type": kind, "scale": 0.5}],
    )


def test_reductions() -> None:
    assert scratch(REFERENCE, _reduction("REDUCE_MAX", "int8")) == (16, 8)
    assert scratch(REFERENCE, _reduction("MEAN", "int8")) == (20,)
    assert scratch(REFERENCE, _reduction("SUM", "float32")) == ()
    assert persistent(REFERENCE, _reduction("SUM", "int8")) == (40,)
    later = kernels.kernel_library("reference", revision=ZEPHYR_4_4_REVISION)
    assert persistent(later, _reduction("SUM", "int8")) == (44,)
    assert scratch(later, _reduction("REDUCE_MIN", "int8")) == (16, 8)
    assert not REFERENCE.knows("REDUCE_MIN")
    later = kernels.kernel_library("reference", revision="another")
    assert scratch(later, _reduction("MEAN", "int8")) == (20, 16, 8)
    assert scratch(later, _reduction("SUM", "float32")) == (16, 8)


def test_add_n_holds_pointers() -> None:
    model = model_of("ADD_N", [{"type": "float32"}] * 3, [{"type": "float32"}])
    assert scratch(REFERENCE, model) == (12,)
    assert scratch(kernels.host(), model) == (24,)


def _custom(name: str, options: dict[str, Any], inputs: list[Any], outputs: list[Any]) -> Model:
    return model_of("X", inputs, outputs, custom_code=name, custom_options=bytes(flexbuffers.Dumps(options)))


def test_signal_operators() -> None:
    model = _custom(
        "SignalRfft",
        {"T": 7, "fft_length": 512},
        [{"shape": (1, 480), "type": "int16"}],
        [{"shape": (1, 514), "type": "int16"}],
    )
    assert scratch(REFERENCE, model) == (1024,)
    assert persistent(REFERENCE, model) == (32, 12 + 264 + 4 * 256 + 4 * 384)
    framer = _custom(
        "SignalFramer",
        {"frame_size": 480, "frame_step": 320, "prefill": True},
        [{"shape": (2, 320), "type": "int16"}],
        [{"shape": (2, 1, 480), "type": "int16"}, {"shape": (), "type": "bool"}],
    )
    assert persistent(REFERENCE, framer) == (28, 8, 8, 24 + 4 * 640, 24 + 4 * 640)


def test_detection_postprocess() -> None:
    model = _custom(
        "TFLite_Detection_PostProcess",
        {"max_detections": 3, "num_classes": 2},
        [
            {"shape": (1, 6, 4), "type": "float32"},
            {"shape": (1, 6, 3), "type": "float32"},
            {"shape": (6, 4), "type": "float32", "data": "random"},
        ],
        [{"type": "float32"}] * 4,
    )
    assert scratch(REFERENCE, model) == (6, 96, 72, 24, 24, 72, 72, 24, 72, 72, 72)
    assert persistent(REFERENCE, model) == (112,)


@pytest.mark.parametrize("options", [b"", b"\x00", b"\xff" * 40, bytes(flexbuffers.Dumps([1, 2]))[:-1]])
def test_damaged_custom_options(options: bytes) -> None:
    for name in ("SignalRfft", "TFLite_Detection_PostProcess"):
        io = {"shape": (1, 8, 8), "type": "float32"}
        model = model_of("X", [io, io], [io], custom_code=name, custom_options=options)
        with pytest.raises(ModelError, match=r"custom options that cannot be read|bytes of working memory"):
            scratch(REFERENCE, model)


def test_sizes_that_no_device_has() -> None:
    options = {"T": 0, "fft_length": 2**30}
    io = [{"shape": (1, 8), "type": "float32"}]
    with pytest.raises(ModelError, match="asks for 4294967296 bytes"):
        scratch(REFERENCE, _custom("SignalRfft", options, io, io))


def test_missing_tensors() -> None:
    model = model_of("MEAN", [{}], [{}])
    with pytest.raises(ModelError, match=r"operator 0 \(REDUCE_MAX\) of subgraph 0 has no input 1"):
        scratch(REFERENCE, model_of("REDUCE_MAX", [{}], [{}]))
    assert scratch(REFERENCE, model) == (16,)
    with pytest.raises(ModelError, match="dimension 3 of tensor 1"):
        persistent(REFERENCE, model_of("DEPTHWISE_CONV_2D", [{}, {}], [{}]))
