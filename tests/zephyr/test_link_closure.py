# SPDX-License-Identifier: Apache-2.0
"""Every operator links from the sources that the shipped tables give it: nothing it reaches is undefined.

Compiles each shipped source once without optimisation, so that no call is optimised away, and then follows
symbols from object to object as a linker does. A precompiled header of what nearly all of them include makes
it
three to five minutes on two cores.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.workspaces import known_tflm
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.tflm.sources import CORE_ROOTS, INCLUDE_DIRS, SourceTable, shipped_source_table

pytestmark = [pytest.mark.zephyr, pytest.mark.slow]

GXX = "arm-none-eabi-g++"
CPUS = ("cortex-m3", "cortex-m33", "cortex-m55")  # CMSIS-NN's plain C, DSP and Helium
# What the generated app's port.cpp brings.
PORT = frozenset({"DebugLog", "DebugVsnprintf", "_ZN6tflite16ticks_per_secondEv", "_ZN6tflite19GetCurrentTimeTicksEv"})
COMMON = '#include "tensorflow/lite/kernels/internal/common.h"\n#include "tensorflow/lite/schema/schema_generated.h"\n'
CXX_FLAGS = ("-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics")
RUNTIME = ("libc.a", "libm.a", "libgcc.a", "libstdc++.a", "crtbegin.o")


@dataclass(frozen=True)
class Object:
    """Symbols that an object file defines, and those that it leaves undefined (without weak references)."""

    defined: frozenset[str]
    undefined: frozenset[str]


class Compiler:
    """Compiles sources of the checkouts `tflm` and `cmsis_nn` into `folder`."""

    def __init__(self, tflm: Path, cmsis_nn: Path, folder: Path) -> None:
        self._tflm = tflm
        self._cmsis_nn = cmsis_nn
        self._folder = folder
        self._common = folder / "common.h"
        self._common.write_text(COMMON)
        self._run("-x", "c++-header", *self._flags(CPUS[0]), *CXX_FLAGS, self._common, "-o", f"{self._common}.gch")

    def objects(self, sources: Iterable[str], cpu: str, *flags: str) -> dict[str, Object]:
        """Source -> its symbols."""
        paths = sorted(sources)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            made = pool.map(lambda path: symbols(self._compile(path, cpu, flags)), paths)
            return dict(zip(paths, made, strict=True))

    def mention(self, sources: Iterable[str], cpu: str, word: str) -> set[str]:
        """The compiled `sources` whose text, or a header's, has `word`."""
        texts: dict[str, bool] = {}
        found = set()
        for source in sources:
            rule = self._object(source, cpu, ()).with_suffix(".d").read_text()
            for path in rule.replace("\\\n", " ").split()[1:]:
                if path not in texts:
                    texts[path] = word in Path(path).read_text(encoding="utf-8", errors="replace")
                if texts[path]:
                    found.add(source)
        return found

    def _object(self, source: str, cpu: str, flags: tuple[str, ...]) -> Path:
        return self._folder / "".join((cpu, *flags)) / (source.replace("/", "__") + ".o")

    def _compile(self, source: str, cpu: str, flags: tuple[str, ...]) -> Path:
        target = self._object(source, cpu, flags)
        target.parent.mkdir(exist_ok=True)
        argv = self._flags(cpu, *flags)
        if source.endswith(".c"):
            self._run("-x", "c", *argv, "-c", self._cmsis_nn / source, "-o", target)
        else:
            self._run(*argv, *CXX_FLAGS, "-include", self._common, "-c", self._tflm / source, "-o", target)
        return target

    def _flags(self, cpu: str, *flags: str) -> list[str]:
        folders = [*(self._tflm / name for name in INCLUDE_DIRS), self._cmsis_nn, self._cmsis_nn / "Include"]
        own = [f"-mcpu={cpu}", "-mthumb", "-O0", "-w", "-MMD", "-DTF_LITE_STATIC_MEMORY"]
        return [*own, *flags, *(f"-I{folder}" for folder in folders)]

    @staticmethod
    def _run(*argv: str | Path) -> None:
        done = subprocess.run([GXX, *map(str, argv)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def symbols(path: Path) -> Object:
    done = subprocess.run(["arm-none-eabi-nm", str(path)], capture_output=True, text=True, check=True)
    pairs = [line.split()[-2:] for line in done.stdout.splitlines() if len(line.split()) > 1]
    return Object(
        frozenset(name for kind, name in pairs if kind != "U" and (kind.isupper() or kind == "u")),
        frozenset(name for kind, name in pairs if kind == "U"),
    )


def unresolved(roots: Iterable[str], objects: Mapping[str, Object], given: frozenset[str]) -> set[str]:
    """The symbols that neither `objects` nor `given` define, of what a linker takes in for `roots`."""
    where = {name: source for source, item in objects.items() for name in item.defined}
    taken = set(roots)
    todo = list(taken)
    lacking: set[str] = set()
    while todo:
        for name in objects[todo.pop()].undefined - given:
            source = where.get(name)
            if source is None:
                lacking.add(name)
            elif source not in taken:
                taken.add(source)
                todo.append(source)
    return lacking


def check(table: SourceTable, objects: Mapping[str, Object], runtime: frozenset[str]) -> None:
    """Each registration function alone, with the core."""
    failures: dict[str, set[str]] = {}
    for register, own in table.kernels.items():
        selected = table.select([register])
        linked = {path: objects[path] for path in (*selected, *table.select_functions(selected))}
        mangled = (f"{len(register)}{register}Ev", f"{len(register)}{register}v")
        roots = [path for path in own if any(name.endswith(mangled) for name in objects[path].defined)]
        assert roots, register
        lacking = unresolved([*CORE_ROOTS, *roots], linked, runtime | PORT)
        if lacking:
            failures[register] = lacking
    assert failures == {}


def tables(workspace: Workspace, library: str) -> SourceTable:
    """The shipped sources of the workspace's revision."""
    return shipped_source_table(library, workspace.tflm_revision)


@pytest.fixture(scope="module")
def compiler(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    if shutil.which(GXX) is None:
        pytest.skip(f"needs {GXX}")
    tflm = known_tflm(workspace)
    if workspace.cmsis_nn_dir is None:
        pytest.skip("the workspace has no cmsis-nn")
    folder = tmp_path_factory.mktemp("objects")
    yield Compiler(tflm, workspace.cmsis_nn_dir, folder)
    shutil.rmtree(folder)  # a precompiled header takes hundreds of megabytes


@pytest.fixture(scope="module")
def runtime(compiler: Compiler) -> frozenset[str]:
    """Symbols that the compiler's own libraries define."""
    names: set[str] = set()
    for library in RUNTIME:
        argv = [GXX, "-mcpu=cortex-m3", "-mthumb", f"-print-file-name={library}"]
        path = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
        names |= symbols(Path(path)).defined
    return frozenset(names)


@pytest.fixture(scope="module")
def plain(workspace: Workspace, compiler: Compiler) -> dict[str, Object]:
    """The TFLM sources of both tables, as an app with the reference kernels compiles them."""
    wanted: set[str] = set()
    for table in (tables(workspace, name) for name in ("reference", "cmsis_nn")):
        wanted |= {path for path in table.select(table.kernels) if "/cmsis_nn/" not in path}
    return compiler.objects(wanted, CPUS[0])


def test_every_operator_of_the_reference_kernels_links(
    workspace: Workspace, plain: dict[str, Object], runtime: frozenset[str]
) -> None:
    check(tables(workspace, "reference"), plain, runtime)


def test_every_operator_of_cmsis_nn_links(
    workspace: Workspace, compiler: Compiler, plain: dict[str, Object], runtime: frozenset[str]
) -> None:
    table = tables(workspace, "cmsis_nn")
    selected = table.select(table.kernels)
    changed = compiler.mention(set(selected) & plain.keys(), CPUS[0], "CMSIS_NN")
    changed |= set(selected) - plain.keys()
    kernels = plain | compiler.objects(changed, CPUS[0], "-DCMSIS_NN")
    for cpu in CPUS:
        check(table, kernels | compiler.objects(table.select_functions(selected), cpu), runtime)


def test_a_source_left_out_is_noticed(workspace: Workspace, plain: dict[str, Object], runtime: frozenset[str]) -> None:
    lost = "signal/src/msb_32.cc"
    assert lost in plain
    table = tables(workspace, "reference")
    less = {name: tuple(path for path in own if path != lost) for name, own in table.kernels.items()}
    with pytest.raises(AssertionError, match="MostSignificantBit32"):
        check(SourceTable(table.revision, table.core, less), plain, runtime)
