# SPDX-License-Identifier: Apache-2.0
"""Every way of a model's front on emulated cores, without an operating system: bytes, memory and stack.

Each row of each layer is TFLM's where it is computed, the linker's .bss is the planned size, and the stack stays within
the generator's bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.architectures import mobilenet
from tests.helpers.bare_metal import MACHINES, BareMetal, Measured, random_inputs, ways
from tests.helpers.compiled_check import expected
from tests.helpers.compiled_host import Checkouts
from tests.helpers.row_networks import row_network
from tflm_zephyr.codegen.backends.compiled import runtime_of
from tflm_zephyr.compiler import CompiledModel

pytestmark = [pytest.mark.zephyr, pytest.mark.slow]

NETWORKS = 6
HELIUM = MACHINES["m55"]


@pytest.fixture(scope="module", params=MACHINES)
def metal(request: pytest.FixtureRequest, checkouts: Checkouts, tmp_path_factory: pytest.TempPathFactory) -> BareMetal:
    """A core, with the kernels built once."""
    return BareMetal(checkouts, MACHINES[request.param], tmp_path_factory.mktemp(request.param))


def check_ways(
    model: Path, metal: BareMetal, tmp_path: Path, *, picked: bool = False
) -> Sequence[tuple[CompiledModel, Measured]]:
    """Check every way to run the model; all of them. `picked`: with our own kernels where they are faster."""
    found = []
    for made in ways(model, tmp_path / "app", "cmsis_nn", metal.checkouts, metal.machine, picked=picked):
        program = runtime_of(made.spec.models[0]).program
        inputs = random_inputs(program)
        (want,) = expected(program, [inputs])
        assert metal.different(made, inputs, want) == {}
        measured = metal.measured(made, inputs, want)
        assert measured.bss_bytes == measured.arena_bytes == program.arena_bytes
        if metal.machine.board.startswith("mps2"):  # kernels' stacks are not known on a core with Helium
            assert measured.stack_bound_bytes is not None
            assert 0 < measured.stack_bytes <= measured.stack_bound_bytes
        found.append((program, measured))
    return found


def test_all_ways_to_run_a_mobilenet(metal: BareMetal, tmp_path: Path) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(mobilenet(32, 0.25 if metal.machine is HELIUM else 0.5, colours=1))  # its code memory is small
    found = check_ways(model, metal, tmp_path)
    assert len(found) >= 4
    assert any(program.segments for program, _ in found)


def test_all_ways_with_fast_kernels(metal: BareMetal, tmp_path: Path, shared: Path) -> None:
    """The tables of kernels say what calls for some rows cost: instructions are about that many more."""
    if metal.machine is HELIUM:
        pytest.skip("cores with Helium have no kernels of ours")
    found = check_ways(shared / "models" / "kws_ref_model.tflite", metal, tmp_path, picked=True)
    first, least = found[0]
    fast = {layer.operator for layer in first.layers if layer.fast}
    assert len(fast) == 10
    more = [
        (program.slower, measured.instructions / least.instructions - 1)
        for program, measured in found
        if {layer.operator for layer in program.layers if layer.fast} == fast
    ]
    assert len(more) >= 4
    assert max(slower for slower, _ in more) > 0.05
    assert [slower for slower, _ in more] == pytest.approx([done for _, done in more], rel=0.3, abs=0.03)


@pytest.mark.parametrize("seed", range(NETWORKS))
def test_all_ways_to_run_a_random_network(seed: int, metal: BareMetal, tmp_path: Path) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(row_network(seed))
    assert check_ways(model, metal, tmp_path)


def test_every_row_buffer_needs_all_of_its_rows(checkouts: Checkouts, tmp_path: Path) -> None:
    """With one row less in any buffer that holds some, outputs change: the self-test of an app finds that."""
    metal = BareMetal(checkouts, MACHINES["m3"], tmp_path)
    model = tmp_path / "net.tflite"
    model.write_bytes(mobilenet(32, 0.5, colours=1))
    *_, made = ways(model, tmp_path / "app", "cmsis_nn", checkouts, metal.machine)
    spec = made.spec.models[0]
    program = runtime_of(spec).program
    inputs = random_inputs(program)
    (want,) = expected(program, [inputs])
    tried = 0
    for layer in program.segments:
        for k, buffer in enumerate(layer.segment.buffers):
            if buffer.at is None or buffer.capacity < 2:
                continue
            buffers = list(layer.segment.buffers)
            buffers[k] = replace(buffer, capacity=buffer.capacity - 1)
            wrong = replace(layer, segment=replace(layer.segment, buffers=tuple(buffers)))
            layers = tuple(wrong if one is layer else one for one in program.layers)
            runtime = replace(runtime_of(spec), program=replace(program, layers=layers))
            small = replace(made, spec=replace(made.spec, models=(replace(spec, runtime=runtime),)))
            with pytest.raises(AssertionError, match="bytes of the outputs differ"):
                metal.measured(small, inputs, want)
            tried += 1
    assert tried > 1
