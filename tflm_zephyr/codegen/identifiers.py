# SPDX-License-Identifier: Apache-2.0
"""Users' names as C++ identifiers, and the names that C++ or the app reserves."""

from __future__ import annotations

import re

_RESERVED = frozenset(
    (
        # Words of C++, and macros without arguments that a C library or a compiler defines.
        "alignas alignof and and_eq arm asm assert auto bitand bitor bool break case catch char char16_t char32_t "
        "char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit "
        "continue decltype default delete do double dynamic_cast else enum errno explicit export extern false float "
        "for friend goto if inline int linux long main mutable namespace new noexcept not not_eq nullptr operator or "
        "or_eq private protected public register reinterpret_cast requires return short signed sizeof static "
        "static_assert static_cast stderr stdin stdout struct switch template this thread_local throw true try "
        "typedef typeid typename union unix unsigned using virtual void volatile wchar_t while xor xor_eq "
        # Namespaces that the generated code names, and its own headers.
        "models report self_test std tensor tflite tflm_app"
    ).split()
)
_IDENTIFIER_CHARS = 40


def is_reserved(name: str) -> bool:
    """Whether `name` cannot be a variable of the app: a word of C++, a macro, or one of the app's namespaces."""
    return name in _RESERVED


def identifier(name: str) -> str:
    """`name` as a C++ identifier, short enough for file names and records: "Kws ref-model" -> "kws_ref_model"."""
    ident = re.sub(r"[^0-9a-z]+", "_", name.lower())[:_IDENTIFIER_CHARS].strip("_") or "model"
    if ident[0].isdigit():
        ident = f"m_{ident}"
    # A name that ends in _t may be a type's: size_t.
    return f"{ident}_model" if ident in _RESERVED or ident.endswith("_t") else ident
