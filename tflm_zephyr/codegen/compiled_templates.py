# SPDX-License-Identifier: Apache-2.0
"""Jinja's cache of compiled templates, kept from one run to the next: compiling all takes longer than the rest.

The cache is in Jinja's folder for this user below the temporary one. Jinja finds a template there by its path and the
checksum of its source; the options of the environment and Jinja's version, which decide what it is compiled to as well,
are in the file's name.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from importlib import metadata

import jinja2
from jinja2.bccache import Bucket


class _CompiledTemplates(jinja2.FileSystemBytecodeCache):
    """A cache that is done without where it cannot be read or written: a full disk, a folder that is gone."""

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read a template's code, none from a damaged file."""
        try:
            super().load_bytecode(bucket)
        except (OSError, ValueError, EOFError, pickle.UnpicklingError):
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write a template's code, if possible."""
        try:
            super().dump_bytecode(bucket)
        except OSError:
            return


def compiled_templates(options: Mapping[str, object]) -> jinja2.BytecodeCache | None:
    """The cache for an environment with `options`; None where no folder is the user's alone."""
    key = hashlib.sha256(repr((metadata.version("jinja2"), sorted(options.items()))).encode()).hexdigest()[:16]
    try:
        return _CompiledTemplates(pattern=f"tflm_zephyr_{key}_%s.cache")
    except (OSError, RuntimeError):
        return None
