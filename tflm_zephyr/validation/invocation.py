# SPDX-License-Identifier: Apache-2.0
"""Samples through one session in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tflm_zephyr.device.session import Invocation, Session
from tflm_zephyr.validation.inputs.sample import Sample


def invoke_all(session: Session, samples: Sequence[Sample]) -> Iterator[Invocation]:
    """Yields each sample's invocation; a fresh sample starts from the model's initial state."""
    return session.invoke_many([sample.inputs for sample in samples], [sample.fresh for sample in samples])
