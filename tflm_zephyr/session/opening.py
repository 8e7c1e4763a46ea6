# SPDX-License-Identifier: Apache-2.0
"""Target -> Session."""

from __future__ import annotations

from collections.abc import Callable

from tflm_zephyr.session.interface import Session
from tflm_zephyr.session.target import Target


def open_session(target: Target, *, on_text: Callable[[str], None] | None = None) -> Session:
    """An open session; `on_text` gets each line of text that the app prints beside the protocol.

    Raises DeviceError (nothing answers, another model or protocol), AppError, BoardError, BuildError, ModelError.
    """
    raise NotImplementedError(target, on_text)
