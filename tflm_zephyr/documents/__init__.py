# SPDX-License-Identifier: Apache-2.0
"""The commands' results as JSON documents of one schema: writing them, and reading them back, checked."""

from tflm_zephyr.documents.envelope import Document, enveloped
from tflm_zephyr.documents.reading import checked, load_documents
from tflm_zephyr.documents.schema import kinds, schema_text
