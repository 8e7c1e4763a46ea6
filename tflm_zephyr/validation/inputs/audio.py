# SPDX-License-Identifier: Apache-2.0
"""Sound files as a model's input: window after window, or as rows of features from a front-end model."""

from __future__ import annotations

import io
import wave
from math import prod
from typing import TYPE_CHECKING

from tflm_zephyr.errors import ToolError
from tflm_zephyr.tensors import TensorLike, element_type, elements, raw_elements, real_values
from tflm_zephyr.validation.inputs.sample import InputOptions, Sample

if TYPE_CHECKING:
    import numpy

_FULL_SCALE = 32768.0
_UNKNOWN_BYTES = 0x7FFF0000  # programs that write sound to a pipe give no length, but this or more


def audio_samples(data: bytes, name: str, tensor: TensorLike, options: InputOptions) -> list[Sample]:
    """The WAV file in `data` for the input `tensor`.

    Sound samples are 16 bits: an int16 tensor that is not quantised takes them as they are, others as real values
    from -1 to 1. Without a front end each window is a sample, and the first one starts from the model's initial state.
    A front end runs from its initial state over all windows in turn; its outputs are the rows of the model's input,
    and as many windows as fill the input make a sample. Windows left at the end are not used, and a note says so.
    A rate other than `options.rate_hz` is refused. As a .tflite does not state its model's rate, a note names the
    file's rate when the option is not given.
    """
    sound, rate_hz, notes = _read(data, name, options.rate_hz)
    front = options.frontend
    taken = tensor if front is None else front.input
    if sum(size > 1 for size in taken.shape) > 1:
        raise ToolError(
            f"is sound, one value after another, the input {taken.name} takes {tuple(taken.shape)}",
            where=name,
            hint="Let a model that makes its features run before it, with --frontend, or give an .npy of that shape",
        )
    window = prod(taken.shape)
    stride = options.stride_samples or window
    cut = [sound[at : at + window] for at in range(0, len(sound) - window + 1, stride)]
    if not cut:
        raise ToolError(f"{len(sound)} sound samples are less than one window of {window}", where=name)
    if front is None:
        if len(cut) > 1:  # as happens when a front end was forgotten
            milliseconds = 1000 * window / rate_hz
            notes.append(f"{len(cut)} windows of {window} sound samples ({milliseconds:g} ms)")
        unused = len(sound) - ((len(cut) - 1) * stride + window)
        notes += [f"the last {unused} sound samples are not used"] if unused > 0 else []
        whole = [Sample(f"{name}[{k}]", (_bytes(w, tensor, name, options.raw),), k == 0) for k, w in enumerate(cut)]
        return [Sample(whole[0].name, whole[0].inputs, notes=tuple(notes)), *whole[1:]]
    if prod(tensor.shape) % prod(front.output.shape):
        raise ToolError(
            f"the front end's output of {prod(front.output.shape)} values does not divide the model's input "
            f"{tensor.name} of {prod(tensor.shape)}",
            where=name,
        )
    made = front.run([_bytes(window, front.input, name, options.raw) for window in cut])
    return _blocks([_row(row, front.output, tensor, name) for row in made], tensor, name, notes, (len(sound), window))


def _row(data: bytes, made: TensorLike, tensor: TensorLike, name: str) -> bytes:
    """A front end's output as elements of the model's input; unchanged where the types agree."""
    if made.type == tensor.type and not (made.scale and tensor.scale and made.scale != tensor.scale):
        return data
    values = real_values(made, data) if made.scale or made.type.startswith("float") else raw_elements(made, data)
    return elements(values, tensor, f"{name}, front end").tobytes()


def _blocks(
    rows: list[bytes], tensor: TensorLike, name: str, notes: list[str], lengths: tuple[int, int]
) -> list[Sample]:
    """Samples made from the rows, as many as they fill."""
    needed = prod(tensor.shape) * element_type(tensor).itemsize // len(rows[0])
    count, (sound, window) = len(rows) // needed, lengths
    if not count:
        most = (sound - window) // (needed - 1) if sound > window else 0
        raise ToolError(
            f"{sound} sound samples give {len(rows)} windows of {window}, the model takes {needed}",
            where=name,
            hint=f"Let them overlap with --stride of {most} at most" if most else "Record more",
        )
    if unused := len(rows) - count * needed:
        notes = [*notes, f"the last {unused} windows are not used"]
    made = [b"".join(rows[k * needed : (k + 1) * needed]) for k in range(count)]
    names = [name] if count == 1 else [f"{name}[{k}]" for k in range(count)]
    return [Sample(names[k], (made[k],), notes=tuple(notes) if k == 0 else ()) for k in range(count)]


def _bytes(window: numpy.ndarray, tensor: TensorLike, name: str, raw: bool) -> bytes:
    target = element_type(tensor)
    if raw or (target.kind in "iu" and target.itemsize >= 2 and not tensor.scale):
        return elements(window, tensor, name, raw=True).tobytes()
    return elements(window / _FULL_SCALE, tensor, name).tobytes()


def _read(data: bytes, name: str, wanted_hz: int | None) -> tuple[numpy.ndarray, int, list[str]]:
    """Sound samples as int16, mono; their rate in Hz; notes on conversions."""
    import numpy

    try:
        with wave.open(io.BytesIO(data)) as file:
            channels, width, rate_hz = file.getnchannels(), file.getsampwidth(), file.getframerate()
            announced = file.getnframes()
            frames = file.readframes(announced)
    except (wave.Error, EOFError, ValueError, RuntimeError) as error:
        raise ToolError(
            f"not a readable WAV file ({str(error) or 'it ends too early'})",
            where=name,
            hint="Save it as 16-bit PCM, as `sox IN -b 16 OUT.wav` does",
        ) from None
    if wanted_hz not in (None, rate_hz):
        raise ToolError(
            f"is sound at {rate_hz} Hz, the model takes {wanted_hz} Hz",
            where=name,
            hint=f"Convert it, as `sox IN -r {wanted_hz} OUT.wav` does",
        )
    came = len(frames) // (width * channels)
    if came < announced and announced * width * channels < _UNKNOWN_BYTES:
        raise ToolError(
            f"not a whole WAV file (it ends after {came} of {announced} sound samples)", where=name, hint="Copy it anew"
        )
    whole = frames[: came * width * channels]
    notes = [f"{rate_hz} Hz taken as the model's rate"] if wanted_hz is None else []
    if width == 1:  # unsigned
        sound = (numpy.frombuffer(whole, numpy.uint8).astype(numpy.int16) - 128) << 8
    else:  # little endian: the upper 16 bits
        sound = numpy.frombuffer(whole, numpy.uint8).reshape(-1, width)[:, -2:].copy().view("<i2").reshape(-1)
    if width != 2:
        notes.append(f"{8 * width}-bit sound taken as 16-bit")
    if channels > 1:
        notes.append(f"{channels} channels mixed into one")
        sound = sound.reshape(-1, channels).mean(axis=1).round().astype(numpy.int16)
    return sound, rate_hz, notes
