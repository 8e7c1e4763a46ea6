# SPDX-License-Identifier: Apache-2.0
"""Compiles TFLM and CMSIS-NN with an app's own flags, in a fraction of the time.

Nine tenths of a kernel's compilation go into headers. So TFLM's largest ones are precompiled, and an object file is
shared by the apps of both kernel libraries where nothing that its source reads has the word CMSIS_NN in it. Neither
changes a byte of machine code.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.bare_app import BareApp, run

OBJECTS = "objects"  # the folder's name tells our object files in a map
HEADERS = ("tensorflow/lite/kernels/internal/common.h", "tensorflow/lite/schema/schema_generated.h")
LIBRARY_WORD = "CMSIS_NN"


class Compiler:
    """Compiles for `bare`, into `folder`; takes what `shared`, a compiler for the same core, has already."""

    def __init__(self, bare: BareApp, folder: Path, *, shared: Compiler | None = None, jobs: int = 2) -> None:
        self._bare, self._folder, self._shared, self._jobs = bare, folder / OBJECTS, shared, jobs
        self._precompiled: dict[tuple[str, ...], Path] = {}
        self._objects: dict[Path, Path] = {}
        self._mentions: dict[str, bool] = {}

    def objects(self, sources: Iterable[Path]) -> Mapping[Path, Path]:
        """Source -> object file. An object file that the same command made is taken again. Raises BuildError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        wanted = sorted(set(sources) - self._objects.keys())
        for source in wanted:
            if self._is_of_tflm(source):
                self._precompile(_without_macros(self._bare.compile_argv(source))[0], source)
        with ThreadPoolExecutor(self._jobs) as pool:
            self._objects |= dict(zip(wanted, pool.map(self._object, wanted), strict=True))
        return self._objects

    def _object(self, source: Path) -> Path:
        if self._shared is not None and (there := self._shared.neutral(source)) is not None:
            return there
        argv = self._bare.compile_argv(source)
        if self._is_of_tflm(source):
            flags, _ = _without_macros(argv)
            argv = (*flags, "-include", str(self._precompiled[flags]))
        return self._run((*argv, "-MD", "-c", str(source)), source)

    def _run(self, argv: tuple[str, ...], source: Path) -> Path:
        target = self._folder / ("__".join(source.parts[1:][-6:]) + ".obj")
        made_by = target.with_suffix(".argv")
        if not (target.is_file() and made_by.is_file() and made_by.read_text() == shlex.join(argv)):
            run((*argv, "-o", str(target)), self._bare.folder)
            made_by.write_text(shlex.join(argv))
        return target

    def neutral(self, source: Path) -> Path | None:
        """The object file of `source` if it would be the same for another kernel library; None if not or not there."""
        target = self._objects.get(source)
        if target is None:
            return None
        rule = target.with_suffix(".d").read_text().replace("\\\n", " ")
        return None if any(self._mention(path) for path in rule.split()[1:]) else target

    def _mention(self, path: str) -> bool:
        if path not in self._mentions:
            self._mentions[path] = LIBRARY_WORD in (self._bare.folder / path).read_text(errors="replace")
        return self._mentions[path]

    def _is_of_tflm(self, source: Path) -> bool:
        tflm = self._bare.workspace.tflm_dir
        return tflm is not None and source.is_relative_to(tflm)

    def _precompile(self, flags: tuple[str, ...], source: Path) -> None:
        """Make the header for sources compiled with `flags`, that of `source` among them."""
        if flags in self._precompiled:
            return
        _, macros = _without_macros(self._bare.compile_argv(source))
        folder = self._folder / hashlib.sha256(shlex.join(flags).encode()).hexdigest()[:8]
        folder.mkdir(exist_ok=True)
        header = folder / "common.h"
        header.write_text("".join(f'#include "{name}"\n' for name in (*macros, *HEADERS)))
        target = header.with_suffix(".h.gch")
        if not target.is_file():
            run((*flags, "-x", "c++-header", str(header), "-o", str(target)), self._bare.folder)
        self._precompiled[flags] = header


def _without_macros(argv: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The flags without -imacros, which keeps GCC from precompiled headers, and the files that it names."""
    at = {n for n, arg in enumerate(argv) if arg == "-imacros"}
    flags = tuple(arg for n, arg in enumerate(argv) if n not in at and n - 1 not in at)
    return flags, tuple(argv[n + 1] for n in sorted(at))
