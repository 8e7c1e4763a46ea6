# SPDX-License-Identifier: Apache-2.0
"""Train the sine model: `pip install '.[train]'`, then `python samples/hello_world/train.py`.

Writes beside itself hello_world.tflite (an angle in, its sine out, int8 throughout) and test.npz: 64 angles
from 0 to 2 pi (x, float32) and their sines (y, float32). The angles that it is trained on are others.
"""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.writer import aligned

HERE = Path(__file__).resolve().parent
SEED = 1
EPOCHS = 400
BATCH = 32
TRAIN, HELD_OUT = 1000, 64


def network(batch: int | None) -> keras.Model:
    """Two hidden layers of 16, enough for one period."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((1,), batch_size=batch, name="angle"),
            layers.Dense(16, activation="relu"),
            layers.Dense(16, activation="relu"),
            layers.Dense(1, name="sine"),
        ]
    )


def trained(x: np.ndarray, y: np.ndarray) -> keras.Model:
    """The network after EPOCHS passes."""
    # A fixed batch of 1 is what the converted model has; training takes the same layers at any batch.
    fixed, free = network(1), network(None)
    schedule = keras.optimizers.schedules.CosineDecay(5e-3, EPOCHS * -(-len(x) // BATCH))
    free.compile(keras.optimizers.Adam(schedule), "mse")
    free.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0)
    fixed.set_weights(free.get_weights())
    return fixed


def converted(model: keras.Model, angles: np.ndarray) -> bytes:
    """The .tflite of `model`: int8 weights, activations, input and output, calibrated on `angles`."""
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([angle[np.newaxis]] for angle in angles)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = tf.int8
    converter.inference_output_type = tf.int8
    # One scale for a dense layer's weights is what every TFLM revision takes.
    converter._experimental_disable_per_channel_quantization_for_dense_layers = True
    # The converter does not keep the 16-byte alignment of weights that the format asks for.
    return aligned(parse_model(bytes(converter.convert())))


def main() -> None:
    """Train, convert, write, and say how far from the sine the int8 model is on the held-out angles."""
    keras.utils.set_random_seed(SEED)
    tf.config.experimental.enable_op_determinism()
    rng = np.random.default_rng(SEED)
    x = rng.uniform(0, 2 * np.pi, (TRAIN, 1)).astype(np.float32)
    calibration = np.linspace(0, 2 * np.pi, 1000, dtype=np.float32)[:, np.newaxis]
    model = converted(trained(x, np.sin(x)), calibration)
    (HERE / "hello_world.tflite").write_bytes(model)

    test_x = np.linspace(0, 2 * np.pi, HELD_OUT, dtype=np.float32)[:, np.newaxis]
    np.savez_compressed(HERE / "test.npz", x=test_x, y=np.sin(test_x))
    kernels = tf.lite.experimental.OpResolverType.BUILTIN_REF
    engine = tf.lite.Interpreter(model_content=model, experimental_op_resolver_type=kernels)
    engine.allocate_tensors()
    given, sine = engine.get_input_details()[0], engine.get_output_details()[0]
    errors = []
    for angle in test_x:
        scale, zero_point = given["quantization"]
        value = np.clip(np.round(angle / np.float32(scale)) + zero_point, -128, 127).astype(np.int8)
        engine.set_tensor(given["index"], value[np.newaxis])
        engine.invoke()
        scale, zero_point = sine["quantization"]
        raw = int(engine.get_tensor(sine["index"])[0, 0])
        errors.append(abs(scale * (raw - zero_point) - float(np.sin(angle[0]))))
    print(f"{len(model)} bytes, error on {len(errors)} held-out angles: mean {np.mean(errors):.4f}", end=", ")
    print(f"largest {max(errors):.4f}")


if __name__ == "__main__":
    main()
