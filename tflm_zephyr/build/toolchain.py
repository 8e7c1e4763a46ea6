# SPDX-License-Identifier: Apache-2.0
"""The cross compiler for a build: a registered Zephyr SDK, GNU Arm, or a distribution's arm-none-eabi-gcc.

A distribution's compiler is given to Zephyr as `gnuarmemb` at its prefix (/usr), not `cross-compile`: TF-M,
which a non-secure board target builds as well, takes only `gnuarmemb` and `zephyr`. Zephyr then needs the argument
that the compiler has picolibc, which it assumes for its own SDK alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tflm_zephyr import process
from tflm_zephyr.errors import BuildError

GCC = "arm-none-eabi-gcc"
_HINT = (
    "Install the Zephyr SDK (`west sdk install`), set ZEPHYR_SDK_INSTALL_DIR, or on Debian and Ubuntu: "
    "apt install gcc-arm-none-eabi libstdc++-arm-none-eabi-newlib picolibc-arm-none-eabi"
)
_OTHERS = "Install the Zephyr SDK (`west sdk install`), or set ZEPHYR_TOOLCHAIN_VARIANT to a toolchain for that core"
_SDK_PREFIX = {"arm": "arm-", "arm64": "aarch64", "x86": "x86_64"}  # where it is not Zephyr's name of the architecture
_LOCKING = "_RETARGETABLE_LOCKING 1"  # Zephyr's lib/libc/newlib asserts it
_GNU_PLACES = ("/opt", "~", "~/.local/opt", "/usr/local", "/usr/share")
_GNU_NAMES = (
    "gcc-arm-none-eabi*",
    "arm-gnu-toolchain*arm-none-eabi*",
    "gnuarmemb*",
    "gcc-arm-*arm-none-eabi*",
)
_NUMBERS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Toolchain:
    """A compiler for a Zephyr build: the environment variables and CMake arguments that select it.

    `gcc` and `libc` are its compiler and C library for Arm code; None and "" where not known.
    """

    variant: str
    describe: str
    env: Mapping[str, str] = field(default_factory=dict)
    cmake_args: tuple[str, ...] = ()
    gcc: Path | None = field(default=None, compare=False)
    libc: str = field(default="", compare=False)


def compiler_here(environ: Mapping[str, str] | None = None) -> str:
    """Compiler and C library of Arm code on this machine, with the compiler's version; "" where that is not known."""
    try:
        toolchain = detect_toolchain(environ)
        answer = None if toolchain.gcc is None else _ask(toolchain.gcc, "--version")
    except BuildError:
        return ""
    # As in "arm-none-eabi-gcc (15:12.2.rel1-1) 12.2.1 20221205"; the first word, the program's name, is left out.
    version = (answer or "").partition("\n")[0].partition(" ")[2].strip()
    return f"GCC {version}, {toolchain.libc}" if version else ""


def detect_toolchain(environ: Mapping[str, str] | None = None, *, arch: str = "", root: Path = Path("/")) -> Toolchain:
    """The user's choice in the environment, else the first found: Zephyr SDK, GNU Arm, the one on PATH.

    `arch` is Zephyr's name of the board's architecture, "" for Arm as well: Zephyr's boards on the host take the
    host's compiler, any other an SDK with a compiler for it. `root` stands in for the file system's root in tests.
    Raises BuildError when there is none, or when the environment names one that is not there.
    """
    env = os.environ if environ is None else environ
    home = Path(env.get("HOME") or Path.home())
    variant = env.get("ZEPHYR_TOOLCHAIN_VARIANT", "")
    if arch not in ("", "arm"):
        return _other(arch, variant, env, _sdk_folders(home))
    if variant and variant != "gnuarmemb":
        return _chosen(variant, env)
    if variant or env.get("GNUARMEMB_TOOLCHAIN_PATH"):
        return _gnu_named(env)
    if env.get("ZEPHYR_SDK_INSTALL_DIR"):
        return _sdk(_existing(env, "ZEPHYR_SDK_INSTALL_DIR"))
    for folder in _sdk_folders(home):
        if any(_compilers(folder, "arm")):
            return _sdk(folder)
    for folder in _gnu_folders(home, root):
        if (folder / "bin" / GCC).is_file():
            return gnu_arm(folder)
    for folder in map(Path, env.get("PATH", os.defpath).split(os.pathsep)):
        prefix = _prefix(folder / GCC)
        if prefix is not None:
            return gnu_arm(prefix)
    raise BuildError("no compiler for Arm Cortex-M found", where=GCC, hint=_HINT)


def check_suits(toolchain: Toolchain, board: str) -> None:
    """Raise BuildError when `toolchain` cannot build TF-M and the board target `board` needs it."""
    if board.split("/")[-1] == "ns" and toolchain.variant not in ("zephyr", "gnuarmemb"):
        raise BuildError(
            f"TF-M does not take the toolchain variant {toolchain.variant}",
            where=board,
            hint="Set ZEPHYR_TOOLCHAIN_VARIANT to zephyr, or gnuarmemb with GNUARMEMB_TOOLCHAIN_PATH, or unset it",
        )


def gnu_arm(prefix: Path) -> Toolchain:
    """The GNU Arm compiler in `prefix`/bin: with picolibc when it has it, else with its newlib.

    Raises BuildError when it lacks the headers of the C++ or the C library, or has a newlib that Zephyr refuses.
    """
    gcc = prefix / "bin" / GCC
    picolibc = _has_picolibc(gcc)
    specs = ("--specs=picolibc.specs",) if picolibc else ()
    if _ask(gcc, *specs, "-x", "c++", "-include", "algorithm", "-E", "-o", os.devnull, os.devnull) is None:
        raise BuildError(
            f"this compiler has no headers of the C++ library for {'picolibc' if picolibc else 'newlib'}",
            where=str(gcc),
            hint="On Debian and Ubuntu: apt install libstdc++-arm-none-eabi-newlib picolibc-arm-none-eabi",
        )
    if not picolibc and _LOCKING not in (_ask(gcc, "-include", "newlib.h", "-dM", "-E", "-x", "c", os.devnull) or ""):
        raise BuildError(
            "this compiler's newlib was built without retargetable locking, which Zephyr needs",
            where=str(gcc),
            hint="On Debian and Ubuntu: apt install picolibc-arm-none-eabi",
        )
    return Toolchain(
        "gnuarmemb",
        f"GNU Arm in {prefix} with {'picolibc' if picolibc else 'newlib'}",
        {"ZEPHYR_TOOLCHAIN_VARIANT": "gnuarmemb", "GNUARMEMB_TOOLCHAIN_PATH": str(prefix)},
        _picolibc_args(picolibc),
        gcc,
        "picolibc" if picolibc else "newlib",
    )


def _chosen(variant: str, env: Mapping[str, str]) -> Toolchain:
    """A variant that the user set: passed on as it is."""
    if variant == "cross-compile":
        prefix = env.get("CROSS_COMPILE", "")
        gcc = Path(f"{prefix}gcc")
        if not prefix or not gcc.is_file():
            raise BuildError(
                "no compiler there",
                where=f"CROSS_COMPILE={prefix}",
                hint="Set it to all before the gcc of its name",
            )
        picolibc = _has_picolibc(gcc)
        libc = "picolibc" if picolibc else "newlib"
        return Toolchain(variant, f"{gcc} as {variant}", {}, _picolibc_args(picolibc), gcc, libc)
    return Toolchain(variant, f"{variant}, from ZEPHYR_TOOLCHAIN_VARIANT")


def _other(arch: str, variant: str, env: Mapping[str, str], sdks: Iterable[Path]) -> Toolchain:
    """The toolchain for a board whose core is not Arm."""
    if arch == "posix" and variant in ("", "gnuarmemb", "zephyr"):
        return Toolchain("host", "the host's compiler", {"ZEPHYR_TOOLCHAIN_VARIANT": "host"})
    if variant == "gnuarmemb":
        raise BuildError(f"this toolchain is for Arm, and the board's core is {arch}", where=variant, hint=_OTHERS)
    if variant:
        return _chosen(variant, env)
    named = [_existing(env, "ZEPHYR_SDK_INSTALL_DIR")] if env.get("ZEPHYR_SDK_INSTALL_DIR") else []
    for folder in named or sdks:
        if any(_compilers(folder, arch)):
            return _sdk(folder)
    raise BuildError(f"no compiler for {arch} found", where="Zephyr SDK", hint=_OTHERS)


def _gnu_named(env: Mapping[str, str]) -> Toolchain:
    prefix = _existing(env, "GNUARMEMB_TOOLCHAIN_PATH")
    if not (prefix / "bin" / GCC).is_file():
        raise BuildError(
            f"no bin/{GCC} there",
            where=f"GNUARMEMB_TOOLCHAIN_PATH={prefix}",
            hint="Set it to the compiler's prefix",
        )
    return gnu_arm(prefix)


def _sdk(folder: Path) -> Toolchain:
    return Toolchain(
        "zephyr",
        f"Zephyr SDK in {folder}",
        {"ZEPHYR_TOOLCHAIN_VARIANT": "zephyr", "ZEPHYR_SDK_INSTALL_DIR": str(folder)},
        gcc=next(iter(_compilers(folder, "arm")), None),
        libc="picolibc",  # Zephyr's choice with its SDK
    )


def _existing(env: Mapping[str, str], name: str) -> Path:
    path = Path(env.get(name, ""))
    if not env.get(name) or not path.is_dir():
        raise BuildError("no such folder", where=f"{name}={env.get(name, '')}", hint=_HINT)
    return path


def _sdk_folders(home: Path) -> list[Path]:
    """Zephyr SDKs in CMake's package registry, where `west sdk install` and an SDK's setup.sh enter them; newest first.

    Zephyr's FindZephyr-sdk.cmake looks there too. Running it (`west sdk list`) takes 2 s, too long for every command.
    """
    entries = sorted((home / ".cmake" / "packages" / "Zephyr-sdk").glob("*"))
    # The registered folder is the SDK's cmake/ subfolder.
    found = [Path(entry.read_text(encoding="utf-8", errors="replace").strip()).parent for entry in entries]
    return _newest_first(found)


def _compilers(sdk: Path, arch: str) -> Iterator[Path]:
    """The SDK's compilers for `arch`."""
    return sdk.glob(f"**/bin/{_SDK_PREFIX.get(arch, arch)}*zephyr-e*-gcc")


def _gnu_folders(home: Path, root: Path) -> list[Path]:
    """GNU Arm compilers as Arm unpacks them, in the usual places, the highest version first."""
    places = [home / place[2:] if place.startswith("~") else root / place[1:] for place in _GNU_PLACES]
    return _newest_first(path for base in places for name in _GNU_NAMES for path in base.glob(name) if path.is_dir())


def _newest_first(folders: Iterable[Path]) -> list[Path]:
    """Folders by the version in their names: 0.17.0 is above 0.9.5."""

    def version(path: Path) -> tuple[tuple[int, str], ...]:
        return tuple((int(part), "") if part.isdigit() else (-1, part) for part in _NUMBERS.split(path.name))

    return sorted(dict.fromkeys(folders), key=version, reverse=True)


def _prefix(gcc: Path) -> Path | None:
    """The prefix whose bin/ holds the compiler that `gcc` is or links to; None for none, or a ccache shim."""
    real = gcc.resolve()
    if not real.is_file() or not real.name.startswith(GCC):
        return None
    for folder in (real.parent, gcc.parent):
        if folder.name == "bin" and (folder / GCC).is_file():
            return folder.parent
    return None


def _has_picolibc(gcc: Path) -> bool:
    # A compiler prints the bare name of a file that it does not find.
    return os.sep in (_ask(gcc, "-print-file-name=picolibc.specs") or "")


def _picolibc_args(picolibc: bool) -> tuple[str, ...]:
    return ("-DTOOLCHAIN_HAS_PICOLIBC=ON",) if picolibc else ()


def _ask(gcc: Path, *args: str) -> str | None:
    """The output of `gcc`; None when it fails."""
    try:
        done = process.run([str(gcc), *args], timeout_s=20)
    except (OSError, TimeoutError) as err:
        raise BuildError(f"the compiler does not run ({err})", where=str(gcc), hint=_HINT) from err
    return done.output if done.returncode == 0 else None
