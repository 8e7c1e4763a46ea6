# SPDX-License-Identifier: Apache-2.0
"""Each operator's ticks over several runs, compared with an older profile, and as a trace for Perfetto."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median_high
from typing import Annotated, Any

from tflm_zephyr.device.session import Hello, Profile
from tflm_zephyr.errors import DeviceError, ToolError
from tflm_zephyr.plain_values import Limits, Rules, load_json, read_values

_VERSION = 1
_ENVELOPE = ("document", "schema_version", "tool_version", "command")  # of the same profile as a document
_MOST = (1 << 64) - 1
_Ticks = Annotated[int, Limits(0, _MOST)]
_Count = Annotated[int, Limits(1, _MOST)]


@dataclass(frozen=True)
class Cost:
    """Minimum, median and maximum over all runs, in the profile's unit, of one operator or of all together."""

    name: str
    least: _Ticks
    median: _Ticks
    most: _Ticks


@dataclass(frozen=True)
class MeasuredProfile:
    """A profile.

    `unit` is "instructions" where ticks repeat exactly and measure no time (QEMU with icount), else "ticks" of `hz` per
    second; `resolution` is the smallest step of the clock in that unit. `operators` are all of the model; `total` sums
    those of the main subgraph, whose ticks include the others'.
    """

    model: str
    sha256: str
    board: str
    kernels: str
    unit: str
    hz: _Count
    resolution: _Count
    runs: _Count
    operators: tuple[Cost, ...]
    total: Cost


@dataclass(frozen=True)
class CostChange:
    """An operator's median compared with the baseline's. `number` None: all operators together."""

    number: int | None
    name: str
    before: int
    after: int
    slower: bool

    @property
    def ratio(self) -> float:
        """The relative change: 0.02 is 2 % more."""
        return self.after / self.before - 1 if self.before else float(self.after > 0)


def no_ticks(hello: Hello) -> DeviceError:
    """The error for a device whose ticks do not measure an operator's work."""
    hint = "Profile in QEMU or on a board (--app, --port)"
    return DeviceError("nothing counts ticks there", where=hello.link, hint=hint)


def unit_of(hello: Hello) -> tuple[str, int]:
    """The unit's name, and the number of units per tick. Raises DeviceError where no ticks are counted."""
    if hello.device.hz <= 0:
        raise no_ticks(hello)
    if hello.instructions_per_tick is not None:
        return "instructions", hello.instructions_per_tick
    return "ticks", 1


def measured(hello: Hello, profile: Profile) -> MeasuredProfile:
    """`profile` in its unit. Raises DeviceError where no ticks are counted, or for a profile of other operators."""
    unit, factor = unit_of(hello)
    names = profile.names
    if not profile.ticks or any(len(run) != len(names) for run in profile.ticks) or len(names) != len(hello.operators):
        raise DeviceError("the profile is of other operators than the model has", where=hello.link)
    main = [k for k, operator in enumerate(hello.operators) if operator.subgraph == 0]
    columns = [[run[k] * factor for run in profile.ticks] for k in range(len(names))]
    return MeasuredProfile(
        model=hello.model,
        sha256=hello.sha256,
        board=hello.device.board,
        kernels=hello.device.kernels,
        unit=unit,
        hz=profile.hz,
        resolution=factor,
        runs=len(profile.ticks),
        operators=tuple(_cost(name, column) for name, column in zip(names, columns, strict=True)),
        total=_cost("all operators", [sum(run[k] for k in main) * factor for run in profile.ticks]),
    )


def _cost(name: str, values: Sequence[int]) -> Cost:
    return Cost(name, min(values), median_high(values), max(values))


def as_json(found: MeasuredProfile) -> dict[str, Any]:
    """The profile as JSON values, which `load_profile` reads."""
    return {"version": _VERSION, **asdict(found)}


def load_profile(path: Path) -> MeasuredProfile:
    """The profile in a JSON file. Raises ToolError, which names the file."""
    try:
        raw = load_json(path)
        if not isinstance(raw, dict) or raw.get("version") != _VERSION:
            raise ValueError(f"no profile of version {_VERSION}")
        return read_values(MeasuredProfile, raw, Rules(ignored=("version", "changes", *_ENVELOPE)))
    except OSError as err:
        raise ToolError((err.strerror or str(err)).lower(), where=str(path)) from None
    except ValueError as err:
        hint = "Make one with tflm-zephyr profile -o"
        raise ToolError(f"is no profile ({err})", where=str(path), hint=hint) from None


def compare_profiles(
    found: MeasuredProfile, baseline: MeasuredProfile, where: str, max_regression: float
) -> tuple[CostChange, ...]:
    """The change of each operator, and of all together, from the baseline.

    An operator is slower when its median grew by more than the share `max_regression` and by more than one step of the
    clock, as a run begins anywhere within a tick. Raises ToolError when the two profiles are not of the same kind.
    """
    for what in ("board", "unit", "hz"):
        one, other = getattr(found, what), getattr(baseline, what)
        if one != other:
            raise ToolError(
                f"is a profile with {what} {other}, this one has {one}", where=where, hint="Make a baseline here"
            )
    names, before = ([cost.name for cost in profile.operators] for profile in (found, baseline))
    if names != before:
        raise ToolError(
            f"is a profile of other operators ({len(before)}: {', '.join(before)[:60]})",
            where=where,
            hint="Make a new baseline",
        )
    pairs = [*zip(found.operators, baseline.operators, strict=True), (found.total, baseline.total)]
    last = len(found.operators)
    return tuple(
        CostChange(
            number if number < last else None,
            new.name,
            old.median,
            new.median,
            new.median > old.median * (1 + max_regression) and new.median - old.median > found.resolution,
        )
        for number, (new, old) in enumerate(pairs)
    )


def trace(hello: Hello, profile: Profile) -> bytes:
    """All runs one after the other as Chrome's trace JSON ("Trace Event Format", complete events).

    Times are those of the clock; where ticks count instructions, a nanosecond stands for an instruction, and the
    process's name says so. Operators of other subgraphs are part of the operators that call them and are not shown.
    """
    unit, factor = unit_of(hello)
    per_tick_us = factor / 1000 if unit == "instructions" else 1e6 / profile.hz
    note = " (1 ns stands for 1 instruction)" if unit == "instructions" else ""
    name = f"{hello.model} on {hello.device.board}{note}"
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": 1, "name": "process_name", "args": {"name": name}},
        {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "Invoke"}},
    ]
    main = [k for k, operator in enumerate(hello.operators) if operator.subgraph == 0]
    at = 0
    for number, run in enumerate(profile.ticks):
        total = sum(run[k] for k in main)
        events.append(_event(f"run {number}", "run", at, total, per_tick_us, {unit: total * factor}))
        for k in main:
            args = {"operator": k, unit: run[k] * factor}
            events.append(_event(profile.names[k], "operator", at, run[k], per_tick_us, args))
            at += run[k]
    return f"{json.dumps({'traceEvents': events, 'displayTimeUnit': 'ns'})}\n".encode()


def _event(name: str, kind: str, at: int, ticks: int, per_tick_us: float, args: dict[str, int]) -> dict[str, Any]:
    start, end = round(at * per_tick_us, 3), round((at + ticks) * per_tick_us, 3)
    length = round(end - start, 3)
    return {"ph": "X", "pid": 1, "tid": 1, "name": name, "cat": kind, "ts": start, "dur": length, "args": args}
