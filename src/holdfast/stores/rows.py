"""What every SQL store does with its rows, whatever the dialect: big values and counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from holdfast.core.codec import Kept, decode_json
from holdfast.core.errors import StoreError
from holdfast.core.model import OPEN_STATES, STATES, WHOLE, Balance, Claim, Failure, Item, Plan, State, Survey
from holdfast.core.pins import Gathering, KnownPlan
from holdfast.core.plan import Shape

GONE = ("done", "dead", "cancelled")
"""The states that documents may be in when they are cleaned up, as the columns gone_* of a batch."""


BIG = 64 * 1024
"""Values larger than this are kept as blobs, outside the rows."""


MANY = 256
"""A row keeps at most so many items, so that few have to be read to find one."""


class ItemRow(NamedTuple):
    """Neighbouring items in one row: of several, the value is a JSON list. A row for each costs several times more."""

    step: str
    position: int
    items: int
    value: Kept


def item_rows(items: Sequence[Item]) -> list[ItemRow]:
    """Joins the items that a move keeps into rows."""
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


def _are_neighbours(one: Item, next_one: Item) -> bool:
    return (
        next_one.position == one.position + 1
        and one.position != WHOLE
        and next_one.step == one.step
        and isinstance(one.value, str)
        and isinstance(next_one.value, str)
    )


def _joined(run: Sequence[Item]) -> ItemRow:
    first = run[0]
    if len(run) == 1:
        return ItemRow(first.step, first.position, 1, first.value)
    return ItemRow(first.step, first.position, len(run), "[" + ",".join([str(item.value) for item in run]) + "]")


_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


def items_of(position: int, items: int, value: Kept) -> list[tuple[int, Kept]]:
    """Gives the items of a row, each as it was kept."""
    if items == 1:
        return [(position, value)]
    return [(position + place, bytes(element).decode()) for place, element in enumerate(_elements(value))]


def told_items(row: ItemRow, *, document_id: int) -> list[tuple[int, Kept]]:
    """Gives the items of a row to whoever tells of them. Raises StoreError, which says of which row, if none can."""
    try:
        return items_of(row.position, row.items, row.value)
    except UNREADABLE as error:
        place = f"for document {document_id}, step {row.step}, position {row.position} in hf_item"
        raise unreadable(place, column="value", error=error) from error


def blob_hash(kept: Kept) -> bytes:
    """Gives the address of a big value: the same content has the same one."""
    media, content = as_blob(kept)
    return blake2b(content, digest_size=32, person=b"holdfast-" + media.encode()).digest()


def as_blob(kept: Kept) -> tuple[str, bytes]:
    """Gives the media and the content of a big value."""
    return ("json", kept.encode()) if isinstance(kept, str) else ("bytes", kept)


UNREADABLE = (msgspec.DecodeError, ValueError, TypeError, AttributeError, RecursionError)
"""What reading a column raises that somebody else has written."""


def told(text: str | None) -> Any:
    """Gives the value of a JSON column that may be empty. One that cannot be read is told as it stands there."""
    try:
        return None if text is None else decode_json(text)
    except UNREADABLE:
        return text


def legible(payload: str, cursor: str | None, reuses: str | None) -> tuple[Any, Any, dict[int, int] | None, str]:
    """Reads what a worker needs of a row: payload, cursor, reuses, and the damage, which is empty when all was legible.

    A claim is given for a damaged row too: its worker parks it, and nobody else has to suffer.
    """
    try:
        return (
            decode_json(payload),
            None if cursor is None else decode_json(cursor),
            None if reuses is None else _numbered(reuses),
            "",
        )
    except UNREADABLE:
        return None, None, None, damage_of(payload, cursor, reuses)


def _numbered(reuses: str) -> dict[int, int]:
    return {int(step_id): made for step_id, made in decode_json(reuses).items()}


def places(plan: Plan, claims: Sequence[Claim]) -> list[tuple[int, int, int]]:
    """Gives where claimed documents stand: document, generation and step, by their numbers."""
    at = [(claim.document_id, claim.checkpoint) for claim in claims]
    return [(number, one.generation, plan.step_ids[one.step or ""]) for number, one in at]


def damage_of(payload: str, cursor: str | None, reuses: str | None) -> str:
    """Says which column of a document cannot be read, and why."""
    columns = (("payload", payload, decode_json), ("cursor", cursor, decode_json), ("reuses", reuses, _numbered))
    for name, text, read in columns:
        try:
            read("{}" if text is None else text)
        except UNREADABLE as error:
            return f"its {name} cannot be read ({error or type(error).__name__}): {str(text)[:100]!r}"
    return ""


def refuse_if_replaced(before: Sequence[Any], now: Sequence[Any]) -> None:
    """Raises StoreError when readers see another generation now than when a walk began: its items may be gone."""
    if before != now:
        raise StoreError("the document was completed anew while it was read; read it again")


def balance(expected: int, gone: Sequence[int], counts: Iterable[tuple[str, str | None, int]]) -> Balance:
    """Gives the balance of counts by state and step, and of those that were cleaned up: done, dead and cancelled."""
    by_state: dict[str, int] = defaultdict(int, zip(GONE, gone, strict=True))
    for state, _, count in counts:
        by_state[state] += count
    return Balance(expected, **by_state)


def gathered(counts: Mapping[tuple[State, str | None, bool], int]) -> tuple[Gathering, ...]:
    """Gives counts of documents by (state, step, settled), in an order that does not depend on the store."""
    rows = [Gathering(state, step, documents, settled) for (state, step, settled), documents in counts.items()]
    return tuple(sorted(rows, key=lambda one: (STATES.index(one.state), one.step or "", one.settled)))


def read_shape(text: str, *, row: str) -> Shape:
    """Reads the shape of a plan, or raises StoreError, which names its row."""
    try:
        return msgspec.json.decode(text, type=Shape)
    except UNREADABLE as error:
        raise unreadable(row, column="shape", error=error) from error


def unreadable(row: str, *, column: str, error: Exception) -> StoreError:
    """Gives the error for a row that was written, but not by us, and that nothing can stand in for."""
    return StoreError(
        f"the row {row} cannot be read: its {column} is not what it was ({error or type(error).__name__}). "
        "Somebody edited it, or a disk damaged it: put it right, or take the store from a backup"
    )


def read_failure(text: str) -> Failure:
    """Reads how an item failed. What cannot be read is told as it stands there."""
    try:
        return msgspec.json.decode(text, type=Failure)
    except UNREADABLE:
        return Failure("unreadable", str(text))


def shapes_of(rows: Iterable[tuple[Any, ...]], names: Mapping[int, str]) -> dict[int, Shape]:
    """Gives the shapes of rows of hf_plan (id, shape, step_ids), with their steps under the names they have now."""
    return {
        plan_id: read_shape(shape, row=f"{plan_id} of hf_plan").called(_named(plan_id, step_ids, names))
        for plan_id, shape, step_ids, *_ in rows
    }


def _named(plan_id: int, step_ids: str, names: Mapping[int, str]) -> list[str]:
    try:
        return [names[one] for one in decode_json(step_ids)]
    except (KeyError, *UNREADABLE) as error:
        raise unreadable(f"{plan_id} of hf_plan", column="step_ids", error=error) from error


def known_plans(
    shapes: Mapping[int, Shape], times: Mapping[int, datetime | None], counts: Iterable[tuple[Any, ...]]
) -> list[KnownPlan]:
    """Gives plans with the documents that are pinned to them, from rows of (plan, state, step, settled, documents)."""
    by_plan: dict[int, dict[tuple[State, str | None, bool], int]] = defaultdict(dict)
    for plan_id, state, step, settled, documents in counts:
        by_plan[plan_id][state, step, bool(settled)] = documents
    return [KnownPlan(number, shape, times[number], gathered(by_plan[number])) for number, shape in shapes.items()]


def at_step(counts: Iterable[tuple[str, str | None, int]]) -> dict[str, int]:
    """Gives how many open documents stand at each step."""
    by_step: dict[str, int] = defaultdict(int)
    for state, step, count in counts:
        if step is not None and state in OPEN_STATES:
            by_step[step] += count
    return dict(by_step)


def survey(
    pipeline: str,
    counts: Iterable[Sequence[Any]],
    dead: Iterable[Sequence[Any]],
    oldest: timedelta | None,
    orphans: int,
) -> Survey:
    """Gives a survey of counts by state and step, and of dead letters by step and error."""
    documents = {(state, step): count for state, step, count in counts if count}
    return Survey(pipeline, documents, {(step, error): count for step, error, count in dead}, oldest, orphans)


def plan_of(pipeline: str, pipeline_id: int, row: Sequence[Any]) -> Plan:
    """Gives a plan of a row of present_plan.sql."""
    plan_id, text, numbers = row
    shape = read_shape(text, row=f"{plan_id} of hf_plan")
    return Plan(pipeline, pipeline_id, plan_id, dict(zip(shape.names, decode_json(numbers), strict=True)), shape.gates)
