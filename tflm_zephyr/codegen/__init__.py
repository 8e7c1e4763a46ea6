# SPDX-License-Identifier: Apache-2.0
"""AppConfig -> AppSpec -> the files of a Zephyr app, in a folder on disk."""

from __future__ import annotations

from tflm_zephyr.codegen import app_file, app_folder
from tflm_zephyr.codegen.app_file import AppConfig, ModelConfig, PreallocatedConfig
from tflm_zephyr.codegen.app_folder import MANIFEST, AppManifest, FileChange, load_manifest
from tflm_zephyr.codegen.arena_json import (
    INTERRUPT_BYTES,
    NAME,
    ArenaMeasurement,
    MeasurementTarget,
    StackMeasurement,
    data_sha256,
    dump_measurements,
    load_measurements,
    target_of,
)
from tflm_zephyr.codegen.backends import backend_of
from tflm_zephyr.codegen.backends.backend import BackendSizes, SizePart
from tflm_zephyr.codegen.derived_apps import moved, with_arenas, write_copy
from tflm_zephyr.codegen.generation import Generated, generate
from tflm_zephyr.codegen.identifiers import identifier
from tflm_zephyr.codegen.library import check_labels, library_name, render_library
from tflm_zephyr.codegen.prepared_model import AppKernels, PreparedModel, app_kernels, plan_request
from tflm_zephyr.codegen.recording_app import folder_of, write_recording_app
from tflm_zephyr.codegen.rendering import render, render_workflow, workflow_path
from tflm_zephyr.codegen.spec import AppSpec, ArenaSpec, LibrarySpec, ModelSpec, Runtime

__all__ = [
    "INTERRUPT_BYTES",
    "MANIFEST",
    "NAME",
    "AppConfig",
    "AppKernels",
    "AppManifest",
    "AppSpec",
    "ArenaMeasurement",
    "ArenaSpec",
    "BackendSizes",
    "FileChange",
    "Generated",
    "LibrarySpec",
    "MeasurementTarget",
    "ModelConfig",
    "ModelSpec",
    "PreallocatedConfig",
    "PreparedModel",
    "Runtime",
    "SizePart",
    "StackMeasurement",
    "app_file",
    "app_folder",
    "app_kernels",
    "backend_of",
    "check_labels",
    "data_sha256",
    "dump_measurements",
    "folder_of",
    "generate",
    "identifier",
    "library_name",
    "load_manifest",
    "load_measurements",
    "moved",
    "plan_request",
    "render",
    "render_library",
    "render_workflow",
    "target_of",
    "with_arenas",
    "workflow_path",
    "write_copy",
    "write_recording_app",
]
