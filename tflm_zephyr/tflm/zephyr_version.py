# SPDX-License-Identifier: Apache-2.0
"""The version of Zephyr that an app is generated for, and its entries in the app's west manifest."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RELEASE = re.compile(r"\d+\.\d+\.\d+(-rc\d+)?")
_IN_DEVELOPMENT = 99  # the PATCHLEVEL of Zephyr between two releases
_MODULES_4_1 = (
    "cmsis", "cmsis-nn", "cmsis_6", "hal_nordic", "mbedtls", "mcuboot", "picolibc", "tflite-micro",
    "trusted-firmware-m",
)  # fmt: skip
# Mbed TLS 4 has its cryptography in a module of its own.
_MODULES = {"4.1": _MODULES_4_1, "4.4": tuple(sorted((*_MODULES_4_1, "tf-psa-crypto")))}


@dataclass(frozen=True)
class ZephyrVersion:
    """`version` as Zephyr's VERSION file gives it ("4.1.0"), `commit` the checkout's, "" when not known.

    `ncs`: the version of the nRF Connect SDK ("3.4.0") that it belongs to, "" for Zephyr's own.
    """

    version: str
    commit: str = ""
    ncs: str = ""

    @property
    def released(self) -> bool:
        """Whether Zephyr has a tag for it."""
        return bool(_RELEASE.fullmatch(self.version)) and not self.version.endswith(f".{_IN_DEVELOPMENT}")

    @property
    def revision(self) -> str:
        """The `revision:` of a west manifest: a release's tag, or the commit of a tree between two releases."""
        return f"v{self.version}" if self.released or not self.commit else self.commit

    @property
    def modules(self) -> tuple[str, ...]:
        """The projects of its manifest that a described board's app needs; empty for all where that was not read."""
        return _MODULES.get(self.series, ())

    @property
    def series(self) -> str:
        """The series: "4.1" for "4.1.0" and its patch releases; a version in development is its own series."""
        series, _, patch = self.version.rpartition(".")
        return self.version if patch == str(_IN_DEVELOPMENT) else series
