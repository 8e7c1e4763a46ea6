# SPDX-License-Identifier: Apache-2.0
"""A model whose tensors have the names that a page must not believe."""

from __future__ import annotations

from itertools import pairwise

from tests.helpers.model_builder import ModelBuilder

TEXTS = (
    "\"quoted\" 'and' <b>bold</b> &amp;",
    "</script><script>window.hit=1</script>",
    "<img src=x onerror=window.hit=2>",
    "\u202egnp.exe\u202c",
    "<!--<script>",
    "x" * 10_000,
    "]]>{{ 7 * 7 }}${7*7}",
)


def hostile(*, plain: bool = False) -> bytes:
    """RELUs one after the other; each tensor has one of TEXTS as its name, or with `plain` a harmless one."""
    names = [f"tensor {k}" for k in range(len(TEXTS))] if plain else TEXTS
    model = ModelBuilder()
    main = model.subgraph("</title>")
    tensors = [main.tensor((1, 64), "int8", text, scale=1.0) for text in names]
    for source, result in pairwise(tensors):
        main.op("RELU", [source], [result])
    main.inputs, main.outputs = tensors[:1], tensors[-1:]
    return model.finish()
