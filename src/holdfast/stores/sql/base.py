"""What the roles of SQL stores share: transactions, the clock, the journal, and documents that begin.

Statements get the time as `:now`. On SQLite it is the time of this machine. On PostgreSQL it is the database's now(),
so that all workers of a fleet agree on it: the time at which the transaction began, the same for every row, and stable
enough for the planner to use an index with it. A clock that was given by hand, as in tests, comes first on both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from holdfast.core.codec import checked_json, encode_json
from holdfast.core.errors import UnknownBatch
from holdfast.core.model import NewDocument, Plan, SubmitResult, WorkerRecord
from holdfast.core.moves import Tx
from holdfast.core.plan import Shape, new_pins
from holdfast.core.text_limits import shorten_detail
from holdfast.stores.journal_rules import MAX_LINES, REPEATING
from holdfast.stores.protocol import Clock
from holdfast.stores.sql.dialect import Dialect, Rows, stored_name
from holdfast.stores.sql.row_codec import shapes_of
from holdfast.stores.sql.session import Row, Session
from holdfast.stores.submission import UnchangedDocuments

T = TypeVar("T")
Task = Callable[[Session], T]

Line = tuple[int, str, str, Any, str]
"""A line for the journal: document, verb, who, detail and code."""


class FoundBatch(NamedTuple):
    """A batch that was named: a row of find_batch.sql."""

    batch_id: int
    pipeline_id: int
    state: str
    report: str | None
    created_at: Any

    @property
    def ids(self) -> dict[str, Any]:
        """The ids as parameters."""
        return {"batch_id": self.batch_id, "pipeline_id": self.pipeline_id}


class Base(ABC):
    """One database and one clock."""

    dialect: Dialect
    shared_folder: Path | None = None

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self.url = url
        self._clock = clock
        self._batches: dict[int, str] = {}
        self._unchanged = UnchangedDocuments()
        self._chained: dict[str, Plan] = {}
        """The plans that tx.submit has used, by shape. Their transaction may have been rolled back: check them."""

    @abstractmethod
    def _write(self, work: Task[T]) -> T:
        """Do all of it in one transaction, or nothing.

        It may be done again from the beginning, after a lost connection or a collision: it must change nothing else.
        """

    @abstractmethod
    def _read(self, work: Task[T]) -> T:
        """Do what only reads. Statements may see different moments."""

    @abstractmethod
    def _read_snapshot(self, work: Task[T]) -> T:
        """Do what only reads, with all statements at the same moment."""

    @abstractmethod
    def _transaction_time(self, db: Session) -> datetime:
        """Return the time that `:now` is in the statements of a transaction."""

    @abstractmethod
    def _tx(self, db: Session) -> Tx:
        """Return a transaction as effects get it."""

    @abstractmethod
    def _guarded_tx(self, db: Session, what: str) -> AbstractContextManager[Tx]:
        """Return a transaction for user code that messages call `what`. It cannot end the transaction."""

    @abstractmethod
    def _submit_within(self, db: Session, shape: Shape, batch: str, document: NewDocument) -> SubmitResult:
        """Submit one document in a transaction that is open, as `tx.submit` does."""

    @abstractmethod
    def _joined(self, connection: Any) -> AbstractContextManager[Session]:
        """Return a session in the transaction of a caller, which only the caller ends."""

    @abstractmethod
    def now(self) -> datetime: ...

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Tx]: ...

    @abstractmethod
    def reading(self) -> AbstractContextManager[Tx]: ...

    @abstractmethod
    def disconnect(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def _all(self, query: str, /, **parameters: Any) -> list[Row]:
        return self._read(lambda db: db.all(query, **parameters))

    def _first(self, query: str, /, **parameters: Any) -> Row | None:
        return self._read(lambda db: db.first(query, **parameters))

    def _value(self, query: str, /, **parameters: Any) -> Any:
        return self._read(lambda db: db.value(query, **parameters))

    def _worker(self, row: Sequence[Any]) -> WorkerRecord:
        """Return the worker that a row begins with."""
        worker_id, name, host, pid, born, lease, registered_at, *_ = row
        times = self.dialect.duration(lease), self.dialect.moment(registered_at)
        return WorkerRecord(worker_id, name, host, pid, born, *times)

    def _repin(self, db: Session, plan: Plan, claimed: Sequence[tuple[int, int, int]]) -> None:
        """Pin documents that go on under another plan to what they are done under: (id, plan, step) of each."""
        others = [place for place in claimed if place[1] != plan.plan_id]
        if not others:
            return
        step_ids: dict[str, int] = dict(db.all("steps", pipeline_id=plan.pipeline_id))
        names = {step_id: name for name, step_id in step_ids.items()}

        def remember(shape: Shape) -> int:
            ids = [step_ids[name] for name in shape.names]
            row = {"digest": shape.mark(ids), "shape": encode_json(shape), "step_ids": encode_json(ids)}
            return int(db.value("insert_plan", pipeline_id=plan.pipeline_id, **row))

        shapes = shapes_of(db.all("plans", pipeline_id=plan.pipeline_id), names)
        named = [(document_id, begun, names[step_id]) for document_id, begun, step_id in others if begun in shapes]
        for pin, ids in new_pins(named, shapes, under=plan.plan_id, remember=remember).items():
            db.run("repin", plan_id=pin, ids=ids)


def find_batch(db: Session, pipeline: str, batch: str) -> FoundBatch:
    """Return a batch by its name, or raise UnknownBatch."""
    row = db.first("find_batch", pipeline=pipeline, batch=batch)
    if row is None:
        raise UnknownBatch(pipeline, batch, [known[1] for known in db.all("batches", pipeline=pipeline)])
    return FoundBatch(*row)


def write_journal(db: Session, lines: Sequence[Line]) -> None:
    """Write lines of the journal, with the current places of their documents. Count a line that repeats."""
    repeating = [line for line in lines if line[1] in REPEATING]
    if repeating:
        counted = {row[0] for row in db.all("repeat_line", lines=_line_rows(repeating), most=MAX_LINES)}
        lines = [line for line in lines if line[1] not in REPEATING or line[0] not in counted]
    if lines:
        db.run("write_journal", lines=_line_rows(lines))


def _line_rows(lines: Sequence[Line]) -> Rows:
    ids, verbs, names, details, codes = zip(*lines, strict=True)
    texts = [stored_name(who) for who in names], [encode_json(shorten_detail(detail)) for detail in details]
    return Rows(id=ids, verb=verbs, who=texts[0], detail=texts[1], code=codes)


def write_batch_journal(db: Session, batch_id: int, verb: str, *, who: str, detail: Any) -> int:
    """Write one line about a batch. Return its number."""
    line = {"batch_id": batch_id, "verb": verb, "who": stored_name(who), "detail": encode_json(shorten_detail(detail))}
    return int(db.value("write_batch_journal", **line))


def open_batch(db: Session, plan: Plan, batch: str) -> tuple[int, str]:
    """Create a batch, unless it exists, and lock it. Return its id and its state."""
    db.run("open_batch", pipeline_id=plan.pipeline_id, name=batch)
    ((batch_id, state),) = db.all("lock_batch", pipeline_id=plan.pipeline_id, name=batch)
    return int(batch_id), state


def insert_documents(db: Session, place: dict[str, Any], new: Sequence[NewDocument]) -> None:
    """Add new documents. Their batch expects them, and its manifest names them."""
    db.run("insert_documents", **place, documents=document_rows(new))
    db.run("add_expected", batch_id=place["batch_id"], count=len(new))
    db.run("insert_manifest", **place, keys=encode_json([document.key for document in new]))


def document_rows(documents: Sequence[NewDocument]) -> Rows:
    """Return documents as the rows that insert_documents.sql and restart_changed_documents.sql read."""
    return Rows(
        key=[document.key for document in documents],
        payload=[checked_json(document.payload, f"the payload of {document.key!r}") for document in documents],
        fingerprint=[document.fingerprint for document in documents],
        priority=[document.priority for document in documents],
    )
