# SPDX-License-Identifier: Apache-2.0
"""A board's core and memories as its devicetree in the workspace has them, before anything is built.

The board's .dts goes through a C preprocessor with the folders of Zephyr's cmake/modules/pre_dt.cmake and is parsed by
Zephyr's own dtlib. The core is the CPU node's `compatible` ("arm,cortex-m33f"), RAM is the node that /chosen calls
zephyr,sram, flash zephyr,flash, or zephyr,code-partition where the target is linked into it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tflm_zephyr import process
from tflm_zephyr.boards import stem_of
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.files import temporary_folder

_PREPROCESSORS = ("cc", "gcc", "clang", "arm-none-eabi-gcc")
_DTLIB = "scripts/dts/python-devicetree/src/devicetree/dtlib.py"
_INCLUDES = ("include", "include/zephyr", "dts/common", "dts/vendor", "dts")
_CORE = re.compile(r"arm,(cortex-m\d+)(\+?)f?")
_IN_PARTITION = "CONFIG_USE_DT_CODE_PARTITION=y"
_PATIENCE_S = 20


@dataclass(frozen=True)
class DevicetreeFacts:
    """The core, as kernels.CORES names it, "" where it is no Cortex-M; bytes of flash and RAM, None where not given."""

    core: str = ""
    flash_bytes: int | None = None
    ram_bytes: int | None = None


def devicetree_facts(targets: Sequence[str], workspace: Workspace, overlay: str = "") -> DevicetreeFacts:
    """The facts of a board target, which `targets` names by all its names ("rpi_pico", "rpi_pico/rp2040").

    overlay: text of a devicetree overlay that the app has. Nothing is known without a .dts of these names, a C
    preprocessor or Zephyr's dtlib.
    """
    folders = dict.fromkeys(folder for name in targets[:1] for folder in workspace.board_folders(name))
    stems = [stem_of(name) for name in targets]
    found = [folder / f"{stem}.dts" for folder in folders for stem in stems if (folder / f"{stem}.dts").is_file()]
    if not found:
        return DevicetreeFacts()
    text = _preprocessed(found[0], overlay, workspace)
    lib = _dtlib(workspace.zephyr_base / _DTLIB)
    if text is None or lib is None:
        return DevicetreeFacts()
    defconfigs = [found[0].with_name(f"{stem}_defconfig") for stem in stems]
    partition = any(name.endswith("/ns") for name in targets) or any(
        _IN_PARTITION in path.read_text(encoding="utf-8", errors="replace") for path in defconfigs if path.is_file()
    )
    return _facts(text, lib, in_partition=partition)


def _facts(text: str, lib: Any, *, in_partition: bool) -> DevicetreeFacts:
    with temporary_folder() as folder:
        path = folder / "board.dts"
        path.write_text(text, encoding="utf-8")
        try:
            tree = lib.DT(str(path))
        except lib.DTError:
            return DevicetreeFacts()
    chosen = tree.get_node("/chosen").props if tree.has_node("/chosen") else {}
    flash = "zephyr,code-partition" if in_partition and "zephyr,code-partition" in chosen else "zephyr,flash"
    return DevicetreeFacts(_core(tree), _size(chosen, flash, lib), _size(chosen, "zephyr,sram", lib))


def _core(tree: Any) -> str:
    """The Cortex-M of the CPU nodes; "" for none, or several kinds."""
    cpus = tree.get_node("/cpus").nodes.values() if tree.has_node("/cpus") else ()
    names = [name for cpu in cpus if "compatible" in cpu.props for name in cpu.props["compatible"].to_strings()]
    found = {f"{match[1]}{'plus' if match[2] else ''}" for match in map(_CORE.fullmatch, names) if match}
    return found.pop() if len(found) == 1 else ""


def _size(chosen: Any, name: str, lib: Any) -> int | None:
    """The bytes of the memory that /chosen has as `name`: its first `reg`."""
    if name not in chosen:
        return None
    try:
        node = chosen[name].to_path()
        cells = node.props["reg"].to_nums()
        address, size = (node.parent.props[f"#{what}-cells"].to_num() for what in ("address", "size"))
    except (KeyError, lib.DTError):
        return None
    value = 0
    for cell in cells[address : address + size]:
        value = value << 32 | cell
    return value or None


def _preprocessed(source: Path, overlay: str, workspace: Workspace) -> str | None:
    """The text of a .dts and an overlay with their includes; None without a preprocessor, or where it fails."""
    program = next(filter(None, map(shutil.which, _PREPROCESSORS)), None)
    if program is None:
        return None
    includes = [f"-I{folder}" for folder in _include_folders(source, workspace)]
    argv = [program, "-E", "-P", "-x", "assembler-with-cpp", "-nostdinc", "-D__DTS__", *includes]
    try:
        with temporary_folder() as folder:
            whole, out = folder / "board.dts", folder / "board.dts.pre"
            whole.write_text(f'#include "{source}"\n{overlay}', encoding="utf-8")
            done = process.run([*argv, str(whole), "-o", str(out)], timeout_s=_PATIENCE_S)
            return out.read_text(encoding="utf-8", errors="replace") if done.returncode == 0 else None
    except (OSError, TimeoutError):
        return None


def _include_folders(source: Path, workspace: Workspace) -> Iterable[Path]:
    """The folders that exist of all devicetree roots: the board, Zephyr and modules that name one."""
    arches = sorted(path.relative_to(workspace.zephyr_base) for path in (workspace.zephyr_base / "dts").glob("*"))
    roots = [source.parent, workspace.zephyr_base, *workspace.dts_roots]
    for root in roots:
        for name in (*_INCLUDES, *map(os.fspath, arches)):
            if (root / name).is_dir():
                yield root / name


def _dtlib(path: Path) -> Any:
    """Zephyr's dtlib; None where the workspace has none."""
    spec = importlib.util.spec_from_file_location("zephyr_dtlib", path) if path.is_file() else None
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
