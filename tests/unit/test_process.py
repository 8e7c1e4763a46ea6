# SPDX-License-Identifier: Apache-2.0
"""Children: their output, their end, and that nothing they started outlives them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.processes import gone, pid_from
from tflm_zephyr import process


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_and_exit_code() -> None:
    lines: list[str] = []
    code = "import sys; print('out'); sys.stdout.flush(); sys.stderr.write('err\\n'); sys.exit(3)"
    done = process.run(python(code), on_line=lines.append)
    assert (done.returncode, done.output, lines) == (3, "out\nerr\n", ["out", "err"])


def test_command_lines_are_shown_within_the_block_alone() -> None:
    shown: list[str] = []
    with process.shown(shown.append):
        process.run(python("1 + 1"))
    process.run(python("2"))
    assert shown == [f"$ {sys.executable} -c '1 + 1'"]


def test_bytes_that_are_no_text_and_a_last_line_without_end() -> None:
    lines: list[str] = []
    done = process.run(python(r"import os; os.write(1, b'\xff\r\nlast')"), on_line=lines.append)
    assert lines == ["\ufffd", "last"] and done.output == "\ufffd\r\nlast"


def test_folder_and_environment(tmp_path: Path) -> None:
    code = "import os; print(os.getcwd(), os.environ.get('A'), os.environ.get('HOME'))"
    done = process.run(python(code), cwd=tmp_path, env={"A": "b"})
    assert done.output.split() == [str(tmp_path), "b", "None"]


def test_nothing_to_read() -> None:
    assert process.run(python("import sys; print(len(sys.stdin.read()))")).output == "0\n"


def test_no_such_program() -> None:
    with pytest.raises(FileNotFoundError):
        process.run(["no-such-program-anywhere"])


def test_a_timeout_ends_the_child_and_what_it_started(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match=r"longer than 1 s"):
        process.run(["sh", "-c", "sleep 60 & echo $! > pid; wait"], cwd=tmp_path, timeout_s=1.0)
    assert gone(pid_from(tmp_path / "pid"))


def test_a_child_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_GRACE_S", 0.2)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('x', flush=True); time.sleep(60)"
    with process.spawn(python(code)) as child:
        assert child.stdout is not None and child.stdout.readline() == b"x\n"
    assert child.returncode == -signal.SIGKILL and gone(child.pid)


def test_a_grandchild_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_GRACE_S", 0.2)
    script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    with process.spawn(["sh", "-c", f'sh -c "{script}" & wait'.replace("$$", r"\$\$")], cwd=tmp_path):
        pid = pid_from(tmp_path / "pid")
    assert gone(pid)


def test_leaving_by_an_error_ends_the_child() -> None:
    with pytest.raises(RuntimeError), process.spawn(["sleep", "60"]) as child:
        raise RuntimeError
    assert gone(child.pid) and child.stdout is not None and child.stdout.closed


def test_a_listener_that_fails_ends_the_child(tmp_path: Path) -> None:
    note = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    code = f"import os, time; {note}; print(1, flush=True); time.sleep(60)"

    def fail(line: str) -> None:
        raise RuntimeError(line)

    with pytest.raises(RuntimeError, match="1"):
        process.run(python(code), on_line=fail, timeout_s=30)
    assert gone(pid_from(tmp_path / "pid"))


def test_a_child_has_a_session_of_its_own() -> None:
    """So that an interrupt from the keyboard reaches this process alone, which then ends its children in order."""
    done = process.run(python("import os; print(os.getsid(0) == os.getpid(), os.getsid(0))"))
    leads, session = done.output.split()
    assert leads == "True"
    assert int(session) != os.getsid(0)  # 0 in a container whose session leader stands outside of it


def test_a_child_that_is_gone_already_can_be_killed_again() -> None:
    with process.spawn(["true"]) as child:
        child.wait()
        process.kill_tree(child)
        process.kill_tree(child)
    assert child.returncode == 0


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Runs a process with a child, a grandchild and a temporary folder below TMPDIR, and kills it."""

    def kill(below: str) -> Path:
        folder = tmp_path / below
        folder.mkdir()
        code = (
            "import time\n"
            "from tflm_zephyr import files, process\n"
            f"with files.temporary_folder() as made, process.spawn(['sh', '-c', {_FAMILY!r}], cwd={str(tmp_path)!r}):\n"
            "    (made / 'model.tflite').write_bytes(b'x')\n"
            f"    open({str(tmp_path / 'noted')!r}, 'w').write('1')\n"
            "    time.sleep(60)\n"
        )
        with process.spawn(python(code), cwd=ROOT, env={**os.environ, "TMPDIR": str(folder)}) as parent:
            assert pid_from(tmp_path / "noted") and pid_from(tmp_path / "grandchild")
            os.kill(parent.pid, signal.SIGKILL)
        return folder

    yield kill


_FAMILY = "echo $$ > child; sh -c 'echo $$ > grandchild; sleep 60' & wait"


def test_a_killed_process_leaves_neither_children_nor_folders(tmp_path: Path, killed: Callable[[str], Path]) -> None:
    folder = killed("plain")
    assert gone(pid_from(tmp_path / "child")) and gone(pid_from(tmp_path / "grandchild"))
    assert emptied(folder)


def test_a_path_of_two_lines_leaves_the_first_lines_folder(tmp_path: Path, killed: Callable[[str], Path]) -> None:
    (tmp_path / "a").mkdir()
    (folder,) = killed("a\nb").iterdir()
    assert gone(pid_from(tmp_path / "grandchild")) and (tmp_path / "a").is_dir() and folder.is_dir()


def test_what_has_ended_is_not_ended_again(tmp_path: Path) -> None:
    """The groups and folders of a process that goes on are forgotten one by one."""
    code = (
        "import os, pathlib, signal\n"
        "from tflm_zephyr import files, process\n"
        "with files.temporary_folder() as kept:\n"
        "    with files.temporary_folder() as folder:\n"
        "        pass\n"
        "    process.run(['true'])\n"
        "    folder.mkdir()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = process.run(python(code), cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.returncode == -signal.SIGKILL
    assert emptied(tmp_path, 1)


def emptied(folder: Path, left: int = 0) -> bool:
    """Whether `left` entries are left in it, soon."""
    ends = time.monotonic() + 5
    while len(list(folder.iterdir())) != left and time.monotonic() < ends:
        time.sleep(0.01)
    return len(list(folder.iterdir())) == left
