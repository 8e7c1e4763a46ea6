# SPDX-License-Identifier: Apache-2.0
"""Windows of a signal that overlap, on this machine: each hop's outputs are TFLM's of the whole window."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.compiled_host import Checkouts, build, build_all, generated
from tests.helpers.hop_streams import check_stream
from tests.helpers.row_networks import row_network
from tflm_zephyr.codegen.backends.compiled import runtime_of
from tflm_zephyr.codegen.generation import Generated
from tflm_zephyr.compiler.hop_proof import prove_hops
from tflm_zephyr.errors import ModelError, PlanError

pytestmark = pytest.mark.zephyr

NETWORKS, EACH = 120, 10


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    ("name", "hop"), [("kws_ref_model", 2), ("kws_ref_model", 6), ("micro_speech_quantized", 2), ("person_detect", 8)]
)
def test_streams_of_shared_models(
    name: str, hop: int, fast: bool, tmp_path: Path, checkouts: Checkouts, shared: Path
) -> None:
    model = shared / "models" / f"{name}.tflite"
    made = generated(model, tmp_path / "app", "cmsis_nn", checkouts.revision, hop=hop, fast=fast)
    check_stream(build(made, tmp_path / "src", checkouts), 20 if name == "person_detect" else 120)


def planted(made: Generated, what: str) -> Generated:
    """The app with a fault in its program, which the proof refuses."""
    (model,) = made.spec.models
    runtime = runtime_of(model)
    hop, layer = runtime.program.hop, runtime.program.streaming_layer
    assert hop is not None
    assert layer is not None
    if what == "a row short":
        k = next(k for k, one in enumerate(hop.buffers) if one.base and one.base < one.new)
        short = replace(hop.buffers[k], base=hop.buffers[k].base + 1)
        hop = replace(hop, buffers=(*hop.buffers[:k], short, *hop.buffers[k + 1 :]))
    elif what == "no move":
        hop = replace(hop, moves=hop.moves[:-1])
    else:
        hop = replace(hop, invoked=tuple(call for call in hop.invoked if not (call.ahead and call.member == 1)))
    segment = replace(layer, segment=replace(layer.segment, hop=hop))
    layers = tuple(segment if one is layer else one for one in runtime.program.layers)
    program = replace(runtime.program, layers=layers)
    with pytest.raises(PlanError):
        prove_hops(program, segment)
    return replace(made, spec=replace(made.spec, models=(replace(model, runtime=replace(runtime, program=program)),)))


@pytest.mark.parametrize("what", ["a row short", "no move", "a first row as it was"])
def test_planted_faults_change_outputs(what: str, tmp_path: Path, checkouts: Checkouts, shared: Path) -> None:
    model = shared / "models" / "kws_ref_model.tflite"
    made = generated(model, tmp_path / "app", "cmsis_nn", checkouts.revision, hop=2, fast=True)
    with pytest.raises(AssertionError, match=r"window \d of net differs"):
        check_stream(build(planted(made, what), tmp_path / "src", checkouts))


def slides_by(path: Path, hop: int, folder: Path, checkouts: Checkouts) -> bool:
    """Whether a layer keeps rows when the window moves; where none does, the reason names a layer or an input."""
    try:
        generated(path, folder, "cmsis_nn", checkouts.revision, hop=hop)
    except ModelError as error:
        assert "layer" in error.what
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int8", "int16", "float32"])
@pytest.mark.parametrize("hop", [1, 2, 3, 4])
def test_streams_of_random_networks(hop: int, kind: str, tmp_path: Path, checkouts: Checkouts) -> None:
    paths = [tmp_path / f"{number}.tflite" for number in range(NETWORKS if kind == "int8" else NETWORKS // 4)]
    for number, path in enumerate(paths):
        path.write_bytes(row_network(1000 * hop + number, kind=kind))
    able = [path for path in paths if slides_by(path, hop, tmp_path, checkouts)]
    assert len(able) > len(paths) // 8
    for first in range(0, len(able), EACH):
        folder = tmp_path / str(first)
        made = generated(able[first : first + EACH], folder / "app", "cmsis_nn", checkouts.revision, hop=hop)
        for net in build_all(made, folder / "src", checkouts):
            check_stream(net)
