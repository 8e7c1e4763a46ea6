# SPDX-License-Identifier: Apache-2.0
"""Known revisions of TFLM: the commits that Zephyr releases pin, and whose kernels were read and measured.

Apart from the data that is keyed by them, nothing else names these commits. docs/revisions.md says how to add one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tflm_zephyr.resources import has_package_data
from tflm_zephyr.tflm.zephyr_version import ZephyrVersion

PINNED_REVISION = "8d404de73acf7687831e16d88e86e4f73cfddf8e"
"""The tflite-micro of Zephyr 4.1 (February 2025), for which an app is generated where no workspace says otherwise."""

ZEPHYR_4_4_REVISION = "fcc760af130f3a595b5802cdebcc77461e54f382"
"""The tflite-micro of Zephyr 4.4 and nRF Connect SDK 3.4 (March 2026): branch zephyr-v4.4.0 of Zephyr's fork."""


@dataclass(frozen=True)
class Pins:
    """The commits of one known revision.

    tflm: commit of tflite-micro. cmsis_nn: commit of the CMSIS-NN that its tables were made with. zephyr: the release
    that pins `tflm`. tried_zephyrs: series of Zephyr whose apps were built and run with it.
    """

    tflm: str
    cmsis_nn: str
    zephyr: ZephyrVersion
    tried_zephyrs: tuple[str, ...]

    @property
    def folder(self) -> str:
        """The folder of its tables below data/."""
        return data_folder(self.tflm)


_CMSIS_NN = "e9328d612ea3ea7d0d210d3ac16ea8667c01abdd"  # branch zephyr-v7.0.0 of Zephyr's fork

KNOWN_PINS: Mapping[str, Pins] = MappingProxyType(
    {
        pins.tflm: pins
        for pins in (
            Pins(PINNED_REVISION, _CMSIS_NN, ZephyrVersion("4.1.0"), ("4.1",)),
            Pins(ZEPHYR_4_4_REVISION, _CMSIS_NN, ZephyrVersion("4.4.0"), ("4.1",)),
        )
    }
)
"""Known revisions by the commit of tflite-micro, oldest first."""

KERNEL_SIZES_FILE, BOARD_SIZES_FILE = "kernel_sizes.json", "board_sizes.json"
"""Tables of sizes in a revision's data folder; kernels.code_size and footprint.board_sizes read them."""

PINNED_ZEPHYR = KNOWN_PINS[PINNED_REVISION].zephyr
"""The Zephyr of an app that is generated without a workspace."""


def data_folder(commit: str) -> str:
    """The folder of a commit's tables below data/: its first eight digits."""
    return commit[:8]


def known_revision(commit: str, known: Sequence[str] = tuple(KNOWN_PINS)) -> str:
    """The revision of `known`, oldest first, whose facts hold or stand in for tflite-micro at `commit`.

    That is `commit` itself where it is known, PINNED_REVISION for "", and the newest for any other.
    """
    if not commit:
        return PINNED_REVISION
    return commit if commit in known else known[-1]


def sized_revision(commit: str) -> str:
    """The known revision whose tables of sizes hold or stand in for tflite-micro at `commit`.

    That is known_revision(commit) where its tables were measured, else the newest with measured tables.
    """
    wanted = (known_revision(commit), *list(KNOWN_PINS)[::-1])
    files = (KERNEL_SIZES_FILE, BOARD_SIZES_FILE)
    return next(one for one in wanted if all(has_package_data(f"{data_folder(one)}/{name}") for name in files))
