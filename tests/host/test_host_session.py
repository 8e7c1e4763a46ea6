# SPDX-License-Identifier: Apache-2.0
"""TFLM on this host as a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.generated_models import variables
from tests.helpers.host_runs import run_host
from tflm_zephyr.device.session.opening import open_session
from tflm_zephyr.device.transport.target import DeviceTarget
from tflm_zephyr.errors import DeviceError
from tflm_zephyr.host.run import available, run_many

pytestmark = pytest.mark.skipif(not available("tflm"), reason="needs tflite-micro")

HELLO = ROOT / "samples" / "hello_world" / "hello_world.tflite"


def test_hello_and_outputs() -> None:
    with open_session(DeviceTarget(host_model=HELLO)) as session:
        (tensor,) = session.hello.inputs
        data = bytes([5] * tensor.bytes)
        assert session.invoke([data]).outputs == run_host(HELLO.read_bytes(), [data]).outputs
        assert session.memory().arena.head_bytes > 0
        assert (session.hello.where, session.hello.device.hz) == ("host", 0)
        with pytest.raises(DeviceError, match=r"takes \d+ bytes, \d+ were given"):
            session.invoke([data + b"x"])
        for refused in (lambda: session.capture([data]), lambda: session.profile([data], 1), lambda: session.tensor(0)):
            with pytest.raises(DeviceError, match="TFLM on the host cannot"):
                refused()


@pytest.mark.slow
def test_state_carries_over_until_a_reset(tmp_path: Path) -> None:
    path = tmp_path / "variables.tflite"
    path.write_bytes(variables(["a", "b"]))
    with open_session(DeviceTarget(host_model=path)) as session:
        data = [bytes(range(tensor.bytes)) for tensor in session.hello.inputs]
        wanted = run_many(path.read_bytes(), [data] * 3, reset=False).runs
        assert [session.invoke(data).outputs for _ in range(3)] == list(wanted)
        session.reset()
        assert session.invoke(data).outputs == wanted[0]
