"""What the nine roles of the SQLite store share: its queries, its clock, and how it keeps times and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from holdfast.core.codec import Kept, checked_json, encode_json
from holdfast.core.model import NewDocument, Plan, Worker
from holdfast.core.pins import repinned
from holdfast.core.plan import Shape
from holdfast.stores.parts import Unchanged
from holdfast.stores.protocol import Clock
from holdfast.stores.queries import Query, load
from holdfast.stores.rows import shapes_of
from holdfast.stores.sqlite.connection import Connections, Tx

SQL: Mapping[str, Query] = load(Path(__file__).parent / "queries")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LATEST = datetime(9999, 12, 30, tzinfo=UTC)
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
"""With a day to spare, so that each has a date in every zone."""


class Base:
    """One database file and one clock."""

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self.url = url
        self._db = Connections(url)
        self._clock = clock or (lambda: datetime.now(UTC))
        self._batches: dict[int, str] = {}
        self._unchanged = Unchanged()

    def now(self) -> datetime:
        return self._clock()

    @contextmanager
    def transaction(self) -> Iterator[Tx]:
        with self._db.writing() as db:
            yield Tx(db, self.url)

    @contextmanager
    def reading(self) -> Iterator[Tx]:
        with self._db.reading_one_moment() as db:
            yield Tx(db, self.url)

    def rest(self) -> None:
        self._db.rest()

    def close(self) -> None:
        self._db.close()

    def _now(self) -> int:
        return micros(self._clock())

    def _write_journal(self, db: Connection, document_id: int, verb: str, *, who: str, now: int, detail: Any) -> None:
        line = {"document_id": document_id, "verb": verb, "who": who, "now": now, "detail": encode_json(detail)}
        db.execute(SQL["write_journal"], line)

    def _repin(self, db: Connection, plan: Plan, claimed: Sequence[tuple[int, int, int]]) -> None:
        """Pins documents that go on under another plan to what they are really done under: (id, plan, step) of each."""
        others = [one for one in claimed if one[1] != plan.plan_id]
        if not others:
            return
        pipeline = {"pipeline_id": plan.pipeline_id}
        numbers = dict(db.execute(SQL["steps"], pipeline).fetchall())
        names = {number: name for name, number in numbers.items()}

        def remember(shape: Shape) -> int:
            step_ids = [numbers[name] for name in shape.names]
            row = {"digest": shape.mark(step_ids), "shape": encode_json(shape), "step_ids": encode_json(step_ids)}
            return int(db.execute(SQL["remember_plan"], pipeline | row).fetchone()[0])

        shapes = shapes_of(db.execute(SQL["plans"], pipeline).fetchall(), names)
        named = [(document_id, begun, names[step_id]) for document_id, begun, step_id in others if begun in shapes]
        for pin, ids in repinned(named, shapes, under=plan.plan_id, remember=remember).items():
            db.execute(SQL["repin"], {"plan_id": pin, "ids": encode_json(ids)})

    def _write_batch_journal(self, db: Connection, batch_id: int, verb: str, *, who: str, now: int, detail: Any) -> int:
        line = {"batch_id": batch_id, "verb": verb, "who": who, "now": now, "detail": encode_json(detail)}
        return int(db.execute(SQL["write_batch_journal"], line).fetchone()[0])

    def _take_in(self, db: Connection, place: dict[str, Any], new: Sequence[NewDocument]) -> None:
        """Lets new documents begin. Their batch expects them, and its manifest names them."""
        db.execute(SQL["insert_documents"], place | {"documents": rows_of(new)})
        db.execute(SQL["expect"], {"batch_id": place["batch_id"], "count": len(new)})
        db.execute(SQL["remember_keys"], place | {"keys": encode_json([one.key for one in new])})

    def _batch_id(self, db: Connection, pipeline_id: int, batch: str | None) -> int | None:
        if batch is None:
            return None
        row = db.execute(SQL["batch"], {"pipeline_id": pipeline_id, "name": batch}).fetchone()
        return row[0] if row else -1

    def _all(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        with self._db.reading() as db:
            return db.execute(SQL[query], parameters).fetchall()

    def _one(self, query: str, **parameters: Any) -> tuple[Any, ...] | None:
        return next(iter(self._all(query, **parameters)), None)


def rows_of(documents: Sequence[NewDocument]) -> str:
    """Gives documents as the JSON that insert_documents.sql and change_documents.sql read."""
    rows: list[tuple[Any, ...]] = [
        (one.key, checked_json(one.payload, f"the payload of {one.key!r}"), one.fingerprint, one.priority)
        for one in documents
    ]
    return encode_json(rows)


def micros(moment: datetime) -> int:
    """Gives a moment as microseconds since 1970."""
    return (moment - EPOCH) // MICROSECOND


def moment(micros_since_1970: int) -> datetime:
    """Gives microseconds since 1970 as a moment. What no calendar has is the last that has a date, or the first."""
    try:
        return EPOCH + micros_since_1970 * MICROSECOND
    except OverflowError:  # somebody edited it
        return LATEST if micros_since_1970 > 0 else EARLIEST


def worker_of(row: Sequence[Any]) -> Worker:
    """Gives the worker that a row begins with."""
    worker_id, name, host, pid, born, lease, enlisted_at, *_ = row
    return Worker(worker_id, name, host, pid, born, lease * MICROSECOND, moment(enlisted_at))


def as_kept(value: Any, media: str | None) -> Kept:
    """Gives back a value as it was kept, from a row or a blob."""
    return value.decode() if media == "json" else value  # type: ignore[no-any-return]
