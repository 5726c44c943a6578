"""What the nine roles of the PostgreSQL store share: its queries, its clock, and how it keeps times and values.

The clock is the database's, so that all workers of a fleet agree on it. Queries say now(), the moment the transaction
began: the same for every row, and steady enough for the planner to use an index with it. A clock given by hand, as in
tests, comes first: coalesce(..., now()).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from holdfast.core.codec import Kept, checked_json, encode_json
from holdfast.core.model import NewDocument, Plan, Worker
from holdfast.core.pins import repinned
from holdfast.core.plan import Shape
from holdfast.stores.parts import Unchanged
from holdfast.stores.postgres.arrays import numbers, texts
from holdfast.stores.postgres.connection import BEGIN_TO_READ, Connections, Db
from holdfast.stores.postgres.transaction import Tx
from holdfast.stores.protocol import Clock
from holdfast.stores.queries import Query, load
from holdfast.stores.rows import shapes_of

SQL: Mapping[str, Query] = load(Path(__file__).parent / "queries")
MICROSECOND = timedelta(microseconds=1)

Line = tuple[int, str, str, Any]
"""A line for the journal: document, verb, who and detail."""


class Base:
    """One database and one clock."""

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self.url = url
        self._db = Connections(url)
        self._clock = clock
        self._batches: dict[int, str] = {}
        self._unchanged = Unchanged()

    def now(self) -> datetime:
        if self._clock:
            return self._clock()
        return moment(self._db.reading(lambda db: db.execute(SQL["now"]).fetchall())[0][0])

    @contextmanager
    def transaction(self) -> Iterator[Tx]:
        with self._db.transaction() as db:
            yield Tx(db, self._db.name)

    @contextmanager
    def reading(self) -> Iterator[Tx]:
        with self._db.transaction(BEGIN_TO_READ) as db:
            yield Tx(db, self._db.name)

    def rest(self) -> None:
        self._db.rest()

    def close(self) -> None:
        self._db.close()

    def _now(self) -> datetime | None:
        """Gives the moment of a clock that was given; None lets the database say it."""
        return self._clock() if self._clock else None

    def _write_journal(self, db: Db, lines: Sequence[Line], now: datetime | None) -> None:
        if lines:
            ids, verbs, whos, details = zip(*lines, strict=True)
            columns = {
                "ids": numbers(ids),
                "verbs": texts(verbs),
                "whos": texts([plain(who) for who in whos]),
                "details": texts([encode_json(detail) for detail in details]),
            }
            db.execute(SQL["write_journal"], columns | {"now": now})

    def _repin(self, db: Db, plan: Plan, claimed: Sequence[tuple[int, int, int]]) -> None:
        """Pins documents that go on under another plan to what they are really done under: (id, plan, step) of each."""
        others = [one for one in claimed if one[1] != plan.plan_id]
        if not others:
            return
        pipeline = {"pipeline_id": plan.pipeline_id}
        numbered: dict[str, int] = dict(db.execute(SQL["steps"], pipeline).fetchall())
        names = {number: name for name, number in numbered.items()}

        def remember(shape: Shape) -> int:
            step_ids = [numbered[name] for name in shape.names]
            row = {"digest": shape.mark(step_ids), "shape": encode_json(shape), "step_ids": encode_json(step_ids)}
            ((plan_id,),) = db.execute(SQL["remember_plan"], pipeline | row).fetchall()
            return int(plan_id)

        shapes = shapes_of(db.execute(SQL["plans"], pipeline).fetchall(), names)
        named = [(document_id, begun, names[step_id]) for document_id, begun, step_id in others]
        for pin, ids in repinned(named, shapes, under=plan.plan_id, remember=remember).items():
            db.execute(SQL["repin"], {"plan_id": pin, "ids": numbers(ids)})

    def _write_batch_journal(self, db: Db, batch_id: int, verb: str, *, who: str, detail: Any) -> int:
        line = {"batch_id": batch_id, "verb": verb, "who": plain(who), "detail": encode_json(detail)}
        ((number,),) = db.execute(SQL["write_batch_journal"], line | {"now": self._now()}).fetchall()
        return int(number)

    def _take_in(self, db: Db, place: dict[str, Any], new: Sequence[NewDocument]) -> None:
        """Lets new documents begin. Their batch expects them, and its manifest names them."""
        db.execute(SQL["insert_documents"], place | columns_of(new))
        db.execute(SQL["expect"], {"batch_id": place["batch_id"], "count": len(new)})
        db.execute(SQL["remember_keys"], place | {"keys": encode_json([one.key for one in new])})

    def _all(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return self._db.reading(lambda db: db.execute(SQL[query], parameters).fetchall())

    def _one(self, query: str, **parameters: Any) -> tuple[Any, ...] | None:
        return next(iter(self._all(query, **parameters)), None)


def columns_of(documents: Sequence[NewDocument]) -> dict[str, Any]:
    """Gives documents as the columns that insert_documents.sql and change_documents.sql read."""
    return {
        "keys": texts([one.key for one in documents]),
        "payloads": texts([checked_json(one.payload, f"the payload of {one.key!r}") for one in documents]),
        "fingerprints": texts([one.fingerprint for one in documents]),
        "priorities": numbers([one.priority for one in documents]),
    }


def moment(at: datetime) -> datetime:
    """Gives a moment in UTC, whatever zone the server likes."""
    return at.astimezone(UTC)


def worker_of(row: Sequence[Any]) -> Worker:
    """Gives the worker that a row begins with."""
    worker_id, name, host, pid, born, lease, enlisted_at, *_ = row
    return Worker(worker_id, name, host, pid, born, lease, moment(enlisted_at))


def plain(text: str) -> str:
    """Gives a text for people without NUL, the one character that PostgreSQL cannot keep."""
    return text.replace("\0", "\ufffd")


def kept(value: str | None, data: bytes | None, media: str | None) -> Kept:
    """Gives back a value as it was kept, from a row or a blob."""
    if value is not None:
        return value
    assert data is not None
    return data.decode() if media == "json" else data
