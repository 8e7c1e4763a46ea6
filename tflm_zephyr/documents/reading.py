# SPDX-License-Identifier: Apache-2.0
"""Documents from files, each checked against the schema, as anyone may have written them.

The library is jsonschema, the reference for Python. It is imported for `report` alone, as that takes a while.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tflm_zephyr.documents.envelope import SCHEMA_VERSION, Document
from tflm_zephyr.documents.schema import load
from tflm_zephyr.errors import ToolError
from tflm_zephyr.plain_values import load_json, shown

_HINT = "Write one with --json: tflm-zephyr plan MODEL --json > plan.json"


def load_documents(path: Path) -> list[Document]:
    """The documents in the file `path`: one, or those of a `report` document. Raises ToolError, naming the file."""
    try:
        raw = load_json(path)
    except OSError as err:
        raise ToolError((err.strerror or str(err)).lower(), where=str(path)) from None
    except ValueError as err:
        raise ToolError(str(err), where=str(path), hint=_HINT) from None
    return list(parts_of(checked(raw, str(path))))


def checked(raw: object, where: str) -> Document:
    """`raw` as a document. Raises ToolError, naming `where` and the first value that the schema does not allow."""
    if not isinstance(raw, Mapping) or "document" not in raw:
        raise ToolError("is no document of tflm-zephyr", where=where, hint=_HINT)
    if raw.get("schema_version") != SCHEMA_VERSION:
        what = f"has the schema version {shown(raw.get('schema_version'))}, this toolkit reads {SCHEMA_VERSION}"
        raise ToolError(what, where=where, hint="Write it again with this toolkit")
    from jsonschema import exceptions

    error = exceptions.best_match(_validator().iter_errors(raw))
    if error is not None:
        what = f"{error.json_path} is not what a document of the kind {shown(raw['document'])} has there"
        raise ToolError(what, where=where, hint=" ".join(error.message.split())[:120])
    return raw


def parts_of(document: Document) -> Iterator[Document]:
    """The documents in a `report` document, in order; another document itself."""
    if document["document"] != "report":
        yield document
        return
    for part in document["documents"]:
        yield from parts_of(part)


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(load())
