# SPDX-License-Identifier: Apache-2.0
"""Every layer's whole output of a compiled model on this machine, against TFLM's."""

from __future__ import annotations

import random

import numpy

from tests.helpers.compiled_host import HostNetwork
from tflm_zephyr.compiler import CompiledModel
from tflm_zephyr.host import run_many
from tflm_zephyr.model import Tensor, without_offline_plan

PARTLY_WRITTEN = ("SignalEnergy",)
"""Operators whose kernels leave some elements of their output as they were."""
_FILLS = 0x5A, 0xA5


def check_layers(networks: list[HostNetwork], engine: str = "tflm") -> None:
    """Run each network twice on random inputs, in arenas that held two fillings; all layers' outputs are the engine's,
    TFLM's or "litert"'s."""
    for net in networks:
        _check(net, engine)


def _check(net: HostNetwork, engine: str) -> None:
    program = net.program
    main, rng = program.model.main, random.Random(1)
    # TFLM's Reset() does not let a CALL_ONCE run again, a compiled model's new start does.
    count = 1 if program.flags else 2
    inputs = [[random_bytes(main.tensors[tensor], rng) for tensor in main.inputs] for _ in range(count)]
    for given, want in zip(inputs, expected(program, inputs, engine), strict=True):
        first, second = (layers(net, given, fill) for fill in _FILLS)
        for (tensor, got), (_, again) in zip(first, second, strict=True):
            whole, label = got == again, f"{main.tensors[tensor].label} of {net.name}"
            assert whole or any(layer.key in PARTLY_WRITTEN for layer in program.layers), f"{label}: nobody wrote"
            if whole or tensor in main.outputs:
                # Rows that nobody reads are not computed.
                known = want[tensor] if tensor in program.offsets else want[tensor][: len(got)]
                assert same(main.tensors[tensor], got, known), f"{label} differs"


def random_bytes(tensor: Tensor, rng: random.Random) -> bytes:
    if tensor.type.value == "float32":
        return numpy.array([rng.uniform(-1, 1) for _ in range(tensor.elements)], "float32").tobytes()
    if tensor.type.value == "bool":
        return bytes(rng.randrange(2) for _ in range(tensor.elements))
    return rng.randbytes(tensor.size_bytes)


def expected(program: CompiledModel, inputs: list[list[bytes]], engine: str = "tflm") -> list[dict[int, bytes]]:
    """By run, every written tensor as the engine, TFLM or "litert", leaves it."""
    main = program.model.main
    operators = [main.operators[layer.operator] for layer in program.main_layers]
    written = dict.fromkeys(tensor for operator in operators for tensor in operator.outputs)
    segments = [layer.segment for layer in program.segments]
    held = {*program.offsets, *(buffer.tensor for segment in segments for buffer in segment.buffers)}
    inner = [tensor for tensor in written if tensor not in main.outputs and tensor in held]
    done = run_many(without_offline_plan(program.model), inputs, tensors=inner, engine=engine)
    return [
        dict(zip(main.outputs, outputs, strict=True)) | dict(zip(inner, tensors, strict=True))
        for outputs, tensors in zip(done.runs, done.tensors, strict=True)
    ]


def same(tensor: Tensor, got: bytes, want: bytes) -> bool:
    """Equal bytes; floats within 1e-5 of each other, as compilers fuse operations."""
    if tensor.type.value != "float32":
        return got == want
    pair = (numpy.frombuffer(data, "float32") for data in (got, want))
    return bool(numpy.allclose(*pair, rtol=1e-5, atol=1e-5, equal_nan=True))


def layers(net: HostNetwork, inputs: list[bytes], fill: int) -> list[tuple[int, bytes]]:
    """(tensor, bytes) of every layer's outputs from the initial state, in an arena that held `fill` everywhere."""
    net.arena[:] = fill
    net.start()
    return net.outputs_of_layers(inputs, fill)
