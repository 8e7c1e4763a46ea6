# SPDX-License-Identifier: Apache-2.0
"""In place of Zephyr's dtlib: the same classes over a .dts that is JSON after the preprocessor.

{"cpus": [compatible, ...], "chosen": {name: [address cells, size cells, reg]}}
"""

import json
from pathlib import Path


class DTError(Exception):
    """See dtlib."""


class Value:
    """A property's value, whatever the caller takes it for."""

    def __init__(self, value):
        self.to_num = self.to_nums = self.to_strings = self.to_path = lambda: value


class Node:
    """A node with properties and a parent."""

    def __init__(self, props, nodes=(), parent=None):
        self.props = {name: Value(value) for name, value in props.items()}
        self.nodes = dict(enumerate(nodes))
        self.parent = parent


class DT:
    """A parsed tree. Raises DTError for a file that is no JSON."""

    def __init__(self, path):
        try:
            raw = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as err:
            raise DTError(str(err)) from None
        chosen = {name: self._memory(*memory) for name, memory in raw.get("chosen", {}).items()}
        self._nodes = {"/chosen": Node(chosen)}
        if "cpus" in raw:
            self._nodes["/cpus"] = Node({}, [Node({"compatible": [name]} if name else {}) for name in raw["cpus"]])

    @staticmethod
    def _memory(address, size, reg):
        bus = Node({"#address-cells": address, "#size-cells": size})
        return Node({"reg": reg} if reg else {}, parent=bus)

    def has_node(self, path):
        return path in self._nodes

    def get_node(self, path):
        return self._nodes[path]
