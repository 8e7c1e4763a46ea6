# SPDX-License-Identifier: Apache-2.0
"""Train the digits model: `pip install '.[train]'`, then `python samples/digits/train.py`.

Writes beside itself digits.tflite (8x8 grey image in, ten scores out, int8 throughout) and test.npz: the
450 images held out of scikit-learn's load_digits (x, int8 as the model takes them, and y, their digits).
Nothing about the training is chosen by the held-out images: they are used once, to print the accuracy.
"""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.writer import aligned

HERE = Path(__file__).resolve().parent
SEED = 1
HELD_OUT = 450
EPOCHS = 60
BATCH = 32
GREY_MAX = 16.0  # load_digits counts 0 to 16 inked pixels of a 4x4 block


def network(batch: int | None) -> keras.Model:
    """A small CNN of the operators that most image models for microcontrollers are made of."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((8, 8, 1), batch_size=batch, name="image"),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.DepthwiseConv2D(3, padding="same", activation="relu"),
            layers.Conv2D(24, 1, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.3),
            # A convolution over the 2x2 that is left, not a dense layer: LiteRT's and TFLM's reference
            # kernels round a dense layer's outputs differently, a convolution's alike to the bit.
            layers.Conv2D(10, 2),
            layers.Flatten(),
            layers.Softmax(name="scores"),
        ]
    )


def shifted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each image moved by up to one pixel in either direction, empty pixels coming in."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    moves = rng.integers(0, 3, (len(images), 2))
    return np.stack([image[dy : dy + 8, dx : dx + 8] for image, (dy, dx) in zip(padded, moves, strict=True)])


def trained(images: np.ndarray, labels: np.ndarray) -> keras.Model:
    """The network after EPOCHS passes, every second one over shifted copies."""
    # A fixed batch of 1 is what the converted model has; training takes the same layers at any batch.
    fixed, free = network(1), network(None)
    schedule = keras.optimizers.schedules.CosineDecay(2e-3, EPOCHS * -(-len(images) // BATCH))
    free.compile(keras.optimizers.Adam(schedule), "sparse_categorical_crossentropy")
    rng = np.random.default_rng(SEED)
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))
        x = shifted(images[order], rng) if epoch % 2 else images[order]
        free.fit(x, labels[order], batch_size=BATCH, shuffle=False, verbose=0)
    fixed.set_weights(free.get_weights())
    return fixed


def converted(model: keras.Model, images: np.ndarray) -> bytes:
    """The .tflite of `model`: int8 weights, activations, input and output, calibrated on `images`."""
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([image[np.newaxis]] for image in images)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = tf.int8
    converter.inference_output_type = tf.int8
    # The converter does not keep the 16-byte alignment of weights that the format asks for.
    return aligned(parse_model(bytes(converter.convert())))


def interpreter(model: bytes) -> tf.lite.Interpreter:
    """LiteRT's reference kernels, as they come with TensorFlow."""
    kernels = tf.lite.experimental.OpResolverType.BUILTIN_REF
    found = tf.lite.Interpreter(model_content=model, experimental_op_resolver_type=kernels)
    found.allocate_tensors()
    return found


def main() -> None:
    """Train, convert, write, and say how many held-out images the int8 model gets right."""
    keras.utils.set_random_seed(SEED)
    tf.config.experimental.enable_op_determinism()
    digits = load_digits()
    images = (digits.images / GREY_MAX).astype(np.float32)[..., np.newaxis]
    train_x, test_x, train_y, test_y = train_test_split(
        images, digits.target, test_size=HELD_OUT, random_state=SEED, stratify=digits.target
    )
    model = converted(trained(train_x, train_y), train_x[:500])
    (HERE / "digits.tflite").write_bytes(model)

    engine = interpreter(model)
    given, scores = engine.get_input_details()[0], engine.get_output_details()[0]
    scale, zero_point = given["quantization"]
    x = np.clip(np.round(test_x / np.float32(scale)) + zero_point, -128, 127).astype(np.int8)
    np.savez_compressed(HERE / "test.npz", x=x, y=test_y.astype(np.uint8))
    right = 0
    for image, label in zip(x, test_y, strict=True):
        engine.set_tensor(given["index"], image[np.newaxis])
        engine.invoke()
        right += int(engine.get_tensor(scores["index"]).argmax() == label)
    print(f"{len(model)} bytes, {right} of {len(x)} held-out images right ({right / len(x):.2%})")


if __name__ == "__main__":
    main()
