# SPDX-License-Identifier: Apache-2.0
"""The west workspace: the folders and versions of Zephyr and TFLM, and the modules that are present or missing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tflm_zephyr import process
from tflm_zephyr.boards import hal_of
from tflm_zephyr.errors import BuildError
from tflm_zephyr.tflm import ZephyrVersion

if TYPE_CHECKING:
    from west.manifest import Manifest

_SETUP = "Run `west init -l . && west update` in the app's folder, or set ZEPHYR_BASE"
_VERSION_LINE = re.compile(r"^(\w+)\s*=\s*(\S*)\s*$", re.MULTILINE)
_YAML_LINE = re.compile(r"^(\w+):[ \t]*[\"']?([\w/@.-]+)[\"']?[ \t]*$", re.MULTILINE)
_REVISION_OF_BOARD = re.compile(r"@[^/]*")
_SDK_VERSION = re.compile(r"\d+\.\d+\.\d+(-[\w.]+)?")
_REVISION = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class BoardFacts:
    """A board target in Zephyr's files: architecture, and KiB of flash and RAM; "" and None where not given."""

    arch: str = ""
    flash_kib: int | None = None
    ram_kib: int | None = None


@dataclass(frozen=True)
class Workspace:
    """A west workspace that holds Zephyr.

    `modules` has the manifest's active projects that are on disk, by name. `tflm_revision` is the commit
    checked out in `tflm_dir`; "" when git cannot read it. `zephyr_version` is "4.1.0", or "4.1.0-rc1".
    """

    topdir: Path
    zephyr_base: Path
    zephyr_version: str
    tflm_dir: Path | None = None
    tflm_revision: str = ""
    modules: Mapping[str, Path] = field(default_factory=dict)

    @cached_property
    def zephyr(self) -> ZephyrVersion:
        """Zephyr's version; with its commit where no release has that version, and the nRF Connect SDK's."""
        found = ZephyrVersion(self.zephyr_version, ncs=self.ncs_version)
        return found if found.released else replace(found, commit=git_revision(self.zephyr_base))

    @cached_property
    def ncs_version(self) -> str:
        """The version of the nRF Connect SDK in the workspace ("3.4.0"), as its VERSION file has it; "" without it."""
        sdk = self.modules.get("nrf")
        try:
            text = "" if sdk is None else (sdk / "VERSION").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""
        return text if _SDK_VERSION.fullmatch(text) else ""

    @property
    def cmsis_nn_dir(self) -> Path | None:
        """The CMSIS-NN checkout, if there."""
        return self.modules.get("cmsis-nn")

    @cached_property
    def cmsis_nn_revision(self) -> str:
        """The commit checked out in `cmsis_nn_dir`; "" when git cannot read it."""
        return "" if self.cmsis_nn_dir is None else git_revision(self.cmsis_nn_dir)

    @property
    def board_roots(self) -> tuple[Path, ...]:
        """The folders whose boards/ has boards: Zephyr, the modules, BOARD_ROOT."""
        return (self.zephyr_base, *self.modules.values(), *map(Path, filter(None, [os.environ.get("BOARD_ROOT")])))

    def knows_board(self, board: str) -> bool:
        """Whether Zephyr, a module here or BOARD_ROOT describes the board of the target `board`, whatever its SoC."""
        return bool(self.board_folders(board))

    def board_facts(self, board: str) -> BoardFacts:
        """The target `board` in twister's files, where all files that may describe it agree."""
        target = f"{_REVISION_OF_BOARD.sub('', board)}/"
        found: set[BoardFacts] = set()
        for path in (path for folder in self.board_folders(board) for path in folder.glob("*.yaml")):
            entries = dict(_YAML_LINE.findall(path.read_text(encoding="utf-8", errors="replace")))
            name = f"{_REVISION_OF_BOARD.sub('', entries.get('identifier', ''))}/"
            if name.startswith(target) or target.startswith(name):  # either may leave the SoC out
                found.add(BoardFacts(entries.get("arch", ""), _kib(entries.get("flash")), _kib(entries.get("ram"))))
        arches = {facts.arch for facts in found}
        flashes = {facts.flash_kib for facts in found}
        rams = {facts.ram_kib for facts in found}
        return BoardFacts(
            arches.pop() if len(arches) == 1 else "",
            flashes.pop() if len(flashes) == 1 else None,
            rams.pop() if len(rams) == 1 else None,
        )

    def board_folders(self, board: str) -> tuple[Path, ...]:
        """The folders that describe the board of the target `board`, whatever its SoC."""
        name = re.split(r"[@/]", board)[0]
        return tuple(
            path.parent for path, text in self._board_files.items() if name in text and name in _boards_in(text)
        )

    def board_names(self) -> tuple[str, ...]:
        """The names of all boards that Zephyr, the modules here and BOARD_ROOT describe, sorted."""
        return tuple(sorted({name for text in self._board_files.values() for name in _boards_in(text)}))

    @cached_property
    def _board_files(self) -> dict[Path, str]:
        """All board.yml with their texts."""
        paths = (path for root in self.board_roots for path in sorted(root.glob("boards/*/*/board.yml")))
        return {path: path.read_text(encoding="utf-8", errors="replace") for path in paths}

    @cached_property
    def dts_roots(self) -> tuple[Path, ...]:
        """The folders that modules name as devicetree roots of theirs."""
        return tuple(filter(None, map(_dts_root, self.modules.values())))

    def missing(self, board: str, kernels: str = "reference", arch: str = "") -> tuple[str, ...]:
        """The missing west projects of a build for the target `board`; see needed_modules."""
        needed = needed_modules(board, kernels, self.zephyr_version, arch)
        return tuple(name for name in needed if name not in self.modules)

    def require(self, board: str, kernels: str = "reference", arch: str = "") -> None:
        """Raise BuildError naming the missing modules, if any."""
        missing = self.missing(board, kernels, arch)
        if missing:
            raise BuildError(
                f"the workspace lacks {', '.join(missing)}, needed for {board}",
                where=str(self.topdir),
                hint=how_to_get(self.topdir, missing),
            )


def needed_modules(board: str, kernels: str, zephyr_version: str, arch: str = "") -> tuple[str, ...]:
    """West projects that an app for `board` needs as far as that is known, TFLM first.

    `arch` is Zephyr's name of the board's architecture, "" for Arm as well.
    """
    if arch not in ("", "arm"):
        return ("tflite-micro",)
    names = ["tflite-micro", "cmsis"]
    if _numeric(zephyr_version) >= (4, 1):
        names.append("cmsis_6")
    if kernels == "cmsis_nn":
        names.append("cmsis-nn")
    name, *qualifiers = board.split("/")
    names += filter(None, [hal_of(name)])
    if qualifiers[-1:] == ["ns"]:
        names += ["trusted-firmware-m", "mbedtls"]
        if _numeric(zephyr_version) >= (4, 4):
            names.append("tf-psa-crypto")
    return tuple(names)


def find_workspace(
    explicit: Path | None = None,
    *,
    app: Path | None = None,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Workspace:
    """The workspace: `explicit` (its top folder or its Zephyr), ZEPHYR_BASE, or that above `cwd` or `app`.

    Raises BuildError when there is none, or the named folder is not one.
    """
    env = os.environ if environ is None else environ
    if explicit is not None:
        return _named(explicit.expanduser().absolute(), str(explicit))
    if env.get("ZEPHYR_BASE"):
        return _named(Path(env["ZEPHYR_BASE"]).absolute(), f"ZEPHYR_BASE={env['ZEPHYR_BASE']}")
    for start in (cwd or Path.cwd(), app):
        topdir = None if start is None else _topdir_above(start.absolute())
        if topdir is not None:
            return _read(topdir, _zephyr_in(topdir))
    raise BuildError("no west workspace here or above", where=str(cwd or Path.cwd()), hint=_SETUP)


def find_workspace_if_any(explicit: Path | None, *, app: Path) -> Workspace | None:
    """As `find_workspace`; None where no workspace is named and no complete one is found."""
    if explicit is not None or os.environ.get("ZEPHYR_BASE"):
        return find_workspace(explicit, app=app)
    try:
        return find_workspace(app=app)
    except BuildError:
        return None


def workspace_of(zephyr_base: Path, modules: Mapping[str, Path]) -> Workspace:
    """The workspace that a build of Zephyr runs in, which names its modules; there may be no west manifest.

    Raises BuildError when `zephyr_base` is no Zephyr.
    """
    tflm_dir = modules.get("tflite-micro")
    return Workspace(
        zephyr_base.parent,
        zephyr_base,
        read_zephyr_version(zephyr_base),
        tflm_dir,
        "" if tflm_dir is None else git_revision(tflm_dir),
        modules,
    )


def _named(path: Path, where: str) -> Workspace:
    if not path.is_dir():
        raise BuildError("no such folder", where=where, hint=_SETUP)
    topdir = _topdir_above(path)
    if topdir is None:
        raise BuildError("not inside a west workspace (no .west folder above it)", where=where, hint=_SETUP)
    return _read(topdir, path if _is_zephyr(path) else _zephyr_in(topdir))


def _read(topdir: Path, zephyr_base: Path) -> Workspace:
    modules = {name: path for name, path in sorted(_projects(topdir).items()) if path.is_dir()}
    return replace(workspace_of(zephyr_base, modules), topdir=topdir)


def _projects(topdir: Path) -> dict[str, Path]:
    """The folders of the manifest's active projects by name; only those are modules to Zephyr."""
    manifest = read_manifest(topdir)
    # The first project is the manifest's own repository, called "manifest" whatever its folder.
    return {
        project.name: Path(project.abspath)
        for project in manifest.projects[1:]
        if project.abspath is not None and manifest.is_active(project)
    }


def how_to_get(topdir: Path, names: Sequence[str]) -> str:
    """The commands that bring these projects into the workspace: the manifest, its groups, a fetch."""
    from west.configuration import Configuration

    manifest = read_manifest(topdir)
    there = {project.name: project for project in manifest.projects[1:]}
    unlisted = [name for name in names if name not in there]
    inactive = [there[name] for name in names if name in there and not manifest.is_active(there[name])]
    groups = dict.fromkeys(f"+{project.groups[0]}" for project in inactive)  # one active group of a project is enough
    kept = Configuration(topdir=topdir).get("manifest.group-filter") if groups else None
    commands = [f"west config manifest.group-filter -- {','.join([*filter(None, [kept]), *groups])}"] if groups else []
    commands.append(f"west update {' '.join(names)}")
    first = f"Allow {', '.join(unlisted)} in the manifest (name-allowlist), then run" if unlisted else "Run"
    return f"{first} `{' && '.join(commands)}`"


def read_manifest(topdir: Path) -> Manifest:
    """West's manifest of the workspace. Raises BuildError when west cannot read it, or its imports are not here."""
    import yaml
    from west.configuration import MalformedConfig
    from west.manifest import MalformedManifest, Manifest, ManifestImportFailed, ManifestVersionError

    try:
        return Manifest.from_topdir(topdir)
    except (ManifestImportFailed, FileNotFoundError) as err:
        raise BuildError(
            "the manifest's projects are not all here", where=str(topdir), hint="Run `west update`"
        ) from err
    except (MalformedManifest, ManifestVersionError, MalformedConfig, yaml.YAMLError, OSError) as err:
        text = " ".join(str(err).split())
        raise BuildError(f"west cannot read the manifest: {text}", where=str(topdir), hint=_SETUP) from err


def _zephyr_in(topdir: Path) -> Path:
    if _is_zephyr(topdir / "zephyr"):
        return topdir / "zephyr"
    path = _projects(topdir).get("zephyr")
    if path is not None and _is_zephyr(path):
        return path
    raise BuildError("the west workspace holds no Zephyr", where=str(topdir), hint="Run `west update`")


def _topdir_above(path: Path) -> Path | None:
    return next((folder for folder in (path, *path.parents) if (folder / ".west" / "config").is_file()), None)


def _is_zephyr(path: Path) -> bool:
    return (path / "VERSION").is_file() and (path / "Kconfig.zephyr").is_file()


def read_zephyr_version(zephyr_base: Path) -> str:
    """The version that Zephyr's VERSION file gives: "4.1.0"; an EXTRAVERSION follows after a dash."""
    path = zephyr_base / "VERSION"
    try:
        fields = dict(_VERSION_LINE.findall(path.read_text(encoding="utf-8", errors="replace")))
        version = ".".join(str(int(fields[key])) for key in ("VERSION_MAJOR", "VERSION_MINOR", "PATCHLEVEL"))
    except (OSError, KeyError, ValueError) as err:
        raise BuildError("not Zephyr's VERSION file", where=str(path), hint=_SETUP) from err
    return f"{version}-{fields['EXTRAVERSION']}" if fields.get("EXTRAVERSION") else version


def git_revision(folder: Path) -> str:
    """The commit that `folder`, the top of a git checkout, has; "" when git cannot read it."""
    if not (folder / ".git").exists():
        return ""
    try:
        done = process.run(["git", "-c", "safe.directory=*", "-C", str(folder), "rev-parse", "HEAD"], timeout_s=20)
    except (OSError, TimeoutError):
        return ""
    revision = done.output.strip()
    return revision if done.returncode == 0 and _REVISION.fullmatch(revision) else ""


def _boards_in(text: str) -> tuple[str, ...]:
    """The boards that a board.yml names, which names SoCs and revisions too."""
    raw = _yaml(text)
    entries = [raw.get("board"), *(raw.get("boards") or ())] if isinstance(raw, dict) else []
    return tuple(str(entry["name"]) for entry in entries if isinstance(entry, dict) and "name" in entry)


def _dts_root(module: Path) -> Path | None:
    """The devicetree root in a module's module.yml; None for most modules, which have none."""
    try:
        text = (module / "zephyr" / "module.yml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    raw: object = _yaml(text)
    for key in ("build", "settings", "dts_root"):
        raw = raw.get(key) if isinstance(raw, dict) else None
    return module / raw if isinstance(raw, str) else None


def _yaml(text: str) -> object:
    """The value in a file of the workspace's own repositories; None where it is damaged.

    libyaml reads it where it is installed: ten times as fast, but it ends the process on thousands of nested lists.
    """
    import yaml

    try:
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return None


def _kib(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and int(text) else None


def _numeric(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.partition("-")[0].split(".") if part.isdigit())
