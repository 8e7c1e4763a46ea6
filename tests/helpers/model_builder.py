# SPDX-License-Identifier: Apache-2.0
"""Small synthetic .tflite models for tests, written by the `tflite` package's own builder functions.

    model = ModelBuilder()
    main = model.subgraph("main")
    x = main.tensor((1, 4), "int8", "x", scale=0.5, zero_point=-1)
    w = main.tensor((8, 4), "int8", "w", scale=0.25, data="random")
    y = main.tensor((1, 8), "int8", "y", scale=0.5)
    main.op("FULLY_CONNECTED", [x, w, -1], [y], options={"fused_activation_function": 1})
    main.inputs, main.outputs = [x], [y]
    data = model.finish()

What it writes is independent of the package under test. The same calls give the same bytes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import tflite

_SIZES = {
    "float32": 4, "float16": 2, "int32": 4, "uint8": 1, "int64": 8, "bool": 1, "int16": 2, "int8": 1,
    "complex64": 8, "float64": 8, "complex128": 16, "uint64": 8, "resource": 4, "uint32": 4, "uint16": 2,
    "int4": 1, "bfloat16": 2, "string": 0, "variant": 0,
}  # fmt: skip
# Operators whose options table is not named after them.
_OPTIONS_NAMES = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "L2_POOL_2D": "Pool2DOptions",
    "MEAN": "ReducerOptions",
    "SUM": "ReducerOptions",
    "REDUCE_MAX": "ReducerOptions",
    "REDUCE_MIN": "ReducerOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "L2_NORMALIZATION": "L2NormOptions",
}


@dataclass
class _Tensor:
    shape: tuple[int, ...] | None
    type: int
    name: str
    data: bytes | None
    variable: bool
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    dimension: int
    signature: tuple[int, ...] | None
    buffer: int | None


@dataclass
class _Operator:
    code: int
    custom_code: str | None
    version: int
    inputs: list[int]
    outputs: list[int]
    intermediates: list[int]
    options: Mapping[str, Any]
    options_name: str | None
    custom_options: bytes | None


@dataclass
class SubgraphBuilder:
    """One subgraph; tensors and operators are numbered in the order of the calls."""

    name: str
    rng: random.Random
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    tensors: list[_Tensor] = field(default_factory=list)
    operators: list[_Operator] = field(default_factory=list)

    def tensor(
        self,
        shape: Sequence[int] | None,
        type: str = "int8",
        name: str | None = None,
        *,
        data: bytes | str | Any = None,
        scale: float | Sequence[float] | None = None,
        zero_point: int | Sequence[int] = 0,
        dimension: int = 0,
        variable: bool = False,
        signature: Sequence[int] | None = None,
        buffer: int | None = None,
    ) -> int:
        """Add a tensor and return its index.

        `data` makes it constant: bytes, a numpy array, or "random" for seeded bytes of the right length; b""
        gives it an empty buffer of its own. Without data it has buffer 0. A sequence of scales is per-channel
        quantisation along `dimension`. `buffer` names a buffer by index, shared or (in tests of bad input)
        absent.
        """
        if isinstance(data, str):
            if data != "random":
                raise ValueError(f"data={data!r}")
            data = self.rng.randbytes(math.prod(shape or ()) * _SIZES[type])
        elif data is not None and not isinstance(data, bytes):
            data = data.tobytes()
        if scale is None:
            scales: tuple[float, ...] = ()
            zeros: tuple[int, ...] = ()
        else:
            scales = (float(scale),) if isinstance(scale, int | float) else tuple(scale)
            zeros = (zero_point,) * len(scales) if isinstance(zero_point, int) else tuple(zero_point)
        self.tensors.append(
            _Tensor(
                shape=None if shape is None else tuple(shape),
                type=getattr(tflite.TensorType, type.upper()),
                name=f"t{len(self.tensors)}" if name is None else name,
                data=data,
                variable=variable,
                scales=scales,
                zero_points=zeros,
                dimension=dimension,
                signature=None if signature is None else tuple(signature),
                buffer=buffer,
            )
        )
        return len(self.tensors) - 1

    def op(
        self,
        code: str | int,
        inputs: Sequence[int],
        outputs: Sequence[int],
        *,
        options: Mapping[str, Any] | None = None,
        options_name: str | None = None,
        custom_code: str | None = None,
        custom_options: bytes | None = None,
        intermediates: Sequence[int] = (),
        version: int = 1,
    ) -> int:
        """Add an operator ("CONV_2D", or any integer code) and return its index.

        `options` are the fields of its options table in snake_case; the table's name follows from the code
        unless `options_name` gives it. `custom_code` makes it a custom operator, whatever `code` says.
        """
        if custom_code is not None:
            number = tflite.BuiltinOperator.CUSTOM
        else:
            number = code if isinstance(code, int) else getattr(tflite.BuiltinOperator, code)
        if options is not None and options_name is None:
            options_name = _options_name(str(code))
        self.operators.append(
            _Operator(
                code=number,
                custom_code=custom_code,
                version=version,
                inputs=list(inputs),
                outputs=list(outputs),
                intermediates=list(intermediates),
                options=dict(options or {}),
                options_name=options_name,
                custom_options=custom_options,
            )
        )
        return len(self.operators) - 1


class ModelBuilder:
    """A whole model; `seed` decides the "random" constants."""

    def __init__(self, *, seed: int = 0, version: int = 3, description: str = "synthetic") -> None:
        self.rng = random.Random(seed)
        self.version, self.description = version, description
        self.subgraphs: list[SubgraphBuilder] = []
        self.metadata_entries: list[tuple[str, bytes]] = []

    def subgraph(self, name: str = "main") -> SubgraphBuilder:
        """Add a subgraph; the first is the main one."""
        self.subgraphs.append(SubgraphBuilder(name, self.rng))
        return self.subgraphs[-1]

    def metadata(self, name: str, data: bytes) -> None:
        """Add a metadata entry."""
        self.metadata_entries.append((name, data))

    def finish(self, *, align: int = 16, external: bool = False, legacy_codes: bool = False) -> bytes:
        """The file's bytes.

        `align`: what buffers are aligned to, counted from the file's start (1 gives whatever comes).
        `external`: constants stand behind the flatbuffer (Buffer.offset and .size, for files above 2 GB).
        `legacy_codes`: builtin codes only in the old one-byte field.
        """
        # Offsets of external data depend on the flatbuffer's size, which does not depend on them.
        base = len(self._write(align, legacy_codes, 0)[0]) if external else None
        data, tail = self._write(align, legacy_codes, base if external else None)
        return data + tail

    def _write(self, align: int, legacy_codes: bool, external_base: int | None) -> tuple[bytes, bytes]:
        b = flatbuffers.Builder(1024)
        blobs: list[bytes | None] = [None]
        subgraphs = [self._subgraph(b, s, blobs) for s in self.subgraphs]
        codes = [self._opcode(b, key, legacy_codes) for key in self._codes()]
        metadata = []
        for name, data in self.metadata_entries:
            blobs.append(data)
            text = b.CreateString(name)
            tflite.MetadataStart(b)
            tflite.MetadataAddName(b, text)
            tflite.MetadataAddBuffer(b, len(blobs) - 1)
            metadata.append(tflite.MetadataEnd(b))
        tail = bytearray()
        buffers = [self._buffer(b, blob, align, external_base, tail) for blob in blobs]
        description = b.CreateString(self.description)
        vectors = [_offsets(b, v) for v in (codes, subgraphs, buffers)]
        metadata_vector = _offsets(b, metadata) if metadata else None
        tflite.ModelStart(b)
        tflite.ModelAddVersion(b, self.version)
        tflite.ModelAddOperatorCodes(b, vectors[0])
        tflite.ModelAddSubgraphs(b, vectors[1])
        tflite.ModelAddDescription(b, description)
        tflite.ModelAddBuffers(b, vectors[2])
        if metadata_vector is not None:
            tflite.ModelAddMetadata(b, metadata_vector)
        b.Finish(tflite.ModelEnd(b), file_identifier=b"TFL3")
        return bytes(b.Output()), bytes(tail)

    def _codes(self) -> list[tuple[int, str | None, int]]:
        keys = [(o.code, o.custom_code, o.version) for s in self.subgraphs for o in s.operators]
        return list(dict.fromkeys(keys))

    @staticmethod
    def _opcode(b: Any, key: tuple[int, str | None, int], legacy: bool) -> int:
        code, custom, version = key
        text = None if custom is None else b.CreateString(custom)
        tflite.OperatorCodeStart(b)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(code, 127))
        if text is not None:
            tflite.OperatorCodeAddCustomCode(b, text)
        tflite.OperatorCodeAddVersion(b, version)
        if not legacy:
            tflite.OperatorCodeAddBuiltinCode(b, code)
        return int(tflite.OperatorCodeEnd(b))

    @staticmethod
    def _buffer(b: Any, blob: bytes | None, align: int, external_base: int | None, tail: bytearray) -> int:
        if blob is None:
            tflite.BufferStart(b)
            return int(tflite.BufferEnd(b))
        if external_base is not None:
            tail += bytes(-(external_base + len(tail)) % align)
            tflite.BufferStart(b)
            tflite.BufferAddOffset(b, max(external_base + len(tail), 2))
            tflite.BufferAddSize(b, max(len(blob), 1))
            tail += blob
            return int(tflite.BufferEnd(b))
        b.StartVector(1, len(blob), align)
        b.head -= len(blob)
        b.Bytes[b.Head() : b.Head() + len(blob)] = blob
        data = b.EndVector()
        tflite.BufferStart(b)
        tflite.BufferAddData(b, data)
        return int(tflite.BufferEnd(b))

    def _subgraph(self, b: Any, subgraph: SubgraphBuilder, blobs: list[bytes | None]) -> int:
        tensors = _offsets(b, [self._tensor(b, t, blobs) for t in subgraph.tensors])
        codes = self._codes()
        operators = _offsets(b, [self._operator(b, o, codes) for o in subgraph.operators])
        inputs, outputs = _ints(b, subgraph.inputs), _ints(b, subgraph.outputs)
        name = b.CreateString(subgraph.name)
        tflite.SubGraphStart(b)
        tflite.SubGraphAddTensors(b, tensors)
        tflite.SubGraphAddInputs(b, inputs)
        tflite.SubGraphAddOutputs(b, outputs)
        tflite.SubGraphAddOperators(b, operators)
        tflite.SubGraphAddName(b, name)
        return int(tflite.SubGraphEnd(b))

    @staticmethod
    def _tensor(b: Any, tensor: _Tensor, blobs: list[bytes | None]) -> int:
        buffer = tensor.buffer
        if buffer is None:
            buffer = 0
            if tensor.data is not None:
                blobs.append(tensor.data)
                buffer = len(blobs) - 1
        quantization = None
        if tensor.scales:
            scale = _vector(b, tensor.scales, 4, b.PrependFloat32)
            zero = _vector(b, tensor.zero_points, 8, b.PrependInt64)
            tflite.QuantizationParametersStart(b)
            tflite.QuantizationParametersAddScale(b, scale)
            tflite.QuantizationParametersAddZeroPoint(b, zero)
            tflite.QuantizationParametersAddQuantizedDimension(b, tensor.dimension)
            quantization = tflite.QuantizationParametersEnd(b)
        shape = None if tensor.shape is None else _ints(b, tensor.shape)
        signature = None if tensor.signature is None else _ints(b, tensor.signature)
        name = b.CreateString(tensor.name)
        tflite.TensorStart(b)
        if shape is not None:
            tflite.TensorAddShape(b, shape)
        tflite.TensorAddType(b, tensor.type)
        tflite.TensorAddBuffer(b, buffer)
        tflite.TensorAddName(b, name)
        if quantization is not None:
            tflite.TensorAddQuantization(b, quantization)
        tflite.TensorAddIsVariable(b, tensor.variable)
        if signature is not None:
            tflite.TensorAddShapeSignature(b, signature)
        return int(tflite.TensorEnd(b))

    @staticmethod
    def _operator(b: Any, op: _Operator, codes: list[tuple[int, str | None, int]]) -> int:
        options = _options(b, op.options_name, op.options) if op.options_name else None
        custom = b.CreateByteVector(op.custom_options) if op.custom_options is not None else None
        inputs, outputs = _ints(b, op.inputs), _ints(b, op.outputs)
        intermediates = _ints(b, op.intermediates) if op.intermediates else None
        tflite.OperatorStart(b)
        tflite.OperatorAddOpcodeIndex(b, codes.index((op.code, op.custom_code, op.version)))
        tflite.OperatorAddInputs(b, inputs)
        tflite.OperatorAddOutputs(b, outputs)
        if options is not None:
            tflite.OperatorAddBuiltinOptionsType(b, getattr(tflite.BuiltinOptions, op.options_name or ""))
            tflite.OperatorAddBuiltinOptions(b, options)
        if custom is not None:
            tflite.OperatorAddCustomOptions(b, custom)
        if intermediates is not None:
            tflite.OperatorAddIntermediates(b, intermediates)
        return int(tflite.OperatorEnd(b))


def chain(operators: int = 3, size: int = 64, *, seed: int = 0) -> bytes:
    """A ready model: an int8 input through `operators` RELUs of `size` bytes each."""
    model = ModelBuilder(seed=seed)
    main = model.subgraph("main")
    first = last = main.tensor((1, size), "int8", "input", scale=0.5)
    for index in range(operators):
        following = main.tensor((1, size), "int8", f"relu{index}", scale=0.5)
        main.op("RELU", [last], [following])
        last = following
    main.inputs, main.outputs = [first], [last]
    return model.finish()


def _options_name(code: str) -> str:
    if code in _OPTIONS_NAMES:
        return _OPTIONS_NAMES[code]
    wanted = code.replace("_", "").lower() + "options"
    for name in vars(tflite.BuiltinOptions):
        if name.lower() == wanted:
            return name
    raise ValueError(f"give options_name for {code}")


def _options(b: Any, name: str, values: Mapping[str, Any]) -> int:
    table = name
    prepared: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, str):
            prepared[key] = b.CreateString(value)
        elif isinstance(value, list | tuple):
            prepared[key] = _ints(b, value)
        else:
            prepared[key] = value
    getattr(tflite, table + "Start")(b)
    for key, value in prepared.items():
        getattr(tflite, f"{table}Add{_camel(key)}")(b, value)
    return int(getattr(tflite, table + "End")(b))


def _camel(key: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in key.split("_"))


def _ints(b: Any, values: Sequence[int]) -> int:
    return _vector(b, values, 4, b.PrependInt32)


def _offsets(b: Any, values: Sequence[int]) -> int:
    return _vector(b, values, 4, b.PrependUOffsetTRelative)


def _vector(b: Any, values: Sequence[Any], width: int, prepend: Any) -> int:
    b.StartVector(width, len(values), width)
    for value in reversed(values):
        prepend(value)
    return int(b.EndVector())
