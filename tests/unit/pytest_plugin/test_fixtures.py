# SPDX-License-Identifier: Apache-2.0
"""A user's tests with the plugin's fixtures, run by pytest itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.session import FakeSession
from tests.helpers.small_models import dense
from tflm_zephyr.device.session import opening
from tflm_zephyr.device.transport.target import DeviceTarget
from tflm_zephyr.errors import DeviceError

pytest_plugins = ["pytester"]

FIVE_LINES = """
    import numpy as np

    def test_three(tflm):
        assert tflm(np.array([1.5, 0, 0, 0])).argmax() == 2
"""


class Opened:
    """Sessions by what was asked for."""

    def __init__(self) -> None:
        self.targets: list[DeviceTarget] = []
        self.sessions: list[FakeSession] = []
        self.error: DeviceError | None = None
        self.kinds: list[dict[str, Any]] = []

    def open(self, target: DeviceTarget, **more: object) -> FakeSession:
        self.targets.append(target)
        if self.error is not None:
            raise self.error
        kind = self.kinds.pop(0) if self.kinds else {}
        self.sessions.append(FakeSession(dense(), outputs=self.outputs, **kind))
        return self.sessions[-1]

    def outputs(self, inputs: Sequence[bytes]) -> tuple[bytes, ...]:
        return (bytes(k == inputs[0][0] for k in range(8)),)  # 1.5 in steps of 0.5 around -1 is 2


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    made = Opened()
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the plugin may be installed here, or not
    monkeypatch.setattr(opening, "open_session", made.open)
    return made


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-p", "tflm_zephyr.pytest_plugin", *options)


def test_five_lines_are_a_test(pytester: pytest.Pytester, opened: Opened) -> None:
    pytester.makepyfile(FIVE_LINES)
    run(pytester, "--tflm-app", "build/digits", "--tflm-board", "mps2/an385").assert_outcomes(passed=1)
    assert opened.targets == [DeviceTarget(app=Path("build/digits"), board="mps2/an385")]
    assert opened.sessions[0].closed and opened.sessions[0].done == ["reset", "invoke"]


def test_a_wrong_answer_fails(pytester: pytest.Pytester, opened: Opened) -> None:
    pytester.makepyfile(FIVE_LINES.replace("== 2", "== 3"))
    run(pytester, "--tflm-port", "socket://lab:1").assert_outcomes(failed=1)
    assert opened.targets == [DeviceTarget(port="socket://lab:1")] and opened.sessions[0].closed


def test_one_session_serves_all_tests_and_reopens_when_lost(pytester: pytest.Pytester, opened: Opened) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("k", range(4))
        def test_each(tflm_session, tflm, k):
            assert tflm.session is tflm_session
            assert tflm_session.invoke([bytes(4)]).outputs == (b"\\1" + bytes(7),)
        """
    )

    opened.kinds = [{"resets": 1}]
    run(pytester, "--tflm-host", "net.tflite").assert_outcomes(passed=4)
    assert len(opened.sessions) == 2 and all(session.closed for session in opened.sessions)
    assert opened.targets[0].host_model == Path("net.tflite")


def test_a_board_is_chosen_by_its_serial_number(pytester: pytest.Pytester, opened: Opened) -> None:
    pytester.makepyfile(FIVE_LINES)
    run(pytester, "--tflm-dev-id", "960012345").assert_outcomes(passed=1)
    assert opened.targets == [DeviceTarget(port="auto", usb_serial="960012345")]


def test_the_ini_file_says_where(pytester: pytest.Pytester, opened: Opened) -> None:
    pytester.makeini("[pytest]\ntflm_app = build/digits\ntflm_model = net\n")
    pytester.makepyfile(FIVE_LINES)
    run(pytester).assert_outcomes(passed=1)
    assert opened.targets == [DeviceTarget(app=pytester.path / "build" / "digits", model="net")]


def test_without_a_target_or_a_device_it_is_one_line(pytester: pytest.Pytester, opened: Opened) -> None:
    pytester.makepyfile(FIVE_LINES)
    done = run(pytester)
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*no target for the model: give --tflm-app APP*"])
    opened.error = DeviceError("nothing answers", where="/dev/ttyACM0")
    done = run(pytester, "--tflm-port", "/dev/ttyACM0")
    done.assert_outcomes(errors=1)
    assert "During handling" not in done.stdout.str()
    done.stdout.fnmatch_lines(["*/dev/ttyACM0: nothing answers*"])
    done.stdout.no_fnmatch_line("*Traceback*")


def test_inputs_that_do_not_suit(pytester: pytest.Pytester, opened: Opened) -> None:
    pytester.makepyfile(
        """
        import pytest
        from tflm_zephyr.errors import ToolError

        def test_it(tflm):
            with pytest.raises(ToolError, match="input x: has 3 values, the model takes 4"):
                tflm([1.0, 2.0, 3.0])
            with pytest.raises(ToolError, match=r"input x: has shape \\(2, 2\\), the model takes \\(1, 4\\)"):
                tflm([[1.0, 2.0], [3.0, 4.0]])
            with pytest.raises(TypeError, match="takes 1 inputs, 2 were given"):
                tflm([1.0], [2.0])
            with pytest.raises(ToolError, match="already quantised"):
                tflm([1, 2, 3, 4])
        """
    )
    run(pytester, "--tflm-port", "p").assert_outcomes(passed=1)


HARNESS = """
    import pytest
    from pathlib import Path
    from types import SimpleNamespace

    calls = []

    class Device:
        def initialize_log_files(self, name): calls.append("logs")
        def launch(self): calls.append("launch")
        def disconnect(self): calls.append("disconnect")

    @pytest.fixture(scope="session")
    def device_object():
        yield Device()
        calls.append("close")
        Path("calls").write_text(" ".join(calls))

    def pytest_configure(config):
        device = SimpleNamespace(type=TYPE, app_build_dir=Path("out"), platform="mps2/an385", base_timeout=30.0,
                                 serial="/dev/ttyACM0", baud=1000000)
        config.twister_harness_config = SimpleNamespace(devices=[device])
"""


@pytest.mark.parametrize("kind", ["qemu", "hardware", "native", "unit"])
def test_twisters_build_and_device_are_taken(pytester: pytest.Pytester, opened: Opened, kind: str) -> None:
    pytester.makeconftest(HARNESS.replace("TYPE", repr(kind)))
    pytester.makepyfile(FIVE_LINES)
    done = run(pytester)
    if kind == "unit":
        done.assert_outcomes(errors=1)
        done.stdout.fnmatch_lines(["*of type unit: tflm-zephyr drives qemu, native and hardware*"])
        return
    done.assert_outcomes(passed=1)
    (target,) = opened.targets
    if kind in ("qemu", "native"):
        assert target == DeviceTarget(build_dir=Path("out"), board="mps2/an385", run_timeout_s=30.0)
    else:
        assert target == DeviceTarget(port="/dev/ttyACM0", baudrate=1_000_000, run_timeout_s=30.0)
        assert (pytester.path / "calls").read_text() == "logs launch disconnect close"
