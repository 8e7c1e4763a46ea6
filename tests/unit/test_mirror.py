# SPDX-License-Identifier: Apache-2.0
"""tests/unit mirrors the package: a module's tests are in the file of its name, or in a neighbour's, named here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.helpers.checkout import ROOT
from tests.helpers.rooms import MODULES

UNIT = ROOT / "tests" / "unit"
NEIGHBOURS: Mapping[str, str] = {
    # A step of the plan that the file's own module makes, with nothing to call by itself.
    "arena.head": "arena.candidate_offsets arena.simulation arena.arena_size",
    "arena.arena_plan": "arena.given_offsets arena.requests",
    "arena.in_place_pairs": "arena.in_place_check",
    "arena.scheduling": "arena.schedule_costs",
    "codegen.shared_arena": "arena.shared_arena",
    "codegen.backends.interpreter_model": "arena.static_plan",
    "arena.preallocated": "codegen.preallocated_buffers",
    "memory_planner.packing": "memory_planner.skyline memory_planner.time_sections",
    "compiler.hop_plan": "compiler.hop_proof compiler.hop_work",
    "row_planner.schedule": "row_planner.chain",
    # What a workspace or a machine has, seen by the command that asks for it.
    "build.devicetree": "build.board_targets",
    "build.doctor": "build.machine cli.report.doctor",
    "cli.commands.setup": "build.workspace_setup",
    # Options and texts of commands, seen on the command line.
    "cli.main": "cli.device_options cli.machine_options cli.options cli.version cli.commands.boards"
    " cli.commands.device cli.commands.host cli.commands.outcome cli.commands.footprint"
    " __main__",
    "cli.commands.generate": "cli.app_options cli.commands.configuration cli.commands.app_writing cli.report.front",
    "cli.commands.plan": "cli.report.hops",
    "codegen.library": "cli.commands.library",
    "options.table": "options.option",
    "validation.evaluation.running": "cli.commands.evaluate cli.report.evaluate validation.evaluation.data"
    " validation.evaluation.pool validation.evaluation.state",
    "validation.profile": "cli.commands.profile cli.report.profile",
    "page.html": "cli.commands.report page.bundle page.views",
    "validation.verification": "cli.commands.targets cli.commands.verify cli.report.verify validation.divergence",
    "cli.commands.budget": "cli.report.budget",
    "cli.commands.fit": "cli.commands.fit_into cli.report.fit",
    "cli.commands.infer": "cli.report.infer validation.labels",
    "cli.commands.inspect": "cli.report.inspect",
    "cli.commands.retraining": "cli.report.update",
    "cli.commands.size": "cli.report.size",
    "cli.report.text": "cli.report.boards cli.report.compare cli.report.words",
    "footprint.kernel_origin": "cli.report.kernels",
    "footprint.measurement": "cli.report.footprint footprint.attribution footprint.byte_owners footprint.elf"
    " footprint.link_map",
    "footprint.estimate": "footprint.size_tables",
    "footprint.ways": "codegen.estimated_work",
    # The parts of a generated app, each seen in its files.
    "codegen.app_folder": "codegen.app_files",
    "codegen.generation": "codegen.custom_operators codegen.derived_apps codegen.model_spec codegen.prepared_model"
    " codegen.stack_size codegen.tensor_interface codegen.backends.interpreter",
    "codegen.rendering": "codegen.spec codegen.backends.interpreter_spec",
    "codegen.backends.compiled": "codegen.backends.fallback_kernels codegen.backends.layer_code",
    # A compiled model is made, planned and proved as a whole; its operators run against TFLM in tests/zephyr.
    "compiler.compilation": "compiler.flattening compiler.layer_builder compiler.memory_plan compiler.program"
    " compiler.operators.convolution compiler.operators.joining compiler.operators.layout compiler.operators.pooling"
    " compiler.operators.resize compiler.operators.weights",
    "compiler.operators.dense": "compiler.operators.matmul",
    "compiler.operators.slicing": "compiler.copies",
    "compiler.operators.rectifiers": "compiler.operators.activation compiler.lookup_tables",
    "compiler.row_plan": "compiler.row_program",
    "compiler.registry": "compiler.lowering",
    # Values, and what is printed of them.
    "compiler.ir.layers": "compiler.ir.calls compiler.ir.rows",
    "codegen.backends.cxx": "compiler.ir.kernels compiler.ir.operands compiler.ir.row_operands compiler.ir.structs",
    "compiler.plan_proof": "compiler.owned_bytes compiler.row_proof",
    "costs.table": "costs.counts costs.mean_prices costs.operator_counts costs.shapes",
    "compiler.work": "compiler.operator_shapes",
    # Both ends of a link are needed to see either.
    "device.console.records": "device.console.fields device.console.reader device.console.result device.console.status"
    " device.readable",
    "device.session.device_session": "device.protocol.messages device.session.base device.session.channel"
    " device.session.console_text device.session.model_requests device.session.model_tables"
    " device.session.paused_run device.session.refusals",
    "device.session.opening": "device.session.host_session device.transport.registry"
    " device.transport.routing device.transport.target",
    "device.transport.native": "device.transport.child device.transport.link",
    "host.run": "host.child",
    # Facts of operators, each checked for all operators by cases of tests/helpers/operator_models.py.
    "kernels.libraries": "kernels.cmsis_nn_sizes kernels.core kernels.library kernels.node kernels.quantisation"
    " kernels.registry kernels.spec kernels.operators.custom kernels.operators.recurrent kernels.operators.signal"
    " kernels.operators.control_flow",
    "kernels.type_rules": "kernels.revisions",
    "kernels.in_place.tensors": "kernels.in_place.last_readers kernels.in_place.rules kernels.operators.activations"
    " kernels.operators.convolution kernels.operators.elementwise kernels.operators.fully_connected"
    " kernels.operators.joining kernels.operators.padding kernels.operators.pooling kernels.operators.reductions"
    " kernels.operators.reshape kernels.operators.resize kernels.operators.transposition",
    "kernels.in_place.checker": "kernels.in_place.runs",
    # Files and formats, read by their one reader.
    "model.reader": "model.flatbuffer model.schema model.types",
    "model.writer": "model.flatbuffer_edit",
    "page.front_picture": "page.drawing",
    "page.comparison": "page.markdown",
    "boards.board": "resources",
    "tensors.dataset": "tensors.array_files tensors.quantisation validation.accuracy",
    "tflm.revision": "tflm.pins",
    "arena.tail": "tflm.struct_sizes",
    "validation.inputs.audio": "validation.inputs.front_end",
    "validation.inputs.files": "validation.inputs.sample validation.inputs.table",
}
"""Modules that the file of another one tests, by the name of the module or test file that has them."""
ACROSS = {
    "benchmarks and documents": "test_imports test_licences test_lock test_mirror test_packaging test_pictures"
    " test_readme test_rooms_picture test_structure test_style test_workflows",
    "several commands": "cli.test_hostile_models cli.test_same_numbers",
    "templates": "cmake.test_link cmake.test_tflm_model codegen.test_cmake codegen.test_golden_trees"
    " codegen.test_integrity codegen.backends.test_rows_app device.session.test_mlperf page.test_in_browser",
    "a device that does harm": "device.session.test_faults device.session.test_lies",
}
"""Test files of no module, by what they are about."""


def file_of(name: str) -> Path:
    """The test file of a module."""
    *folders, last = name.split(".")
    return UNIT.joinpath(*folders, f"test_{last}.py")


def module_of(path: Path) -> str:
    """The module that a test file is named after, which may not be there."""
    *folders, last = path.relative_to(UNIT).with_suffix("").parts
    return ".".join((*folders, last.removeprefix("test_")))


MODULE_NAMES = {name for name, path in MODULES.items() if path.name != "__init__.py"}
LISTED = [name for names in NEIGHBOURS.values() for name in names.split()]


def test_each_module_has_its_tests() -> None:
    missing = sorted(name for name in MODULE_NAMES - set(LISTED) if not file_of(name).is_file())
    assert not missing, "no test file of their name in tests/unit, nor a neighbour's in test_mirror.py:\n" + "\n".join(
        missing
    )


def test_the_list_names_modules_without_a_file_of_their_own() -> None:
    gone = [name for name in LISTED if name not in MODULE_NAMES]
    own = [name for name in LISTED if name in MODULE_NAMES and file_of(name).is_file()]
    lost = [name for name in NEIGHBOURS if not file_of(name).is_file()]
    assert not (gone or own or lost), f"take from the list: gone {gone}, with a file {own}; neighbours lost: {lost}"
    assert len(LISTED) == len(set(LISTED))


def test_each_test_file_is_a_modules() -> None:
    across = {file for files in ACROSS.values() for file in files.split()}
    others = {
        ".".join(path.relative_to(UNIT).with_suffix("").parts)
        for path in UNIT.rglob("test_*.py")
        if module_of(path) not in MODULE_NAMES and not is_room(module_of(path))
    }
    assert others == across


def is_room(name: str) -> bool:
    return name in MODULES and name not in MODULE_NAMES
