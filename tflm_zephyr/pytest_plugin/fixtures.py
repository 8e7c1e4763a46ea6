# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests of a model on its device: in QEMU, on a board, or inside Zephyr's twister.

`tflm` calls the model with real values and gives real values back; `tflm_session` is the session below it. Where the
model runs is set by options (--tflm-app, --tflm-board, --tflm-port, --tflm-dev-id, --tflm-host), by the same names
in the ini file with underscores, or by twister's pytest harness, whose build and device are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import numpy

    from tflm_zephyr.device.session import DeviceTarget, Session, TensorInfo

_OPTIONS = (
    ("app", "APP", "a generated app with host_link: true, in QEMU or at --tflm-port"),
    ("board", "BOARD", "which of the app's boards"),
    ("port", "URL", "a board's serial port: /dev/ttyACM0, socket://host:port, auto"),
    ("dev-id", "ID", "a board on USB by its debug probe's serial number"),
    ("host", "MODEL", "a .tflite, in TFLM on this host"),
    ("model", "NAME", "which of the app's models"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the command line and of the ini file."""
    group = parser.getgroup("tflm-zephyr", "models on devices (tflm-zephyr)")
    for name, value, text in _OPTIONS:
        group.addoption(f"--tflm-{name}", metavar=value, help=text)
        parser.addini(f"tflm_{name.replace('-', '_')}", text)


class Runner:
    """A model that can be called: `tflm(x)`."""

    def __init__(self, session: Session) -> None:
        """`session` stays open as long as the fixture."""
        self.session = session

    def __call__(self, *inputs: Any) -> Any:
        """The outputs for `inputs`, arrays or anything that numpy turns into arrays: floats are real values,
        integers of the input's own type are elements. Returns an array of real values in the output's shape, or a
        tuple of them.

        The run starts from the model's initial state. Raises ToolError for inputs that do not suit the model.
        """
        import numpy

        from tflm_zephyr.tensors import real_values

        self.session.reset()
        hello = self.session.hello
        if len(inputs) != len(hello.inputs):
            raise TypeError(f"the model {hello.model} takes {len(hello.inputs)} inputs, {len(inputs)} were given")
        given = [_bytes(tensor, numpy.asarray(value)) for tensor, value in zip(hello.inputs, inputs, strict=True)]
        made = self.session.invoke(given).outputs
        real = [real_values(t, data).reshape(t.shape) for t, data in zip(hello.outputs, made, strict=True)]
        return real[0] if len(real) == 1 else tuple(real)


def _bytes(tensor: TensorInfo, value: numpy.ndarray) -> bytes:
    from math import prod

    from tflm_zephyr.errors import ToolError
    from tflm_zephyr.tensors import elements, suits

    where = f"input {tensor.name}"
    if value.size != prod(tensor.shape):
        raise ToolError(f"has {value.size} values, the model takes {prod(tensor.shape)}", where=where)
    if not suits(value.shape, tensor):
        raise ToolError(f"has shape {value.shape}, the model takes {tuple(tensor.shape)}", where=where)
    return elements(value, tensor, where).tobytes()


class _SharedSession:
    """One session for all tests of a run, opened when the first needs it and again when it was lost."""

    def __init__(self, target: DeviceTarget) -> None:
        self._target = target
        self._session: Session | None = None

    def session(self) -> Session:
        """The open session, the model in its initial state."""
        from tflm_zephyr.errors import DeviceError

        if self._session is not None:
            try:
                self._session.reset()
                return self._session
            except DeviceError:
                self.close()
        from tflm_zephyr.device.session import opening

        self._session = opening.open_session(self._target)
        return self._session

    def close(self) -> None:
        """Close the session if one is open."""
        from tflm_zephyr.errors import DeviceError

        session, self._session = self._session, None
        if session is not None:
            with suppress(DeviceError):
                session.close()


@pytest.fixture(scope="session")
def tflm_target(request: pytest.FixtureRequest) -> DeviceTarget:
    """Where the model runs; override it to say so in a conftest.py."""
    from tflm_zephyr.device.session import DeviceTarget

    options = {name: _option(request.config, name) for name, *_ in _OPTIONS}
    if options["app"] or options["port"] or options["dev-id"] or options["host"]:
        return DeviceTarget(
            app=Path(options["app"]) if options["app"] else None,
            board=options["board"],
            port=options["port"] or ("auto" if options["dev-id"] else ""),
            usb_serial=options["dev-id"],
            host_model=Path(options["host"]) if options["host"] else None,
            model=options["model"],
        )
    harness = getattr(request.config, "twister_harness_config", None)
    if harness is not None:
        return _twister_target(request, harness.devices[0], options["model"])
    pytest.fail("no target for the model: give --tflm-app APP, --tflm-port URL or --tflm-host MODEL", False)


def _option(config: pytest.Config, name: str) -> str:
    """An option, else the ini file's, a path in which is relative to that file."""
    option = config.getoption(f"--tflm-{name}")
    if option:
        return str(option)
    value = str(config.getini(f"tflm_{name.replace('-', '_')}") or "")
    return str(config.rootpath / value) if value and name in ("app", "host") else value


def _twister_target(request: pytest.FixtureRequest, device: Any, model: str) -> DeviceTarget:
    """Twister's own build: an emulator started here, or a board flashed by twister, whose port is taken over."""
    from tflm_zephyr.device.session import DeviceTarget

    if device.type in ("qemu", "native"):
        folder = Path(device.app_build_dir)
        return DeviceTarget(build_dir=folder, board=device.platform, model=model, run_timeout_s=device.base_timeout)
    if device.type == "hardware":
        board = request.getfixturevalue("device_object")
        board.initialize_log_files(request.node.name)
        board.launch()
        board.disconnect()
        return DeviceTarget(port=device.serial, baudrate=device.baud, model=model, run_timeout_s=device.base_timeout)
    pytest.fail(f"twister's device is of type {device.type}: tflm-zephyr drives qemu, native and hardware", False)


@pytest.fixture(scope="session")
def _tflm_shared(tflm_target: DeviceTarget) -> Iterator[_SharedSession]:
    shared = _SharedSession(tflm_target)
    yield shared
    shared.close()


@pytest.fixture
def tflm_session(_tflm_shared: _SharedSession) -> Session:
    """An open session, the model in its initial state; shared by all tests, so none may close it."""
    from tflm_zephyr.errors import ToolError

    try:
        return _tflm_shared.session()
    except ToolError as error:
        message = str(error)
    pytest.fail(message, False)  # past the error, which is not to be shown beside its line


@pytest.fixture
def tflm(tflm_session: Session) -> Runner:
    """The model as a function of real values."""
    return Runner(tflm_session)
