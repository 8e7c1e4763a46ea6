# SPDX-License-Identifier: Apache-2.0
"""A .tflite file as frozen dataclasses: parse_model(bytes) and load_model(path).

The reader accepts the models that TFLM accepts (its rules are those of tensorflow/lite/micro at revision 8d404de7); a
malformed file, or one that TFLM would read beyond its bounds, ends in a ModelError that names the place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from tflm_zephyr.errors import ModelError
from tflm_zephyr.files import reading
from tflm_zephyr.model import schema, wall
from tflm_zephyr.model.flatbuffer import Reader, Table
from tflm_zephyr.model.types import Model, Operator, OperatorCode, Quantization, Subgraph, Tensor, TensorType, shown

_IDENTIFIER = b"TFL3"
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_LIMIT = 2**31
_EXPORT = "The file is corrupt; export it again"
_FOREIGN = (
    (b"PK\x03\x04", "a zip archive, perhaps a .keras model"),
    (b"\x89HDF", "a Keras HDF5 model"),
    (b"\x08", "perhaps a TensorFlow or ONNX protocol buffer"),
)
CALLERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "IF": ("IfOptions", ("then_subgraph_index", "else_subgraph_index")),
    "WHILE": ("WhileOptions", ("cond_subgraph_index", "body_subgraph_index")),
    "CALL_ONCE": ("CallOnceOptions", ("init_subgraph_index",)),
}
"""Operators that call subgraphs, by name: the options table and its fields in the order in which TFLM plans them
(MarkSubgraphLifetimesIfNecessary in micro_allocation_info.cc)."""
_COMPRESSION = "COMPRESSION_METADATA"


@lru_cache(maxsize=4)  # a command looks at one app in several ways, and each reads its models
def parse_model(data: bytes, *, where: str = "model") -> Model:
    """Read a .tflite file's bytes; `where` names it in errors. ModelError for anything malformed."""
    reader = Reader(data, where)
    _check_kind(reader)
    root = reader.root("Model")
    version = root.integer("version")
    if version != 3:
        raise reader.fail(f"schema version {version}, but TFLM reads version 3", "Convert the model again")
    for name in ("subgraphs", "buffers"):
        if root.span(name) is None:
            raise reader.fail(f"it has no {name}", _EXPORT)
    buffers = [_buffer(table) for table in root.children("buffers")]
    metadata = _metadata(root, buffers)
    codes = tuple(_operator_code(table) for table in root.children("operator_codes"))
    builder = _Builder(reader, buffers, metadata, codes, root)
    subgraphs = tuple(builder.subgraph(i, table) for i, table in enumerate(root.children("subgraphs")))
    if not subgraphs:
        raise reader.fail("it has no subgraphs", _EXPORT)
    return Model(
        version=version,
        description=root.text("description") or "",
        operator_codes=codes,
        subgraphs=subgraphs,
        metadata=metadata,
        data=data,
        where=where,
    )


def load_model(path: Path) -> Model:
    """Read a .tflite file and check it at the wall. ModelError when it cannot be read, is malformed or absurd."""
    with reading(path, ModelError, missing="Give the path of a .tflite file"):
        data = path.read_bytes()
    return wall.check(parse_model(data, where=str(path)))


def _check_kind(reader: Reader) -> None:
    data = reader.data
    if len(data) >= _LIMIT:
        raise reader.fail("it is larger than 2 GB", "TFLM cannot take a model of this size")
    if data[4:8] == _IDENTIFIER:
        return
    if data.startswith(_LFS_POINTER):
        raise reader.fail("a pointer of Git LFS, not the model itself", "Run `git lfs pull` in its repository")
    kind = next((f" ({text})" for magic, text in _FOREIGN if data.startswith(magic)), "")
    what = "it is empty" if not data else f"not a .tflite file{kind}: no TFL3 identifier"
    raise reader.fail(what, "Convert the model with the TensorFlow Lite converter")


def _buffer(table: Table) -> bytes | None:
    """A buffer's content, None when it has none. Data behind the flatbuffer is read like data in it."""
    offset, size = table.integer("offset"), table.integer("size")
    if offset > 1:
        data = table.reader.data
        if offset + size > len(data):
            raise table.reader.fail(f"{table.place}'s external data reaches beyond the file's end")
        table.reader.spend(size)
        return data[offset : offset + size] or None
    return table.blob("data") or None


def _metadata(root: Table, buffers: list[bytes | None]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for table in root.children("metadata"):
        name, buffer = table.text("name"), table.integer("buffer")
        if buffer >= len(buffers):
            raise root.reader.fail(f"metadata '{shown(name or '')}' names buffer {buffer} of {len(buffers)}")
        if name is not None:
            found[name] = buffers[buffer] or b""
    return found


def _operator_code(table: Table) -> OperatorCode:
    # The larger of the two is the code, whichever converter wrote it (TFLM, schema_utils.cc).
    code = max(table.integer("builtin_code"), table.integer("deprecated_builtin_code"))
    name, custom = schema.operator_name(code), table.text("custom_code")
    if name == "CUSTOM" and custom is None:
        raise table.reader.fail(f"{table.place} is a custom operator without a name", _EXPORT)
    if name in CALLERS and table.integer("builtin_code") != code:
        raise table.reader.fail(
            f"{table.place}: {name} stands in the old one-byte field only, where TFLM's planner overlooks it",
            "Convert the model again with TensorFlow 2.4 or later",
        )
    return OperatorCode(code, name, custom if name == "CUSTOM" else None, table.integer("version"))


class _Builder:
    """Builds subgraphs from the buffers, metadata and operator codes that all of them share."""

    def __init__(
        self,
        reader: Reader,
        buffers: list[bytes | None],
        metadata: Mapping[str, bytes],
        codes: tuple[OperatorCode, ...],
        root: Table,
    ) -> None:
        self._reader, self._buffers, self._metadata, self._codes = reader, buffers, metadata, codes
        span = root.span("subgraphs")
        self._subgraph_count = span[1] if span else 0

    def subgraph(self, index: int, table: Table) -> Subgraph:
        if table.span("tensors") is None:
            raise self._reader.fail(f"subgraph {index} has no tensors", _EXPORT)
        tensors = tuple(self._tensor(f"subgraph {index}", i, t) for i, t in enumerate(table.children("tensors")))
        count = len(tensors)
        inputs = self._indices(table, "inputs", count, f"subgraph {index}")
        outputs = self._indices(table, "outputs", count, f"subgraph {index}")
        operators = tuple(
            self._operator(f"subgraph {index}", i, t, count) for i, t in enumerate(table.children("operators"))
        )
        return Subgraph(index, table.text("name") or "", tensors, operators, inputs, outputs)

    def _indices(self, table: Table, name: str, count: int, owner: str, lowest: int = 0) -> tuple[int, ...]:
        found = table.integers(name)
        for value in found:
            if not lowest <= value < count:
                raise self._reader.fail(f"{owner}'s {name} name tensor {value} of {count}")
        return found

    def _tensor(self, owner: str, index: int, table: Table) -> Tensor:
        name = table.text("name") or ""
        called = f"tensor {index} '{shown(name)}' of {owner}"
        number, buffer = table.integer("type"), table.integer("buffer")
        type_name = schema.type_name(number)
        if type_name is None:
            raise self._reader.fail(f"{called} has type number {number}, which TFLM does not know", "")
        if buffer >= len(self._buffers):
            raise self._reader.fail(f"{called} names buffer {buffer} of {len(self._buffers)}")
        tensor = Tensor(
            index=index,
            name=name,
            type=TensorType(type_name),
            shape=table.integers("shape"),
            buffer=buffer,
            data=None,
            is_variable=bool(table.scalar("is_variable")),
            quantization=_quantization(table.child("quantization")),
            shape_signature=table.integers("shape_signature"),
        )
        self._check_size(tensor, called)
        data = self._buffers[buffer]
        return tensor if data is None else replace(tensor, data=self._data(tensor, data, called, table.has("sparsity")))

    def _check_size(self, tensor: Tensor, called: str) -> None:
        product = tensor.type.size_bytes if tensor.type.has_size else 1
        for length in tensor.shape:
            if length < 0:
                raise self._reader.fail(
                    f"{called} has the dynamic shape {list(tensor.shape)}",
                    "TFLM needs fixed shapes: convert with them",
                )
            # TFLM multiplies in this order in an int; it must not overflow on the way, even towards zero.
            product *= length
            if product >= _LIMIT:
                raise self._reader.fail(f"{called} with shape {list(tensor.shape)} is 2 GB or more", _EXPORT)

    def _data(self, tensor: Tensor, data: bytes, called: str, sparse: bool) -> bytes:
        """A constant's bytes in a buffer, which may be longer than the tensor: TFLM reads no further than its end."""
        if sparse:
            raise self._reader.fail(f"{called} is stored sparsely, which TFLM cannot read", "Convert it dense")
        if not tensor.type.has_size:
            return data
        needed = (tensor.elements + 1) // 2 if tensor.type is TensorType.INT4 else tensor.size_bytes
        if len(data) < needed:
            packed = _COMPRESSION in self._metadata
            raise self._reader.fail(
                f"{called} needs {needed} bytes of data and has {len(data)}",
                "Use the model as it was before TFLM's compression, which is not supported" if packed else _EXPORT,
            )
        return data[:needed]

    def _operator(self, owner: str, index: int, table: Table, count: int) -> Operator:
        opcode = table.integer("opcode_index")
        if opcode >= len(self._codes):
            raise self._reader.fail(f"operator {index} of {owner} names operator code {opcode} of {len(self._codes)}")
        code = self._codes[opcode]
        called = f"operator {index} ({shown(code.custom_code or code.name)}) of {owner}"
        # Newer operators have their options in a second union.
        options = table.child("builtin_options") or table.child("builtin_options2")
        if table.integer("large_custom_options_offset") > 1:
            raise self._reader.fail(f"{called} has options behind the flatbuffer, which TFLM does not read", "")
        if code.custom_code is None and table.has("custom_options"):
            raise self._reader.fail(f"{called} is a builtin with custom options, which TFLM refuses", _EXPORT)
        return Operator(
            index=index,
            opcode_index=opcode,
            builtin_code=code.builtin_code,
            name=code.name,
            custom_code=code.custom_code,
            version=code.version,
            inputs=self._indices(table, "inputs", count, called, lowest=-1),
            outputs=self._indices(table, "outputs", count, called),
            intermediates=self._indices(table, "intermediates", count, called),
            options={} if options is None else options.values(),
            options_name="" if options is None else options.name,
            custom_options=table.blob("custom_options") or b"",
            subgraphs=self._called(code, options, called),
        )

    def _called(self, code: OperatorCode, options: Table | None, called: str) -> tuple[int, ...]:
        if code.name not in CALLERS:
            return ()
        table, names = CALLERS[code.name]
        if options is None or options.name != table:
            raise self._reader.fail(f"{called} does not say which subgraphs it calls", _EXPORT)
        found = tuple(options.integer(name) for name in names)
        for value in found:
            if not 0 <= value < self._subgraph_count:
                raise self._reader.fail(f"{called} calls subgraph {value} of {self._subgraph_count}")
        return found


def _quantization(table: Table | None) -> Quantization | None:
    """TFLM's rule: scales and zero points, or it is not quantised (micro_allocator.cc)."""
    if table is None:
        return None
    scales, zeros = tuple(map(float, table.numbers("scale"))), table.integers("zero_point")
    if not scales or not zeros:
        return None
    if len(zeros) != len(scales):
        zeros = zeros[:1] * len(scales)
    return Quantization(scales, zeros, table.integer("quantized_dimension"))
