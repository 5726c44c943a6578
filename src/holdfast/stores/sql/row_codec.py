"""Rows of the tables, whatever the dialect: documents, items and plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from holdfast.core.codec import Kept, decode_json, encode_json
from holdfast.core.errors import StoreError
from holdfast.core.model import WHOLE, Checkpoint, DocumentStatus, Failure, Item, JournalEntry, Plan
from holdfast.core.moves import Move
from holdfast.core.plan import Shape
from holdfast.core.worker_deaths import UNKNOWN_DEATH, WorkerDeath
from holdfast.stores.json_fields import UNREADABLE, decode_or_text
from holdfast.stores.rewind_rules import StepOrders, order_of
from holdfast.stores.sql.dialect import Dialect

BIG = 64 * 1024
"""Values larger than this are stored as blobs, outside the rows."""


MANY = 256
"""A row holds at most this many items, so that few have to be read to find one."""

PLAIN_FIELDS = [name for name in DocumentStatus.__struct_fields__ if name not in ("payload", "checkpoint")]
"""The fields of a document that are columns of the view hf_document_status, under the same names."""


def document_status(row: Mapping[str, Any], moment: Callable[[Any], datetime]) -> DocumentStatus:
    """Return a row of the view hf_document_status as a value. Plain columns are read by their names."""
    return DocumentStatus(
        payload=decode_or_text(row["payload"]),
        checkpoint=Checkpoint(row["generation"], row["step"], decode_or_text(row["cursor"]), row["moves"]),
        **{name: _field(name, row[name], moment) for name in PLAIN_FIELDS},
    )


def _field(name: str, value: Any, moment: Callable[[Any], datetime]) -> Any:
    if value is None:
        return None
    if name == "recoverable":
        return bool(value)  # SQLite keeps a number
    return moment(value) if name.endswith(("_at", "_since")) else value


def journal_entry(row: Sequence[Any], dialect: Dialect) -> JournalEntry:
    """Return a row of journal.sql as a value."""
    at, verb, who, generation, step, cursor, detail, code, times, last_at = row
    place = generation, step, decode_or_text(cursor)
    last = None if last_at is None else dialect.moment(last_at)
    return JournalEntry(dialect.moment(at), verb, who, *place, decode_or_text(detail), code, times, last)


def decode_death(text: str | None) -> WorkerDeath:
    """Return what is known about the end of a worker. Nothing, if it was not stored or cannot be read."""
    try:
        return UNKNOWN_DEATH if text is None else msgspec.json.decode(text, type=WorkerDeath)
    except UNREADABLE:
        return UNKNOWN_DEATH


class ItemRow(NamedTuple):
    """Neighbouring items in one row: of several, the value is a JSON list. One row per item costs much more."""

    step: str
    position: int
    items: int
    value: Kept


def item_rows(items: Sequence[Item]) -> list[ItemRow]:
    """Join the items of a move into rows."""
    if len(items) == 1:
        return [ItemRow(items[0].step, items[0].position, 1, items[0].value)]
    rows: list[ItemRow] = []
    run: list[Item] = []
    size = 0
    for item in items:
        size += len(item.value)
        if run and (size > BIG or len(run) == MANY or not _are_neighbours(run[-1], item)):
            rows.append(_joined(run))
            run, size = [], len(item.value)
        run.append(item)
    if run:
        rows.append(_joined(run))
    return rows


def _are_neighbours(item: Item, following: Item) -> bool:
    return (
        following.position == item.position + 1
        and item.position != WHOLE
        and following.step == item.step
        and isinstance(item.value, str)
        and isinstance(following.value, str)
    )


def _joined(run: Sequence[Item]) -> ItemRow:
    first = run[0]
    if len(run) == 1:
        return ItemRow(first.step, first.position, 1, first.value)
    return ItemRow(first.step, first.position, len(run), "[" + ",".join([str(item.value) for item in run]) + "]")


_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


class UnreadableRow(Exception):
    """A row of hf_item cannot be read. Its caller knows the names of the document and the step."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(position, why)
        self.position = position
        self.why = why


def items_of(row: Sequence[Any]) -> list[tuple[int, Kept]]:
    """Return the items of a row, each as it was stored, from columns of hf_item and hf_blob.

    Args:
        row: position, items, value, data or content, media, blob_hash.

    Raises:
        UnreadableRow: The row is damaged.
    """
    position, items, value, data, media, address = row
    try:
        kept = value if value is not None else _data(data, media, address)
        if items == 1:
            return [(position, kept)]
        elements = _elements(kept)
    except UNREADABLE as error:
        raise UnreadableRow(position, f"cannot be read ({error or type(error).__name__})") from error
    if len(elements) != items:
        raise UnreadableRow(position, f"cannot be read (its row has {len(elements)} values, not {items})")
    return [(position + place, bytes(element).decode()) for place, element in enumerate(elements)]


def _data(data: bytes | None, media: str | None, address: bytes | None) -> Kept:
    """Return bytes, or a large value, whose content has to match its hash."""
    if data is None:
        raise ValueError("it is a large value that is gone from hf_blob" if address else "it has no value")
    kept = data.decode() if media == "json" else data
    if address is not None and blob_hash(kept) != address:
        raise ValueError("it is a large value whose content in hf_blob does not match its hash")
    return kept


def blob_hash(value: Kept) -> bytes:
    """Return the address of a large value: the same content has the same address."""
    media, content = as_blob(value)
    return blake2b(content, digest_size=32, person=b"holdfast-" + media.encode()).digest()


def as_blob(value: Kept) -> tuple[str, bytes]:
    """Return the media and the content of a large value."""
    return ("json", value.encode()) if isinstance(value, str) else ("bytes", value)


ANY_CURSOR = "*"
"""No cursor is this text: it is no JSON."""


def cursor_before(move: Move) -> str | None:
    """Return the stored cursor that a move expects, as text.

    A move that starts where its document was claimed expects any: a person may have written that cursor in another way
    than holdfast does.
    """
    cursor = move.before.cursor
    if cursor is None:
        return None
    return ANY_CURSOR if move.before is move.claim.checkpoint else encode_json(cursor)


def refuse_if_replaced(before: Sequence[Any], now: Sequence[Any]) -> None:
    """Raise StoreError if readers see another generation now than before a walk: its items may be gone."""
    if before != now:
        raise StoreError("a new generation of the document was completed while it was read; read it again")


def read_shape(text: str, *, row: str) -> Shape:
    """Return the shape of a plan. Raise StoreError, which names its row, if it cannot be read."""
    try:
        return msgspec.json.decode(text, type=Shape)
    except UNREADABLE as error:
        raise unreadable(row, column="shape", error=error) from error


def unreadable(row: str, *, column: str, error: Exception) -> StoreError:
    """Return the error for a damaged row that nothing can replace."""
    return StoreError(
        f"the row {row} cannot be read: its {column} is not what it was ({error or type(error).__name__}). "
        "Somebody edited it, or a disk damaged it: put it right, or take the store from a backup"
    )


def read_failure(text: str) -> Failure:
    """Return the failure of an item. Return the text itself as the message if it cannot be read."""
    try:
        return msgspec.json.decode(text, type=Failure)
    except UNREADABLE:
        return Failure("unreadable", str(text))


def shapes_of(rows: Iterable[tuple[Any, ...]], names: Mapping[int, str]) -> dict[int, Shape]:
    """Return the shapes of rows of hf_plan (id, shape, step_ids), with the current names of their steps."""
    return {
        plan_id: read_shape(shape, row=f"{plan_id} of hf_plan").called(_named(plan_id, step_ids, names))
        for plan_id, shape, step_ids, *_ in rows
    }


def _named(plan_id: int, step_ids: str, names: Mapping[int, str]) -> list[str]:
    try:
        return [names[step_id] for step_id in decode_json(step_ids)]
    except (KeyError, *UNREADABLE) as error:
        raise unreadable(f"{plan_id} of hf_plan", column="step_ids", error=error) from error


def orders_of(rows: Iterable[tuple[Any, ...]]) -> StepOrders:
    """Return the step orders of rows of hf_plan (id, shape, step_ids)."""
    return {
        plan_id: order_of(read_shape(shape, row=f"{plan_id} of hf_plan"), decode_json(step_ids))
        for plan_id, shape, step_ids, *_ in rows
    }


def plan_of(pipeline: str, pipeline_id: int, row: Sequence[Any], known: Mapping[str, int]) -> Plan:
    """Return the plan of a row of current_plan.sql. `known` has all steps that the pipeline ever had."""
    plan_id, text, numbers = row
    shape = read_shape(text, row=f"{plan_id} of hf_plan")
    step_ids = dict(zip(shape.names, decode_json(numbers), strict=True))
    return Plan(pipeline, pipeline_id, plan_id, step_ids, shape.kinds, removed_steps(known, step_ids))


def removed_steps(known: Mapping[str, int], step_ids: Mapping[str, int]) -> dict[str, int]:
    """Return the steps that a pipeline had and has no more, with their ids."""
    return {name: step_id for name, step_id in known.items() if step_id not in step_ids.values()}
