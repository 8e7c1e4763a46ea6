# SPDX-License-Identifier: Apache-2.0
"""The west workspace, the toolchain, and west itself."""

from tflm_zephyr.build import west
from tflm_zephyr.build.board_targets import in_workspace
from tflm_zephyr.build.doctor import Finding, diagnose, healthy
from tflm_zephyr.build.log import LINKER_ONLY, MemoryRegion
from tflm_zephyr.build.machine import survey, with_ports
from tflm_zephyr.build.toolchain import compiler_here, detect_toolchain
from tflm_zephyr.build.west import Build, linked_regions
from tflm_zephyr.build.workspace import Workspace, find_workspace, find_workspace_if_any, workspace_of
from tflm_zephyr.build.workspace_setup import Setup, carry_out, plan_setup
