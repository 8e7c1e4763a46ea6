# SPDX-License-Identifier: Apache-2.0
"""The schema of all documents: tflm_zephyr/data/documents.schema.json, a JSON Schema of the draft 2020-12."""

from __future__ import annotations

import json
from typing import Any

from tflm_zephyr.resources import package_data

_NAME = "documents.schema.json"


def schema_text() -> str:
    """The schema's file."""
    return package_data(_NAME)


def kinds() -> dict[str, str]:
    """Kinds of documents, in the schema's order, each with a description."""
    definitions = load()["$defs"]
    return {name: definitions[f"document_{name}"]["description"] for name in _names(definitions)}


def load() -> dict[str, Any]:
    """The schema as JSON values."""
    found: dict[str, Any] = json.loads(schema_text())
    return found


def _names(definitions: dict[str, Any]) -> list[str]:
    return list(definitions["document"]["properties"]["document"]["enum"])
