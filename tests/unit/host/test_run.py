# SPDX-License-Identifier: Apache-2.0
"""TFLM and LiteRT in a child: outputs, memory, state, and that no failure of theirs is more than one line."""

from __future__ import annotations

import os
import pathlib
import struct
import sys

import pytest

from tests.helpers.host_models import svdf, unknown_operator
from tests.helpers.host_runs import run_host
from tests.helpers.model_builder import ModelBuilder, chain
from tflm_zephyr import process
from tflm_zephyr.errors import DeviceError, ModelError
from tflm_zephyr.host import run
from tflm_zephyr.host.run import run_many


@pytest.fixture(autouse=True)
def _engines() -> None:
    pytest.importorskip("tflite_micro")
    pytest.importorskip("ai_edge_litert")


@pytest.mark.parametrize("engine", ["tflm", "litert"])
def test_relu_gives_what_relu_gives(engine: str) -> None:
    values = bytes(range(0, 256, 4))
    want = bytes(v if v < 128 else 0 for v in values)
    run = run_host(chain(2, 64), [values], engine=engine)
    assert run.outputs == (want,)
    assert run.engine == engine and run.version


def test_memory_is_what_tflm_records() -> None:
    run = run_host(chain(3, 64), [bytes(64)])
    assert run.head_bytes == 128  # two tensors of 64 alive at once
    assert run.used_bytes == run.head_bytes + run.tail_bytes
    sections = {section.name: section for section in run.sections}
    assert sections["TfLiteEvalTensor data"].count == 4
    assert sections["NodeAndRegistration struct"].count == 3
    assert sum(section.used_bytes for section in run.sections) <= run.tail_bytes


def test_an_arena_of_exactly_the_size_used_or_one_row_less() -> None:
    model = chain(3, 4096)
    used = run_host(model, [bytes(4096)]).used_bytes
    assert run_host(model, [bytes(4096)], arena_bytes=used + 512).outputs == (bytes(4096),)
    with pytest.raises(DeviceError, match=r"arena of \d+ bytes is too small.*missing: \d+"):
        run_host(model, [bytes(4096)], arena_bytes=used - 16)


@pytest.mark.slow
def test_an_arena_too_small_even_to_start() -> None:
    for size in (1, 100, 700):
        with pytest.raises(DeviceError):
            run_host(chain(), [bytes(64)], arena_bytes=size)
    with pytest.raises(DeviceError, match="arena of 0 bytes"):
        run_host(chain(), [bytes(64)], arena_bytes=0)


@pytest.mark.parametrize("engine", ["tflm", "litert"])
def test_many_runs_keep_their_order(engine: str) -> None:
    runs = [(bytes([i % 128]) * 64,) for i in range(300)]
    assert run_many(chain(), runs, engine=engine).runs == tuple(runs)


def test_state_is_forgotten_between_runs_unless_asked_for() -> None:
    sample = (struct.pack("4b", 100, -100, 90, 80),)
    fresh = run_many(svdf(), [sample] * 3, reset=True).runs
    assert fresh[0] == fresh[1] == fresh[2]
    kept = run_many(svdf(), [sample] * 3, reset=False).runs
    assert kept[0] == fresh[0] and kept[1] != fresh[1]


def test_several_inputs_and_outputs_keep_their_places() -> None:
    model = ModelBuilder()
    main = model.subgraph("main")
    a, b = main.tensor((1, 3), "float32", "a"), main.tensor((1, 2), "float32", "b")
    p, q = main.tensor((1, 2), "float32", "p"), main.tensor((1, 3), "float32", "q")
    main.op("RELU", [b], [p])
    main.op("RELU", [a], [q])
    main.inputs, main.outputs = [a, b], [p, q]
    first, second = struct.pack("<3f", 1, -2, 3), struct.pack("<2f", -4, 5)
    for engine in ("tflm", "litert"):
        run = run_host(model.finish(), [first, second], engine=engine)
        assert [struct.unpack(f"<{len(o) // 4}f", o) for o in run.outputs] == [(0, 5), (1, 0, 3)]


@pytest.mark.parametrize(
    ("model", "inputs", "kind", "text"),
    [
        (unknown_operator(), [bytes(16)], ModelError, "NobodyKnowsMe|op code CUSTOM"),
        (chain(), [bytes(63)], ModelError, "63 bytes were given"),
        (chain(), [bytes(64)] * 2, ModelError, "."),
        (b"", [b""], ModelError, "."),
        (chain()[:100], [bytes(64)], (ModelError, DeviceError), "."),
    ],
)
@pytest.mark.parametrize("engine", ["tflm", "litert"])
def test_a_refusal_is_one_line(
    engine: str, model: bytes, inputs: list[bytes], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text) as caught:
        run_host(model, inputs, engine=engine)
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_crash_is_one_line_with_the_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import os, sys; sys.stderr.write('kernel.cc:12 x != y\\n'); sys.stderr.flush(); os.abort()"
    real = process.run

    def crash(argv: list[str], **options: object) -> process.Finished:
        return real([sys.executable, "-c", script], **options)  # type: ignore[arg-type]

    monkeypatch.setattr(run.process, "run", crash)
    with pytest.raises(run.EngineCrashedError, match=r"crashed \(SIGABRT\): kernel.cc:12 x != y"):
        run_host(chain(), [bytes(64)])


def test_a_run_that_takes_too_long_is_ended() -> None:
    with pytest.raises(DeviceError, match=r"longer than 0\.05 s"):
        run_many(chain(), [(bytes(64),)] * 50, limits=run.HostLimits(timeout_s=0.05))


def test_the_childs_reports_are_progress_and_no_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """A child that reports, says something else, and refuses."""
    refusal = '{"error": "no", "stage": "invoke"}'
    script = f"import sys\nprint('odd')\nprint('\\n{run.child.MARK_RUNS}3')\nprint('{run.child.MARK_RUNS}7')\n"
    script += f"open(sys.argv[1] + '/result.json', 'w').write('{refusal}')"
    (tmp_path / "child.py").write_text(script)
    monkeypatch.setattr(run.child, "__file__", str(tmp_path / "child.py"))
    seen: list[int] = []
    with pytest.raises(ModelError, match=r"failed while running the model: odd; no$"):
        run_many(chain(), [(bytes(64),)], on_run=seen.append)
    assert seen == [3, 7]


def test_real_engines_report_their_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    text = pathlib.Path(run.child.__file__).read_text(encoding="utf-8")
    (tmp_path / "child.py").write_text(text.replace("REPORT_S = 0.25", "REPORT_S = -1"))
    monkeypatch.setattr(run.child, "__file__", str(tmp_path / "child.py"))
    seen: list[int] = []
    assert len(run_many(chain(), [(bytes(64),)] * 3, on_run=seen.append).runs) == 3
    assert seen == [1, 2, 3]


def test_a_missing_package_is_reported_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "available", lambda engine: False)
    with pytest.raises(DeviceError, match=r"tflite-micro is not installed.*pip install"):
        run_host(chain(), [bytes(64)])


def test_nothing_is_left_behind(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run_host(chain(), [bytes(64)])
    with pytest.raises(DeviceError):
        run_host(chain(), [bytes(64)], arena_bytes=100)
    assert os.listdir(str(tmp_path)) == []  # noqa: PTH208


def test_some_runs_go_on_from_the_one_before() -> None:
    given = [[bytes([9, 3, 200, 77])]] * 4
    fresh = run_many(svdf(), given).runs
    on = run_many(svdf(), given, reset=False).runs
    assert len(set(on[:2])) == 2
    mixed = run_many(svdf(), given, reset=[True, False, True, False]).runs
    assert mixed == (on[0], on[1], fresh[2], on[1])


@pytest.mark.parametrize("engine", ["tflm", "litert"])
def test_tensors_between_operators_are_kept_as_they_were(engine: str) -> None:
    given = bytes([3, 250, 7, 128] * 16)
    run = run_many(chain(3, 64), [[given], [bytes(64)]], engine=engine, tensors=[0, 1, 2])
    want = bytes(v if v < 128 else 0 for v in given)
    assert run.tensors == ((given, want, want), (bytes(64),) * 3)
    assert run.runs == ((want,), (bytes(64),))
