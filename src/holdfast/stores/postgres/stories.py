"""Stories on PostgreSQL: documents, what was kept for them, and what happened to them. They change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Unpack

from holdfast.core.codec import Kept
from holdfast.core.errors import UnknownDocument
from holdfast.core.model import (
    WHOLE,
    Aside,
    Checkpoint,
    Entry,
    Output,
    Plan,
    Standing,
)
from holdfast.stores.postgres.arrays import numbers
from holdfast.stores.postgres.base import SQL, Base, kept, moment
from holdfast.stores.postgres.connection import Db
from holdfast.stores.protocol import Which
from holdfast.stores.rows import (
    ItemRow,
    read_failure,
    refuse_if_replaced,
    told,
    told_items,
)
from holdfast.stores.which import as_like, asked, conditions, containing

PAGE = 500
"""How many items are read at a time: nothing is held open on the server while the reader thinks."""

WALK_ON = "set local enable_sort = off"
"""A slice is found by walking on in the order of numbers. Without statistics PostgreSQL would sort all of them, and so
for each slice."""


class Stories(Base):
    """Tells of documents: where they stand, what is kept, what happened."""

    def standing(self, pipeline: str, batch: str, key: str) -> Standing:
        row = self._one("standing", pipeline=pipeline, batch=batch, key=key)
        if row is None:
            raise UnknownDocument(f"batch {batch!r} of pipeline {pipeline!r} has no document {key!r}")
        return standing(row)

    def standings(self, pipeline: str, *, limit: int = 100, **which: Unpack[Which]) -> list[Standing]:
        return [standing(row) for row in self._meant("standings", which, pipeline=pipeline, limit=limit)]

    def select(self, pipeline: str, *, after: int = 0, limit: int = 2000, **which: Unpack[Which]) -> list[int]:
        question, parameters = self._question("select", which, pipeline=pipeline, after=after, limit=limit)

        def walk_on(db: Db) -> list[tuple[Any, ...]]:
            db.execute(WALK_ON)
            return db.execute(question, parameters).fetchall()

        return [row[0] for row in self._db.reading_one_moment(walk_on)]

    def count(self, pipeline: str, **which: Unpack[Which]) -> int:
        return int(self._meant("count", which, pipeline=pipeline)[0][0])

    def _meant(self, query: str, which: Which, **more: Any) -> list[tuple[Any, ...]]:
        question, parameters = self._question(query, which, **more)
        return self._db.reading(lambda db: db.execute(question, parameters).fetchall())

    def _question(self, query: str, which: Which, **more: Any) -> tuple[str, dict[str, Any]]:
        asking = asked(which)
        patterns = {
            "keys": as_like(asking.get("keys", "")),
            "text": containing(asking.get("text", "")),
            "now": self._now(),
        }
        return SQL[query].asking(conditions(asking)), asking | patterns | more

    def undecided(self, plan: Plan, gate: str, *, limit: int = 2000) -> dict[int, int]:
        place = {"pipeline_id": plan.pipeline_id, "step_id": plan.step_ids[gate]}
        return dict(self._all("undecided", **place, now=self._now(), limit=limit))

    def find(self, key: str) -> list[Standing]:
        return [standing(row) for row in self._all("find", key=key)]

    def look(self, document_ids: Sequence[int]) -> list[Standing]:
        return [standing(row) for row in self._all("look", ids=numbers(document_ids))]

    def reuses(self, document_ids: Sequence[int]) -> dict[int, dict[str, int]]:
        found: dict[int, dict[str, int]] = {}
        for document_id, step, generation in self._all("reuses", ids=numbers(document_ids)):
            found.setdefault(document_id, {})[step] = generation
        return found

    def outputs(self, document_id: int) -> list[Output]:
        return [
            Output(step, items, aside, moment(first), moment(last))
            for step, items, first, last, aside in self._all("outputs", document_id=document_id)
        ]

    def items(self, document_id: int) -> Iterator[tuple[str, int, Kept]]:
        yield from self._walk(document_id, self._all("item_steps", document_id=document_id))

    def served(self, document_id: int) -> Iterator[tuple[str, int, Kept]]:
        steps = self._all("served_steps", document_id=document_id)
        yield from self._walk(document_id, [step for step in steps if step[2] is not None])
        refuse_if_replaced(steps, self._all("served_steps", document_id=document_id))

    def _walk(self, document_id: int, steps: Sequence[tuple[Any, ...]]) -> Iterator[tuple[str, int, Kept]]:
        for step_id, step, generation in steps:
            place = {"document_id": document_id, "generation": generation, "step_id": step_id, "limit": PAGE}
            page = self._page(place, WHOLE - 1)
            while page:
                for position, items, *value in page:
                    row = ItemRow(step, position, items, kept(*value))
                    for item, one in told_items(row, document_id=document_id):
                        yield step, item, one
                page = self._page(place, page[-1][0]) if len(page) == PAGE else []

    def _page(self, place: dict[str, Any], after: int) -> list[tuple[Any, ...]]:
        asked = place | {"after": after}
        return self._db.reading(lambda db: db.execute(SQL["items"], asked, binary=True).fetchall())

    def asides(self, document_id: int) -> list[tuple[str, Aside]]:
        return [
            (step, Aside(position, tries, read_failure(error)))
            for step, position, tries, error in self._all("asides", document_id=document_id)
        ]

    def journal(self, document_id: int) -> list[Entry]:
        return [
            Entry(moment(at), verb, who, generation, step, told(cursor), told(detail))
            for at, verb, who, generation, step, cursor, detail in self._all("journal", document_id=document_id)
        ]

    def batch_journal(self, pipeline: str, batch: str) -> list[Entry]:
        return [
            Entry(moment(at), verb, who, generation, step, told(cursor), told(detail))
            for at, verb, who, generation, step, cursor, detail in self._all(
                "batch_journal", pipeline=pipeline, batch=batch
            )
        ]


def standing(row: Sequence[Any]) -> Standing:
    """Gives a row of the view hf_standing as a value."""
    (document_id, pipeline, batch, key, payload, fingerprint, priority, state, generation, step, cursor, *rest) = row
    moves, attempts, crashes, reason, holder, submitted_at, moved_at, due_at, error, accepted_by, *more = rest
    claimed_at, deadline_at, cleaned_at, plan_id, worked_by, _, _ = more
    return Standing(
        document_id,
        pipeline,
        batch,
        key,
        told(payload),
        fingerprint,
        priority,
        state,
        Checkpoint(generation, step, told(cursor), moves),
        attempts,
        crashes,
        reason,
        holder,
        moment(submitted_at),
        moment(moved_at),
        None if due_at is None else moment(due_at),
        error,
        accepted_by,
        None if claimed_at is None else moment(claimed_at),
        None if deadline_at is None else moment(deadline_at),
        None if cleaned_at is None else moment(cleaned_at),
        plan_id,
        worked_by,
    )
