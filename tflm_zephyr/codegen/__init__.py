# SPDX-License-Identifier: Apache-2.0
"""AppConfig -> AppSpec -> the files of a Zephyr app, in a folder on disk."""

from tflm_zephyr.codegen import app_folder
from tflm_zephyr.codegen.app_files import app_files
from tflm_zephyr.codegen.app_folder import MANIFEST, AppManifest, FileChange, load_manifest, own_path
from tflm_zephyr.codegen.arena_json import (
    INTERRUPT_BYTES,
    ArenaMeasurement,
    MeasurementTarget,
    StackMeasurement,
    data_sha256,
    dump_measurements,
    load_measurements,
    measurements_path,
    target_of,
)
from tflm_zephyr.codegen.backends import backend_of
from tflm_zephyr.codegen.backends.backend import BackendSizes, SizePart
from tflm_zephyr.codegen.backends.compiled import compiled_beside, fast_remark, more_flash_bytes
from tflm_zephyr.codegen.derived_apps import moved, with_arenas, write_copy
from tflm_zephyr.codegen.estimated_work import EstimatedWork, app_costs, estimated_work, runtime_work
from tflm_zephyr.codegen.generation import AppRequest, Generated, generate
from tflm_zephyr.codegen.held_files import load_config, with_held
from tflm_zephyr.codegen.identifiers import identifier
from tflm_zephyr.codegen.library import check_labels, library_name, render_library
from tflm_zephyr.codegen.model_facts import ModelChange, ModelFacts, TensorChange, TensorFacts, model_changes
from tflm_zephyr.codegen.prepared_model import AppKernels, PreparedModel, app_kernels, plan_request
from tflm_zephyr.codegen.recording_app import folder_of, write_recording_app
from tflm_zephyr.codegen.rendering import measures_arenas, render, render_starters, render_workflow, workflow_path
from tflm_zephyr.codegen.shared_work import SharedWork
from tflm_zephyr.codegen.spec import AppSpec, ArenaSpec, LibrarySpec, ModelSpec, ProgramSpec
