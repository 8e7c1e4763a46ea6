# SPDX-License-Identifier: Apache-2.0
"""Train the vibration model: `pip install '.[train]'`, then `python samples/vibration_monitor/train.py`.

The data are simulated: no machine was measured. `simulated` has the harmonics of the shaft's speed that a fault raises,
as vibration diagnosis describes them (ISO 13373-3:2015), with speed, severity, noise and mounting at random.

Writes beside itself vibration.tflite (256 accelerations of three axes in, five scores out, int8 throughout), test.npz
(x, windows as the model takes them, and y, their states) and src/machine.bin: four seconds of each state for the
emulated sensor. The windows of the test and the recordings come from machines that the model was not trained on.
"""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.writer import aligned

HERE = Path(__file__).resolve().parent
STATES = tuple((HERE / "labels.txt").read_text().split())
SEED = 1
RATE_HZ = 400
WINDOW = 256
FULL_SCALE_G = 1.0  # the model's input saturates there; gravity is taken off first
TRAIN, HELD_OUT = 1600, 40  # windows a state
RECORDED_SECONDS = 4
EPOCHS = 40
BATCH = 64


def simulated(state: str, seconds: float, rng: np.random.Generator, *, whole_turns: bool = False) -> np.ndarray:
    """Acceleration in g of a machine in `state`, [samples, 3]: x and y across the shaft, z along it.

    whole_turns: the shaft makes a whole number of turns a second, so that a recording of an even number of seconds can
    be repeated without a step.
    """
    time = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    speed = rng.uniform(18.0, 32.0)
    if whole_turns:
        speed = round(speed)
    tilt = np.radians(rng.uniform(-10.0, 10.0, 2))
    gravity = np.array([np.sin(tilt[0]), np.sin(tilt[1]), -np.cos(tilt[0]) * np.cos(tilt[1])])
    noise = rng.uniform(0.004, 0.02) if state == "off" else rng.uniform(0.01, 0.06)
    signal = gravity + rng.normal(0.0, noise, (len(time), 3))
    if state == "off":
        return signal

    def harmonic(order: float, radial: float, axial: float) -> np.ndarray:
        """One harmonic: x and y are a quarter of a turn apart, give or take."""
        phase = rng.uniform(0, 2 * np.pi)
        quarter = phase - np.pi / 2 + rng.normal(0.0, 0.3)
        angle = 2 * np.pi * order * speed * time
        scale_y = rng.uniform(0.7, 1.3)
        along = np.cos(angle + rng.uniform(0, 2 * np.pi))
        across = [radial * np.cos(angle + phase), scale_y * radial * np.cos(angle + quarter)]
        return np.stack([*across, axial * along], axis=1)

    # Each machine has a little of everything.
    first, first_axial = rng.uniform(0.02, 0.12), rng.uniform(0.0, 0.04)
    second, second_axial = rng.uniform(0.005, 0.04), rng.uniform(0.0, 0.03)
    if state == "unbalance":
        first = rng.uniform(0.14, 0.7)
    elif state == "misalignment":
        second, second_axial = rng.uniform(0.06, 0.45), rng.uniform(0.04, 0.3)
        first_axial = rng.uniform(0.05, 0.2)
    signal += harmonic(1, first, first_axial) + harmonic(2, second, second_axial)
    signal += harmonic(3, rng.uniform(0.0, 0.02), rng.uniform(0.0, 0.01))
    if state == "looseness":
        level = rng.uniform(0.04, 0.25)
        for order in (0.5, 1, 1.5, 2, 2.5, 3, 4, 5):
            share = rng.uniform(0.3, 1.0) * level
            signal += harmonic(order, share, 0.4 * share)
    return signal


def window_of(signal: np.ndarray) -> np.ndarray:
    """A model's input: the window without its mean, [1, WINDOW, 3], limited to the model's range."""
    return np.clip(signal - signal.mean(axis=0), -FULL_SCALE_G, FULL_SCALE_G)[np.newaxis].astype(np.float32)


def windows(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """`count` windows of each state, each of another machine, and their states' numbers."""
    x = [window_of(simulated(state, WINDOW / RATE_HZ, rng)) for state in STATES for _ in range(count)]
    return np.stack(x), np.repeat(np.arange(len(STATES)), count)


def network(batch: int | None) -> keras.Model:
    """Three strided convolutions along time, a mean over time, and the scores."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((1, WINDOW, 3), batch_size=batch, name="acceleration"),
            layers.Conv2D(12, (1, 16), strides=(1, 4), padding="same", activation="relu"),
            layers.Conv2D(16, (1, 8), strides=(1, 2), padding="same", activation="relu"),
            layers.Conv2D(24, (1, 5), strides=(1, 2), padding="same", activation="relu"),
            layers.AveragePooling2D((1, 16)),
            layers.Dropout(0.2),
            # A convolution, not a dense layer: LiteRT and TFLM round it alike.
            layers.Conv2D(len(STATES), 1),
            layers.Flatten(),
            layers.Softmax(name="scores"),
        ]
    )


def trained(x: np.ndarray, y: np.ndarray) -> keras.Model:
    """The network after EPOCHS passes."""
    # A fixed batch of 1 is what the converted model has; training takes the same layers at any batch.
    fixed, free = network(1), network(None)
    schedule = keras.optimizers.schedules.CosineDecay(3e-3, EPOCHS * -(-len(x) // BATCH))
    free.compile(keras.optimizers.Adam(schedule), "sparse_categorical_crossentropy")
    free.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0)
    fixed.set_weights(free.get_weights())
    return fixed


def converted(model: keras.Model, x: np.ndarray) -> bytes:
    """The .tflite of `model`: int8 weights, activations, input and output, calibrated on `x`."""
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([window[np.newaxis]] for window in x)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = tf.int8
    converter.inference_output_type = tf.int8
    # The converter does not keep the 16-byte alignment of weights that the format asks for.
    return aligned(parse_model(bytes(converter.convert())))


def right(model: bytes, x: np.ndarray, y: np.ndarray) -> int:
    """How many windows LiteRT's reference kernels put into the state `y`."""
    kernels = tf.lite.experimental.OpResolverType.BUILTIN_REF
    engine = tf.lite.Interpreter(model_content=model, experimental_op_resolver_type=kernels)
    engine.allocate_tensors()
    given, scores = engine.get_input_details()[0], engine.get_output_details()[0]
    count = 0
    for window, state in zip(x, y, strict=True):
        engine.set_tensor(given["index"], window[np.newaxis])
        engine.invoke()
        count += int(engine.get_tensor(scores["index"]).argmax() == state)
    return count


def quantized(model: bytes, x: np.ndarray) -> np.ndarray:
    """`x` in the type of the model's input."""
    engine = tf.lite.Interpreter(model_content=model)
    scale, zero_point = engine.get_input_details()[0]["quantization"]
    return np.clip(np.round(x / np.float32(scale)) + zero_point, -128, 127).astype(np.int8)


def main() -> None:
    """Train, convert, write, and say how many held-out windows the int8 model gets right."""
    keras.utils.set_random_seed(SEED)
    tf.config.experimental.enable_op_determinism()
    rng = np.random.default_rng(SEED)
    x, y = windows(TRAIN, rng)
    order = rng.permutation(len(x))
    x, y = x[order], y[order]
    model = converted(trained(x, y), x[:500])
    (HERE / "vibration.tflite").write_bytes(model)

    rng = np.random.default_rng(SEED + 1)
    test_x, test_y = windows(HELD_OUT, rng)
    test_x = quantized(model, test_x)
    np.savez_compressed(HERE / "test.npz", x=test_x, y=test_y.astype(np.uint8))
    recorded = [simulated(state, RECORDED_SECONDS, rng, whole_turns=True) for state in STATES]
    (HERE / "src" / "machine.bin").write_bytes(np.round(1000 * np.stack(recorded)).astype("<i2").tobytes())
    count = right(model, test_x, test_y)
    print(f"{len(model)} bytes, {count} of {len(test_x)} held-out windows right ({count / len(test_x):.2%})")


if __name__ == "__main__":
    main()
