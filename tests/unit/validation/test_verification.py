# SPDX-License-Identifier: Apache-2.0
"""A device beside TFLM on the host: what is equal, and who is named when something is not."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.fakes.session import FakeSession
from tests.helpers.command_line import Tool
from tests.helpers.host_models import svdf
from tests.helpers.marks import rest_slow
from tests.helpers.model_builder import ModelBuilder, chain
from tflm_zephyr.cli.commands import targets
from tflm_zephyr.cli.report import verify as report
from tflm_zephyr.errors import DeviceError, ModelError
from tflm_zephyr.host.run import HostLimits, HostRun
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.writer import with_offline_plan
from tflm_zephyr.validation import verification
from tflm_zephyr.validation.divergence import overwritten
from tflm_zephyr.validation.inputs.sample import Sample
from tflm_zephyr.validation.verification import expect, random_samples, verify


@pytest.fixture(autouse=True)
def _engines() -> None:
    pytest.importorskip("tflite_micro")
    pytest.importorskip("ai_edge_litert")


def flipped(operator: int, at: int = 3):
    """A kernel of `operator` that is wrong by one at element `at`."""

    def change(number: int, data: bytes) -> bytes:
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] if number == operator else data

    return change


def test_an_equal_device_passes() -> None:
    model = parse_model(chain(3, 16))
    found = verify(FakeSession(model.data), model, random_samples(model, 2, 7))
    assert found.passed and (found.count, found.equal, found.close, found.litert_equal) == (2, 2, 0, 2)
    assert "TFLM on the host (tflite-micro " in found.expected.source and found.expected.notes == ()


def test_the_first_differing_operator_is_named_with_inputs() -> None:
    model = parse_model(chain(4, 16))
    session = FakeSession(model.data, outputs=lambda given: (bytes([99] * 16),), change=flipped(2))
    found = verify(session, model, random_samples(model, 1, 0))
    assert found.failure is not None and found.failure.differing is not None
    differing = found.failure.differing
    assert differing.operator.index == 2 and differing.tensor.index == 3
    assert (differing.difference.differing, differing.difference.at, differing.difference.largest) == (1, (0, 3), 1)
    assert [(g.tensor.index, g.source) for g in differing.inputs] == [(2, "operator 1 (RELU)")]
    assert differing.inputs[0].data == bytes(v if v < 128 else 0 for v in random_samples(model, 1, 0)[0].inputs[0])


@pytest.mark.slow
def test_outputs_overwritten_later_or_not_repeatable() -> None:
    model = parse_model(chain(2, 16))
    wrong = FakeSession(model.data, outputs=lambda given: (bytes(16),))
    failure = verify(wrong, model, [Sample("a", (bytes(range(16)),))]).failure
    assert failure is not None and failure.differing is None and not failure.captured_differs

    class Late(FakeSession):
        def capture(self, inputs):  # type: ignore[no-untyped-def]
            done = super().capture(inputs)
            return type(done)(done.operators, (bytes(16),))

    late = verify(Late(model.data), model, [Sample("a", (bytes(range(16)),))]).failure
    assert late is not None and late.differing is None and late.captured_differs


class Seen(FakeSession):
    """Hands over the outputs of its first `seen` operators alone, cut to `size` bytes."""

    seen, size = 0, 99

    def capture(self, inputs):  # type: ignore[no-untyped-def]
        done = super().capture(inputs)
        return type(done)(
            tuple(replace(o, data=o.data[: self.size]) for o in done.operators[: self.seen]), (bytes(16),)
        )


@pytest.mark.parametrize(
    ("seen", "size", "told"), rest_slow([(0, 99, "none of 2"), (1, 99, "1 of 2"), (2, 3, "none of 2")])
)
def test_what_was_not_captured_is_not_said_to_be_right(seen: int, size: int, told: str) -> None:
    model = parse_model(chain(2, 16))
    session = Seen(model.data, outputs=lambda given: (bytes(16),))
    session.seen, session.size = seen, size
    found = verify(session, model, [Sample("a", (bytes(range(16)),))])
    said = report.text(session.hello, model, found)
    assert "which operator differs is not known" in said and f"whole outputs of {told} operators" in said
    assert "right as it ended" not in said
    failure = report.plain(session.hello, model, found)["failure"]
    assert (failure["operators_compared"], failure["operators"]) == (0 if "none" in told else 1, 2)


@pytest.mark.slow
def test_operators_of_other_subgraphs_are_noted_as_not_compared() -> None:
    model = ModelBuilder()
    main = model.subgraph()
    x, y = main.tensor((1, 16), "int8", "x", scale=0.5), main.tensor((1, 16), "int8", "y", scale=0.5)
    main.op("RELU", [x], [y])
    main.inputs, main.outputs = [x], [y]
    other = model.subgraph()
    a, b = other.tensor((1, 16), "int8", "a", scale=0.5), other.tensor((1, 16), "int8", "b", scale=0.5)
    other.op("RELU", [a], [b])
    other.inputs, other.outputs = [a], [b]
    parsed = parse_model(model.finish())
    session = Seen(parsed.data, outputs=lambda given: (bytes(16),))
    session.seen = 1
    found = verify(session, parsed, [Sample("a", (bytes(range(16)),))])
    said = report.text(session.hello, parsed, found)
    assert "the 1 operators of other subgraphs were not compared" in said and "right as it ended" not in said


@pytest.mark.slow
def test_state_is_brought_back_before_the_capture() -> None:
    model = parse_model(svdf())
    given = bytes([9, 3, 200, 77])
    samples = [Sample("a", (given,)), Sample("b", (given,), fresh=False), Sample("c", (given,), fresh=False)]
    expected = expect(model, samples)
    assert len(set(expected.runs[:2])) == 2 and expected.engine == "tflm"
    session = FakeSession(model.data, outputs=lambda inputs: expected.runs[0])
    found = verify(session, model, samples)
    assert found.failure is not None and found.failure.sample.name == "b" and found.equal == 1
    assert session.done == ["reset", "invoke", "invoke", "invoke", "reset", "invoke"]


def float_model() -> bytes:
    model = ModelBuilder()
    main = model.subgraph()
    x, y = main.tensor((1, 2), "float32", "x"), main.tensor((1, 2), "float32", "y")
    main.op("LOGISTIC", [x], [y])
    main.inputs, main.outputs = [x], [y]
    return model.finish()


@pytest.mark.slow
def test_floats_may_be_apart_by_as_much_as_arithmetic_is() -> None:
    model = parse_model(float_model())
    sample = Sample("a", (struct.pack("<2f", 0.0, 0.0),))
    for value, passed in ((0.500004, True), (0.5001, False)):
        session = FakeSession(model.data, outputs=lambda given, v=value: (struct.pack("<2f", 0.5, v),))
        found = verify(session, model, [sample])
        assert found.passed is passed and found.equal == 0 and found.close == passed


def test_both_reasons_are_reported_where_no_engine_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = parse_model(chain())
    monkeypatch.setattr(verification, "available", lambda engine: engine == "litert")
    only = expect(model, random_samples(model, 1, 0))
    assert only.engine == "litert" and only.other is None and "tflite-micro) is not installed" in only.notes[0]
    monkeypatch.setattr(verification, "available", lambda engine: False)
    with pytest.raises(ModelError, match=r"no reference runs it: TFLM.*not installed; LiteRT.*not installed"):
        expect(model, random_samples(model, 1, 0))


def test_a_reference_that_times_out_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    model, given = parse_model(chain()), []

    def slow(data: bytes, runs: Sequence[object], *, engine: str, limits: HostLimits, **more: object) -> HostRun:
        given.append(limits.timeout_s)
        raise ModelError("refused") if engine == "litert" else DeviceError(f"no answer within {limits.timeout_s:g} s")

    monkeypatch.setattr(verification, "run_many", slow)
    with pytest.raises(DeviceError, match="no answer within"):
        expect(model, random_samples(model, 5, 0))
    assert given == [5 * HostLimits.timeout_s]


def test_a_plan_that_lets_inputs_be_written_over_is_read() -> None:
    model = ModelBuilder()
    main = model.subgraph()
    x, a, b, y = (main.tensor((1, 16), "int8", name, scale=0.5) for name in "xaby")
    main.op("RELU", [x], [a])
    main.op("RELU", [x], [b])
    main.op("MAXIMUM", [a, b], [y])
    main.inputs, main.outputs = [x], [y]
    parsed = parse_model(model.finish())
    good = parse_model(with_offline_plan(parsed, (0, 16, 32, 0)))
    bad = parse_model(with_offline_plan(parsed, (0, 16, 24, 0)))
    last = parsed.main.operators[2]
    assert overwritten(good, last) == () and overwritten(parsed, last) == ()
    (found,) = overwritten(bad, last)
    assert (found.input.index, found.output.index, found.writer.index) == (1, 2, 1)
    own = parse_model(with_offline_plan(parsed, (0, 16, 32, 40)))
    assert [(o.input.index, o.output.index, o.writer.index) for o in overwritten(own, last)] == [(2, 3, 2)]


@pytest.fixture
def device(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    Path("net.tflite").write_bytes(chain(3, 16))
    session = FakeSession(chain(3, 16), change=flipped(1), outputs=lambda given: (flipped(1)(1, given[0]),))
    monkeypatch.setattr(targets, "open_session", lambda target, **more: session)
    return session


def test_the_command_names_the_operator_and_dumps_tensors(tool: Tool, device: FakeSession) -> None:
    np.save("x.npy", np.arange(16, dtype=np.int8))
    asked = ("verify", "x.npy", "--port", "p", "--tflite", "net.tflite", "--dump", "dump.npz")
    done = tool(*asked)
    assert done.code == 1 and done.err == ""
    assert "  0 of 1 equal byte for byte to TFLM on the host" in done.out
    assert "DIFFERS: x.npy, output 0, tensor 3 'relu2' (int8 1x16): 1 of 16 elements" in done.out
    assert "first operator that differs: operator 1 (RELU), its output tensor 2 " in done.out
    assert (
        "first at (0,3): 2, not 3" in done.out
        and "tensor 1 'relu0' (int8 1x16), operator 0 (RELU), 0 to 15" in done.out
    )
    with np.load("dump.npz") as arrays:
        assert arrays["got"][0, 3] == 2 and arrays["want"][0, 3] == 3 and arrays["input0"][0, 3] == 3
    found = tool(*asked, "--json").json
    assert found["failure"]["operator"]["index"] == 1 and not found["passed"]
    assert device.closed


def test_the_command_line_says_what_it_lacks(tool: Tool, device: FakeSession) -> None:
    assert "the .tflite file is needed here" in tool("verify", "--port", "p").one_line()
    Path("other.tflite").write_bytes(chain(2, 16))
    assert "runs a model with SHA-256" in tool("verify", "--port", "p", "--tflite", "other.tflite").one_line()
    assert "nothing to run" in tool("verify", "--port", "p", "--tflite", "net.tflite", "--random", "0").one_line()
    device._change = device._outputs = None
    done = tool("verify", "--port", "p", "--tflite", "net.tflite", "--random", "2", "--seed", "5")
    assert done.code == 0 and "  2 of 2 equal" in done.out


@pytest.mark.slow
def test_an_app_names_its_model_and_has_a_copy(tool: Tool, monkeypatch: pytest.MonkeyPatch, model_file: Path) -> None:
    assert tool("generate", model_file, "-o", "app", "-b", "mps2/an385").code == 0
    session = FakeSession(model_file.read_bytes())
    monkeypatch.setattr(targets, "open_session", lambda target, **more: session)
    asked = ("verify", "--app", "app", "--random", "1")
    assert tool(*asked).code == 0
    model_file.unlink()  # what the app carries differs at most by its plan
    assert tool(*asked).code == 0
    model_file.write_bytes(chain(2, 16))
    assert tool(*asked).code == 0
    Path("app/tflm/models/net.tflite").write_bytes(chain(2, 16))
    assert "runs a model with SHA-256" in tool(*asked).one_line()
    assert "has no model other but net" in tool(*asked, "--model", "other").one_line()
