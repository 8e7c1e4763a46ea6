# SPDX-License-Identifier: Apache-2.0
"""ELF file and linker map -> flash and RAM by part; estimates and the verdict before a build."""

from tflm_zephyr.footprint import attribution
from tflm_zephyr.footprint.built_app import BuiltApp, Bytes, load_built_app
from tflm_zephyr.footprint.estimate import CLOSE, NO, UNKNOWN, YES, RegionEstimate, Runs, Verdict, verdict
from tflm_zephyr.footprint.fit_remedies import BoardFit, OwnBuffer, Remedy, own_buffer, remedies
from tflm_zephyr.footprint.kernel_origin import CMSIS_NN, OWN, Kernel, LinkedKernels, linked_kernels
from tflm_zephyr.footprint.measurement import BY_MAP, Footprint, Row, changes, find_elf, load_footprint
from tflm_zephyr.footprint.ways import (
    BESIDE_ARENA_BYTES,
    SPEED,
    Way,
    added_bytes,
    all_ways,
    generate_within,
    quick_ways,
    recommended,
    sizes,
    way_of,
    ways_into,
)
