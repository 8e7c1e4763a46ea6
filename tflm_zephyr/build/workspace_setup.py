# SPDX-License-Identifier: Apache-2.0
"""Making a west workspace, or adding TFLM's modules to one: a plan of steps first, then the steps.

The user's manifest is never overwritten. Where it has the project in a group that is off, the workspace's
configuration turns the group on. Where it lacks the project, a submanifest in its `self: import:` folder adds it
(west's documentation, "Manifest Imports"); without such a folder the stanza is printed.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tflm_zephyr import process
from tflm_zephyr.build.log import first_error
from tflm_zephyr.build.workspace import find_workspace, read_manifest
from tflm_zephyr.errors import BuildError
from tflm_zephyr.files import free_name, write_atomically
from tflm_zephyr.resources import manifest_text

WANTED = ("tflite-micro", "cmsis-nn")
SUBMANIFEST = "tflm.yml"
_MANIFEST_FOLDER = "manifest"
_OWN_SELF = "\n  self:\n"  # this project's own entry, which its clone alone can be


@dataclass(frozen=True)
class Step:
    """One step: west with `west` (its arguments) in `folder`, or `text` into the file `writes`.

    `keeps`: a file that the step changes; a copy is kept as `<name>.orig` first.
    """

    folder: Path
    west: tuple[str, ...] = ()
    writes: Path | None = None
    text: str = ""
    keeps: Path | None = None

    @property
    def shown(self) -> str:
        """The step as a shell command, or as the file that it writes."""
        kept = f" (a copy is kept as {self.keeps.name}.orig)" if self.keeps is not None else ""
        if self.writes is not None:
            return f"write {self.writes}{kept}"
        return f"cd {shlex.quote(str(self.folder))} && west {shlex.join(self.west)}{kept}"


@dataclass(frozen=True)
class Setup:
    """The steps to a workspace in `topdir`. `stanza`: lines for the user's own manifest, "" where none is needed."""

    topdir: Path
    new: bool
    steps: tuple[Step, ...] = ()
    stanza: str = ""


def plan_setup(folder: Path) -> Setup:
    """The plan for `folder`: add the missing projects to the workspace that it is in, or make a new one there.

    Raises BuildError when the folder cannot become a workspace, or west cannot read the existing one.
    """
    folder = folder.expanduser().absolute()
    topdir = next((path for path in (folder, *folder.parents) if (path / ".west" / "config").is_file()), None)
    if topdir is not None:
        return _addition(topdir)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BuildError("not an empty folder, and no west workspace", where=str(folder), hint="Name a new folder")
    return new_workspace(folder)


def new_workspace(topdir: Path) -> Setup:
    """The steps to a new workspace with this project's manifest."""
    manifest = topdir / _MANIFEST_FOLDER / "west.yml"
    text = manifest_text().partition(_OWN_SELF)[0] + f"\n  self:\n    path: {_MANIFEST_FOLDER}\n"
    steps = (
        Step(topdir, writes=manifest, text=text),
        Step(topdir, ("init", "-l", _MANIFEST_FOLDER)),
        Step(topdir, ("update",)),
        Step(topdir, ("packages", "pip", "--install")),
    )
    return Setup(topdir, True, steps)


def _addition(topdir: Path) -> Setup:
    manifest = read_manifest(topdir)
    listed = {project.name: project for project in manifest.projects[1:]}
    lacking = [name for name in WANTED if name not in find_workspace(topdir, environ={}).modules]
    unlisted = [name for name in lacking if name not in listed]
    off = [listed[name] for name in lacking if name in listed and not manifest.is_active(listed[name])]
    steps: list[Step] = []
    groups = list(dict.fromkeys(f"+{project.groups[0]}" for project in off if project.groups))
    if groups:
        from west.configuration import Configuration

        kept = Configuration(topdir=topdir).get("manifest.group-filter")
        value = ",".join([*filter(None, [kept]), *groups])
        config = topdir / ".west" / "config"
        steps.append(Step(topdir, ("config", "manifest.group-filter", "--", value), keeps=config))
    stanza = ""
    if unlisted:
        zephyr = find_workspace(topdir, environ={}).zephyr_base
        steps_more, stanza = submanifest(Path(str(manifest.abspath)), zephyr, unlisted)
        steps += steps_more
    fetched = [name for name in lacking if name not in unlisted or not stanza]
    if fetched:
        steps.append(Step(topdir, ("update", *fetched)))
    return Setup(topdir, False, tuple(steps), stanza)


def submanifest(manifest: Path, zephyr_base: Path, names: Sequence[str]) -> tuple[tuple[Step, ...], str]:
    """The step that gives the projects to the user's `manifest` by a submanifest, or else the stanza for its own.

    The projects are those of the workspace's Zephyr: its revisions, its paths. Raises BuildError when Zephyr's
    manifest does not have them.
    """
    wanted = _entries(zephyr_base / "west.yml", names)
    own = yaml.safe_load(manifest.read_text(encoding="utf-8"))
    place = (own["manifest"].get("self") or {}).get("import")
    projects = yaml.safe_dump({"manifest": {"projects": wanted}}, sort_keys=False)
    if not isinstance(place, str) or not (manifest.parent / place).is_dir():
        listed = ", ".join(names)
        return (), (
            f"# {manifest} has none of {listed}, and no folder of submanifests (self: import:). Add {listed}\n"
            "# to the name-allowlist of its import of Zephyr, or these projects to its own. Then: west update\n"
            + projects
        )
    path = manifest.parent / place / SUBMANIFEST
    keeps = path if path.exists() else None
    return (Step(path.parent, writes=path, text=f"# Written by tflm-zephyr setup.\n{projects}", keeps=keeps),), ""


def carry_out(setup: Setup, *, on_line: Callable[[str], None]) -> None:
    """Run the steps in order. Raises BuildError with west's first error and stops there."""
    env = {name: value for name, value in os.environ.items() if name != "ZEPHYR_BASE"}  # which may be another's
    for step in setup.steps:
        on_line(step.shown)
        if step.keeps is not None:
            write_atomically(free_name(step.keeps), step.keeps.read_bytes())
        if step.writes is not None:
            step.writes.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(step.writes, step.text.encode())
            continue
        lines: list[str] = []

        def on_output(line: str, lines: list[str] = lines) -> None:
            lines.append(line)
            on_line(f"  {line}")

        done = process.run([sys.executable, "-m", "west", *step.west], cwd=step.folder, env=env, on_line=on_output)
        if done.returncode != 0:
            error = first_error(lines)
            text = error.text if error is not None else f"it ended with exit code {done.returncode}"
            raise BuildError(text, where=f"west {shlex.join(step.west)}", hint="Fix this, then run setup again")


def _entries(manifest: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """The projects `names` of Zephyr's manifest, each with its whole URL and in no group that might be off."""
    try:
        raw = yaml.safe_load(manifest.read_text(encoding="utf-8"))["manifest"]
        remotes: Mapping[str, str] = {remote["name"]: remote["url-base"] for remote in raw["remotes"]}
        default = raw.get("defaults", {}).get("remote")
        projects = {project["name"]: project for project in raw["projects"]}
    except (OSError, KeyError, TypeError, yaml.YAMLError) as err:
        raise BuildError("not Zephyr's manifest", where=str(manifest), hint="Run `west update`") from err
    absent = [name for name in names if name not in projects]
    if absent:
        raise BuildError(
            f"this Zephyr's manifest has no {', '.join(absent)}",
            where=str(manifest),
            hint="Take a Zephyr from 3.1 on, or add the project to your manifest yourself",
        )
    return [
        {
            "name": name,
            "url": f"{remotes[projects[name].get('remote', default)]}/{projects[name].get('repo-path', name)}",
            "revision": projects[name]["revision"],
            "path": projects[name].get("path", name),
        }
        for name in names
    ]
