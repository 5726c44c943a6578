"""The part that all ten roles of the memory store share: its tables, its lock, its clock and its journal."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from holdfast.core.codec import checked_json, decode_json, encode_json
from holdfast.core.errors import StoreError, StoreGone, StoreReadOnly
from holdfast.core.model import Checkpoint, DocumentStatus, JournalEntry, NewDocument, Plan, SubmitResult
from holdfast.core.moves import refuse_to_end
from holdfast.core.passwords import hide_password
from holdfast.core.plan import Shape, new_pins
from holdfast.core.stream_transactions import counted_by_stream
from holdfast.core.text_limits import MAX_NAME, MAX_REASON, shorten, shorten_detail
from holdfast.stores.group_commit import IN_READING, IN_TRANSACTION
from holdfast.stores.journal_rules import repeated_line
from holdfast.stores.json_fields import decode_or_text
from holdfast.stores.memory.tables import BatchRow, DocumentRow, PlanRow, Tables
from holdfast.stores.protocol import Clock
from holdfast.stores.rewind_rules import Place, StepOrders, order_of
from holdfast.stores.sqlite_guard import (
    BEGIN,
    BEGIN_TO_READ,
    COMMIT,
    ROLLBACK,
    GuardedConnection,
    refuse_inside_effect,
    refuse_inside_transaction,
    require_transaction,
)
from holdfast.stores.submission import SubmittingTx, SubmitWithin, UnchangedDocuments
from holdfast.stores.thread_lock import RunningEffect, acquire

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MemoryTx(SubmittingTx):
    """The transaction that effects write with, in a SQLite database in memory."""

    dialect: Literal["sqlite", "postgresql"] = "sqlite"

    store_error: StoreError | None = None

    __slots__ = ("_database",)

    def __init__(self, database: sqlite3.Connection, submit_within: SubmitWithin) -> None:
        super().__init__(submit_within)
        self._database = database

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection of the driver."""
        return self._database

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Run one statement and return its cursor."""
        refuse_to_end(sql)
        require_transaction(self._database)
        return self._database.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        """Run one statement for each of many parameters."""
        require_transaction(self._database)
        return self._database.executemany(sql, parameters)

    @contextmanager
    def _statements(self) -> Iterator[None]:
        require_transaction(self._database)
        yield


class Base:
    """Tables, and one lock. Every verb is one transaction."""

    shared_folder: Path | None = None

    def __init__(self, url: str = "memory://", *, clock: Clock | None = None) -> None:
        if url != "memory://":
            raise StoreError(f"{hide_password(url)!r}: a memory store has no name and no options; write memory://")
        self.url = url
        self._clock = clock or (lambda: datetime.now(UTC))
        self._lock = threading.RLock()
        self._running = RunningEffect()
        self._tables = Tables()
        self._unchanged = UnchangedDocuments()
        self._chained: dict[str, Plan] = {}
        """The plans that tx.submit has used, by shape. Their transaction may have been rolled back: check them."""
        self._effects: GuardedConnection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False, factory=GuardedConnection
        )
        self._effects.execute("pragma foreign_keys = on")
        self._closed = False

    def now(self) -> datetime:
        return self._clock().astimezone(UTC)

    def disconnect(self) -> None:
        """Do nothing: there are no connections."""

    def close(self) -> None:
        with self._lock:
            refuse_inside_effect(self._effects)
            self._closed = True
            self._effects.close()

    @contextmanager
    def transaction(self) -> Iterator[MemoryTx]:
        with counted_by_stream(), self._writing(), self._guarded_tx(IN_TRANSACTION) as tx:
            yield tx

    @contextmanager
    def reading(self) -> Iterator[MemoryTx]:
        with counted_by_stream(), self._reading():
            refuse_inside_transaction(self._effects)
            self._effects.execute("pragma query_only = on")
            self._effects.execute(BEGIN_TO_READ)
            try:
                with self._effects.guard.guarding(self._effects, IN_READING):
                    yield MemoryTx(self._effects, _only_reads)
            finally:
                with suppress(sqlite3.Error):
                    self._effects.execute(ROLLBACK)
                self._effects.execute("pragma query_only = off")
                self._effects.reset_isolation()

    def _tx(self) -> MemoryTx:
        return MemoryTx(self._effects, self._submit_within)

    @contextmanager
    def _guarded_tx(self, what: str) -> Iterator[MemoryTx]:
        """Yield a transaction for user code that messages call `what`. It cannot end the transaction."""
        with self._effects.guard.guarding(self._effects, what):
            yield self._tx()

    def _submit_within(self, shape: Shape, batch: str, document: NewDocument) -> SubmitResult:
        """Submit one document in a transaction that is open, as `tx.submit` does. The intake does it."""
        raise NotImplementedError

    @contextmanager
    def _reading(self) -> Iterator[Tables]:
        """Hold the lock, so that all reads see one moment."""
        acquire(self._lock, self._running)
        try:
            if self._closed:
                raise StoreGone(f"the store {self.url} was closed")
            yield self._tables
        finally:
            self._lock.release()

    @contextmanager
    def _writing(self) -> Iterator[Tables]:
        """Run one transaction on the tables and on the rows of effects. Roll both back on any error."""
        with self._reading() as tables:
            refuse_inside_transaction(self._effects)
            self._effects.execute(BEGIN)
            try:
                yield tables
                self._effects.execute(COMMIT)
            except BaseException:  # re-raised; whatever it is, nothing of the transaction may stay
                tables.roll_back()
                with suppress(sqlite3.Error):
                    self._effects.execute(ROLLBACK)
                raise
            finally:
                tables.undo.clear()
                self._effects.reset_isolation()

    def _change(self, row: DocumentRow, **changes: Any) -> DocumentRow:
        """Change fields of a document. A long reason is cut."""
        if len(changes.get("reason", "")) > MAX_REASON:
            changes["reason"] = shorten(changes["reason"], MAX_REASON)
        changed = self._tables.documents[row.id] = replace(row, **changes)
        return changed

    def _write_journal(
        self, row: DocumentRow, verb: str, *, who: str, now: datetime, detail: Any, code: str = ""
    ) -> None:
        """Write one line about a document, with its present step and cursor. Count a line that repeats."""
        lines = self._tables.journals[row.id]
        step, cursor, plain = self._step_name(row), decode_or_text(row.cursor), _plain(detail)
        line = JournalEntry(now, verb, shorten(who, MAX_NAME), row.generation, step, cursor, plain, code)
        number = repeated_line(lines, line)
        if number is None:
            lines[len(lines)] = line
        else:
            first = lines[number]
            lines[number] = replace(line, at=first.at, times=first.times + 1, last_at=now)

    def _write_batch_journal(self, batch_id: int, verb: str, *, who: str, now: datetime, detail: Any) -> int:
        """Write one journal entry about a batch itself. Return its number, from 1."""
        lines = self._tables.batch_journals[batch_id]
        lines[len(lines)] = JournalEntry(now, verb, shorten(who, MAX_NAME), 0, None, None, _plain(detail))
        return len(lines)

    def _latest_kept(self) -> dict[int, int]:
        """Return the latest generation of each document that kept an item."""
        latest: dict[int, int] = {}
        for (document_id, generation, _), items in self._tables.items.items():
            if items:
                latest[document_id] = max(generation, latest.get(document_id, -1))
        return latest

    def _next_generations(self, rows: Sequence[DocumentRow]) -> dict[int, int]:
        """Return the next generation of each document: later than that of any item, whatever its row says."""
        latest = self._latest_kept() if rows else {}
        return {row.id: 1 + max(row.generation, latest.get(row.id, -1)) for row in rows}

    def _drop_earlier_generations(self, row: DocumentRow) -> None:
        """Delete items of earlier generations that a done document no longer needs."""
        tables = self._tables
        for place in list({**tables.items, **tables.asides}) if row.generation else ():
            document_id, generation, step_id = place
            earlier = document_id == row.id and generation < row.generation
            if earlier and generation != row.generation_of(step_id):
                for table in (tables.items[place], tables.asides[place]):
                    for position in list(table):
                        del table[position]

    def _served(self, row: DocumentRow) -> dict[int, int] | None:
        """Return which generations readers see, by step, while a new generation of the document is processed."""
        if row.cleaned_at is not None:
            return None
        steps = [step.id for step in self._tables.steps.values() if step.pipeline_id == row.pipeline_id]
        return {step_id: row.generation_of(step_id) for step_id in steps} if row.state == "done" else row.serves

    def _add_documents(
        self, plan: Plan, into: BatchRow, new: Sequence[NewDocument], *, submission: int, part: int, now: datetime
    ) -> None:
        """Add new documents to a batch, to its count of expected documents and to its manifest."""
        tables = self._tables
        for one in new:
            self._add_document(plan, into, one, submission=submission, part=part, now=now)
        tables.batches[into.id] = replace(into, expected=into.expected + len(new))
        tables.manifests[into.id] = (*tables.manifests.get(into.id, ()), *[one.key for one in new])

    def _add_document(
        self, plan: Plan, batch: BatchRow, one: NewDocument, *, submission: int, part: int, now: datetime
    ) -> None:
        """Add one document, at the first step."""
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
            waits_since=now,
        )

    def _removed(self, pipeline_id: int, step_ids: Mapping[str, int]) -> dict[str, int]:
        """Return the steps that a pipeline had and has no more, with their ids."""
        known = [step for step in self._tables.steps.values() if step.pipeline_id == pipeline_id]
        return {step.name: step.id for step in known if step.id not in step_ids.values()}

    def _documents(self, plan: Plan, batch: str | None = None) -> list[DocumentRow]:
        """Return the documents of a pipeline, or of one batch, the oldest first."""
        named = None if batch is None else self._batch(plan.pipeline_id, batch)
        if batch is not None and named is None:
            return []
        rows = self._tables.documents.values()
        return [row for row in rows if row.pipeline_id == plan.pipeline_id and (not named or row.batch_id == named.id)]

    def _due(self, plan: Plan, batch: str | None, now: datetime, paused: Collection[str] = ()) -> list[DocumentRow]:
        """Return the due documents at steps that the plan has and that are not paused, by priority, then age."""
        known = set(plan.claimable_ids(paused))
        waiting = [row for row in self._documents(plan, batch) if row.state == "waiting" and row.step_id in known]
        due = [(-row.priority, row.due_at, row) for row in waiting if row.due_at is not None and row.due_at <= now]
        return [row for _, _, row in sorted(due, key=lambda one: (one[0], one[1], one[2].id))]

    def _plans(self, pipeline_id: int | None) -> list[PlanRow]:
        """Return the plans of a pipeline: combined ones first, then the others in the order of their declaration."""
        rows = [row for row in self._tables.plans.values() if row.pipeline_id == pipeline_id]
        return sorted(rows, key=lambda row: (row.declared_at is not None, row.declared_at or EPOCH, row.id))

    def _present_shape(self, row: PlanRow) -> Shape:
        """Return the shape of a plan, with the current names of its steps."""
        return row.shape.called([self._tables.steps[step_id].name for step_id in row.step_ids])

    def _step_orders(self, pipeline_id: int) -> StepOrders:
        """Return the order of the steps of every plan of a pipeline."""
        return {row.id: order_of(row.shape, row.step_ids) for row in self._plans(pipeline_id)}

    def _repin(self, plan: Plan, rows: Sequence[DocumentRow]) -> None:
        """Pin documents that go on under another plan to the plan under which their steps were really done."""
        others = [(row.id, row.plan_id, self._step_name(row) or "") for row in rows if row.plan_id != plan.plan_id]
        if others:
            shapes = {row.id: self._present_shape(row) for row in self._plans(plan.pipeline_id)}
            remember = partial(self._save_plan, plan.pipeline_id)
            for pin, ids in new_pins(others, shapes, under=plan.plan_id, remember=remember).items():
                for document_id in ids:
                    self._change(self._tables.documents[document_id], plan_id=pin)

    def _save_plan(self, pipeline_id: int, shape: Shape) -> int:
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

    def _status(self, row: DocumentRow) -> DocumentStatus:
        tables = self._tables
        batch = tables.batches[row.batch_id]
        last = tables.workers.get(row.worked_by or 0)
        return DocumentStatus(
            id=row.id,
            pipeline=next(name for name, number in tables.pipelines.items() if number == row.pipeline_id),
            batch=batch.name,
            key=row.key,
            payload=decode_or_text(row.payload),
            fingerprint=row.fingerprint,
            priority=row.priority,
            state=row.state,
            checkpoint=Checkpoint(row.generation, self._step_name(row), decode_or_text(row.cursor), row.moves),
            attempts=row.attempts,
            crashes=row.crashes,
            reason=row.reason,
            code=row.code,
            holder="" if row.worker_id is None else tables.workers[row.worker_id].worker.name,
            submitted_at=row.submitted_at,
            moved_at=row.moved_at,
            due_at=row.due_at,
            waits_since=row.waits_since if row.due_at else None,
            error=row.error,
            accepted_by=row.accepted_by or "",
            claimed_at=row.claimed_at,
            deadline_at=row.deadline_at,
            cleaned_at=row.cleaned_at,
            plan_id=row.plan_id,
            worked_by=last.worker.name if last else None,
            losses=row.losses,
            deferrals=row.deferrals,
            deferred_at=row.deferred_at,
            interruptions=row.interruptions,
            recoverable=row.recoverable,
            items_total=(row.totals or {}).get(row.step_id or 0),
        )


def _only_reads(_shape: Shape, _batch: str, document: NewDocument) -> SubmitResult:
    raise StoreReadOnly(f"{document.key!r} cannot be submitted: this transaction only reads. Use store.transaction()")


def payload_of(one: NewDocument) -> str:
    """Return the payload of a document as JSON text."""
    return checked_json(one.payload, f"the payload of {one.key!r}")


def place_of(row: DocumentRow) -> Place:
    """Return the checkpoint of a document, as rewinds need it."""
    return Place(row.step_id, row.plan_id, row.generation, row.reuses, row.cleaned_at is not None, row.extents)


def row_id(row: object) -> int:
    """Return the id of a row, to sort by."""
    number: int = row.id  # type: ignore[attr-defined]
    return number


def _plain(detail: Any) -> Any:
    """Return the details of a journal line as a store on disk would return them."""
    return decode_json(encode_json(shorten_detail(detail)))
