# SPDX-License-Identifier: Apache-2.0
"""The west workspace, the toolchain, and west itself."""

from __future__ import annotations

from tflm_zephyr.build import west
from tflm_zephyr.build.board_targets import in_workspace
from tflm_zephyr.build.log import LINKER_ONLY, MemoryRegion
from tflm_zephyr.build.toolchain import compiler_here, detect_toolchain
from tflm_zephyr.build.west import Build, linked_regions
from tflm_zephyr.build.workspace import Workspace, find_workspace, find_workspace_if_any

__all__ = [
    "LINKER_ONLY",
    "Build",
    "MemoryRegion",
    "Workspace",
    "compiler_here",
    "detect_toolchain",
    "find_workspace",
    "find_workspace_if_any",
    "in_workspace",
    "linked_regions",
    "west",
]
