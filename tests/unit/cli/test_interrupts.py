# SPDX-License-Identifier: Apache-2.0
"""One signal ends a command, its threads and its children."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.marks import rest_slow
from tests.helpers.processes import gone, pid_from, start
from tflm_zephyr import process
from tflm_zephyr.cli import interrupts

_SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]

# In place of the child that runs a model: notes its process under the engine's name, and runs on and on.
_SLOW_ENGINE = """
import json, os, pathlib, signal, sys, time
if {deaf}:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
folder = pathlib.Path(sys.argv[1])
engine = json.loads((folder / "request.json").read_text())["engine"]
pathlib.Path({notes!r}, engine).write_text(str(os.getpid()))
while True:
    time.sleep(0.05)
"""


@contextmanager
def generating(
    tmp_path: Path, model: Path, *, deaf: bool = False
) -> Iterator[tuple[subprocess.Popen[bytes], int, int]]:
    """`generate` while both reference engines run, and their processes."""
    slow = tmp_path / "slow.py"
    slow.write_text(_SLOW_ENGINE.format(deaf=deaf, notes=str(tmp_path)))
    before = (
        "from tflm_zephyr.host import child, golden_outputs, run\n"
        f"child.__file__ = {str(slow)!r}\n"
        "golden_outputs.available = run.available = lambda engine: True"
    )
    with start("generate", model, "-o", tmp_path / "app", before=before) as command:
        try:
            yield command, pid_from(tmp_path / "litert"), pid_from(tmp_path / "tflm")
        finally:
            command.kill()


@pytest.mark.parametrize(("sig", "code"), rest_slow(_SIGNALS))
@pytest.mark.parametrize("deaf", [False, True], ids=["", "children ignore SIGTERM"])
def test_one_signal_ends_both_engines(
    tmp_path: Path, model_file: Path, sig: signal.Signals, code: int, deaf: bool
) -> None:
    with generating(tmp_path, model_file, deaf=deaf) as (command, *engines):
        command.send_signal(sig)
        out, err = command.communicate(timeout=10)
        assert command.returncode == code and out == b""
        assert err.count(b"\n") == 1 and b"Traceback" not in err
        assert all(gone(engine) for engine in engines)
    assert not (tmp_path / "app").exists()


_AFTER_SIGTERM = {
    "raised": "",
    "another in its place": "raise RuntimeError('a thread of a pool')",
    "Ctrl-C of a child's thread": "raise KeyboardInterrupt",
    "an error for people": "raise cli.ToolError('the child was ended')",
    "swallowed": "return cli.Done('done', {})",
}


@pytest.mark.parametrize("case", _AFTER_SIGTERM)
def test_sigterm_is_the_end_whatever_is_raised_after_it(case: str) -> None:
    before = f"""if True:
        import os, signal
        def handler(args, say):
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            except SystemExit:
                {_AFTER_SIGTERM[case] or "raise"}
        cli._handler = lambda command: handler
    """
    with start("boards", before=before) as command:
        _, err = command.communicate(timeout=20)
    assert command.returncode == 143 and b"Traceback" not in err
    assert err.endswith(b"tflm-zephyr: ended by SIGTERM\n")


def test_sigterm_while_an_object_or_a_thread_ends_is_one_line() -> None:
    """Nothing can be raised there, and Python would show a traceback."""
    before = """if True:
        import os, signal, threading, time
        class Object:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0.01)
        def fail():
            raise KeyboardInterrupt
        def handler(args, say):
            one = Object()
            del one
            threading.Thread(target=fail).start()
            time.sleep(60)
        cli._handler = lambda command: handler
    """
    with start("boards", before=before) as command:
        _, err = command.communicate(timeout=20)
    assert command.returncode == 143 and err == b"tflm-zephyr: ended by SIGTERM\n"


def test_sigterm_after_the_command_ends_the_process() -> None:
    before = "import atexit, os, signal\natexit.register(lambda: os.kill(os.getpid(), signal.SIGTERM))"
    with start("boards", before=before) as command:
        out, err = command.communicate(timeout=20)
    assert command.returncode == 143 and err == b"tflm-zephyr: ended by SIGTERM\n" and b"mps2" in out


@pytest.mark.slow
def test_a_signal_that_comes_twice_is_one(tmp_path: Path, model_file: Path) -> None:
    """GNU timeout signals the command, and then its group."""
    with generating(tmp_path, model_file) as (command, *engines):
        for _ in range(3):
            command.send_signal(signal.SIGTERM)
        _, err = command.communicate(timeout=10)
    assert command.returncode == 143 and err == b"tflm-zephyr: ended by SIGTERM\n"
    assert all(gone(engine) for engine in engines)


def test_a_thread_that_does_not_end_is_left_behind() -> None:
    code = """if True:
        import sys, threading, time
        from tflm_zephyr.cli import interrupts
        interrupts._PATIENCE_S = 0.2
        interrupts.catch_signals()
        threading.Thread(target=time.sleep, args=(60,)).start()
        print("ready", flush=True)
        time.sleep(60)
    """
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == b"ready\n"
            child.send_signal(signal.SIGTERM)
            assert child.wait(timeout=10) == 143
        finally:
            child.kill()


def test_the_patience_is_less_than_a_second() -> None:
    """With children that are deaf, and threads that are."""
    assert interrupts._GRACE_S + interrupts._PATIENCE_S < 1 and process._GRACE_S < 1


def test_the_last_line_is_written_once(capfd: pytest.CaptureFixture[str]) -> None:
    ending = interrupts.Ending()
    ending.report(signal.SIGTERM)
    ending.report(signal.SIGTERM)
    assert capfd.readouterr().err == "tflm-zephyr: ended by SIGTERM\n"


def test_a_signal_that_the_shell_ignores_stays_ignored() -> None:
    """As SIGHUP under nohup."""
    code = """if True:
        import os, signal
        from tflm_zephyr.cli.interrupts import catch_signals
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        catch_signals()
        os.kill(os.getpid(), signal.SIGHUP)
        print("still there")
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "still there\n"


@pytest.mark.slow
def test_real_engines_end_with_one_sigterm(tmp_path: Path, model_file: Path) -> None:
    """As `timeout` ends a command: 60,000 reference runs keep both engines busy."""
    pytest.importorskip("tflite_micro")
    pytest.importorskip("ai_edge_litert")
    busy = tmp_path / "busy"
    before = (
        "import os, pathlib\n"
        "from tflm_zephyr import process\n"
        "spawned = process.subprocess.Popen\n"
        "class Noting(spawned):\n"
        "    def __init__(self, *args, **more):\n"
        "        super().__init__(*args, **more)\n"
        f"        open({str(busy)!r} + str(self.pid), 'w').write(str(self.pid))\n"
        "process.subprocess.Popen = Noting"
    )
    with start("generate", model_file, "-o", tmp_path / "app", "--runs", 60000, before=before) as command:
        try:
            while len(list(tmp_path.glob("busy*"))) < 3 and command.poll() is None:
                with pytest.raises(subprocess.TimeoutExpired):
                    command.wait(timeout=0.05)
            engines = [int(note.name.removeprefix("busy")) for note in tmp_path.glob("busy*")]
            command.terminate()
            _, err = command.communicate(timeout=10)
        finally:
            command.kill()
    assert command.returncode == 143 and b"Traceback" not in err
    assert len(engines) == 3 and all(gone(engine) for engine in engines)  # and the shell that ends what is left
