"""What the nine roles of the memory store share: its tables, its lock, its clock, and its journal."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from msgspec.structs import replace

from holdfast.core.codec import checked_json, decode_json, encode_json
from holdfast.core.errors import StoreError, StoreGone
from holdfast.core.model import Checkpoint, Entry, NewDocument, Plan, Standing
from holdfast.core.moves import refuse_to_end
from holdfast.core.pins import repinned
from holdfast.core.plan import Shape
from holdfast.stores.memory.tables import BatchRow, DocumentRow, PlanRow, Tables
from holdfast.stores.parts import Unchanged
from holdfast.stores.protocol import Clock
from holdfast.stores.rewinds import Place, StepOrders, order_of
from holdfast.stores.rows import told

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Tx:
    """The transaction that effects write through: in a SQLite database in memory."""

    dialect: Literal["sqlite", "postgresql"] = "sqlite"

    trouble: StoreError | None = None

    __slots__ = ("_database", "executemany")

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self.executemany = database.executemany

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Runs one statement and answers its cursor."""
        refuse_to_end(sql)
        return self._database.execute(sql, parameters)


class Base:
    """Tables, and one lock: every verb is one transaction."""

    def __init__(self, url: str = "memory://", *, clock: Clock | None = None) -> None:
        if url != "memory://":
            raise StoreError(f"{url!r}: a memory store has no name and no options; write memory://")
        self.url = url
        self._clock = clock or (lambda: datetime.now(UTC))
        self._lock = threading.RLock()
        self._tables = Tables()
        self._unchanged = Unchanged()
        self._effects = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._effects.execute("pragma foreign_keys = on")
        self._closed = False

    def now(self) -> datetime:
        return self._clock().astimezone(UTC)

    def rest(self) -> None:
        """There is nothing to let go of."""

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._effects.close()

    @contextmanager
    def transaction(self) -> Iterator[Tx]:
        with self._writing():
            yield Tx(self._effects)

    @contextmanager
    def reading(self) -> Iterator[Tx]:
        with self._reading():
            self._effects.execute("pragma query_only = on")
            try:
                yield Tx(self._effects)
            finally:
                self._effects.execute("pragma query_only = off")

    @contextmanager
    def _reading(self) -> Iterator[Tables]:
        """All that is asked is of one moment."""
        with self._lock:
            if self._closed:
                raise StoreGone(f"the store {self.url} was closed")
            yield self._tables

    @contextmanager
    def _writing(self) -> Iterator[Tables]:
        """One transaction, of the tables and of what effects write: kept at the end, taken back on any error."""
        with self._reading() as tables:
            self._effects.execute("begin")
            try:
                yield tables
                self._effects.execute("commit")
            except BaseException:
                tables.take_back()
                with suppress(sqlite3.Error):
                    self._effects.execute("rollback")
                raise
            finally:
                tables.undo.clear()

    def _change(self, row: DocumentRow, **changes: Any) -> DocumentRow:
        """Writes what is new about a document."""
        changed = self._tables.documents[row.id] = replace(row, **changes)
        return changed

    def _write_journal(self, row: DocumentRow, verb: str, *, who: str, now: datetime, detail: Any) -> None:
        """Writes one line, beside the document's place."""
        lines = self._tables.journals[row.id]
        plain = decode_json(encode_json(detail))
        lines[len(lines)] = Entry(now, verb, who, row.generation, self._step_name(row), told(row.cursor), plain)

    def _write_batch_journal(self, batch_id: int, verb: str, *, who: str, now: datetime, detail: Any) -> int:
        """Writes one line about a batch itself. Answers its number, from 1."""
        lines = self._tables.batch_journals[batch_id]
        lines[len(lines)] = Entry(now, verb, who, 0, None, None, decode_json(encode_json(detail)))
        return len(lines)

    def _latest_kept(self) -> dict[int, int]:
        """Gives the latest generation of which each document kept anything."""
        latest: dict[int, int] = {}
        for (document_id, generation, _), items in self._tables.items.items():
            if items:
                latest[document_id] = max(generation, latest.get(document_id, -1))
        return latest

    def _next_generations(self, rows: Sequence[DocumentRow]) -> dict[int, int]:
        """Gives the generation as which each document begins anew: later than all it kept, whatever its row says."""
        latest = self._latest_kept() if rows else {}
        return {row.id: 1 + max(row.generation, latest.get(row.id, -1)) for row in rows}

    def _drop_earlier_generations(self, row: DocumentRow) -> None:
        """A document that is done as a later generation needs what earlier ones kept and set aside no more."""
        tables = self._tables
        for place in list({**tables.items, **tables.asides}) if row.generation else ():
            document_id, generation, step_id = place
            earlier = document_id == row.id and generation < row.generation
            if earlier and generation != row.generation_of(step_id):
                for shelf in (tables.items[place], tables.asides[place]):
                    for position in list(shelf):
                        del shelf[position]

    def _served(self, row: DocumentRow) -> dict[int, int] | None:
        """Says which generations' items readers see from now on, while a new generation of the document is made."""
        if row.cleaned_at is not None:
            return None
        steps = [step.id for step in self._tables.steps.values() if step.pipeline_id == row.pipeline_id]
        return {step_id: row.generation_of(step_id) for step_id in steps} if row.state == "done" else row.serves

    def _take_in(
        self, plan: Plan, into: BatchRow, new: Sequence[NewDocument], *, submission: int, part: int, now: datetime
    ) -> None:
        """Lets new documents begin. Their batch expects them, and its manifest names them."""
        tables = self._tables
        for one in new:
            self._begin(plan, into, one, submission=submission, part=part, now=now)
        tables.batches[into.id] = replace(into, expected=into.expected + len(new))
        tables.manifests[into.id] = (*tables.manifests.get(into.id, ()), *[one.key for one in new])

    def _begin(
        self, plan: Plan, batch: BatchRow, one: NewDocument, *, submission: int, part: int, now: datetime
    ) -> None:
        """Lets a new document begin at the first step."""
        document_id = self._tables.next_number("document")
        self._tables.keys[batch.id, one.key] = document_id
        self._tables.documents[document_id] = DocumentRow(
            id=document_id,
            pipeline_id=plan.pipeline_id,
            batch_id=batch.id,
            plan_id=plan.plan_id,
            key=one.key,
            payload=payload_of(one),
            fingerprint=one.fingerprint,
            submission=submission,
            part=part,
            priority=one.priority,
            submitted_at=now,
            moved_at=now,
            step_id=plan.first,
            due_at=now,
        )

    def _documents(self, plan: Plan, batch: str | None = None) -> list[DocumentRow]:
        """Gives the documents of a pipeline, or of one batch, the oldest first."""
        named = None if batch is None else self._batch(plan.pipeline_id, batch)
        if batch is not None and named is None:
            return []
        rows = self._tables.documents.values()
        return [row for row in rows if row.pipeline_id == plan.pipeline_id and (not named or row.batch_id == named.id)]

    def _due(self, plan: Plan, batch: str | None, now: datetime) -> list[DocumentRow]:
        """Gives the due documents at steps that the plan knows, by priority, then age."""
        known = set(plan.step_ids.values())
        waiting = [row for row in self._documents(plan, batch) if row.state == "waiting" and row.step_id in known]
        due = [(-row.priority, row.due_at, row) for row in waiting if row.due_at is not None and row.due_at <= now]
        return [row for _, _, row in sorted(due, key=lambda one: (one[0], one[1], one[2].id))]

    def _plans(self, pipeline_id: int | None) -> list[PlanRow]:
        """Gives the plans that a pipeline had: first what nobody declared, then as they were declared."""
        rows = [row for row in self._tables.plans.values() if row.pipeline_id == pipeline_id]
        return sorted(rows, key=lambda row: (row.declared_at is not None, row.declared_at or EPOCH, row.id))

    def _present_shape(self, row: PlanRow) -> Shape:
        """Gives a plan's steps under the names that they have now."""
        return row.shape.called([self._tables.steps[step_id].name for step_id in row.step_ids])

    def _step_orders(self, pipeline_id: int) -> StepOrders:
        """Gives the orders of the steps of all plans that a pipeline had."""
        return {row.id: order_of(row.shape, row.step_ids) for row in self._plans(pipeline_id)}

    def _repin(self, plan: Plan, rows: Sequence[DocumentRow]) -> None:
        """Pins documents that go on under another plan than their own to what they are really done under."""
        others = [(row.id, row.plan_id, self._step_name(row) or "") for row in rows if row.plan_id != plan.plan_id]
        if others:
            shapes = {row.id: self._present_shape(row) for row in self._plans(plan.pipeline_id)}
            remember = partial(self._remember, plan.pipeline_id)
            for pin, ids in repinned(others, shapes, under=plan.plan_id, remember=remember).items():
                for document_id in ids:
                    self._change(self._tables.documents[document_id], plan_id=pin)

    def _remember(self, pipeline_id: int, shape: Shape) -> int:
        numbers = {row.name: row.id for row in self._tables.steps.values() if row.pipeline_id == pipeline_id}
        plan_id = len(self._tables.plans) + 1
        step_ids = tuple(numbers[name] for name in shape.names)
        self._tables.plans[plan_id] = PlanRow(plan_id, pipeline_id, shape, step_ids, None)
        return plan_id

    def _batch(self, pipeline_id: int | None, name: str) -> BatchRow | None:
        batches = self._tables.batches.values()
        return next((row for row in batches if (row.pipeline_id, row.name) == (pipeline_id, name)), None)

    def _step_name(self, row: DocumentRow) -> str | None:
        step = None if row.step_id is None else self._tables.steps.get(row.step_id)
        return step.name if step else None

    def _standing(self, row: DocumentRow) -> Standing:
        tables = self._tables
        batch = tables.batches[row.batch_id]
        last = tables.workers.get(row.worked_by or 0)
        return Standing(
            id=row.id,
            pipeline=next(name for name, number in tables.pipelines.items() if number == row.pipeline_id),
            batch=batch.name,
            key=row.key,
            payload=told(row.payload),
            fingerprint=row.fingerprint,
            priority=row.priority,
            state=row.state,
            checkpoint=Checkpoint(row.generation, self._step_name(row), told(row.cursor), row.moves),
            attempts=row.attempts,
            crashes=row.crashes,
            reason=row.reason,
            holder="" if row.worker_id is None else tables.workers[row.worker_id].worker.name,
            submitted_at=row.submitted_at,
            moved_at=row.moved_at,
            due_at=row.due_at,
            error=row.error,
            accepted_by=row.accepted_by or "",
            claimed_at=row.claimed_at,
            deadline_at=row.deadline_at,
            cleaned_at=row.cleaned_at,
            plan_id=row.plan_id,
            worked_by=last.worker.name if last else None,
        )


def payload_of(one: NewDocument) -> str:
    """Gives a document's payload as it is kept."""
    return checked_json(one.payload, f"the payload of {one.key!r}")


def place_of(row: DocumentRow) -> Place:
    """Gives where a document stands."""
    return Place(row.step_id, row.plan_id, row.generation, row.reuses, row.cleaned_at is not None)


def by_id(row: object) -> int:
    """Gives the number of a row, to sort by."""
    number: int = row.id  # type: ignore[attr-defined]
    return number
