# SPDX-License-Identifier: Apache-2.0
"""The kernels in a built app: per operator CMSIS-NN's, or reference code and the reason.

Read from the linked ELF file, not from the build's options: the models are found by their bytes, the kernel of
each operator by its Register_<OPERATOR>() and the folder of the source that it is in, CMSIS-NN's functions by
their symbols. kernels.uses says which tensors a kernel hands to reference code.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tflm_zephyr.errors import BuildError, ModelError
from tflm_zephyr.footprint import attribution
from tflm_zephyr.footprint.byte_owners import byte_owners
from tflm_zephyr.footprint.elf import ElfImage, load_elf
from tflm_zephyr.footprint.link_map import LinkMap
from tflm_zephyr.footprint.measurement import map_of, source_folders
from tflm_zephyr.kernels import Node, has_cmsis_nn, uses_of, why_reference
from tflm_zephyr.model import Model, parse_model
from tflm_zephyr.tflm import KNOWN_PINS, shipped_operator_table

CMSIS_NN, REFERENCE, OWN = "cmsis_nn", "reference", "custom"
NO_KERNEL = "TFLM has no CMSIS-NN kernel for it"
OTHER_KERNEL = "this build links TFLM's reference kernel for it"
NO_FUNCTION = "none of CMSIS-NN's functions for it is linked"
NO_CORTEX_M = "the board's core is no Cortex-M"

_ASKED = re.compile(r'/kernels/cmsis_nn/|TFLM_KERNELS=[\\"]*cmsis_nn')
_REVISION = re.compile(r"TFLM_REVISION=\W*([0-9a-f]{40})")
_FOLDER = "tensorflow/lite/micro/kernels/cmsis_nn"


@dataclass(frozen=True)
class Kernel:
    """An operator, `uses` times in the models. `why`: each reason for reference code, with the number of uses.

    `library` is the linked kernel's: CMSIS_NN, REFERENCE, or OWN for the app's own kernel.
    """

    operator: str
    library: str
    uses: int
    why: Mapping[str, int]

    @property
    def fell_back(self) -> int:
        """The number of uses that reference code computes."""
        return sum(self.why.values())


@dataclass(frozen=True)
class LinkedKernels:
    """The kernels of a build. `asked`: its kernel library; `why_not`: why that is not CMSIS-NN, if the core decided it.

    `rows`: every operator of every model found in the ELF file, by name.
    """

    asked: str
    why_not: str
    rows: tuple[Kernel, ...]

    @property
    def fallbacks(self) -> tuple[Kernel, ...]:
        """Operators that reference code computes though the build is for CMSIS-NN."""
        return tuple(row for row in self.rows if row.why)


def linked_kernels(elf: Path) -> LinkedKernels:
    """The kernels in an ELF file in its build folder. Raises BuildError when it cannot be read."""
    image, folder = load_elf(elf), elf.absolute().parent.parent
    commands, config = _read(folder / "compile_commands.json"), _read(folder / "zephyr" / ".config")
    asked = None if not commands else CMSIS_NN if _ASKED.search(commands) else REFERENCE
    revision = _REVISION.search(commands)
    why_not = NO_CORTEX_M if config and "\nCONFIG_CPU_CORTEX_M=y\n" not in f"\n{config}" else ""
    return found_kernels(
        image, map_of(elf, image), source_folders(folder), asked, why_not, revision[1] if revision else ""
    )


def found_kernels(
    image: ElfImage,
    link_map: LinkMap | None,
    folders: Mapping[str, frozenset[str]],
    asked: str | None = None,
    why_not: str = "",
    revision: str = "",
) -> LinkedKernels:
    """The kernels in `image`.

    folders: see attribution.ObjectFiles. asked: the library of the build, None to go by the CMSIS-NN functions in the
    image. revision: the commit of TFLM, "" for the pinned one.
    """
    functions = {owner.detail for symbol in image.symbols if (owner := attribution.cmsis_nn(symbol.name)) is not None}
    asked = asked or (CMSIS_NN if functions else REFERENCE)
    libraries = _libraries(image, link_map, folders)
    uses: dict[str, list[Node]] = {}
    for model in _models(image, link_map, folders):
        for key, found in uses_of(model, customs=True).items():
            uses.setdefault(key, []).extend(found)
    rows = []
    for key, found in sorted(uses.items()):
        library = _library(key, libraries, functions)
        why = Counter(_why(key, use, library, functions, revision) for use in found) if asked == CMSIS_NN else Counter()
        why.pop("", None)
        rows.append(Kernel(key, library, len(found), dict(sorted(why.items()))))
    return LinkedKernels(asked, why_not if asked == REFERENCE else "", tuple(rows))


def _library(key: str, libraries: Mapping[str, str], functions: set[str]) -> str:
    tables = (shipped_operator_table(revision) for revision in KNOWN_PINS)
    call = next((table.calls[key] for table in tables if key in table.calls), None)
    name = attribution.registered_operator(call.register) if call is not None and call.register else None
    if call is None and name is None and key not in libraries:
        return OWN
    found = libraries.get(name or key)
    return found if found is not None else CMSIS_NN if key in functions else REFERENCE


def _why(key: str, use: Node, library: str, functions: set[str], revision: str) -> str:
    """Why reference code computes `use`; "" where it does not."""
    if library == OWN:
        return ""
    if library == REFERENCE:
        return OTHER_KERNEL if has_cmsis_nn(key, revision) else NO_KERNEL
    reason = why_reference(use, revision) if has_cmsis_nn(key, revision) else ""
    return reason or ("" if key in functions else NO_FUNCTION)


def _libraries(image: ElfImage, link_map: LinkMap | None, folders: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """By operator, the library of the kernel that registers it; none without a map or a list of sources."""
    if link_map is None or not folders:
        return {}
    pieces = sorted(
        (piece for output in link_map.sections for piece in output.pieces),
        key=lambda piece: (piece.address, piece.size),
    )
    starts = [piece.address for piece in pieces]
    found = {}
    for symbol in image.symbols:
        operator = attribution.registered_operator(symbol.name)
        place = bisect_right(starts, symbol.address) - 1
        if operator is not None and place >= 0:
            homes = folders.get(attribution.stem(pieces[place].member), frozenset())
            found[operator] = CMSIS_NN if _FOLDER in homes else REFERENCE
    return found


def _models(image: ElfImage, link_map: LinkMap | None, folders: Mapping[str, frozenset[str]]) -> list[Model]:
    found = []
    for section, spans in byte_owners(image, link_map, folders).items():
        for span in spans:
            if span.owner.part == attribution.MODEL:
                data = section.data[span.start - section.address : span.end - section.address]
                try:
                    found.append(parse_model(bytes(data), where=span.owner.detail))
                except ModelError:  # bytes that only look like a model
                    continue
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as err:
        raise BuildError(f"cannot be read ({err.strerror})", where=str(path), hint="Build again") from err
