# SPDX-License-Identifier: Apache-2.0
"""What TFLM's kernel libraries ask of the arena: scratch buffers and persistent allocations, by operator.

`get("reference")` are TFLM's own kernels, `get("cmsis_nn", dsp=True)` those that Zephyr's tflite-micro module
compiles with CONFIG_TENSORFLOW_LITE_MICRO_CMSIS_NN_KERNELS. Sizes are those of tflite-micro at revision
8d404de7 and CMSIS-NN at e9328d61, the pins of Zephyr 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tflm_zephyr.errors import AppError
from tflm_zephyr.kernels import cmsis_nn, reference
from tflm_zephyr.kernels.base import CORES, Core, KernelLibrary
from tflm_zephyr.tflm import PINNED_REVISION

_BUILDERS = MappingProxyType({"cmsis_nn": cmsis_nn.build, "reference": reference.build})
# Each library for a core without extensions, as get(name) gives it.
REGISTRY: Mapping[str, KernelLibrary] = MappingProxyType({name: build(Core()) for name, build in _BUILDERS.items()})


def kernel_library(
    name: str,
    *,
    dsp: bool = False,
    mve: bool = False,
    pointer_bytes: int = 4,
    optimise_for: str = "",
    transpose_conv: bool = False,
    revision: str = "",
) -> KernelLibrary:
    """The library `name` ("reference" or "cmsis_nn") for a core; AppError for any other name.

    dsp, mve: the core has the DSP extension, Helium (CORES has them by core name). pointer_bytes: 8 for TFLM
    on a 64-bit host. For cmsis_nn: optimise_for, "speed" or "size" when the build defines
    KERNELS_OPTIMIZED_FOR_..., which Zephyr's does not; transpose_conv, True when the build takes
    kernels/cmsis_nn/transpose_conv.cc, where Zephyr's module takes the reference kernel. revision: of TFLM;
    for any but the pinned one ("" as well) sizes are those of tflite-micro 0.dev20261023, which differ for
    MEAN and SUM.
    """
    if name not in _BUILDERS:
        raise AppError(f"no kernel library '{name}'", hint=f"Choose one of {', '.join(sorted(_BUILDERS))}")
    later = revision not in ("", PINNED_REVISION)
    return _BUILDERS[name](Core(dsp or mve, mve, pointer_bytes, optimise_for, transpose_conv, later))


def on_core(name: str, core: str) -> KernelLibrary:
    """The library `name` for the core of that name; AppError for a core that is not known."""
    if core not in CORES:
        raise AppError(f"no core '{core}'", hint=f"Known are {', '.join(sorted(CORES))}")
    known = CORES[core]
    return kernel_library(name, dsp=known.dsp, mve=known.mve)


def every_core(name: str) -> tuple[KernelLibrary, ...]:
    """The library `name` for each kind of core; reference kernels are the same on all."""
    kinds = tuple(dict.fromkeys(CORES.values())) if name == "cmsis_nn" else (Core(),)
    return tuple(kernel_library(name, dsp=core.dsp, mve=core.mve) for core in kinds)


def host() -> KernelLibrary:
    """The reference kernels of TFLM on this machine: the tflite-micro package, 64 bits."""
    return kernel_library("reference", pointer_bytes=8, revision="host")
