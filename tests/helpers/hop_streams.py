# SPDX-License-Identifier: Apache-2.0
"""Signals whose windows overlap: each window's outputs of compiled code against TFLM's of the whole window."""

from __future__ import annotations

import random

import numpy

from tests.helpers.compiled_check import random_bytes, same
from tests.helpers.compiled_host import HostNetwork
from tflm_zephyr.compiler import CompiledModel
from tflm_zephyr.host import run_many
from tflm_zephyr.model import without_offline_plan


def windows_of(program: CompiledModel, rng: random.Random, count: int, gaps: int) -> list[tuple[bytes, bool]]:
    """Windows of a signal, each a hop behind the last one; `gaps` of them are of another signal, and so marked."""
    stream, hop = program.stream, program.hop
    assert stream is not None
    assert hop is not None
    tensor = program.model.main.tensors[stream.tensor]
    size, step = tensor.size_bytes, hop.every * stream.row_bytes
    fresh = {0, *rng.sample(range(1, count), gaps)}
    found: list[tuple[bytes, bool]] = []
    for number in range(count):
        new = random_bytes(tensor, rng)
        found.append((new if number in fresh else found[-1][0][step:] + new[:step], number in fresh))
        assert len(found[-1][0]) == size
    return found


def check_stream(net: HostNetwork, count: int = 100, gaps: int = 3) -> None:
    """Push `count` windows; behind each one all bytes that nobody keeps are overwritten."""
    rng, program = random.Random(count), net.program
    main, stream, hop = program.model.main, program.stream, program.hop
    assert stream is not None
    assert hop is not None
    others = [random_bytes(main.tensors[tensor], rng) for tensor in main.inputs]
    windows = windows_of(program, rng, count, gaps)
    inputs = [[data if k == stream.input else other for k, other in enumerate(others)] for data, _ in windows]
    want = run_many(without_offline_plan(program.model), inputs).runs
    net.arena[:] = 0xA5
    net.start()
    dead = _dead(program)
    for number, ((data, fresh), given, outputs) in enumerate(zip(windows, inputs, want, strict=True)):
        if fresh:
            if number % 2:  # in the middle of a hop
                net.take_more(data[: stream.row_bytes // 2 + 1], rng)
            net.begin_input()
        for place, tensor in enumerate(main.inputs):
            if place != stream.input:
                net.write(tensor, given[place])
        net.take_more(data if fresh else data[-hop.every * stream.row_bytes :], rng)
        for layer in range(len(program.main_layers)):
            assert net.run_layer(layer)
        for tensor, output in zip(main.outputs, outputs, strict=True):
            assert same(main.tensors[tensor], net.read(tensor), output), f"window {number} of {net.name} differs"
        net.arena[dead] = rng.randrange(256)


def _dead(program: CompiledModel) -> numpy.ndarray:
    """The bytes of the arena that need not outlive a window."""
    layer, hop = program.streaming_layer, program.hop
    assert layer is not None
    assert hop is not None
    dead = numpy.ones(program.arena_bytes, bool)
    dead[program.kept : program.kept + hop.kept_bytes] = False
    for tensor in layer.segment.outputs:
        first = program.offsets[tensor]
        dead[first : first + program.model.main.tensors[tensor].size_bytes] = False
    dead[program.planned_bytes :] = False
    return dead
