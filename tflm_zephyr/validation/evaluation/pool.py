# SPDX-License-Identifier: Apache-2.0
"""Samples spread over sessions: a free session takes the next sample; a session that fails gives its sample back."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tflm_zephyr.device.session import Hello, Session, SessionCapabilities
from tflm_zephyr.errors import DeviceError, ModelFailedError, ToolError
from tflm_zephyr.validation.evaluation.state import SampleResult

Opener = Callable[[], AbstractContextManager[Session]]
_ALIKE = ("kernels", "hz", "board", "app", "tflm", "zephyr")  # of the firmware, on all devices
_TICK_S = 0.2
_GRACE_S = 5.0
_INTERRUPTED_GRACE_S = 0.5
_MOST_STOPPED = 2  # devices that end with the same sample, before the sample counts as the cause


@dataclass(frozen=True)
class SampleDone:
    """A sample's result."""

    index: int
    result: SampleResult


@dataclass(frozen=True)
class SessionLost:
    """A worker that ended because its device was lost, while others continue."""

    error: ToolError


@dataclass(frozen=True)
class _SessionOpened:
    hello: Hello
    capabilities: SessionCapabilities


class Pool:
    """Runs samples on as many sessions as there are `openers`, each opened and used in a thread of its own.

    A context manager: at its end all sessions are closed. Every sample starts from the model's initial state, so that
    its result does not depend on the session or on earlier samples.
    """

    def __init__(self, openers: Sequence[Opener]) -> None:
        """Opens nothing yet."""
        self.capabilities = SessionCapabilities()  # of the sessions, once `hello` has returned
        self._openers = openers
        self._todo: queue.SimpleQueue[tuple[int, Sequence[bytes]]] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[SampleDone | SessionLost | _SessionOpened | BaseException] = queue.SimpleQueue()
        self._start, self._stop = threading.Event(), threading.Event()
        self._threads: list[threading.Thread] = []
        self._alive = 0
        self._stopped: Counter[int] = Counter()  # number of devices that ended with each sample

    def __enter__(self) -> Pool:
        self._threads = [
            threading.Thread(target=self._work, args=(opener,), daemon=True, name=f"session {k}")
            for k, opener in enumerate(self._openers)
        ]
        for thread in self._threads:
            thread.start()
        self._alive = len(self._threads)
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        self._stop.set()
        self._start.set()
        interrupted = kind is not None and not issubclass(kind, Exception)
        until = time.monotonic() + (_INTERRUPTED_GRACE_S if interrupted else _GRACE_S)
        for thread in self._threads:  # one that waits for a hung device ends with this process, its emulator as well
            thread.join(max(until - time.monotonic(), 0.0))

    def hello(self) -> Hello:
        """The hello of the sessions, when all have answered; all have the same app, model, kernels and ticks.

        Raises the first error of a session that does not open, DeviceError when the sessions differ.
        """
        found: list[_SessionOpened] = []
        while len(found) < len(self._openers):
            event = self._next()
            if isinstance(event, SessionLost):
                raise event.error
            if isinstance(event, _SessionOpened):
                found.append(event)
        first = found[0].hello
        for other in (opened.hello for opened in found[1:]):
            for what in ("sha256", "model", *_ALIKE, "arena"):
                one, two = (getattr(hello.device if what in _ALIKE else hello, what) for hello in (first, other))
                if one != two:
                    raise DeviceError(
                        f"has {what} {two}, {first.link} has {one}",
                        where=other.link,
                        hint="Flash the same app onto boards of one kind",
                    )
        self.capabilities = found[0].capabilities
        return first

    def run(self, samples: Sequence[tuple[int, Sequence[bytes]]]) -> Iterator[SampleDone | SessionLost]:
        """Yields each sample's result with the sample's number, and each session that is lost.

        Raises the last session's error when no session is left, ModelFailedError for a sample that the model fails on,
        and the error of a sample with which two devices ended.
        """
        for sample in samples:
            self._todo.put(sample)
        self._start.set()
        missing = len(samples)
        while missing:
            event = self._next()
            if isinstance(event, SampleDone):
                missing -= 1
                yield event
            elif isinstance(event, SessionLost):
                self._alive -= 1
                if not self._alive:
                    raise event.error
                yield event

    def _next(self) -> SampleDone | SessionLost | _SessionOpened:
        while True:
            try:
                event = self._events.get(timeout=_TICK_S)  # a timeout, so that an interrupt is seen
            except queue.Empty:
                continue
            if isinstance(event, BaseException):
                raise event
            return event

    def _work(self, opener: Opener) -> None:
        try:
            with opener() as session:
                self._events.put(_SessionOpened(session.hello, session.capabilities))
                self._start.wait()
                self._serve(session)
        except ModelFailedError as error:
            self._events.put(error)
        except ToolError as error:
            self._events.put(SessionLost(error))
        except BaseException as error:  # a bug, shown in the thread that asked
            self._events.put(error)

    def _serve(self, session: Session) -> None:
        while not self._stop.is_set():
            try:
                sample = self._todo.get(timeout=_TICK_S)
            except queue.Empty:
                continue  # another session may hand one back
            try:
                session.reset()
            except BaseException:
                self._todo.put(sample)
                raise
            try:
                done = session.invoke(sample[1])
            except ToolError as error:
                named = type(error)(error.what, where=f"sample {sample[0]}, {error.where}", hint=error.hint)
                self._stopped[sample[0]] += 1
                if isinstance(error, ModelFailedError):  # it would fail on every device
                    raise named from error
                if self._stopped[sample[0]] >= _MOST_STOPPED:
                    self._events.put(named)
                    return
                self._todo.put(sample)
                raise named from error
            except BaseException:
                self._todo.put(sample)
                raise
            self._events.put(SampleDone(sample[0], SampleResult(done.outputs[0], done.ticks)))
