# SPDX-License-Identifier: Apache-2.0
"""Generated apps, file by file: python benchmarks/app_trees.py --write before.txt, then --compare before.txt

Each model is generated in each way for each board, in this process. A listing has a line for each file: its SHA-256,
the app (model, way, board) and its path; an app that is refused has a line with the error in the file's place.
`--compare` generates the apps again, prints the files that differ, are new or are gone, and exits with 1 where there
are any. `--keep FOLDER` leaves the apps there, for diff. A change that is to leave generated code as it is shows it so.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tflm_zephyr.cli.main import main as tool  # noqa: E402

MODELS = ROOT.parent / "shared" / "models"
BOARDS = ("mps2/an385", "mps2/an386", "mps2/an521/cpu0")
WAYS: Mapping[str, tuple[str, ...]] = {
    "interpreter": (),
    "compiled": ("--backend", "compiled"),
    "fast": ("--rows", "--fast-kernels"),
}
Listing = dict[str, str]


def models(folder: Path) -> dict[str, Path]:
    """The models by name: those of `folder`, and those of the samples."""
    return {path.stem: path for path in sorted([*ROOT.glob("samples/*/*.tflite"), *folder.glob("*.tflite")])}


def listed(app: Path) -> Listing:
    """SHA-256 by path of an app's files."""
    files = (path for path in sorted(app.rglob("*")) if path.is_file())
    return {path.relative_to(app).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def generated(model: Path, way: str, board: str, app: Path) -> Listing:
    """The files of an app; or "refused", with the error in the place of the checksum."""
    said = io.StringIO()
    flags = [*WAYS[way], "-b", board, "-o", str(app), "--force"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        code = tool(["generate", str(model), *flags])
    return listed(app) if code == 0 else {"refused": said.getvalue().strip().replace("\n", " ")}


def trees(chosen: Mapping[str, Path], ways: Sequence[str], boards: Sequence[str], folder: Path) -> Iterator[str]:
    """The lines of the listing."""
    for name, model in chosen.items():
        for way in ways:
            for board in boards:
                app = f"{name} {way} {board}"
                files = generated(model, way, board, folder / app.replace("/", "_").replace(" ", "-"))
                yield from (f"{checksum}  {app}  {path}" for path, checksum in files.items())


def differences(before: Sequence[str], after: Sequence[str], apps: set[str]) -> list[str]:
    """The files that differ between the listings of `apps`, are new or are gone."""
    old, new = ({line.partition("  ")[2]: line.partition("  ")[0] for line in lines} for lines in (before, after))
    old = {key: value for key, value in old.items() if key.partition("  ")[0] in apps}
    changed = [f"differs: {key}" for key in old.keys() & new.keys() if old[key] != new[key]]
    added = [f"new: {key}" for key in new.keys() - old.keys()]
    return sorted([*changed, *added, *(f"gone: {key}" for key in old.keys() - new.keys())])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="FILE", help="write the listing")
    action.add_argument("--compare", type=Path, metavar="FILE", help="compare with this listing")
    parser.add_argument("--folder", type=Path, default=MODELS, help="a folder of models (default: %(default)s)")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="these models alone, by their files' names")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--boards", nargs="+", default=list(BOARDS))
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the apps there")
    args = parser.parse_args()
    known = models(args.folder)
    if unknown := set(args.models or ()) - known.keys():
        parser.error(f"no such models: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    chosen = {name: path for name, path in known.items() if args.models is None or name in args.models}
    with tempfile.TemporaryDirectory() as scratch:
        lines = list(trees(chosen, args.ways, args.boards, args.keep or Path(scratch)))
    if args.write:
        args.write.write_text("".join(f"{line}\n" for line in lines))
        return 0
    apps = {f"{name} {way} {board}" for name in chosen for way in args.ways for board in args.boards}
    found = differences(args.compare.read_text().splitlines(), lines, apps)
    print("\n".join(found) if found else f"{len(lines)} files of {len(apps)} apps are the same")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
