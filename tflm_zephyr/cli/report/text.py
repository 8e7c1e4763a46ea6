# SPDX-License-Identifier: Apache-2.0
"""Text and JSON of `generate`, `build` and `run`. Numbers without a unit are bytes."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflm_zephyr.cli.report.plan import arena_json
from tflm_zephyr.cli.report.words import count, first_values
from tflm_zephyr.model import TensorType

if TYPE_CHECKING:
    from tflm_zephyr.build import Build
    from tflm_zephyr.codegen import FileChange, Generated, PreparedModel
    from tflm_zephyr.device.console import RunResult, SelfTestRun
    from tflm_zephyr.host import TailSection
    from tflm_zephyr.validation import Accuracy, Deviation


@dataclass(frozen=True)
class NextStep:
    """The board to build for, "" where the app fits none, and whether there is a workspace to build in.

    `unknown`: without a board to build for, one that the app may fit if there is such a board at all.
    """

    board: str = ""
    workspace: bool = True
    unknown: str = ""


def generated(
    app: Path,
    made: Generated,
    change: FileChange,
    workflow: Path | None,
    step: NextStep,
    fits: Sequence[str] = (),
    update: Sequence[str] = (),
) -> str:
    """Shown after `generate`. `fits`: a line for each board's verdict; `update`: changes of an app that was there."""
    spec = made.spec
    lines = [f"App {spec.name} in {app}: {_changes(change)}.", *update]
    for model, item in zip(spec.models, made.prepared, strict=True):
        lines.append(
            f"  {model.name}: {_size(model.runtime.flash_bytes)}, {count(len(model.runtime.kernel_names), 'operator')} "
            f"({', '.join(model.runtime.kernel_names)})"
        )
        lines.append(f"    arena {model.arena.bytes} bytes, {model.arena.source}: {model.arena.note}")
        lines.append(f"    head {_head(item, model.runtime.fixed_head_bytes)}")
        if model.golden:
            lines.append(f"    self-test: {count(len(model.golden), 'run')}, reference {model.golden_source}")
    lines += [f"  {'' if note.startswith('warning: ') else 'note: '}{note}" for note in made.notes]
    if change.outdated:
        fresh = f"tflm-zephyr generate --app {shlex.quote(str(app / 'tflm' / 'app.yaml'))} -o NEW"
        lines.append(
            f"  note: these files are yours and were left as they are: {', '.join(change.outdated)}. Written anew they "
            f"would differ from before: compare with `{fresh}`"
        )
    lines += fits
    if workflow is not None:
        lines.append(f"  CI workflow: {workflow}")
        if workflow.parent.name == ".gitlab":
            lines.append(f"    in .gitlab-ci.yml: include: [{{local: .gitlab/{workflow.name}}}]")
    if any(char.isspace() for char in str(app.resolve())):
        lines.append("  note: Zephyr's Kconfig step fails on a path with a space; move the app before you build it")
    return "\n".join([*lines, f"Next: {_next(step, shlex.quote(str(app)))}"])


def _next(step: NextStep, folder: str) -> str:
    if step.unknown:
        return (
            "tflm-zephyr setup DIR makes a workspace, "
            f"then tflm-zephyr generate -o {folder} --workspace DIR tells whether there is a board {step.unknown}"
        )
    if not step.board:
        return f"the app fits none of its boards; tflm-zephyr fit --app {folder}/tflm/app.yaml shows why"
    build = f"tflm-zephyr build {folder} --board {step.board}"
    if not step.workspace:
        return f"tflm-zephyr setup DIR makes a workspace, then {build} --workspace DIR"
    return f"{build}, or west build -b {step.board} {folder}"


def _changes(change: FileChange) -> str:
    done = [count(len(change.written) + len(change.edited), "file") + " written"]
    if change.unchanged:
        done.append(f"{len(change.unchanged)} unchanged")
    if change.removed:
        done.append(f"{len(change.removed)} removed")
    if change.edited:
        done.append(f"your edits kept as .orig: {', '.join(change.edited)}")
    return ", ".join(done)


def _head(item: PreparedModel, fixed_bytes: int | None) -> str:
    head = item.head
    if fixed_bytes is not None:
        return f"{fixed_bytes}, from a table in the app"
    if not item.planned:
        return f"{head.head_bytes}, placed by TFLM itself"
    return f"{head.head_bytes}, planned offline (TFLM's own placing: {head.greedy_bytes})"


def app_json(made: Generated) -> dict[str, Any]:
    """The app that was generated."""
    return {
        "app": made.spec.name,
        "boards": [board.name for board in made.spec.boards],
        "kernels": list(made.spec.kernels),
        "tflm_revision": made.spec.tflm.revision,
        "models": [
            {
                "name": model.ident,
                "sha256": model.sha256,
                "model_bytes": model.runtime.flash_bytes,
                **model.runtime.report(),
                "arena": asdict(model.arena),
                "head": arena_json(item.plan),
                "offline_plan": item.planned,
                "golden": {"runs": len(model.golden), "source": model.golden_source},
            }
            for model, item in zip(made.spec.models, made.prepared, strict=True)
        ],
        "notes": list(made.notes),
    }


def check(app: Path, change: FileChange) -> str:
    """Shown after `generate --check`."""
    if not change.stale:
        return f"{app} is up to date ({count(len(change.unchanged), 'file')})."
    lines = [f"{app} is stale:"]
    lines += [f"  out of date: {path}" for path in change.written]
    lines += [f"  edited by hand: {path}" for path in change.edited]
    lines += [f"  no longer generated: {path}" for path in change.removed]
    return "\n".join(lines)


def change_json(app: Path, change: FileChange) -> dict[str, Any]:
    """The files that were or would be written."""
    return {"folder": str(app), "stale": change.stale, **asdict(change)}


def built(build: Build) -> str:
    """Shown after `build`."""
    here = Path.cwd()
    lines = [f"Built {build.elf.relative_to(here) if build.elf.is_relative_to(here) else build.elf}"]
    for region in build.memory_regions:
        share = 100 * region.used_bytes / region.size_bytes if region.size_bytes else 0.0
        lines.append(f"  {region.name:<8} {region.used_bytes:>9} of {region.size_bytes} bytes ({share:.1f} %)")
    lines += [f"  warning: {text}" for text in build.warnings]
    return "\n".join(lines)


def built_json(build: Build) -> dict[str, Any]:
    """A build."""
    return {
        "elf": str(build.elf),
        "board": build.board,
        "log": str(build.log),
        "footprint": [asdict(region) for region in build.memory_regions],
        "warnings": build.warnings,
    }


Scales = Mapping[str, "Sequence[tuple[float, int] | None]"]


def results(found: Sequence[RunResult], scales: Scales) -> str:
    """Shown after `run`: each model's self-test. `scales` has (scale, zero point) by model and output."""
    return "\n".join(line for result in found for line in _result(result, scales[result.model]))


def results_json(found: Sequence[RunResult], scales: Scales) -> dict[str, Any]:
    """Results with each output's real values beside its bytes."""
    plain = []
    for result in found:
        entry = result.to_json()
        for run, invocation in zip(entry["runs"], result.runs, strict=True):
            for output, raw in zip(run["outputs"], invocation.outputs, strict=True):
                output["values"] = real_values(raw.type, raw.data, scales[result.model][raw.index])
        plain.append(entry)
    return {"results": plain}


def _result(result: RunResult, scales: Sequence[tuple[float, int] | None]) -> Iterable[str]:
    verdict = {"pass": "passed", "fail": "FAILED", "none": "has no reference"}[result.status]
    yield f"{result.model} on {result.board} ({result.link}, {result.kernels} kernels): self-test {verdict}"
    versions = f"TFLM {result.tflm[:12] if len(result.tflm) == 40 else result.tflm}"
    yield f"  {versions}{f', Zephyr {result.zephyr}' if result.zephyr else ''}, model {result.sha256}"
    if result.arena is not None:
        arena = result.arena
        size = "" if arena.source == "ample" else f" of {arena.size_bytes} ({arena.source})"
        yield f"  arena: {arena.used_bytes}{size} used: head {arena.head_bytes}, tail {arena.tail_bytes}"
    if result.sections and result.arena is not None:
        yield from _sections(result.sections, result.arena.tail_bytes)
    if result.stacks is not None:
        stacks = result.stacks
        yield (
            f"  stacks: main {stacks.main_used_bytes} of {stacks.main_bytes} used, "
            f"interrupts {stacks.isr_used_bytes} of {stacks.isr_bytes}"
        )
    for run in result.runs:
        yield from _run(run, scales)


def _sections(sections: Sequence[TailSection], tail: int) -> Iterable[str]:
    for section in sections:
        share = f"{section.count} for {section.requested_bytes}"
        yield f"    {section.used_bytes:>7} {section.name} ({share})"
    rest = tail - sum(section.used_bytes for section in sections)
    yield f"    {rest:>7} not recorded: the allocator's own objects and operators' options"


def _run(run: SelfTestRun, scales: Sequence[tuple[float, int] | None]) -> Iterable[str]:
    ticks = "" if run.ticks is None else f", {run.ticks} ticks at {run.hz} Hz"
    yield f"  run {run.run}{ticks}"
    for output in run.outputs:
        check = next((check for check in run.checks if check.index == output.index), None)
        yield f"    output {output.index} ({output.type}): {first_values(element_values(output.type, output.data))}"
        if scales[output.index] is not None:
            real = real_values(output.type, output.data, scales[output.index])
            yield f"      dequantised: {first_values(real)}"
        if check is not None and check.result == "fail":
            yield f"      differs from the reference at byte {check.first}: {check.got}, not {check.want}"
        elif check is not None:
            yield f"      {'equal to' if check.exact is not False else 'within 1e-5 of'} the reference"


def real_values(kind: str, data: bytes, scale: tuple[float, int] | None) -> list[float]:
    """The elements of a tensor's bytes, dequantised with (scale, zero point) unless that is None."""
    values = element_values(kind, data)
    return values if scale is None else [(value - scale[1]) * scale[0] for value in values]


def element_values(kind: str, data: bytes) -> list[float]:
    """The elements of a tensor's little-endian bytes."""
    import struct

    code = TensorType(kind).struct_code or "B"
    return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))


def measured(name: str, path: Path, found: Accuracy | Deviation) -> str:
    """Shown after `run --target host --data`."""
    from tflm_zephyr.validation import Accuracy

    where = f"{name} on {path.name}, TFLM on the host:"
    if isinstance(found, Accuracy):
        wrong = [(i, j) for i, row in enumerate(found.confusion) for j, n in enumerate(row) if n and i != j]
        lines = [f"{where} {found.correct} of {found.count} right, accuracy {100 * found.accuracy:.2f} %"]
        lines += [f"  {found.confusion[i][j]} of class {i} predicted as {j}" for i, j in wrong]
        return "\n".join(lines)
    return (
        f"{where} {count(found.count, 'sample')}, mean absolute error {found.mean_absolute:.4g}, "
        f"largest {found.largest:.4g}"
    )


def measured_json(found: Accuracy | Deviation) -> dict[str, Any]:
    """A data set's result."""
    from tflm_zephyr.validation import Accuracy

    more = {"accuracy": found.accuracy} if isinstance(found, Accuracy) else {}
    return {**asdict(found), **more, "where": "host"}


def _size(n: int) -> str:
    return f"{n / 1024:.1f} KiB" if n >= 10240 else count(n, "byte")
