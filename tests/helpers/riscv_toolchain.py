# SPDX-License-Identifier: Apache-2.0
"""A compiler for RISC-V where there is no Zephyr SDK: a distribution's, which has no C++ library.

Debian's gcc-riscv64-unknown-elf has picolibc and g++, but neither the C++ library nor its headers. An app needs only
its headers, and those of arm-none-eabi-g++ serve any core. The library is empty, so that a link shows that nothing of
it is used. GCC 12 finds its multilibs by ISA spec 2.2, whose base has zicsr and zifencei.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tflm_zephyr.build.toolchain import detect_toolchain
from tflm_zephyr.errors import BuildError

PREFIX = "riscv64-unknown-elf-"
_WRAPPER = """#!/bin/sh
for arg; do
	shift
	case "$arg" in -march=*_zicsr*)
		arg=$(echo "$arg" | sed 's/_zicsr//; s/_zifencei//')
		set -- "$@" -misa-spec=2.2 ;;
	esac
	set -- "$@" "$arg"
done
exec {program} "$@" {more}
"""


def riscv_environment(folder: Path) -> dict[str, str] | None:
    """The variables with which a build finds a compiler for RISC-V, made in `folder`; None where there is none."""
    try:
        detect_toolchain(arch="riscv")
        return {}
    except BuildError:
        pass
    headers = _cpp_headers()
    gcc = shutil.which(f"{PREFIX}gcc")
    if gcc is None or not headers or "/" not in _output(gcc, "-print-file-name=picolibc.specs"):
        return None
    for program in Path(gcc).parent.glob(f"{PREFIX}*"):
        (folder / program.name).symlink_to(program)
    subprocess.run([f"{PREFIX}ar", "rc", folder / "libstdc++.a"], check=True)
    for name in ("gcc", "g++"):
        more = [f"-L{folder}", *(f"-isystem {path}" for path in headers if name == "g++")]
        (folder / f"{PREFIX}{name}").unlink()
        (folder / f"{PREFIX}{name}").write_text(
            _WRAPPER.format(program=shutil.which(f"{PREFIX}{name}"), more=" ".join(more))
        )
        (folder / f"{PREFIX}{name}").chmod(0o755)
    return {"ZEPHYR_TOOLCHAIN_VARIANT": "cross-compile", "CROSS_COMPILE": f"{folder}/{PREFIX}"}


def _cpp_headers() -> list[str]:
    """The folders of arm-none-eabi-g++'s C++ library."""
    if shutil.which("arm-none-eabi-g++") is None or shutil.which(f"{PREFIX}g++") is None:
        return []
    return re.findall(r"^ (/\S*/c\+\+/\S*)$", _output("arm-none-eabi-g++", "-x", "c++", "-E", "-v", "/dev/null"), re.M)


def _output(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr
