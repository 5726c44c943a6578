"""The ledger on PostgreSQL: answers questions, and changes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack

import msgspec

from holdfast.core.causes import Cause, Holder
from holdfast.core.codec import Kept
from holdfast.core.errors import UnknownDocument
from holdfast.core.model import (
    WHOLE,
    Aside,
    Balance,
    Batch,
    Checkpoint,
    Entry,
    Failure,
    Output,
    Plan,
    Standing,
    Survey,
    Worker,
)
from holdfast.core.orphans import GRACE, Orphan, orphan_of
from holdfast.core.pins import KnownPlan
from holdfast.core.plan import Shape
from holdfast.stores.postgres.arrays import numbers
from holdfast.stores.postgres.base import SQL, Base, kept, moment
from holdfast.stores.postgres.connection import Db
from holdfast.stores.protocol import Paces, Which
from holdfast.stores.rows import (
    at_step,
    balance,
    items_of,
    known_plans,
    refuse_if_replaced,
    shapes_of,
    survey,
    told,
)
from holdfast.stores.which import as_like, asked, conditions, containing

PAGE = 500
"""How many items are read at a time: nothing is held open on the server while the reader thinks."""

WALK_ON = "set local enable_sort = off"
"""A slice is found by walking on in the order of numbers. Without statistics PostgreSQL would sort all of them, and so
for each slice."""


class Ledger(Base):
    """Answers questions."""

    def pipelines(self) -> list[str]:
        return [row[0] for row in self._all("pipelines")]

    def shape(self, pipeline: str) -> Shape | None:
        row = self._one("shape", pipeline=pipeline)
        return msgspec.json.decode(row[0], type=Shape) if row else None

    def plans(self, pipeline: str, *, batch: str | None = None) -> list[KnownPlan]:
        def look(db: Db) -> tuple[dict[int, str], list[Any], list[Any]]:
            (pipeline_id,) = db.execute(SQL["pipeline"], {"name": pipeline}).fetchone() or (-1,)
            named = db.execute(SQL["expected"], {"pipeline": pipeline, "batch": batch}).fetchall()
            batch_id = None if batch is None else named[0][0] if named else -1
            asked = {"pipeline_id": pipeline_id, "batch_id": batch_id}
            names = {number: name for name, number in db.execute(SQL["steps"], asked).fetchall()}
            rows = db.execute(SQL["plans"], asked).fetchall()
            return names, rows, db.execute(SQL["gatherings"], asked).fetchall()

        names, rows, counts = self._db.reading_one_moment(look)
        times = {row[0]: None if row[3] is None else moment(row[3]) for row in rows}
        return known_plans(shapes_of(rows, names), times, counts)

    def shape_of(self, plan_id: int) -> Shape | None:
        row = self._one("plan", plan_id=plan_id)
        return msgspec.json.decode(row[0], type=Shape) if row else None

    def batches(self, pipeline: str) -> list[Batch]:
        def look(db: Db) -> tuple[list[Any], list[Any]]:
            batches = db.execute(SQL["batches"], {"pipeline": pipeline}).fetchall()
            return batches, db.execute(SQL["balance"], {"pipeline": pipeline, "batch_id": None}).fetchall()

        batches, counts = self._db.reading_one_moment(look)
        by_batch = defaultdict(list)
        for batch_id, *count in counts:
            by_batch[batch_id].append(count)
        return [
            Batch(
                pipeline,
                name,
                state,
                moment(created_at),
                balance(expected, gone, by_batch[batch_id]),
                at_step(by_batch[batch_id]),
            )
            for batch_id, name, state, created_at, expected, *gone in batches
        ]

    def balance(self, pipeline: str, batch: str | None = None) -> Balance:
        def look(db: Db) -> tuple[list[Any], list[Any]]:
            expected = db.execute(SQL["expected"], {"pipeline": pipeline, "batch": batch}).fetchall()
            batch_id = None if batch is None else expected[0][0] if expected else -1
            return expected, db.execute(SQL["balance"], {"pipeline": pipeline, "batch_id": batch_id}).fetchall()

        expected, counts = self._db.reading_one_moment(look)
        total, *gone = map(sum, zip((0, 0, 0, 0), *[row[1:] for row in expected], strict=True))
        return balance(total, gone, [count[1:] for count in counts])

    def next_due(self, plan: Plan, *, batch: str | None = None) -> timedelta | None:
        asked = {
            "pipeline_id": plan.pipeline_id,
            "step_ids": numbers([*plan.step_ids.values()]),
            "batch": batch,
            "now": self._now(),
        }
        ((wait,),) = self._all("next_due", **asked)
        return None if wait is None else timedelta() + wait

    def running(self, plan: Plan, *, batch: str | None = None) -> int:
        ((running,),) = self._all("running", pipeline_id=plan.pipeline_id, batch=batch)
        return int(running)

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
                    for item, one in items_of(position, items, kept(*value)):
                        yield step, item, one
                page = self._page(place, page[-1][0]) if len(page) == PAGE else []

    def _page(self, place: dict[str, Any], after: int) -> list[tuple[Any, ...]]:
        asked = place | {"after": after}
        return self._db.reading(lambda db: db.execute(SQL["items"], asked, binary=True).fetchall())

    def asides(self, document_id: int) -> list[tuple[str, Aside]]:
        return [
            (step, Aside(position, tries, msgspec.json.decode(error, type=Failure)))
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

    def workers(self) -> list[tuple[Worker, datetime, bool]]:
        return [(Worker(*row[:6]), moment(row[6]), row[7]) for row in self._all("workers", now=self._now())]

    def orphans(
        self, pipeline: str, *, grace: timedelta = GRACE, batch: str | None = None, gone: Sequence[int] = ()
    ) -> list[Orphan]:
        asked = {"pipeline": pipeline, "batch": batch, "grace": grace, "gone": numbers(gone), "now": self._now()}
        return [
            orphan_of(standing(here), fence, beat_at=moment(beat_at), silent=silent, now=moment(now))
            for *here, fence, beat_at, silent, now in self._all("look_for_orphans", **asked)
        ]

    def holder(self, document_id: int) -> Holder | None:
        row = self._one("holder", document_id=document_id, now=self._now())
        return _holder(row) if row else None

    def holders(self, pipeline: str) -> list[tuple[Holder, int]]:
        return [(_holder(row), row[8]) for row in self._all("holders", pipeline=pipeline, now=self._now())]

    def ahead(self, document_id: int) -> int:
        return sum(row[0] for row in self._all("ahead", document_id=document_id, now=self._now()))

    def inside(self, pipeline: str, step: str) -> list[tuple[int, str]]:
        return [(document_id, key) for document_id, key in self._all("inside", pipeline=pipeline, step=step)]

    def causes(self, pipeline: str, *, batch: str | None = None) -> list[Cause]:
        return [
            Cause(kind, state, step, error, documents, name, key, moment(moved_at))
            for kind, state, step, error, documents, name, key, moved_at in self._all(
                "causes", pipeline=pipeline, batch=batch, now=self._now()
            )
        ]

    def survey(self, pipeline: str) -> Survey:
        asked = {"pipeline": pipeline, "now": self._now()}

        def look(db: Db) -> Survey:
            counts = db.execute(SQL["survey"], asked).fetchall()
            dead = db.execute(SQL["dead_by_error"], asked).fetchall()
            ((oldest,),) = db.execute(SQL["oldest_due"], asked).fetchall()
            ((orphans,),) = db.execute(SQL["count_orphans"], asked).fetchall()
            return survey(pipeline, counts, dead, oldest, orphans)

        return self._db.reading_one_moment(look)

    def paces(self, pipeline: str) -> Paces:
        return {step: (documents, seconds) for step, documents, seconds in self._all("paces", pipeline=pipeline)}

    def _all(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return self._db.reading(lambda db: db.execute(SQL[query], parameters).fetchall())

    def _one(self, query: str, **parameters: Any) -> tuple[Any, ...] | None:
        return next(iter(self._all(query, **parameters)), None)


def _holder(row: tuple[Any, ...]) -> Holder:
    return Holder(Worker(*row[:6]), moment(row[6]), alive=row[7])


def standing(row: Sequence[Any]) -> Standing:
    """Gives a row of the view hf_standing as a value."""
    (document_id, pipeline, batch, key, payload, fingerprint, priority, state, generation, step, cursor, *rest) = row
    moves, attempts, crashes, reason, holder, submitted_at, moved_at, due_at, error, accepted_by, *more = rest
    claimed_at, deadline_at, cleaned_at, plan_id, _, _ = more
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
    )
