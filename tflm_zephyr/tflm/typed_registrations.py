# SPDX-License-Identifier: Apache-2.0
"""Registration functions for single tensor types that a TFLM offers to every build.

The resolver's methods take a registration in place of the default one: AddConv2D(Register_CONV_2D_INT8()). A function
counts when a header that the resolver's includes declares it for libraries that have it and defines a fallback to
the plain one for those that have not, so that the same app compiles with either. The list is read from the TFLM in
the user's workspace; lists of the known revisions ship for when there is none.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tflm_zephyr.resources import package_data
from tflm_zephyr.tflm.op_resolver import HEADER
from tflm_zephyr.tflm.pins import PINNED_REVISION, data_folder

TYPED_FILE = "typed.json"

_INCLUDE = re.compile(r'^\s*#\s*include\s+"(tensorflow/lite/micro/kernels/[^"]+)"', re.M)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_DEFAULT = re.compile(r"TFLMRegistration\s*&\s*\w+\s*=\s*(Register_\w+)\s*\(\s*\)")
_DECLARED = re.compile(r"\bTFLMRegistration\s+(Register_\w+)\s*\(\s*\)\s*;")
_FALLBACK = re.compile(r"\binline\s+TFLMRegistration\s+(Register_\w+)\s*\(\s*\)\s*\{")


def shipped_typed(revision: str = PINNED_REVISION) -> tuple[str, ...]:
    """The functions of a known TFLM revision, sorted."""
    return tuple(json.loads(package_data(f"{data_folder(revision)}/{TYPED_FILE}"))["registrations"])


def dump_typed(names: tuple[str, ...], revision: str) -> str:
    """The JSON text that `shipped_typed` reads."""
    return json.dumps({"revision": revision, "registrations": names}, indent=1) + "\n"


def typed_for(tflm_dir: Path | None) -> tuple[str, ...]:
    """The functions of the tflite-micro checkout `tflm_dir`, sorted; those of the pinned revision when None."""
    if tflm_dir is None:
        return shipped_typed()
    resolver = _text(tflm_dir / HEADER)
    headers = [_text(tflm_dir / path) for path in _INCLUDE.findall(resolver)]
    declared = {name for text in headers for name in _DECLARED.findall(text)}
    fallbacks = {name for text in headers for name in _FALLBACK.findall(text)}
    bases = tuple(f"{name}_" for name in _DEFAULT.findall(resolver))
    return tuple(sorted(name for name in declared & fallbacks if name.startswith(bases)))


def _text(path: Path) -> str:
    try:
        return _COMMENT.sub(" ", path.read_text(encoding="utf-8", errors="replace"))
    except OSError:  # the resolver's own absence is reported where its calls are read
        return ""
