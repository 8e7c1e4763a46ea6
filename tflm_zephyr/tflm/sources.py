# SPDX-License-Identifier: Apache-2.0
"""The TFLM sources that an app compiles: the interpreter's core, its operators' kernels, and the sources these call.

TFLM keeps a function's definition beside its declaration: functions that `x.h` or `x_kernel.h` declares are defined in
the header's own `.cc` or in `x_common.cc`, or, where neither exists, in its variants `x_*.cc`. So the sources that a
kernel needs are found by following its includes: every header that is reached adds the sources of its own stem, whose
includes are followed in turn. Too many sources cost build time but no flash (`--gc-sections`); a missing source ends in
a link error.
Nothing here depends on TFLM's revision.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tflm_zephyr.errors import BuildError
from tflm_zephyr.resources import package_data
from tflm_zephyr.tflm.cmsis_nn_tree import CmsisNnTree
from tflm_zephyr.tflm.pins import PINNED_REVISION, data_folder, known_revision

CORE_ROOTS = (
    "tensorflow/lite/micro/micro_interpreter.cc",
    "tensorflow/lite/micro/micro_op_resolver.cc",
    "tensorflow/lite/micro/memory_planner/greedy_memory_planner.cc",
    "tensorflow/lite/micro/system_setup.cc",
)
LEFT_OUT = frozenset(
    {
        # The app brings its own: DebugLog over printk, and ticks from Zephyr's cycle counter.
        "tensorflow/lite/micro/debug_log.cc",
        "tensorflow/lite/micro/micro_time.cc",
        # Arrays on the heap, which TF_LITE_STATIC_MEMORY removes; micro kernels do not use them.
        "tensorflow/lite/array.cc",
    }
)

INCLUDE_DIRS = (
    ".",
    "third_party_static/gemmlowp",
    "third_party_static/flatbuffers/include",
    "third_party_static/ruy",
    "third_party_static/kissfft",
)

REFERENCE_SUPPORT = (
    "tensorflow/lite/kernels/internal/common.cc",
    "tensorflow/lite/kernels/internal/portable_tensor_utils.cc",
    "tensorflow/lite/kernels/internal/quantization_util.cc",
    "tensorflow/lite/kernels/internal/reference/portable_tensor_utils.cc",
)
"""Sources of the functions that TFLM's reference headers declare and do not define."""

_INTERPRETER = (
    "tensorflow/compiler/mlir/lite/core/api/",
    "tensorflow/lite/core/api/",
    "tensorflow/lite/micro/arena_allocator/",
    "tensorflow/lite/micro/memory_planner/",
    "tensorflow/lite/micro/micro_allocation_info.cc",
    "tensorflow/lite/micro/micro_allocator.cc",
    "tensorflow/lite/micro/micro_profiler.cc",
    "tensorflow/lite/micro/micro_resource_variable.cc",
    "tensorflow/lite/micro/tflite_bridge/",
)
"""Sources that kernels' headers lead to, and that no kernel calls without the interpreter."""
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
_REGISTER = re.compile(r"^\s*(?:\w+::)?TFLMRegistration\s*\*?\s*(Register_\w+)\s*\(\s*\)\s*\{", re.M)
_KERNEL_DIRS = ("tensorflow/lite/micro/kernels", "signal/micro/kernels")
# These declare every kernel's registration function, and lead to kernels that nobody calls.
_REGISTRIES = frozenset(
    {"tensorflow/lite/micro/micro_mutable_op_resolver.h", "tensorflow/lite/micro/kernels/micro_ops.h"}
)


@dataclass(frozen=True)
class SourceTable:
    """Sources (paths in the tflite-micro checkout, sorted) of the core and of each registration function.

    `functions` has the sources of an optimised library that a kernel's source calls: paths in that library's checkout,
    which is at `library_revision`. `entry_points` has those of each of its functions ("arm_convolve_s8").
    """

    revision: str
    core: tuple[str, ...]
    kernels: Mapping[str, tuple[str, ...]]
    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    library_revision: str = ""
    entry_points: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def select(self, registrations: Iterable[str]) -> tuple[str, ...]:
        """The sources for the core and these registration functions ("Register_CONV_2D"), sorted.

        Raises BuildError naming a registration function that no kernel source defines.
        """
        return tuple(sorted({*self.core, *self._sources_of(registrations)}))

    def select_kernels(self, registrations: Iterable[str]) -> tuple[str, ...]:
        """The sources for these registration functions in an app without the interpreter, sorted.

        Raises BuildError as `select` does.
        """
        return tuple(sorted(path for path in self._sources_of(registrations) if not path.startswith(_INTERPRETER)))

    def _sources_of(self, registrations: Iterable[str]) -> set[str]:
        wanted: set[str] = set()
        for name in registrations:
            if name not in self.kernels:
                raise BuildError(
                    f"no kernel source defines {name}()",
                    where=f"tflite-micro {self.revision[:12]}",
                    hint="Use --tflm module, or a TFLM revision that has it",
                )
            wanted.update(self.kernels[name])
        return wanted

    def select_functions(self, selected: Iterable[str]) -> tuple[str, ...]:
        """The optimised library's functions that the TFLM sources `selected` call, sorted."""
        return tuple(sorted({path for source in selected for path in self.functions.get(source, ())}))

    def select_entry_points(self, names: Iterable[str]) -> tuple[str, ...]:
        """The optimised library's sources that its functions `names` need, sorted.

        Raises BuildError naming a function that it does not have.
        """
        wanted: set[str] = set()
        for name in names:
            if name not in self.entry_points:
                raise BuildError(
                    f"no source defines {name}()",
                    where=f"cmsis-nn {self.library_revision[:12]}",
                    hint="Use the backend interpreter, or a CMSIS-NN revision that has it",
                )
            wanted.update(self.entry_points[name])
        return tuple(sorted(wanted))


class TflmTree:
    """A tflite-micro checkout, read on demand."""

    def __init__(self, root: Path, optimised: str = "") -> None:
        """`root` is the top of the checkout; a kernel in the folder `optimised` goes before the reference one."""
        self._root = root
        self._optimised = f"{_KERNEL_DIRS[0]}/{optimised}" if optimised else ""
        self._includes: dict[str, tuple[str, ...]] = {}

    def _reads(self, path: str) -> tuple[str, ...]:
        if path not in self._includes:
            text = (self._root / path).read_text(encoding="utf-8", errors="replace")
            folder = posixpath.dirname(path)
            found = (self._locate(include, folder) for include in _INCLUDE.findall(text))
            self._includes[path] = tuple(name for name in found if name is not None)
        return self._includes[path]

    def _locate(self, include: str, folder: str) -> str | None:
        """The file that `include` names in a file of `folder`: looked up there first, as the preprocessor does."""
        for base in (folder, *INCLUDE_DIRS):
            path = posixpath.normpath(posixpath.join(base, include))
            if not path.startswith("../") and (self._root / path).is_file():
                return path
        return None

    def closure(self, roots: Sequence[str]) -> tuple[str, ...]:
        """`roots` and the sources that their includes lead to, sorted, without LEFT_OUT."""
        seen: set[str] = set()
        todo = [path for path in roots if (self._root / path).is_file()]
        while todo:
            path = self._preferred(todo.pop())
            if path in seen or path in LEFT_OUT or path in _REGISTRIES:
                continue
            seen.add(path)
            todo.extend(self._reads(path))
            if path.endswith(".h"):
                todo.extend(self._definitions(path.removesuffix(".h")))
        return tuple(sorted(path for path in seen if path.endswith(".cc")))

    def _preferred(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        if self._optimised and folder == _KERNEL_DIRS[0] and (self._root / self._optimised / name).is_file():
            return f"{self._optimised}/{name}"
        return path

    def optimised_sources(self) -> tuple[str, ...]:
        """The kernels in the optimised library's folder, sorted."""
        folder = self._root / self._optimised
        return (
            tuple(f"{self._optimised}/{path.name}" for path in sorted(folder.glob("*.cc"))) if self._optimised else ()
        )

    def _definitions(self, stem: str) -> list[str]:
        places = (f"{stem}.cc", f"{stem}_common.cc", f"{stem.removesuffix('_kernel')}_common.cc")
        found = [path for path in dict.fromkeys(places) if (self._root / path).is_file()]
        if found:
            return found
        folder, _, name = stem.rpartition("/")  # rfft.h: rfft_float.cc, rfft_int16.cc, ...
        variants = sorted((self._root / folder).glob(f"{name}_*.cc"))
        return [f"{folder}/{path.name}" for path in variants if not path.stem.endswith("_test")]

    @cached_property
    def registrations(self) -> Mapping[str, str]:
        """Registration function -> the reference kernel source that defines it."""
        found: dict[str, str] = {}
        for folder in _KERNEL_DIRS:
            for path in sorted((self._root / folder).glob("*.cc")):
                if path.stem.endswith("_test"):
                    continue
                for name in _REGISTER.findall(path.read_text(encoding="utf-8", errors="replace")):
                    found.setdefault(name, f"{folder}/{path.name}")
        return found

    def table(self, revision: str, library: CmsisNnTree | None = None, library_revision: str = "") -> SourceTable:
        """The whole table of this checkout; `library` is where optimised kernels find their functions."""
        return SourceTable(
            revision=revision,
            core=self.closure(CORE_ROOTS),
            kernels={name: self.closure((path,)) for name, path in sorted(self.registrations.items())},
            functions={}
            if library is None
            else {path: library.closure(self._root / path) for path in self.optimised_sources()},
            library_revision=library_revision,
            entry_points={} if library is None else library.entry_points(),
        )


def shipped_source_table(library: str = "reference", revision: str = PINNED_REVISION) -> SourceTable:
    """The shipped table of a known TFLM revision with the kernels of `library` ("reference" or "cmsis_nn")."""
    raw = json.loads(package_data(f"{data_folder(revision)}/{sources_file(library)}"))
    sources: list[str] = raw["sources"]
    return SourceTable(
        revision=raw["revision"],
        core=tuple(sources[i] for i in raw["core"]),
        kernels={name: tuple(sources[i] for i in picks) for name, picks in raw["kernels"].items()},
        functions={name: tuple(sources[i] for i in picks) for name, picks in raw["functions"].items()},
        library_revision=raw.get("library_revision", ""),
        entry_points={name: tuple(sources[i] for i in picks) for name, picks in raw.get("entry_points", {}).items()},
    )


def sources_file(library: str) -> str:
    """The name of a library's table in a revision's data folder."""
    return f"sources_{library}.json"


def dump_source_table(table: SourceTable) -> str:
    """`table` as the JSON text that `shipped_source_table` reads."""
    lists = (table.core, *table.kernels.values(), *table.functions.values(), *table.entry_points.values())
    sources = sorted({path for picks in lists for path in picks})
    at = {path: i for i, path in enumerate(sources)}

    def numbered(rows: Mapping[str, tuple[str, ...]]) -> dict[str, list[int]]:
        return {name: [at[path] for path in picks] for name, picks in sorted(rows.items())}

    raw = {
        "revision": table.revision,
        **({"library_revision": table.library_revision} if table.library_revision else {}),
        "sources": sources,
        "core": [at[path] for path in table.core],
        "kernels": numbered(table.kernels),
        "functions": numbered(table.functions),
        **({"entry_points": numbered(table.entry_points)} if table.entry_points else {}),
    }
    return json.dumps(raw, indent=1) + "\n"


def source_table_for(
    tflm_dir: Path | None,
    revision: str = "",
    library: str = "reference",
    library_dir: Path | None = None,
    library_revision: str = "",
) -> SourceTable:
    """The table of the checkout `tflm_dir`; the shipped one where there is none, or where all is at known revisions.

    `library` names the kernels; `library_dir` is the checkout of CMSIS-NN, at `library_revision`. Raises BuildError
    when it is needed and None.
    """
    shipped = shipped_source_table(library, known_revision(revision))
    same_library = library_dir is None or library_revision == shipped.library_revision
    if tflm_dir is None or (revision == shipped.revision and (library == "reference" or same_library)):
        return shipped
    if library == "reference":
        return TflmTree(tflm_dir).table(revision)
    if library_dir is None:
        raise BuildError(
            "the workspace has no cmsis-nn module",
            where=library,
            hint="Allow cmsis-nn in the manifest, then west update",
        )
    return TflmTree(tflm_dir, library).table(revision, CmsisNnTree(library_dir), library_revision)
