# SPDX-License-Identifier: Apache-2.0
"""An app within its budgets of flash, RAM and work: the backend and the kernels that satisfy all of them together.

RAM is each model's, known to the byte. Flash is the whole app's on each of its boards, an estimate with an error bound
(see estimate): the estimate itself has to be within the budget. Ways to run the app are tried in this order: what
`generate` would choose without a budget of flash, the other backend, and both with the reference kernels, where backend
and kernels are "auto". Within a backend the compiler finds the layers that run row by row, for RAM and work. Where fast
kernels exceed the flash, as many of them are taken as fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tflm_zephyr.boards import AUTO, REFERENCE
from tflm_zephyr.codegen import AppRequest, AppSpec, Generated, SharedWork, generate, more_flash_bytes
from tflm_zephyr.errors import AppError, BuildError, ModelError, PlanError
from tflm_zephyr.footprint.estimate import RegionEstimate, Runs, verdict
from tflm_zephyr.options import COMPILED, INTERPRETER, AppConfig


@dataclass(frozen=True)
class _Flash:
    """The estimate of the board that takes the most flash; None, with the reason, where there is none."""

    board: str
    estimate: RegionEstimate | None
    reason: str = ""

    @property
    def bytes(self) -> int:
        """The estimate."""
        assert self.estimate is not None
        return self.estimate.used_bytes

    def text(self) -> str:
        """The estimate with its error: "201,004 bytes of flash on mps2/an385 (estimated; 196,908 to 205,100)"."""
        assert self.estimate is not None
        low, above = self.bytes - self.estimate.below_bytes, self.estimate.above_bytes
        span = f"at least {low:,}" if above is None else f"{low:,} to {self.bytes + above:,}"
        return f"{self.bytes:,} bytes of flash on {self.board} (estimated; {span})"


def generate_within(request: AppRequest) -> Generated:
    """The app that codegen.generate makes, by a way within all budgets of its config.

    Raises AppError where there is none, which says for each way what is short by how much.
    """
    config, request = request.config, replace(request, shared=SharedWork())
    if config.flash is None:
        return generate(request)
    faults: dict[str, str] = {}
    for chosen in _ways(config):
        try:
            tried = replace(request, config=chosen, golden=False)
            tried, found = _with_less_code(tried, generate(tried))
        except (AppError, BuildError, ModelError, PlanError) as error:
            if chosen.backend != AUTO:  # the other two say why neither is possible
                faults.setdefault(_way(chosen.backend, [chosen.kernels]), error.what)
            continue
        flash = _flash(found.spec, Runs(tuple(model.runs for model in config.models)))
        fault = _fault(config, found.spec, flash)
        if not fault:
            found = generate(replace(tried, golden=True)) if request.golden else found
            return replace(found, notes=(*found.notes, f"within the budget of flash: {flash.text()}"))
        faults.setdefault(_way(found.spec.backend, found.spec.kernels), fault)
    hint = "Allow more, or take a smaller model"
    raise AppError("; ".join(f"{way}: {fault}" for way, fault in faults.items()), where=_label(config), hint=hint)


def _with_less_code(request: AppRequest, found: Generated) -> tuple[AppRequest, Generated]:
    """The app with as many fast kernels as the budget of flash allows, where all that are faster exceed it."""
    more, config = more_flash_bytes(found.spec), request.config
    flash = _flash(found.spec, Runs(tuple(model.runs for model in config.models)))
    if more is None or flash.estimate is None or config.flash is None or flash.bytes <= config.flash:
        return request, found
    allowed = max(0, more - (flash.bytes - config.flash)) // len(config.models)
    less = replace(request, config=replace(config, larger=allowed))
    return less, generate(less)


def _ways(config: AppConfig) -> Iterator[AppConfig]:
    """The config with each choice of kernels and backend that it leaves open, the preferred ones first."""
    able = (COMPILED,) if config.stream_input else (AUTO, COMPILED, INTERPRETER)
    backends = able if config.backend == AUTO else (config.backend,)
    for kernels in (AUTO, REFERENCE) if config.kernels == AUTO else (config.kernels,):
        for backend in backends:
            yield replace(config, backend=backend, kernels=kernels)


def _way(backend: str, kernels: Sequence[str]) -> str:
    return f"{backend} with kernels {' and '.join(kernels)}"


def _flash(spec: AppSpec, runs: Runs) -> _Flash:
    found = []
    for board in spec.boards:
        one = verdict(spec, board, runs)
        if one.flash is None:
            return _Flash(board.name, None, one.reason)
        found.append(_Flash(board.name, one.flash))
    return max(found, key=lambda flash: flash.bytes)


def _fault(config: AppConfig, spec: AppSpec, flash: _Flash) -> str:
    """The budgets that the app exceeds, by how much; "" for none."""
    if flash.estimate is None:
        return f"its flash on {flash.board} cannot be estimated, as {flash.reason}"
    found = []
    for model in spec.models:
        if config.ram is not None and model.arena.bytes > config.ram:
            more = model.arena.bytes - config.ram
            found.append(f"{model.ident} takes {model.arena.bytes:,} bytes of RAM, {more:,} more than the budget")
    assert config.flash is not None
    if flash.bytes > config.flash:
        found.append(f"{flash.text()}, {flash.bytes - config.flash:,} more than the budget")
    return " and ".join(found)


def _label(config: AppConfig) -> str:
    return ", ".join(model.label for model in config.models)
