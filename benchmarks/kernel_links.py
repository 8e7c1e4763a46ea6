# SPDX-License-Identifier: Apache-2.0
"""Two links per registration function: in the real app, and alone with all that it reaches and nothing else.

The link in the app is Zephyr's own with the operator's sources for TFLM's library, and proves that
`tflm_zephyr.tflm.sources` names all that the operator needs. What its map has more than the app's without operators is
what the operator brings. The link alone starts at the call that adds the operator and leaves what is not there
undefined; its map tells what the operator would bring in as well were it not in the app already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from benchmarks.bare_app import BareApp, run
from benchmarks.compiling import OBJECTS, Compiler
from tflm_zephyr import process
from tflm_zephyr.footprint.attribution import stem
from tflm_zephyr.footprint.link_map import FILL, LinkMap, parse_map
from tflm_zephyr.tflm.op_resolver import operator_table_for
from tflm_zephyr.tflm.sources import SourceTable, source_table_for

KERNEL_HEADERS = ("tensorflow/lite/micro/kernels", "signal/micro/kernels")
TYPED = re.compile(r"(?:_(?:FLOAT|INT\d+(?:REF)?))+$")
TFLM = "tflm"
CHUNK = 24  # operators in a file: most of its time goes into TFLM's headers
# Some kernels' headers are not complete by themselves.
FIRST_HEADERS = ("tensorflow/lite/micro/micro_context.h", "tensorflow/lite/micro/micro_mutable_op_resolver.h")
RESOLVER = "tflite::MicroMutableOpResolver<1> &"

_DECLARED = re.compile(r"\bTFLMRegistration\s*\*?\s*(Register_\w+)\s*\(\s*\)")
_UNDEFINED = re.compile(r"undefined reference to `(.+?)'")
_TAKES = re.compile(r"\bTfLiteStatus\s+(Add\w+)\s*\(\s*const\s+TFLMRegistration\s*([&*])")
_NOT_LOADED = re.compile(r"\.(debug|comment|ARM\.attributes|stab|note|group|rel)")


@dataclass(frozen=True)
class Adding:
    """How an app adds a registration function's kernel. `sources_of` is the one whose sources it needs."""

    register: str
    sources_of: str
    expression: str
    header: str = ""


@dataclass(frozen=True)
class Piece:
    """Input sections of one object file by one name: bytes in flash, bytes in RAM.

    `library` is TFLM for what is compiled of TFLM and CMSIS-NN, else an archive's name ("libgcc.a").
    """

    library: str
    member: str
    section: str
    flash_bytes: int
    ram_bytes: int

    @property
    def name(self) -> str:
        """Its name, whatever its size: "libgcc.a(_udivmoddi4.o).text"."""
        return f"{self.library}({self.member}){self.section}"


@dataclass(frozen=True)
class OperatorLink:
    """The result for one registration function.

    `lacking` are the undefined symbols of the link in the app, `failure` another error's text; `flash_bytes` and
    `ram_bytes` what the app grew by. `alone` is the ELF file of the link alone. `pieces` are what the app has for the
    operator: of TFLM what it lacked without, of other libraries also what it had.
    """

    adding: Adding
    lacking: tuple[str, ...] = ()
    failure: str = ""
    flash_bytes: int = 0
    ram_bytes: int = 0
    alone: Path = Path()
    pieces: tuple[Piece, ...] = field(default=(), repr=False)

    @property
    def links(self) -> bool:
        """Whether the app links with it."""
        return not self.lacking and not self.failure


def addings(tflm: Path) -> tuple[Adding, ...]:
    """Every operator of the resolver, and every registration function for one type that a kernel's header has."""
    calls = {call.register: call for call in operator_table_for(tflm).calls.values()}
    resolver = (tflm / "tensorflow/lite/micro/micro_mutable_op_resolver.h").read_text()
    takes = {method: "" if kind == "&" else "*" for method, kind in _TAKES.findall(resolver)}
    found = [Adding(name, name, f"{call.method}()") for name, call in calls.items()]
    for folder in KERNEL_HEADERS:
        for path in sorted((tflm / folder).glob("*.h")):
            text = path.read_text()
            space = "tflite::tflm_signal::" if "namespace tflm_signal" in text else "tflite::"
            for name in sorted(set(_DECLARED.findall(text)) - calls.keys()):
                base = calls.get(TYPED.sub("", name))
                if base is not None and base.method in takes and name not in {adding.register for adding in found}:
                    expression = f"{base.method}({space}{name}())"
                    found.append(Adding(name, base.register, expression, path.relative_to(tflm).as_posix()))
    return tuple(sorted(found, key=lambda adding: adding.register))


def sources_of(table: SourceTable, register: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The sources of TFLM and of CMSIS-NN for an app with that operator alone."""
    selected = table.select([register])
    return selected, table.select_functions(selected)


class Linker:
    """Links operators of `library` into `bare`; object files and ELF files go into `folder`."""

    def __init__(self, bare: BareApp, library: str, folder: Path, compiler: Compiler) -> None:
        assert bare.workspace.tflm_dir is not None
        self._bare, self._folder, self._compiler = bare, folder, compiler
        there = bare.workspace
        self._tflm, self._cmsis_nn = bare.workspace.tflm_dir, there.cmsis_nn_dir
        self._table = source_table_for(
            self._tflm, there.tflm_revision, library, self._cmsis_nn, there.cmsis_nn_revision
        )
        self._objects: Mapping[Path, Path] = {}
        self._callers: dict[str, Path] = {}
        self._base: LinkMap | None = None

    def compile(self, wanted: Sequence[Adding]) -> None:
        """Compile all that `wanted` need, and the calls that add them."""
        sources = {path for adding in wanted for path in self._sources(adding.sources_of)}
        chunks = [wanted[at : at + CHUNK] for at in range(0, len(wanted), CHUNK)]
        callers = {self._caller(number, chunk): chunk for number, chunk in enumerate(chunks)}
        self._objects = self._compiler.objects([*sources, *callers])
        self._callers = {item.register: self._objects[path] for path, chunk in callers.items() for item in chunk}
        argv = self._argv(self._folder / "base.elf", (), self._archive("base", self._table.core))
        run(argv, self._bare.folder)
        self._base = read_map(self._folder / "base.elf.map")

    @property
    def base(self) -> LinkMap:
        """The app without operators."""
        assert self._base is not None, "compile() first"
        return self._base

    def link(self, adding: Adding) -> OperatorLink:
        """Both links of one registration function."""
        register = adding.register
        archive = self._archive(register, self._sources(adding.sources_of))
        call = (self._forward(register), self._callers[register])
        alone = self._folder / f"{register}.alone.elf"
        run(self._alone_argv(alone, f"AddOperator_{register}", (*call[1:], archive)), self._bare.folder)
        elf = self._folder / f"{register}.elf"
        done = process.run(self._argv(elf, call, archive), cwd=self._bare.folder)
        if done.returncode != 0:
            lacking = tuple(dict.fromkeys(_UNDEFINED.findall(done.output)))
            return OperatorLink(adding, lacking, "" if lacking else done.output.strip(), alone=alone)
        elf.unlink()
        grown = read_map(Path(f"{elf}.map"))
        (flash, ram), (flash_before, ram_before) = used_bytes(grown), used_bytes(self.base)
        before = {piece.name for piece in pieces(self.base)}
        reached = {piece.name for piece in pieces(read_map(Path(f"{alone}.map"))) if piece.library != TFLM}
        brought = tuple(piece for piece in pieces(grown) if piece.name not in before or piece.name in reached)
        return OperatorLink(adding, (), "", flash - flash_before, ram - ram_before, alone, brought)

    def core_alone(self, roots: Iterable[str]) -> Path:
        """The app's own calls of TFLM, beginning with functions `roots`, and the TFLM core that they reach."""
        elf = self._folder / "core.alone.elf"
        app = ("-Wl,--whole-archive", "app/libapp.a", "-Wl,--no-whole-archive")
        inputs = (*app, self._archive("base", self._table.core))
        first, *others = roots
        argv = self._alone_argv(elf, first, inputs)
        run((*argv, *(f"-Wl,-u,{name}" for name in others)), self._bare.folder)
        return elf

    def _sources(self, register: str) -> tuple[Path, ...]:
        selected, functions = sources_of(self._table, register)
        below = () if self._cmsis_nn is None else tuple(self._cmsis_nn / path for path in functions)
        return (*(self._tflm / path for path in selected), *below)

    def _archive(self, name: str, sources: Iterable[str | Path]) -> Path:
        """A library of just these sources, as the app has one."""
        archive = self._folder / f"libtflm_{name}.a"
        archive.unlink(missing_ok=True)
        run([self._tool("ar"), "rcsT", archive, *(self._objects[self._tflm / path] for path in sources)], self._folder)
        return archive

    def _caller(self, number: int, chunk: Sequence[Adding]) -> Path:
        headers = sorted({item.header for item in chunk if item.header})
        lines = [f'#include "{header}"' for header in (*FIRST_HEADERS, *headers)]
        for item in chunk:
            lines.append(f'extern "C" TfLiteStatus AddOperator_{item.register}({RESOLVER}resolver)')
            lines.append(f"{{\n\treturn resolver.{item.expression};\n}}")
        path = self._folder / f"operators_{number}.cpp"
        path.write_text("\n".join(lines) + "\n")
        return path

    def _forward(self, register: str) -> Path:
        """An AddOperator() that calls the operator's own."""
        source, target = (self._folder / f"{register}{ending}" for ending in (".c", ".obj"))
        name = f"AddOperator_{register}"
        source.write_text(f"int {name}(void *);\nint AddOperator(void *resolver)\n{{\n\treturn {name}(resolver);\n}}\n")
        flags = [arg for arg in self._bare.link if arg.startswith(("-mcpu", "-mthumb", "-mfpu", "-mfloat", "-mabi"))]
        run([self._tool("gcc"), *flags, "-Os", "-ffunction-sections", "-c", source, "-o", target], self._folder)
        return target

    def _argv(self, elf: Path, call: Sequence[Path], archive: Path) -> tuple[str, ...]:
        """Zephyr's link with `archive` for TFLM and CMSIS-NN, and `call` for AddOperator()."""
        argv: list[str] = []
        for arg in self._bare.link:
            if arg.endswith("libtflm.a"):
                argv += [str(archive)]
            elif arg.startswith("-Wl,-Map="):
                argv += [f"-Wl,-Map={elf}.map"]
            elif not arg.endswith("libcmsis_nn.a"):
                argv += [arg]
        argv[argv.index("-o") + 1] = str(elf)
        return (argv[0], *map(str, call), *argv[1:])

    def _alone_argv(self, elf: Path, entry: str, inputs: Sequence[str | Path]) -> tuple[str, ...]:
        link = self._bare.link
        kept = [arg for arg in link[1:] if re.match(r"-(m|specs|fuse-ld|L|l|static|nostdlib|nostartfiles)", arg)]
        ending = [arg for arg in kept if re.match(r"-[Ll]", arg)]
        flags = [arg for arg in kept if arg not in ending]
        wanted = (f"-Wl,-e,{entry}", "-Wl,--gc-sections", "-Wl,--unresolved-symbols=ignore-all", f"-Wl,-Map={elf}.map")
        start = ("-nostdlib", "-Wl,-N", "-Wl,-X", "-Wl,--sort-section=alignment")
        return (link[0], *flags, *start, *wanted, *map(str, inputs), *ending, "-o", str(elf))

    def _tool(self, name: str) -> str:
        """A program of the compiler's, by the name of g++."""
        return re.sub(r"g\+\+$", name, self._bare.link[0])


def read_map(path: Path) -> LinkMap:
    """The linker's map. Raises BuildError."""
    return parse_map(path.read_text(errors="replace"), where=str(path))


def pieces(link_map: LinkMap) -> tuple[Piece, ...]:
    """Input sections in flash and RAM by the map, sorted, each section of an object file once."""
    sums: dict[tuple[str, str, str], tuple[int, int]] = {}
    for output in link_map.sections:
        if _NOT_LOADED.match(output.name):
            continue
        parts = sorted(output.pieces, key=lambda piece: piece.address)
        ends = [*(following.address for _, following in pairwise(parts)), output.address + output.size]
        for piece, end in zip(parts, ends, strict=False):
            size = min(piece.size, end - piece.address)  # merged strings keep their old size in the map
            if piece.section == FILL or size <= 0 or piece.section.startswith(".rel"):
                continue
            zeros = piece.section.startswith((".bss", ".noinit", "COMMON", ".tbss", ".sbss"))
            data = piece.section.startswith((".data", ".tdata", ".sdata"))
            name = _name(piece.archive, piece.member, piece.section)
            if name is None:
                continue
            flash, ram = sums.get(name, (0, 0))
            sums[name] = (flash + (0 if zeros else size), ram + (size if zeros or data else 0))
    return tuple(Piece(*name, *sizes) for name, sizes in sorted(sums.items()))


def _name(archive: str, member: str, section: str) -> tuple[str, str, str] | None:
    """The name of a piece; None for the object files that this program makes and the linker itself."""
    library, plain = archive.rpartition("/")[2], member.rpartition("/")[2]
    ours = OBJECTS in member.split("/")  # ld leaves out the name of a thin archive
    if not archive and not ours:
        return None
    if not ours and not library.startswith(("libtflm", "libcmsis_nn")):
        return (library, plain, section)
    # Functions that several object files have are in any one of them in the end.
    several = "._Z" in section and "_GLOBAL__N_" not in section and "._ZL" not in section and "._ZZ" not in section
    return (TFLM, "" if several else stem(plain.rpartition("__")[2]), section)


def used_bytes(link_map: LinkMap) -> tuple[int, int]:
    """Bytes used of flash and of RAM, from each region's start to its last section's end, as ld counts them.

    Values that initialised variables start with take flash as well.
    """
    flash, ram = link_map.regions[0], next(region for region in link_map.regions if region.name == "RAM")
    used = {flash: 0, ram: 0}
    start_values = 0
    for output in link_map.sections:
        if _NOT_LOADED.match(output.name):
            continue
        for region in used:
            if region.origin <= output.address < region.origin + region.length and output.size:
                used[region] = max(used[region], output.address + output.size - region.origin)
                if region is ram and any(piece.section.startswith(".data") for piece in output.pieces):
                    start_values += output.size
    return used[flash] + start_values, used[ram]
