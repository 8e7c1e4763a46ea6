# SPDX-License-Identifier: Apache-2.0
"""Our own int8 kernels: cheaper requantisation with its proof, weights laid out, the bytes that each block touches."""

from tflm_zephyr.fast_kernels.blocks import (
    PIXELS,
    Block,
    Rows,
    least_distance,
    least_distance_above,
    of_pixels,
    of_rows,
    of_windows,
)
from tflm_zephyr.fast_kernels.layout import LANES, can_join, in_lanes, in_pairs, joined_pairs
from tflm_zephyr.fast_kernels.requantisation import (
    OneFloor,
    ProofError,
    Reach,
    Scaling,
    one_floor,
    prove,
    proven,
    reach_of,
    two_floors,
)
