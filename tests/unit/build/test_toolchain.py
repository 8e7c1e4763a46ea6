# SPDX-License-Identifier: Apache-2.0
"""Which compiler is found, in which order, and what Zephyr is told of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tflm_zephyr.build.toolchain import GCC, Toolchain, check_suits, compiler_here, detect_toolchain, gnu_arm
from tflm_zephyr.errors import BuildError

PICOLIBC = ("-DTOOLCHAIN_HAS_PICOLIBC=ON",)


VERSION = "arm-none-eabi-gcc (15:12.2.rel1-1) 12.2.1 20221205"


def make_gcc(prefix: Path, *, picolibc: bool = True, headers: bool = True, locking: bool = True) -> Path:
    """A stand-in for the compiler that answers what detection asks."""
    gcc = prefix / "bin" / GCC
    gcc.parent.mkdir(parents=True)
    answer = f"{prefix}/lib/picolibc.specs" if picolibc else "picolibc.specs"
    gcc.write_text(
        f"#!/bin/sh\ncase $1 in\n-print-file-name=*) echo {answer};;\n"
        f"-include) echo '#define _RETARGETABLE_LOCKING {int(locking)}';;\n"
        f"--version) echo '{VERSION}';;\n*) exit {0 if headers else 1};;\nesac\n"
    )
    gcc.chmod(0o755)
    return gcc


def make_sdk(folder: Path, compiler: str = "arm-zephyr-eabi", home: Path | None = None) -> Path:
    """An SDK with one compiler; with `home`, entered in CMake's package registry there."""
    if home is not None:
        registry = home / ".cmake" / "packages" / "Zephyr-sdk"
        registry.mkdir(parents=True, exist_ok=True)
        (registry / f"{len(list(registry.iterdir())):032x}").write_text(f"{folder}/cmake\n")
    gcc = folder / compiler / "bin" / f"{compiler}-gcc"
    gcc.parent.mkdir(parents=True)
    gcc.write_text("")
    return folder


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    return {"HOME": str(tmp_path / "home"), "PATH": "/nonexistent"}


def detect(env: dict[str, str], tmp_path: Path) -> Toolchain:
    return detect_toolchain(env, root=tmp_path / "root")


def test_a_distributions_compiler_on_path(env: dict[str, str], tmp_path: Path) -> None:
    make_gcc(tmp_path / "usr")
    env["PATH"] += f":{tmp_path}/usr/bin"
    found = detect(env, tmp_path)
    assert found.variant == "gnuarmemb" and found.cmake_args == PICOLIBC
    assert found.env == {
        "ZEPHYR_TOOLCHAIN_VARIANT": "gnuarmemb",
        "GNUARMEMB_TOOLCHAIN_PATH": str(tmp_path / "usr"),
    }
    assert found.describe == f"GNU Arm in {tmp_path}/usr with picolibc"


def test_a_compiler_cache_on_path_is_passed_over(env: dict[str, str], tmp_path: Path) -> None:
    make_gcc(tmp_path / "usr")
    shims = tmp_path / "usr" / "lib" / "ccache"
    shims.mkdir(parents=True)
    (tmp_path / "usr" / "bin" / "ccache").write_text("")
    (shims / GCC).symlink_to(tmp_path / "usr" / "bin" / "ccache")
    env["PATH"] = f"{shims}:{tmp_path}/usr/bin"
    assert detect(env, tmp_path).env["GNUARMEMB_TOOLCHAIN_PATH"] == str(tmp_path / "usr")


def test_a_link_on_path_leads_to_the_prefix(env: dict[str, str], tmp_path: Path) -> None:
    make_gcc(tmp_path / "arm-13", picolibc=False)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / GCC).symlink_to(tmp_path / "arm-13" / "bin" / GCC)
    env["PATH"] = f"{tmp_path}/links"
    found = detect(env, tmp_path)
    assert found.env["GNUARMEMB_TOOLCHAIN_PATH"] == str(tmp_path / "arm-13") and found.cmake_args == ()


def test_the_order_sdk_then_gnu_arm_then_path(env: dict[str, str], tmp_path: Path) -> None:
    make_gcc(tmp_path / "usr")
    env["PATH"] = f"{tmp_path}/usr/bin"
    gnu = tmp_path / "root" / "opt" / "gcc-arm-none-eabi-10.3"
    make_gcc(gnu, picolibc=False)
    found = detect(env, tmp_path)
    assert found.describe == f"GNU Arm in {gnu} with newlib"
    make_sdk(tmp_path / "root" / "opt" / "zephyr-sdk-0.18.0")  # in no registry
    assert detect(env, tmp_path) == found
    home = tmp_path / "home"
    sdk = make_sdk(tmp_path / "a" / "zephyr-sdk-0.9.5", home=home)
    assert detect(env, tmp_path).env["ZEPHYR_SDK_INSTALL_DIR"] == str(sdk)
    newer = make_sdk(tmp_path / "b" / "zephyr-sdk-0.17.0", home=home)
    assert detect(env, tmp_path).env == {
        "ZEPHYR_TOOLCHAIN_VARIANT": "zephyr",
        "ZEPHYR_SDK_INSTALL_DIR": str(newer),
    }


def test_an_sdk_without_its_arm_compiler_is_passed_over(env: dict[str, str], tmp_path: Path) -> None:
    make_sdk(tmp_path / "sdk", "riscv64-zephyr-elf", home=tmp_path / "home")
    with pytest.raises(BuildError, match="no compiler"):
        detect(env, tmp_path)


def test_boards_on_the_host_take_its_compiler(env: dict[str, str], tmp_path: Path) -> None:
    for variant in ("", "gnuarmemb"):
        found = detect_toolchain({**env, "ZEPHYR_TOOLCHAIN_VARIANT": variant}, arch="posix", root=tmp_path)
        assert found.variant == "host" and found.env == {"ZEPHYR_TOOLCHAIN_VARIANT": "host"}
    env["ZEPHYR_TOOLCHAIN_VARIANT"] = "llvm"
    assert detect_toolchain(env, arch="posix", root=tmp_path).variant == "llvm"


def test_another_core_takes_an_sdk_with_a_compiler_for_it(env: dict[str, str], tmp_path: Path) -> None:
    make_gcc(tmp_path / "usr")
    env["PATH"] = f"{tmp_path}/usr/bin"
    sdk = make_sdk(tmp_path / "zephyr-sdk-0.17.0", home=tmp_path / "home")
    with pytest.raises(BuildError, match="no compiler for riscv found"):
        detect_toolchain(env, arch="riscv", root=tmp_path / "root")
    make_sdk(sdk, "riscv64-zephyr-elf")
    for given in ({}, {"ZEPHYR_SDK_INSTALL_DIR": str(sdk)}):
        found = detect_toolchain({**env, **given}, arch="riscv", root=tmp_path / "root")
        assert found.env["ZEPHYR_SDK_INSTALL_DIR"] == str(sdk)
    with pytest.raises(BuildError, match="no compiler for arm64 found"):
        detect_toolchain(env, arch="arm64", root=tmp_path / "root")
    make_sdk(sdk, "aarch64-zephyr-elf")
    assert detect_toolchain(env, arch="arm64", root=tmp_path / "root").variant == "zephyr"
    with pytest.raises(BuildError, match="gnuarmemb: this toolchain is for Arm, and the board's core is riscv"):
        detect_toolchain({**env, "ZEPHYR_TOOLCHAIN_VARIANT": "gnuarmemb"}, arch="riscv", root=tmp_path / "root")


def test_the_users_choice_comes_first(env: dict[str, str], tmp_path: Path) -> None:
    make_sdk(tmp_path / "zephyr-sdk-0.17.0", home=tmp_path / "home")
    make_gcc(tmp_path / "mine")
    env["GNUARMEMB_TOOLCHAIN_PATH"] = str(tmp_path / "mine")
    assert detect(env, tmp_path).env["GNUARMEMB_TOOLCHAIN_PATH"] == str(tmp_path / "mine")
    env["ZEPHYR_TOOLCHAIN_VARIANT"] = "llvm"
    assert detect(env, tmp_path) == Toolchain("llvm", "llvm, from ZEPHYR_TOOLCHAIN_VARIANT")


@pytest.mark.parametrize(("picolibc", "library"), [(True, "picolibc"), (False, "newlib")])
def test_the_compiler_by_its_version_and_library(
    env: dict[str, str], tmp_path: Path, picolibc: bool, library: str
) -> None:
    make_gcc(tmp_path / "usr", picolibc=picolibc)
    env["GNUARMEMB_TOOLCHAIN_PATH"] = str(tmp_path / "usr")
    assert compiler_here(env) == f"GCC (15:12.2.rel1-1) 12.2.1 20221205, {library}"
    assert compiler_here({"ZEPHYR_TOOLCHAIN_VARIANT": "llvm"}) == ""
    assert compiler_here({"GNUARMEMB_TOOLCHAIN_PATH": "/none"}) == ""


def test_cross_compile_as_the_user_set_it(env: dict[str, str], tmp_path: Path) -> None:
    make_gcc(tmp_path / "usr")
    env |= {
        "ZEPHYR_TOOLCHAIN_VARIANT": "cross-compile",
        "CROSS_COMPILE": f"{tmp_path}/usr/bin/arm-none-eabi-",
    }
    found = detect(env, tmp_path)
    assert (found.variant, dict(found.env), found.cmake_args) == ("cross-compile", {}, PICOLIBC)
    check_suits(found, "mps2/an385")
    with pytest.raises(BuildError, match=r"TF-M does not take.*cross-compile.*gnuarmemb"):
        check_suits(found, "nrf9160dk/nrf9160/ns")


@pytest.mark.parametrize(
    "chosen",
    [
        {"ZEPHYR_TOOLCHAIN_VARIANT": "gnuarmemb"},
        {"ZEPHYR_TOOLCHAIN_VARIANT": "gnuarmemb", "GNUARMEMB_TOOLCHAIN_PATH": "/nonexistent"},
        {"GNUARMEMB_TOOLCHAIN_PATH": "/etc"},
        {"ZEPHYR_SDK_INSTALL_DIR": "/nonexistent"},
        {"ZEPHYR_TOOLCHAIN_VARIANT": "cross-compile"},
        {"ZEPHYR_TOOLCHAIN_VARIANT": "cross-compile", "CROSS_COMPILE": "/nonexistent-"},
    ],
)
def test_a_choice_that_is_not_there_is_named(env: dict[str, str], tmp_path: Path, chosen: dict[str, str]) -> None:
    with pytest.raises(BuildError, match=r"^(GNUARMEMB_TOOLCHAIN_PATH|ZEPHYR_SDK_INSTALL_DIR|CROSS_COMPILE)="):
        detect(env | chosen, tmp_path)


def test_none(env: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        detect(env, tmp_path)
    assert "apt install gcc-arm-none-eabi" in str(caught.value) and "\n" not in str(caught.value)


def test_a_compiler_without_cxx_headers(tmp_path: Path) -> None:
    make_gcc(tmp_path / "usr", headers=False)
    with pytest.raises(BuildError, match="libstdc"):
        gnu_arm(tmp_path / "usr")


def test_a_newlib_that_zephyr_refuses(tmp_path: Path) -> None:
    make_gcc(tmp_path / "usr", picolibc=False, locking=False)
    with pytest.raises(BuildError, match=r"retargetable locking.*picolibc"):
        gnu_arm(tmp_path / "usr")


def test_a_compiler_that_does_not_run(tmp_path: Path) -> None:
    make_gcc(tmp_path / "usr").write_bytes(os.urandom(16))
    with pytest.raises(BuildError, match=r"does not run|no headers"):
        gnu_arm(tmp_path / "usr")
