# SPDX-License-Identifier: Apache-2.0
"""Verdicts before a build: a line for each board, with remedies if the app does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from shlex import join
from typing import TYPE_CHECKING, Any

from tflm_zephyr.boards import CMSIS_NN, REFERENCE
from tflm_zephyr.costs import millions
from tflm_zephyr.footprint import (
    BESIDE_ARENA_BYTES,
    CLOSE,
    NO,
    UNKNOWN,
    YES,
    BoardFit,
    BuiltApp,
    Bytes,
    OwnBuffer,
    RegionEstimate,
    Remedy,
    Verdict,
    Way,
    sizes,
)
from tflm_zephyr.options import INTERPRETER

if TYPE_CHECKING:
    from tflm_zephyr.cli.report.terminal import Drawn

_SAID = {YES: "fits", NO: "DOES NOT FIT", CLOSE: "too close to tell", UNKNOWN: "at least this much; more is not known"}

_MOST_WHYS = 3
GENERATE, TFLM_MODEL = "generate", "tflm_model"
_THEN = {
    YES: "then it fits",
    NO: "not enough",
    CLOSE: "then it is too close to tell",
    UNKNOWN: "then it may fit: its full size is not known",
}


@dataclass(frozen=True)
class Ways:
    """All ways, the one that the app takes and the one that is recommended; either may be unknown.

    `source` are an app's words for `generate`, () where there are none; `limits` those for compiled code alone. `held`:
    an app's own file names a way, so that options of the command line only add to it. `into`: the models go into an
    application that was built, by options of `generate` or by words of tflm_model().
    """

    every: Sequence[Way]
    taken: Way | None = None
    best: Way | None = None
    source: Sequence[str] = ()
    limits: Sequence[str] = ()
    held: bool = False
    into: str = ""

    def command(self, way: Way) -> str:
        """The command line that makes the app by `way`; "" where an option has to leave the app's file first."""
        if not self.source or (self.held and way is not self.taken):
            return ""
        limits = () if way.config.backend == INTERPRETER else self.limits
        return join(["tflm-zephyr", "generate", *self.source[:-2], *limits, *way.option.split(), *self.source[-2:]])

    def worded(self, way: Way) -> str:
        """The options that take a way: flags of `generate`, or words of tflm_model()."""
        if self.into != TFLM_MODEL:
            return way.option
        words = way.option.split()
        pairs = zip(words, [*words[1:], "--"], strict=True)
        return " ".join(
            f"{word[2:].upper().replace('-', '_')}{' on' if then[:2] == '--' else ''}" if word[:2] == "--" else word
            for word, then in pairs
        )

    def mark(self, way: Way) -> str:
        """Whether it is the one that is taken or the recommended one, in words."""
        words = [word for word, one in (("taken", self.taken), ("recommended", self.best)) if way is one]
        return f"  ({', '.join(words)})" if words else ""


def line(verdict: Verdict) -> str:
    """One board's verdict in one line."""
    if verdict.flash is None or verdict.ram is None:
        return f"{verdict.board}: no verdict: {verdict.reason}"
    over = [
        f"{use.over_bytes} bytes of {name} too few"
        for name, use in (("flash", verdict.flash), ("RAM", verdict.ram))
        if use.over_bytes
    ]
    said = _SAID[verdict.fits] + (f", {' and '.join(over)}" if over else "")
    kernels = {CMSIS_NN: "CMSIS-NN", REFERENCE: "reference"}.get(verdict.library, verdict.library)
    sizes = f"flash {_use(verdict.flash)}, RAM {_use(verdict.ram)}"
    return f"{verdict.board}, {kernels} kernels: {sizes}: {said}"


def lines(fits: Sequence[BoardFit], ways: Ways) -> list[str]:
    """All boards' verdicts with their remarks, and with remedies if the app does not fit."""
    return [text for fit in fits for text in _board(fit, ways)]


def table(fits: Sequence[BoardFit], ways: Ways, notes: Iterable[str] = ()) -> str:
    """Shown after `fit`: remarks on the app, each verdict with its parts, and the ways to run the models."""
    found = [f"  {'' if note.startswith('warning: ') else 'note: '}{note}" for note in notes]
    for fit in fits:
        found += [*_board(fit, ways), *_parts(fit.verdict)]
    return "\n".join([*found, *ways_table(ways)])


def ways_table(ways: Ways) -> list[str]:
    """The ways as a table: RAM and flash that the models add, and cycles, with the option that takes each.

    No table where there is nothing to choose. ~ marks cycles that have parts of something else.
    """
    rows = [
        (
            f"{way.ram_bytes:,}",
            "-" if way.flash_bytes is None else f"{way.flash_bytes:,}",
            "-" if way.cycles is None else millions(way.cycles) + "~" * bool(way.work and way.work.stand_ins),
            f"{ways.worded(way)}{ways.mark(way)}",
        )
        for way in ways.every
        if way.verdicts
    ]
    head = ("RAM", "flash", "M cycles", "")
    lines = [
        f"    {ram:>10} {flash:>11} {cycles:>9}  {option}".rstrip() for ram, flash, cycles, option in (head, *rows)
    ]
    whys = sorted({why for way in ways.every if way.work is not None for why in way.work.stand_ins})
    lines += [f"    ~ {why}" for why in whys[:_MOST_WHYS]]
    lines += [f"    ~ and {len(whys) - _MOST_WHYS} more, which --json has"] if len(whys) > _MOST_WHYS else []
    faults = [f"    not {ways.worded(way)}: {' and '.join(way.faults)}" for way in ways.every if way.faults]
    shown = ["  ways to run it, and what each adds (flash and cycles are estimated):", *lines, *faults]
    return shown if len(rows) > 1 or ways.into else []


def ways_to_come(ways: Ways) -> list[str]:
    """A line on the ways that `generate` left to `fit`."""
    if len(ways.every) < 2 or any(way.config.fast_kernels for way in ways.every):
        return []
    return ["    `tflm-zephyr fit` compares fast kernels and rows too; --optimize speed, ram or flash takes the best"]


@dataclass(frozen=True)
class Into:
    """The `room` in the application `built` without the models `replaced`, which take `share`; and the ways.

    `generated`: the app is one of `generate`; any other has its models by tflm_model().
    """

    built: BuiltApp
    replaced: tuple[str, ...]
    share: Bytes
    room: Bytes
    ways: tuple[Way, ...]
    generated: bool

    @property
    def best(self) -> Way | None:
        """The fastest way that fits, one that surely does if there is any."""
        fitting = [way for way in self.ways if not way.faults]
        return next((way for way in fitting if self.surely(way)), fitting[0] if fitting else None)

    def surely(self, way: Way) -> bool:
        """Whether the way fits with the bound of its estimate.

        Where compiled code has no bound, as a kernel was not measured, the interpreter's is taken for it: in all apps
        that were measured both ways (docs/compiled.md) compiled code is smaller.
        """
        if way.flash_bytes is not None and way.unsure_bytes is not None:
            return way.flash_bytes + way.unsure_bytes <= self.room.flash
        larger = (one for one in self.ways if one.name == "interpreter" and one.unsure_bytes is not None)
        return any((way.flash_bytes or 0) <= (one.flash_bytes or 0) and self.surely(one) for one in larger)

    @property
    def marked(self) -> Ways:
        """The ways with the one to take."""
        return Ways(self.ways, best=self.best, into=GENERATE if self.generated else TFLM_MODEL)


def into(found: Into) -> list[str]:
    """Lines on the room in an application, the ways against it, and the one to take with what it saves and costs."""
    built, share, room, best = found.built, found.share, found.room, found.best
    uses = ((built.used.flash, built.sizes.flash, "flash"), (built.used.ram, built.sizes.ram, "RAM"))
    used = " and ".join(f"{used:,} of {size:,} bytes of {name}" for used, size, name in uses)
    lines = [f"{built.source.name} for {built.board.name} takes {used}"]
    if built.reserved.flash:
        lines.append(f"  {built.reserved.flash:,} bytes of that flash are for {built.reserved_for}")
    if found.replaced:
        about = ", by estimate," if found.generated else ""
        lines.append(
            f"  of that, {' and '.join(found.replaced)}{about}: {share.flash:,} of flash, {share.ram:,} of RAM"
        )
    what = f"without {' and '.join(found.replaced)}" if found.replaced else "for a model"
    if min(room.flash, room.ram) < 0:
        short = [f"{-size:,} bytes of {name}" for size, name in ((room.flash, "flash"), (room.ram, "RAM")) if size < 0]
        return [*lines, f"  {what}, {' and '.join(short)} are missing: no way to run it fits"]
    lines.append(f"  left {what}: {room.flash:,} bytes of flash and {room.ram:,} of RAM")
    lines += ways_table(found.marked)
    if best is None:
        return [*lines, "  no way fits: use a smaller model, or take something else out of the application"]
    doubt = "" if found.surely(best) else ", too close to tell before a build"
    return [*lines, f"  take {found.marked.worded(best)}: {_gains(found, best)}{doubt}"]


def _gains(found: Into, way: Way) -> str:
    """The bytes that a way saves against the model that is there, and its time against the interpreter's."""
    beside = next((one for one in found.ways if one.name == "interpreter"), None)
    now, against = found.share, "than now"
    if not found.replaced and beside is not None:
        now, against = _added(beside), "than by the interpreter"
    saved = now - _added(way)
    words = [
        f"{abs(size):,} bytes of {name} {'more' if size < 0 else 'less'}"
        for size, name in ((saved.flash, "flash"), (saved.ram, "RAM"))
    ]
    time = ""
    if beside is not None and beside.cycles and way.cycles:
        time = f", {100 * way.cycles / beside.cycles:.0f} % of the interpreter's time (estimated)"
    return f"{' and '.join(words)} {against}{time}"


def _added(way: Way) -> Bytes:
    return Bytes(way.flash_bytes or 0, way.ram_bytes + BESIDE_ARENA_BYTES)


def into_json(found: Into) -> dict[str, Any]:
    """The same for programs, as a document of `fit`."""
    built, best = found.built, found.best
    return {
        "app": built.source.name,
        "boards": [],
        "notes": [],
        "ways": ways_json(found.marked),
        "into": {
            "board": built.board.name,
            "size": asdict(built.sizes),
            "used": asdict(built.used),
            "reserved": asdict(built.reserved),
            "replaced": list(found.replaced),
            "share": asdict(found.share),
            "left": asdict(found.room),
            "best": None if best is None else found.marked.worded(best),
        },
    }


def ways_json(ways: Ways) -> list[dict[str, Any]]:
    """The ways for programs; bytes throughout, null where nothing is known."""
    return [
        {
            "name": way.name,
            "option": way.option,
            "gives_up": way.gives_up,
            "ram_bytes": way.ram_bytes if way.verdicts else None,
            "flash_bytes": way.flash_bytes,
            "estimated_cycles": way.cycles,
            "stand_ins": [] if way.work is None else list(way.work.stand_ins),
            "faults": list(way.faults),
            "taken": way is ways.taken,
            "recommended": way is ways.best,
            "command": ways.command(way),
        }
        for way in ways.every
    ]


def table_on_terminal(plain: Mapping[str, Any], fits: Sequence[BoardFit], ways: Ways, notes: Iterable[str]) -> Drawn:
    """The same with a bar for each memory of each board; `plain` is the document."""
    from tflm_zephyr.cli.report import terminal

    return terminal.fit(plain, table(fits, ways, notes).splitlines())


def fits_json(fits: Iterable[BoardFit]) -> list[dict[str, Any]]:
    """The verdicts for programs; bytes throughout."""
    return [
        {
            "board": fit.verdict.board,
            "kernels": fit.verdict.library,
            "fits": fit.verdict.fits,
            "reason": fit.verdict.reason,
            **_uses(fit.verdict),
            "parts": [asdict(part) for part in fit.verdict.parts],
            "notes": [*fit.verdict.notes, *([fit.flash_note] if fit.flash_note else [])],
            "remedies": [_remedy_json(remedy) for remedy in fit.remedies],
            "own_buffers": [asdict(own) for own in fit.own_buffers],
        }
        for fit in fits
    ]


def _board(fit: BoardFit, ways: Ways) -> list[str]:
    verdict = fit.verdict
    warning = "warning: " if verdict.fits in (NO, CLOSE) else ""
    found = [f"  {warning}{line(verdict)}"]
    found += [f"    {note}" for note in verdict.notes]
    found += [f"    {_remedy(remedy)}" for remedy in fit.remedies]
    found += [f"    {_own(own)}" for own in fit.own_buffers]
    if fit.flash_note:
        found.append(f"    {fit.flash_note}")
    best = next((way for way in ways.every if not way.faults), None)
    if verdict.fits == NO and best is not None:
        found.append(f"    {best.option}: {sizes(best)}; then it fits")
    elif verdict.fits == NO and all(remedy.after.fits == NO for remedy in fit.remedies):
        found.append("    none of these is enough: use a smaller model or another board")
    return found


def _remedy(remedy: Remedy) -> str:
    gains = ", ".join(
        f"{'gains' if gain > 0 else 'costs'} {abs(gain):,} bytes of {name}"
        for name, gain in (("flash", remedy.flash_gain_bytes), ("RAM", remedy.ram_gain_bytes))
        if gain
    )
    end = _THEN[remedy.after.fits] + (" alone" if remedy.after.fits == NO and len(remedy.changes) == 1 else "")
    return f"{remedy.what} ({remedy.option}): {gains}; {end}"


def _own(own: OwnBuffer) -> str:
    return (
        f"{own.model}: without {own.name} ({own.size_bytes} bytes) the arena would be {own.saved_bytes} bytes smaller, "
        "which helps only where the app has that buffer anyway"
    )


def _parts(verdict: Verdict) -> list[str]:
    rows = [(part.name, part.flash_bytes, part.ram_bytes) for part in verdict.parts]
    width = max((len(name) for name, *_ in rows), default=0)
    head = [f"    {'':{width}}  {'flash':>8} {'RAM':>8}"] if rows else []
    return head + [f"    {name:{width}}  {flash or '-':>8} {ram or '-':>8}" for name, flash, ram in rows]


def _use(use: RegionEstimate) -> str:
    used, there = use.used_bytes / 1024, use.available_bytes / 1024
    return f"{used:.1f} of {there:.1f} KiB ({_bound(use)})"


def _bound(use: RegionEstimate) -> str:
    if use.above_bytes is None:
        return f"at least {(use.used_bytes - use.below_bytes) / 1024:.1f}"
    if use.above_bytes == use.below_bytes:
        return f"+-{_kib(use.above_bytes)}"
    return f"+{_kib(use.above_bytes)} -{_kib(use.below_bytes)}"


def _kib(size: int) -> str:
    """A bound in KiB, with enough digits not to show 0."""
    return f"{size / 1024:.1f}" if size >= 102 else f"{size / 1024:.2f}"


def _uses(verdict: Verdict) -> dict[str, Any]:
    return {
        name: None if use is None else asdict(use) for name, use in (("flash", verdict.flash), ("ram", verdict.ram))
    }


def _remedy_json(remedy: Remedy) -> dict[str, Any]:
    return {
        "what": remedy.what,
        "option": remedy.option,
        "flash_gain_bytes": remedy.flash_gain_bytes,
        "ram_gain_bytes": remedy.ram_gain_bytes,
        "suffices": remedy.suffices,
        "fits": remedy.after.fits,
        **_uses(remedy.after),
    }
