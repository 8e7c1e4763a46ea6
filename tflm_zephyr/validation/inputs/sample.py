# SPDX-License-Identifier: Apache-2.0
"""A model's input bytes, and the options for reading them from files."""

from __future__ import annotations

from dataclasses import dataclass

from tflm_zephyr.errors import ToolError
from tflm_zephyr.validation.inputs.front_end import FrontEnd

STDIN = "-"
FORMATS = ("npy", "npz", "image", "wav", "csv", "bin")
RESAMPLINGS = ("nearest", "box", "bilinear", "bicubic", "lanczos")


@dataclass(frozen=True)
class Sample:
    """One inference: `inputs` has the bytes of each model input. `notes` describe conversions of the file's content.

    `fresh`: the run starts from the model's initial state; otherwise it continues from the previous sample, as the
    windows of one recording do.
    """

    name: str
    inputs: tuple[bytes, ...]
    fresh: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class InputOptions:
    """Options for reading files.

    `raw`: numbers, pixels and sound samples are the tensors' own elements, not real values. `pixels`: the real
    values of black and white, None for those that the tensor's quantisation shows. `stride_samples`: distance from one
    window of a recording to the next, None for windows that follow each other. `frontend`: a model that turns windows
    into the rows of the model's input. `rate_hz`: the sound's rate that the model expects; None accepts any rate, with
    a note. `format`: one of FORMATS, or "" to detect it from the content.
    """

    raw: bool = False
    format: str = ""
    pixels: tuple[float, float] | None = None
    resampling: str = "bilinear"
    stride_samples: int | None = None
    frontend: FrontEnd | None = None
    rate_hz: int | None = None


def one_input(count: int, what: str, where: str) -> None:
    """ToolError unless the model has one input, as `what` holds only one."""
    if count != 1:
        raise ToolError(
            f"{what} is one input, the model has {count}", where=where, hint="Save all inputs in an .npz as x0, x1, ..."
        )
