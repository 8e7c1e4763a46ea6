# SPDX-License-Identifier: Apache-2.0
"""Revisions of TFLM and of CMSIS-NN whose kernels were read, and what holds for any other.

PACKAGE is the tflite-micro package, version 0.dev20261023: TFLM itself on this machine, which tests ask. It is newer
than both pins.
"""

from __future__ import annotations

from collections.abc import Mapping

from tflm_zephyr.tflm import KNOWN_PINS, PINNED_REVISION

PACKAGE = "0.dev20261023"
REVISIONS: tuple[str, ...] = (*KNOWN_PINS, PACKAGE)
"""Known revisions of TFLM, oldest first."""

BEFORE_4_4: frozenset[str] = frozenset({PINNED_REVISION})
"""Revisions older than Zephyr 4.4's pin."""

SINCE_4_4: frozenset[str] = frozenset(REVISIONS) - BEFORE_4_4
"""Revisions from Zephyr 4.4's pin on, also those that are added later."""

CMSIS_NN_REVISION = KNOWN_PINS[PINNED_REVISION].cmsis_nn
"""The CMSIS-NN that Zephyr 4.1 pins, whose loops were read."""

# Commits of CMSIS-NN with the same functions: Arm's own commit behind Zephyr's (its tree plus Zephyr's module file),
# and the one that TFLM fcc760af downloads for its own builds, which differs by a cast in
# arm_depthwise_conv_wrapper_s8.c.
CMSIS_NN_REVISIONS: frozenset[str] = frozenset(
    {
        CMSIS_NN_REVISION,
        "22080c68d040c98139e6cb1549473e3149735f4d",
        "e096196a0c49f065abc03d943c583cd50de424ba",
    }
)


def same_cmsis_nn(commit: str) -> str:
    """The commit whose tables hold for CMSIS-NN at `commit`: CMSIS_NN_REVISION for those with the same functions."""
    return CMSIS_NN_REVISION if commit in CMSIS_NN_REVISIONS else commit


# Package versions are no commits, and no workspace holds one.
_COMMITS = frozenset(REVISIONS) - {PACKAGE}


def other_kernels(found: Mapping[str, str]) -> str:
    """The revisions in `found` whose kernels were not read, in words; "" when all were.

    found: revisions by name, "TFLM" and where its kernels are used "CMSIS-NN"; "" for one that git cannot tell.
    """
    read = {"TFLM": _COMMITS, "CMSIS-NN": CMSIS_NN_REVISIONS}
    sources = {"TFLM": [commit for commit in REVISIONS if commit in _COMMITS], "CMSIS-NN": [CMSIS_NN_REVISION]}
    return ", ".join(
        f"{name} {revision[:12] or 'of a revision that git cannot tell'}, not {_either(sources[name])}"
        for name, revision in sorted(found.items())
        if revision not in read[name]
    )


def _either(commits: list[str]) -> str:
    return " or ".join(commit[:12] for commit in commits)
