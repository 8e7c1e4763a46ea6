# SPDX-License-Identifier: Apache-2.0
"""Files (arrays, images, sound, tables) as the bytes of a model's inputs."""

from tflm_zephyr.validation.inputs.files import read_samples
from tflm_zephyr.validation.inputs.front_end import DeviceFrontEnd, FrontEnd, HostFrontEnd
from tflm_zephyr.validation.inputs.sample import STDIN, InputOptions, Sample
