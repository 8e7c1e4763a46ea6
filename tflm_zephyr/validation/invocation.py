# SPDX-License-Identifier: Apache-2.0
"""Samples through one session in turn; where that is a child process for each, all of them in one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tflm_zephyr.device.session import HostSession, Invocation, Session
from tflm_zephyr.validation.inputs.sample import Sample


def invoke_all(session: Session, samples: Sequence[Sample]) -> Iterator[Invocation]:
    """Each sample's run, as it is done; those that are fresh from the model's initial state."""
    if isinstance(session, HostSession):
        yield from session.invoke_many([sample.inputs for sample in samples], [sample.fresh for sample in samples])
        return
    for sample in samples:
        if sample.fresh:
            session.reset()
        yield session.invoke(sample.inputs)
