# SPDX-License-Identifier: Apache-2.0
"""Models with a state, row by row and with streamed input: it lasts from window to window, nothing else does."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.helpers.compiled_host import Checkouts, HostNetwork, build, generated
from tests.helpers.forced_rows import forced
from tests.helpers.stateful_models import stateful
from tflm_zephyr.compiler.row_plan import RowPlanning
from tflm_zephyr.host import run_many

pytestmark = [pytest.mark.zephyr, pytest.mark.slow]


def forget(net: HostNetwork, value: int) -> None:
    """Overwrite all of the arena but the variables and the data of TFLM's own kernels."""
    tensors = net.program.model.main.tensors
    kept = range(net.program.planned_bytes, len(net.arena))
    saved = {tensor.index: net.read(tensor.index) for tensor in tensors if tensor.is_variable}
    behind = net.arena[kept.start :].copy()
    net.arena[:] = value
    net.arena[kept.start :] = behind
    for tensor, data in saved.items():
        net.write(tensor, data)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
def test_a_state_lasts_from_window_to_window(
    kernels: str, stream: bool, tmp_path: Path, checkouts: Checkouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RowPlanning, "smallest", forced(1))
    path = tmp_path / "net.tflite"
    path.write_bytes(stateful())
    made = generated(path, tmp_path / "app", kernels, checkouts.revision, rows=True, slower=1000, stream=stream)
    net = build(made, tmp_path / "src", checkouts)
    assert net.program.segments
    assert (net.program.stream is not None) is stream
    main, rng = net.program.model.main, random.Random(2)
    windows = [[rng.randbytes(main.tensors[main.inputs[0]].size_bytes)] for _ in range(7)]
    wanted = [outputs[0] for outputs in run_many(path.read_bytes(), windows, reset=False).runs]
    assert wanted != [outputs[0] for outputs in run_many(path.read_bytes(), windows).runs], "the state changes nothing"
    net.start()
    for number, (window, output) in enumerate(zip(windows, wanted, strict=True)):
        forget(net, 0x5A + number)
        assert dict(net.outputs_of_layers(window, number))[main.outputs[0]] == output
    net.start()
    assert dict(net.outputs_of_layers(windows[0]))[main.outputs[0]] == wanted[0], "a reset keeps the state"
