# SPDX-License-Identifier: Apache-2.0
"""The part of an app that an object file or a symbol belongs to. Pure.

Zephyr's build names its libraries after their folders (zephyr_library() in its cmake/modules/extensions.cmake);
compilers' libraries go by their names. A kernel's file is recognised by the Register_<OPERATOR>() function in it, so
that the names are those of the TFLM that was linked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from tflm_zephyr.footprint.link_map import LINKER

MODEL, GOLDEN, ARENA, KERNELS = "model data", "golden data", "arena", "kernels"
TFLM, TFLM_ALL, APP, STACKS = "TFLM core", "TFLM with kernels", "app code", "thread stacks"
ZEPHYR_KERNEL, ZEPHYR_DRIVERS, ZEPHYR_ARCH = "Zephyr kernel", "Zephyr drivers", "Zephyr arch and boards"
ZEPHYR_OTHER, MODULES = "Zephyr other", "Zephyr modules"
LIBC, LIBGCC, CXX = "libc", "libgcc", "C++ runtime"
OTHER, PADDING, UNATTRIBUTED = "other", "padding", "unattributed"
ORDER = (
    MODEL, GOLDEN, ARENA, KERNELS, TFLM, TFLM_ALL, APP, STACKS, ZEPHYR_KERNEL, ZEPHYR_DRIVERS, ZEPHYR_ARCH,
    ZEPHYR_OTHER, MODULES, LIBC, LIBGCC, CXX, OTHER, PADDING, UNATTRIBUTED,
)  # fmt: skip
SHARED_KERNELS = "used by several operators"

_LIBC = re.compile(r"lib(c|m|g|c_nano|g_nano|m_nano|nosys|rdimon)\.a")
_LIBGCC = re.compile(r"libgcc\.a|libclang_rt\..*\.a|lib?crt.*")
_CRT = re.compile(r"crt\w*\.o|Scrt1\.o")
_CXX = re.compile(r"lib(stdc\+\+|supc\+\+|c\+\+|c\+\+abi|unwind)(_nano)?\.a")
_ZEPHYR = (
    ("zephyr/kernel/", ZEPHYR_KERNEL),
    ("zephyr/drivers/", ZEPHYR_DRIVERS),
    ("zephyr/arch/", ZEPHYR_ARCH),
    ("zephyr/soc/", ZEPHYR_ARCH),
    ("zephyr/boards/", ZEPHYR_ARCH),
    ("zephyr/CMakeFiles/", ZEPHYR_ARCH),  # interrupt tables and offsets
    ("zephyr/lib/libc/", LIBC),
    ("zephyr/", ZEPHYR_OTHER),
)
_CXX_MEMBERS = re.compile(r"cpp_\w+\.c(pp)?\.\w+")  # Zephyr's lib/cpp, which goes into libzephyr.a
_SOURCE = re.compile(r"\.(c|cc|cpp|cxx|S|s|asm)?\.?(obj|o)$")
_REGISTER = re.compile(r"Register_([A-Z][A-Z0-9_]*?)(?:_INT\d+(?:REF)?)*")
_KERNEL_HELPERS = frozenset({"kernel_util", "quantization_util", "portable_tensor_utils", "micro_tensor_utils"})
_KERNEL_FOLDER = re.compile(r"(^|/)(kernels|signal)(/|$)")
_NESTED = re.compile(r"_ZNK?")
_LENGTH = re.compile(r"L?(\d+)")
_STACK = re.compile(r"(?:^|_)stacks?$")
_TFLM_SPACES = frozenset({"tflite", "tflm_signal", "flatbuffers", "flexbuffers", "gemmlowp", "ruy", "kissfft"})

# The names that CMSIS-NN's functions start with (its Include/arm_nnfunctions.h), with the operator that they
# compute, then the other operators that call them. The first one that is in the app owns the function.
_CMSIS_NN = (
    ("arm_depthwise_", "DEPTHWISE_CONV_2D"),
    ("arm_convolve_", "CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED"),
    ("arm_transpose_conv", "TRANSPOSE_CONV"),
    ("arm_fully_connected", "FULLY_CONNECTED", "BATCH_MATMUL"),
    ("arm_vector_sum", "FULLY_CONNECTED", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM"),
    ("arm_batch_matmul", "BATCH_MATMUL"),
    ("arm_avgpool", "AVERAGE_POOL_2D"),
    ("arm_max_pool", "MAX_POOL_2D"),
    ("arm_softmax", "SOFTMAX"),
    ("arm_elementwise_add", "ADD"),
    ("arm_elementwise_mul", "MUL"),
    ("arm_maximum", "MAXIMUM"),
    ("arm_minimum", "MINIMUM"),
    ("arm_lstm", "UNIDIRECTIONAL_SEQUENCE_LSTM"),
    ("arm_svdf", "SVDF"),
    ("arm_pad", "PAD", "PADV2"),
    ("arm_transpose", "TRANSPOSE"),
    ("arm_concatenation", "CONCATENATION"),
    ("arm_reshape", "RESHAPE"),
    ("arm_nn_depthwise_", "DEPTHWISE_CONV_2D"),
    ("arm_nn_transpose_conv", "TRANSPOSE_CONV"),
    ("arm_nn_softmax", "SOFTMAX"),
    ("arm_nn_lstm", "UNIDIRECTIONAL_SEQUENCE_LSTM"),
)
_CMSIS_NN_SHARED = re.compile(r"arm_(nn_|nntables|relu|s8_to_s16|q7_to_q15)")


@dataclass(frozen=True)
class Owner:
    """The owner of bytes: a part from ORDER, and its detail (operators, an object file, a symbol)."""

    part: str
    detail: str = ""


def path_in_space(symbol: str) -> tuple[str, ...]:
    """The names of a C++ symbol without its parameters: namespaces (anonymous ones left out), class, name.

    `_ZN6models4sine7g_arenaE` is models, sine, g_arena (Itanium C++ ABI, 5.1.4). A C symbol is its own name.
    """
    start = _NESTED.match(symbol)
    if start is None:
        return (symbol,)
    names, place = [], start.end()
    while (length := _LENGTH.match(symbol, place)) is not None and len(length[1]) < 6:
        place = length.end() + int(length[1])
        names.append(symbol[length.end() : place])
    kept = tuple(name for name in names if not name.startswith("_GLOBAL__N"))
    return kept or (symbol,)


def readable_symbol(symbol: str) -> str:
    """A symbol's names with :: between."""
    return "::".join(path_in_space(symbol))


def is_arena(symbol: str) -> bool:
    """Whether the name of a zero-initialised variable is an arena's: g_arena, tensor_arena."""
    return "arena" in path_in_space(symbol)[-1].lower()


def is_stack(symbol: str) -> bool:
    """Whether the name of a zero-initialised variable is a stack's: z_main_stack, my_stack."""
    return _STACK.search(path_in_space(symbol)[-1]) is not None


def registered_operator(symbol: str) -> str | None:
    """The operator that a TFLM function registers: CONV_2D of `tflite::Register_CONV_2D_INT8()`."""
    match = _REGISTER.fullmatch(path_in_space(symbol)[-1])
    return match[1] if match else None


def stem(member: str) -> str:
    """An object file's name without its endings: conv of conv.cc.obj."""
    name = member.rpartition("/")[2]
    match = _SOURCE.search(name)
    return name[: match.start()] if match else name


@dataclass(frozen=True)
class ObjectFiles:
    """Facts about the object files beside their names.

    `operators`: by stem of a TFLM file, the operators that it registers. `folders`: by stem, the source folders
    of the files with that stem, where the build lists them. `app`: stems of the app's own files.
    """

    operators: Mapping[str, tuple[str, ...]]
    folders: Mapping[str, frozenset[str]]
    app: frozenset[str]

    @cached_property
    def _registered(self) -> frozenset[str]:
        return frozenset(operator for operators in self.operators.values() for operator in operators)

    def owner(self, archive: str, member: str) -> Owner:
        """The owner of `member` of `archive`, or of the object file `member` by itself."""
        library = archive.rpartition("/")[2]
        if member == LINKER or member == "linker stubs":
            return Owner(OTHER, member)
        for pattern, part in ((_LIBC, LIBC), (_LIBGCC, LIBGCC), (_CXX, CXX)):
            if pattern.fullmatch(library):
                return Owner(part, member)
        if not archive and _CRT.fullmatch(member.rpartition("/")[2]):
            return Owner(LIBGCC, member.rpartition("/")[2])
        if "cmsis-nn" in library or "cmsis_nn" in library:
            return cmsis_nn(stem(member), self._registered) or Owner(KERNELS, SHARED_KERNELS)
        if "tflm" in library or "tflite" in library:
            return self._tflm(member)
        return self._of_zephyr(archive, member)

    def _of_zephyr(self, archive: str, member: str) -> Owner:
        path = archive or member
        if path.startswith("app/"):
            return self._app(member)
        module = re.match(r"modules/([^/]+)/", path)
        if module is not None:
            return Owner(MODULES, module[1])
        if path.startswith("tfm/"):
            return Owner(MODULES, "trusted-firmware-m")
        if archive and _CXX_MEMBERS.fullmatch(member):
            return Owner(CXX, member)
        part = next((part for prefix, part in _ZEPHYR if path.startswith(prefix)), None)
        if part is not None:
            return Owner(part, member.rpartition("/")[2])
        return Owner(OTHER, path.rpartition("/")[2])

    def _app(self, member: str) -> Owner:
        name = stem(member)
        if name.endswith("_golden") and name.removesuffix("_golden") in self.app:
            return Owner(GOLDEN, name.removesuffix("_golden"))
        return Owner(APP, member)

    def _tflm(self, member: str) -> Owner:
        name = stem(member)
        of_cmsis_nn = cmsis_nn(name, self._registered)
        if of_cmsis_nn is not None:
            return of_cmsis_nn
        operators = self.operators.get(name) or self.operators.get(name.removesuffix("_common"))
        if operators:
            return Owner(KERNELS, ", ".join(operators))
        folders = self.folders.get(name)
        if folders is None:
            helper = name in _KERNEL_HELPERS or name.endswith("_common")
        else:  # an archive does not distinguish files of one name: core and kernel files then count as the core
            helper = all(_KERNEL_FOLDER.search(folder) for folder in folders)
        return Owner(KERNELS, SHARED_KERNELS) if helper else Owner(TFLM, member)


def cmsis_nn(name: str, registered: Collection[str] = ()) -> Owner | None:
    """The owner of CMSIS-NN's function or file `name`; None when it is not CMSIS-NN's.

    registered: the operators that are in the app, as far as known.
    """
    users = next((users for prefix, *users in _CMSIS_NN if name.startswith(prefix)), None)
    if users is not None:
        there = [operator for operator in users if operator in registered] if registered else users
        return Owner(KERNELS, there[0] if there else SHARED_KERNELS)
    return Owner(KERNELS, SHARED_KERNELS) if _CMSIS_NN_SHARED.match(name) else None


def registered(symbols: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Operators by stem, from (object file, symbol) pairs."""
    found: dict[str, set[str]] = {}
    for member, symbol in symbols:
        operator = registered_operator(symbol)
        if operator is not None:
            found.setdefault(stem(member), set()).add(operator)
    return {name: tuple(sorted(operators)) for name, operators in found.items()}


def by_name(symbol: str) -> Owner:
    """The owner of a symbol by its name alone; UNATTRIBUTED where the name does not show it."""
    names = path_in_space(symbol)
    if names[0] in _TFLM_SPACES:
        return Owner(TFLM_ALL)
    if symbol.startswith(("__aeabi_", "__gnu_")):
        return Owner(LIBGCC, symbol)
    return cmsis_nn(symbol) or Owner(UNATTRIBUTED, "symbols")
