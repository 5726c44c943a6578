"""Batches on PostgreSQL: they balance, are sealed and closed, and leave a report."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from holdfast.core.batches import (
    MOST_LISTED,
    NAMED,
    BatchReport,
    Closing,
    DeadLetter,
    DocumentsHash,
    Examined,
    Reconciliation,
    by_tolerance,
    past,
    refuse_to_close,
    report_of,
)
from holdfast.core.codec import encode_json
from holdfast.core.errors import UnknownBatch
from holdfast.core.model import NewDocument, Plan
from holdfast.stores.counting import reconciliations, version
from holdfast.stores.postgres.base import SQL, Base, moment, plain
from holdfast.stores.postgres.connection import Db
from holdfast.stores.rows import read_shape

PAGE = 10_000
"""How many documents are hashed at a time."""


class Named(NamedTuple):
    """A batch that was named: its numbers, and how it stands."""

    batch_id: int
    pipeline_id: int
    state: str
    report: str | None
    created_at: datetime

    @property
    def ids(self) -> dict[str, Any]:
        """The numbers that queries ask for."""
        return {"batch_id": self.batch_id, "pipeline_id": self.pipeline_id}


class Batches(Base):
    """Keeps documents together that belong together."""

    def seal(self, pipeline: str, batch: str, *, who: str, reason: str = "") -> bool:
        def seal(db: Db) -> bool:
            named = _named(db, pipeline, batch)
            if not db.execute(SQL["seal"], {"batch_id": named.batch_id, "now": self._now()}).rowcount:
                return False
            detail = {"reason": reason, "was": "open", "state": "sealed"}
            self._write_batch_journal(db, named.batch_id, "seal", who=who, detail=detail)
            return True

        return self._db.writing(seal)

    def census(self, pipeline: str, batch: str | None = None) -> list[Reconciliation]:
        def look(db: Db) -> list[Reconciliation]:
            if batch is not None:
                row = db.execute(SQL["find_batch"], {"pipeline": pipeline, "batch": batch}).fetchone()
                return [] if row is None else self._census(db, pipeline, row[1], row[0])
            known = db.execute("select id from hf_pipeline where name = %s", (pipeline,)).fetchone()
            return [] if known is None else self._census(db, pipeline, known[0], None)

        return self._db.reading(look)

    def _census(self, db: Db, pipeline: str, pipeline_id: int, batch_id: int | None) -> list[Reconciliation]:
        asked = {"pipeline_id": pipeline_id, "batch_id": batch_id, "now": self._now()}
        return reconciliations(pipeline, db.execute(SQL["census"], asked).fetchall(), moment)

    def _one_census(self, db: Db, pipeline: str, named: Named) -> Reconciliation:
        (found,) = self._census(db, pipeline, named.pipeline_id, named.batch_id)
        return found

    def missing(self, pipeline: str, batch: str) -> list[str]:
        return self._db.reading(lambda db: _missing(db, _named(db, pipeline, batch)))

    def report(self, pipeline: str, batch: str) -> BatchReport:
        now = self.now()

        def look(db: Db) -> BatchReport:
            named = _named(db, pipeline, batch)
            if named.report is not None:
                return msgspec.json.decode(named.report, type=BatchReport)
            found = self._one_census(db, pipeline, named)
            examined = _examine(db, pipeline, named, is_whole=found.balances)
            return report_of(found, examined, _dead_letters(db, named), made_at=now)

        return self._db.reading_one_moment(look)

    def close_batch(
        self, plan: Plan, batch: str, *, who: str, reason: str, tolerate: float = 0.0, closing: Plan | None = None
    ) -> Closing:
        said = {"closed_by": plain(who), "reason": plain(reason), "tolerance": tolerate}

        def look(db: Db) -> tuple[Named, int, Examined | None]:
            named = _named(db, plan.pipeline, batch)
            if named.report is not None:
                return named, 0, None
            found = self._one_census(db, plan.pipeline, named)
            _refuse(db, found, named, tolerate)
            return named, found.mark, _examine(db, plan.pipeline, named, is_whole=True)

        def close(db: Db) -> Closing | None:
            ((left,),) = db.execute(SQL["hold_batch"], named.ids).fetchall()
            if left is not None:
                return Closing(msgspec.json.decode(left, type=BatchReport), is_new=False)
            found = self._one_census(db, plan.pipeline, named)
            _refuse(db, found, named, tolerate)
            if examined is None or found.mark != mark:
                return None  # something was begun and ended meanwhile: what was examined is not so any more
            return Closing(self._file(db, named, found, examined, said=said, closing=closing), is_new=True)

        while True:
            named, mark, examined = self._db.reading(look)  # takes long, so nothing is locked
            closed = self._db.writing(close)
            if closed is not None:
                return closed

    def _file(
        self,
        db: Db,
        named: Named,
        found: Reconciliation,
        examined: Examined,
        *,
        said: dict[str, Any],
        closing: Plan | None,
    ) -> BatchReport:
        now = moment(self._now() or _clock(db))
        _accept_tolerated(db, named, said, now)
        report = report_of(found.closed(now), examined, _dead_letters(db, named), made_at=now, **said)
        db.execute(SQL["close_batch"], named.ids | {"closed_at": now, "report": encode_json(report)})
        detail = {"reason": said["reason"], "was": "sealed", "state": "closed", "sha256": report.sha256}
        self._write_batch_journal(db, named.batch_id, "close", who=said["closed_by"], detail=detail)
        if closing is not None:
            self._begin_closing(db, closing, report, now)
        return report

    def _begin_closing(self, db: Db, closing: Plan, report: BatchReport, now: datetime) -> None:
        """Begins the one document that the closing steps are for, in a batch of its own."""
        into = {"pipeline_id": closing.pipeline_id, "name": report.batch, "now": now}
        db.execute(SQL["open_batch"], into)
        ((batch_id, _),) = db.execute(SQL["batch"], into).fetchall()
        place = into | {"batch_id": batch_id, "plan_id": closing.plan_id, "step_id": closing.first}
        new = [NewDocument(report.batch, report.summary(), report.sha256)]
        self._take_in(db, place | {"submission": 0, "part": 0}, new)
        db.execute(SQL["seal"], {"batch_id": batch_id, "now": now})


def _clock(db: Db) -> datetime:
    ((now,),) = db.execute("select now()").fetchall()
    at: datetime = now
    return at


def _named(db: Db, pipeline: str, batch: str) -> Named:
    row = db.execute(SQL["find_batch"], {"pipeline": pipeline, "batch": batch}).fetchone()
    if row is None:
        known = [one[1] for one in db.execute(SQL["batches"], {"pipeline": pipeline}).fetchall()]
        raise UnknownBatch(pipeline, batch, known)
    return Named(*row)


def _refuse(db: Db, found: Reconciliation, named: Named, tolerate: float) -> None:
    dead = _dead_letters(db, named, limit=NAMED, unaccepted=True)
    missing = [] if found.balances else _missing(db, named)
    refuse_to_close(found, tolerate=tolerate, dead=[one.key for one in dead], missing=missing)


def _missing(db: Db, named: Named) -> list[str]:
    return [row[0] for row in db.execute(SQL["missing"], named.ids).fetchall()]


def _dead_letters(db: Db, named: Named, *, limit: int = MOST_LISTED, unaccepted: bool = False) -> list[DeadLetter]:
    rows = db.execute(SQL["dead_letters"], named.ids | {"limit": limit, "unaccepted": unaccepted}).fetchall()
    return [DeadLetter(*(*row, moment(moved_at))) for *row, moved_at in rows]


def _accept_tolerated(db: Db, named: Named, said: dict[str, Any], now: datetime) -> None:
    by = by_tolerance(said["tolerance"])
    detail = encode_json({"reason": by, "was": "dead", "state": "dead"})
    db.execute(SQL["journal_tolerated"], named.ids | {"who": said["closed_by"], "now": now, "detail": detail})
    db.execute(SQL["accept_tolerated"], named.ids | {"accepted_by": by})


def _examine(db: Db, pipeline: str, named: Named, *, is_whole: bool) -> Examined:
    listed = named.ids | {"limit": MOST_LISTED}
    ((shape,),) = db.execute(SQL["shape"], {"pipeline": pipeline}).fetchall()
    ((asides,),) = db.execute(SQL["count_asides"], named.ids).fetchall()
    return Examined(
        shape=read_shape(shape, row=f"for the last plan of {pipeline} in hf_plan"),
        holdfast=version(),
        documents_sha256=_hash(db, named),
        asides=asides,
        cancelled=[row[0] for row in db.execute(SQL["cancelled_keys"], listed).fetchall()],
        missing=[] if is_whole else _missing(db, named)[:MOST_LISTED],
        workers=[row[0] for row in db.execute(SQL["workers_since"], listed | {"since": named.created_at}).fetchall()],
    )


def _hash(db: Db, named: Named) -> str:
    hashed = DocumentsHash()
    start: str | None = ""
    while start is not None:
        page = db.execute(SQL["documents_by_key"], named.ids | {"start": start, "limit": PAGE}).fetchall()
        hashed.add(page)
        start = past(page[-1][0]) if len(page) == PAGE else None
    return hashed.hexdigest()
