# SPDX-License-Identifier: Apache-2.0
"""Writing models: an offline memory plan added or removed, every buffer aligned to 16 bytes.

The old file stays as it is. A new root table, list of buffers and list of metadata are put before it, because
FlatBuffers offsets point forward only, and data that moves is put behind it and cut from its old place.
Fields that the schema does not know survive everywhere but in the root table.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from tflm_zephyr.errors import ModelError, PlanError
from tflm_zephyr.model import schema
from tflm_zephyr.model.flatbuffer import Reader, Table
from tflm_zephyr.model.flatbuffer_edit import ALIGNMENT, Writer, cut
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.types import OFFLINE_PLAN, Model, Subgraph, TensorType

_PLAN_VERSION = 1


def with_offline_plan(model: Model, offsets: Sequence[int]) -> bytes:
    """The model with `offsets` as its offline plan, in place of any that it has.

    One arena offset in bytes for each tensor of all subgraphs, -1 = placed by TFLM. Format: int32
    [version = 1, number of subgraphs, count, offsets...] (TFLM, micro/docs/memory_management.md). PlanError
    when there are not as many offsets as tensors, or one is no offset.
    """
    if len(offsets) != model.tensor_count:
        what = f"{len(offsets)} offsets for {model.tensor_count} tensors"
        raise PlanError(what, where=model.where, hint="Plan the model again")
    for index, offset in enumerate(offsets):
        if not -1 <= offset < 2**31:
            what = f"tensor {index} has the offset {offset}"
            raise PlanError(what, where=model.where, hint="Plan the model again")
    words = (_PLAN_VERSION, len(model.subgraphs), len(offsets), *offsets)
    return _rewritten(model, struct.pack(f"<{len(words)}i", *words))


def without_offline_plan(model: Model) -> bytes:
    """The model without an offline plan; its own bytes when it has none and is aligned."""
    return _rewritten(model, None)


def planned(model: Model, offsets: Sequence[int] | None) -> bytes:
    """The aligned model with `offsets` as its offline plan, or without a plan for None."""
    return without_offline_plan(model) if offsets is None else with_offline_plan(model, offsets)


def in_operator_order(model: Model, order: Sequence[int]) -> Model:
    """The model with the main subgraph's operators in `order`: their indices, each once.

    The file's bytes but for the vector of offsets to the operators, which point forward from wherever they stand in it.
    PlanError for another list than one of all operators, and where the file's parts overlap.
    """
    count = len(model.main.operators)
    if sorted(order) != list(range(count)):
        what = f"not an order of the model's operators: {len(order)} given, for {count}"
        raise PlanError(what, where=model.where, hint=f"Name each of them once, 0 to {count - 1}")
    main = next(iter(Reader(model.data, model.where).root("Model").children("subgraphs")))
    targets = [table.pos for table in main.children("operators")]
    start, _ = main.span("operators") or (0, 0)
    patched = bytearray(model.data)
    if targets and min(targets) < start + 4 * len(targets):
        raise PlanError("its operators lie before the list of them", where=model.where, hint="Keep the model's order")
    for number, operator in enumerate(order):
        pos = start + 4 * number
        struct.pack_into("<I", patched, pos, targets[operator] - pos)
    read = parse_model(bytes(patched), where=model.where)
    wanted = [replace(model.main.operators[operator], index=number) for number, operator in enumerate(order)]
    others = _same((read.subgraphs[1:], read.main.tensors), (model.subgraphs[1:], model.main.tensors))
    if not others or not _same(list(read.main.operators), wanted):
        raise PlanError(
            "the file's parts overlap", where=model.where, hint="Keep the model's order, or export it again"
        )
    return read


def without_conversions(model: Model) -> Model:
    """The model without the QUANTIZE and DEQUANTIZE at its ends that make int8 of float or uint8, or the reverse.

    Its int8 tensors become inputs and outputs. The file's bytes but for the main subgraph's lists; the tensors and the
    codes of these operators stay. ModelError where there is none, and where the file's parts overlap.
    """
    renamed, dropped = _conversions(model.main)
    if not dropped:
        what = "it has no QUANTIZE or DEQUANTIZE between float or uint8 and int8 at its ends"
        raise ModelError(what, where=model.where, hint="Leave out io: int8")
    patched, main = (
        bytearray(model.data),
        next(iter(Reader(model.data, model.where).root("Model").children("subgraphs"))),
    )
    ends = {name: [renamed.get(i, i) for i in getattr(model.main, name)] for name in ("inputs", "outputs")}
    for name, tensors in ends.items():
        start, count = main.span(name) or (0, 0)
        struct.pack_into(f"<{count}i", patched, start, *tensors)
    kept = [operator for operator in model.main.operators if operator.index not in dropped]
    targets = [table.pos for table in main.children("operators")]
    start, _ = main.span("operators") or (0, 0)
    struct.pack_into("<I", patched, start - 4, len(kept))
    for number, operator in enumerate(kept):
        pos = start + 4 * number
        struct.pack_into("<i", patched, pos, targets[operator.index] - pos)
    read = parse_model(bytes(patched), where=model.where)
    wanted = replace(
        model.main,
        operators=tuple(replace(operator, index=number) for number, operator in enumerate(kept)),
        inputs=tuple(ends["inputs"]),
        outputs=tuple(ends["outputs"]),
    )
    if not _same(read.subgraphs, (wanted, *model.subgraphs[1:])):
        raise ModelError("the file's parts overlap", where=model.where, hint="Export it again, or leave out io: int8")
    return read


def conversion_bytes(model: Model) -> int:
    """Bytes that the inputs and outputs of without_conversions() take less."""
    renamed, _ = _conversions(model.main)
    return sum(model.main.tensors[i].size_bytes - model.main.tensors[k].size_bytes for i, k in renamed.items())


def _conversions(main: Subgraph) -> tuple[dict[int, int], set[int]]:
    """The inputs and outputs that int8 tensors take the place of, and the operators between them."""
    renamed: dict[int, int] = {}
    dropped = set()
    for operator in main.operators:
        if operator.key not in ("QUANTIZE", "DEQUANTIZE"):
            continue
        source, result = main.tensors[operator.inputs[0]], main.tensors[operator.outputs[0]]
        outer, inner = (source, result) if source.index in main.inputs else (result, source)
        users = [one for one in main.operators if outer.index in one.inputs]
        alone = (users == [operator] and outer is source) or (not users and outer.index in main.outputs)
        taken = {*main.inputs, *main.outputs, *renamed.values()}
        free = (
            inner.index not in taken and not inner.is_constant and outer.index not in {*main.inputs} & {*main.outputs}
        )
        kinds = outer.type in (TensorType.FLOAT32, TensorType.UINT8) and inner.type is TensorType.INT8
        if alone and free and kinds:
            renamed[outer.index] = inner.index
            dropped.add(operator.index)
    return renamed, dropped


def _same(one: object, other: object) -> bool:
    """Whether both are equal, NaN to NaN; repr, which knows that, takes ten times as long."""
    return one == other or repr(one) == repr(other)


def misaligned_buffers(model: Model) -> tuple[int, ...]:
    """Indices of the buffers whose data TFLM could not read in place: unaligned, or behind the flatbuffer."""
    buffers = Reader(model.data, model.where).root("Model").children("buffers")
    return tuple(i for i, table in enumerate(buffers) if not _is_aligned(table))


def normalised_for_litert(data: bytes) -> tuple[bytes, tuple[str, ...]]:
    """A copy that LiteRT accepts, and the changes as text.

    LiteRT refuses a quantized_dimension outside the tensor's shape, which TFLM ignores where the tensor has
    one scale or one dimension: it becomes 0 there. ModelError for a malformed file.
    """
    model = parse_model(data)
    patched, changed = bytearray(data), []
    slot = schema.fields("QuantizationParameters")["quantized_dimension"].slot
    subgraphs = Reader(data, model.where).root("Model").children("subgraphs")
    for subgraph, table in zip(model.subgraphs, subgraphs, strict=True):
        for tensor, entry in zip(subgraph.tensors, table.children("tensors"), strict=True):
            quantization, rank, details = tensor.quantization, len(tensor.shape), entry.child("quantization")
            if quantization is None or details is None or (quantization.per_channel and rank != 1):
                continue
            pos = details.slot_pos(slot, 4)
            if pos is None or (quantization.dimension >= 0 and (rank == 0 or quantization.dimension < rank)):
                continue
            struct.pack_into("<i", patched, pos, 0)
            changed.append(f"{tensor.label} from {quantization.dimension}")
    if not changed:
        return data, ()
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return bytes(patched), (f"quantized_dimension, outside the shape, set to 0: {changed[0]}{more}",)


def _place(table: Table) -> tuple[int, int] | None:
    """The start and end of a Buffer's content; None when it has none."""
    offset, size = table.integer("offset"), table.integer("size")
    if offset > 1:
        return (offset, offset + size) if size else None
    start, count = table.span("data") or (0, 0)
    return (start, start + count) if count else None


def _is_aligned(table: Table) -> bool:
    place = _place(table)
    return place is None or (table.integer("offset") <= 1 and place[0] % ALIGNMENT == 0)


def _rewritten(model: Model, plan: bytes | None) -> bytes:
    """The model with `plan`, or without one, and its buffers aligned, checked by reading it back."""
    return _rewritten_file(model.data, model.where, plan)


@lru_cache(maxsize=4)
def _rewritten_file(data: bytes, where: str, plan: bytes | None) -> bytes:
    model = parse_model(data, where=where)
    root = Reader(model.data, model.where).root("Model")
    buffers, entries = list(root.children("buffers")), list(root.children("metadata"))
    plans = [table for table in entries if table.text("name") == OFFLINE_PLAN]
    places = {index: _place(table) for index, table in enumerate(buffers) if not _is_aligned(table)}
    moves = {index: model.data[slice(*place)] for index, place in places.items() if place}
    if plan is None and not plans and not moves:
        return model.data
    dropped = {table.place for table in plans}
    kept = [table for table in entries if table.place not in dropped]
    private = _private_buffers(model, plans, kept, buffers)
    if plan is not None and len(plans) == 1 and private and not moves:
        start, end = _place(buffers[private[0]]) or (0, 0)
        patched = model.data[:start] + plan + model.data[end:]
        if end - start == len(plan) and _is_same(model, patched, plan):
            return patched
    moves.update((index, b"") for index in private)
    home = None
    if plan is not None:
        home = private[0] if private else len(buffers)
        moves[home] = plan
    moved = [buffers[index] for index in moves if index < len(buffers)]
    unwanted = [place for table in moved if (place := _place(table))]
    # In a file whose parts overlap the shorter result may not read back; the longer one always does.
    for body in (cut(root.reader, unwanted, {table.pos for table in moved}), model.data):
        try:
            data = _assembled(body, {table.place for table in kept}, moves, home)
        except ModelError:
            continue
        if _is_same(model, data, plan):
            return data
    raise ModelError(
        "its parts overlap, so that it cannot be written anew with a plan or aligned buffers",
        where=model.where,
        hint="The file is corrupt; export it again",
    )


def _private_buffers(
    model: Model, plans: Sequence[Table], kept: Sequence[Table], buffers: Sequence[Table]
) -> list[int]:
    """Buffers that only the old plans use, by index and by the bytes that they point to."""
    shared = {0} | {tensor.buffer for _, tensor in model.tensors()} | {t.integer("buffer") for t in kept}
    places = [_place(table) for table in buffers]
    users = Counter(places)
    indices = dict.fromkeys(table.integer("buffer") for table in plans)
    return [i for i in indices if i not in shared and users[places[i]] == 1]


def _is_same(model: Model, data: bytes, plan: bytes | None) -> bool:
    """Whether `data` reads back as the same model with `plan`, every buffer aligned."""
    try:
        read = parse_model(data, where=model.where)
    except ModelError:
        return False
    metadata = {name: blob for name, blob in model.metadata.items() if name != OFFLINE_PLAN}
    if plan is not None:
        metadata[OFFLINE_PLAN] = plan
    # repr leaves the constants out, and takes a NaN for equal to itself.
    return (
        repr(read.subgraphs) == repr(model.subgraphs)
        and [t.data for _, t in read.tensors()] == [t.data for _, t in model.tensors()]
        and (read.operator_codes, read.description) == (model.operator_codes, model.description)
        and dict(read.metadata) == metadata
        and not misaligned_buffers(read)
    )


def _assembled(body: bytes, kept: Collection[str], moves: Mapping[int, bytes], home: int | None) -> bytes:
    """A new root before the file `body`, and behind it the data of the buffers in `moves`.

    `kept` are the metadata entries to keep, by their place in the file; `home` is the buffer of the new plan.
    """
    old = Reader(body, "").root("Model")
    targets = {
        field.slot: target
        for field in schema.fields("Model").values()
        if not field.is_scalar and (target := old.target(field)) is not None
    }
    slots = {name: field.slot for name, field in schema.fields("Model").items()}
    old_buffers = [table.pos for table in old.children("buffers")]
    entries = [table.pos for table in old.children("metadata") if table.place in kept]
    targets.pop(slots["metadata"], None)
    out = Writer()
    out.put("II", 0, int.from_bytes(b"TFL3", "little"))
    values = {slots["version"]: old.integer("version"), **dict.fromkeys(targets, 0)}
    if entries or home is not None:
        values[slots["metadata"]] = 0
    root = out.table(values)
    out.point(0, root[-1])
    count = max(len(old_buffers), max(moves, default=-1) + 1)
    buffers = out.vector(count)
    out.point(root[slots["buffers"]], buffers)
    new = {index: out.table({0: 0} if moves[index] else {}) for index in sorted(moves)}
    metadata = 0
    if slots["metadata"] in values:
        metadata = out.vector(len(entries) + (home is not None))
        out.point(root[slots["metadata"]], metadata)
    if home is not None:
        entry = out.table({0: 0, 1: home})
        out.point(metadata + 4 + 4 * len(entries), entry[-1])
        out.point(entry[0], out.blob(OFFLINE_PLAN.encode()))
    base = out.body(body)
    for slot, target in targets.items():
        if slot != slots["buffers"]:
            out.point(root[slot], base + target)
    for index in range(count):
        out.point(buffers + 4 + 4 * index, new[index][-1] if index in new else base + old_buffers[index])
    for number, target in enumerate(entries):
        out.point(metadata + 4 + 4 * number, base + target)
    for index in sorted(moves):
        if moves[index]:
            out.point(new[index][0], out.blob(moves[index], ALIGNMENT))
    return bytes(out.out)
