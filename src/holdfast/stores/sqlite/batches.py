"""Batches on SQLite: they balance, are sealed and closed, and leave a report."""

from __future__ import annotations

from sqlite3 import Connection
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
from holdfast.stores.rows import read_shape
from holdfast.stores.sqlite.base import SQL, Base, moment

PAGE = 10_000
"""How many documents are hashed at a time."""


class Named(NamedTuple):
    """A batch that was named: its numbers, and how it stands."""

    batch_id: int
    pipeline_id: int
    state: str
    report: str | None
    created_at: int

    @property
    def ids(self) -> dict[str, Any]:
        """The numbers that queries ask for."""
        return {"batch_id": self.batch_id, "pipeline_id": self.pipeline_id}


class Batches(Base):
    """Keeps documents together that belong together."""

    def seal(self, pipeline: str, batch: str, *, who: str, reason: str = "") -> bool:
        now = self._now()
        with self._db.writing() as db:
            named = _named(db, pipeline, batch)
            if not db.execute(SQL["seal"], {"batch_id": named.batch_id, "now": now}).rowcount:
                return False
            detail = {"reason": reason, "was": "open", "state": "sealed"}
            self._write_batch_journal(db, named.batch_id, "seal", who=who, now=now, detail=detail)
            return True

    def census(self, pipeline: str, batch: str | None = None) -> list[Reconciliation]:
        with self._db.reading() as db:
            row = db.execute("select id from hf_pipeline where name = ?", (pipeline,)).fetchone()
            pipeline_id = row[0] if row else -1
            return self._census(db, pipeline, pipeline_id, self._batch_id(db, pipeline_id, batch))

    def _census(self, db: Connection, pipeline: str, pipeline_id: int, batch_id: int | None) -> list[Reconciliation]:
        asked = {"pipeline_id": pipeline_id, "batch_id": batch_id, "now": self._now()}
        return reconciliations(pipeline, db.execute(SQL["census"], asked).fetchall(), moment)

    def _one_census(self, db: Connection, pipeline: str, named: Named) -> Reconciliation:
        (found,) = self._census(db, pipeline, named.pipeline_id, named.batch_id)
        return found

    def missing(self, pipeline: str, batch: str) -> list[str]:
        with self._db.reading() as db:
            return _missing(db, _named(db, pipeline, batch))

    def report(self, pipeline: str, batch: str) -> BatchReport:
        with self._db.reading() as db:
            named = _named(db, pipeline, batch)
            if named.report is not None:
                return msgspec.json.decode(named.report, type=BatchReport)
            db.execute("begin")  # all of one moment
            try:
                found = self._one_census(db, pipeline, named)
                examined = _examine(db, pipeline, named, is_whole=found.balances)
                return report_of(found, examined, _dead_letters(db, named), made_at=moment(self._now()))
            finally:
                db.execute("commit")

    def close_batch(
        self, plan: Plan, batch: str, *, who: str, reason: str, tolerate: float = 0.0, closing: Plan | None = None
    ) -> Closing:
        while True:
            with self._db.reading() as db:
                named = _named(db, plan.pipeline, batch)
                if named.report is not None:
                    return Closing(msgspec.json.decode(named.report, type=BatchReport), is_new=False)
                found = self._one_census(db, plan.pipeline, named)
                _refuse(db, found, named, tolerate)
                examined = _examine(db, plan.pipeline, named, is_whole=True)  # takes long, so nothing is locked
            with self._db.writing() as db:
                ((left,),) = db.execute(SQL["hold_batch"], named.ids).fetchall()
                if left is not None:
                    return Closing(msgspec.json.decode(left, type=BatchReport), is_new=False)
                again = self._one_census(db, plan.pipeline, named)
                _refuse(db, again, named, tolerate)
                if again.mark != found.mark:
                    continue  # something was begun and ended meanwhile: what was examined is not so any more
                said = {"closed_by": who, "reason": reason, "tolerance": tolerate}
                return Closing(self._file(db, named, again, examined, said=said, closing=closing), is_new=True)

    def _file(
        self,
        db: Connection,
        named: Named,
        found: Reconciliation,
        examined: Examined,
        *,
        said: dict[str, Any],
        closing: Plan | None,
    ) -> BatchReport:
        now = self._now()
        _accept_tolerated(db, named, said, now)
        report = report_of(found.closed(moment(now)), examined, _dead_letters(db, named), made_at=moment(now), **said)
        db.execute(SQL["close_batch"], named.ids | {"closed_at": now, "report": encode_json(report)})
        detail = {"reason": said["reason"], "was": "sealed", "state": "closed", "sha256": report.sha256}
        self._write_batch_journal(db, named.batch_id, "close", who=said["closed_by"], now=now, detail=detail)
        if closing is not None:
            self._begin_closing(db, closing, report, now)
        return report

    def _begin_closing(self, db: Connection, closing: Plan, report: BatchReport, now: int) -> None:
        """Begins the one document that the closing steps are for, in a batch of its own."""
        into = {"pipeline_id": closing.pipeline_id, "name": report.batch, "now": now}
        db.execute(SQL["open_batch"], into)
        (batch_id, _) = db.execute(SQL["batch"], into).fetchone()
        place = into | {"batch_id": batch_id, "plan_id": closing.plan_id, "step_id": closing.first}
        new = [NewDocument(report.batch, report.summary(), report.sha256)]
        self._take_in(db, place | {"submission": 0, "part": 0}, new)
        db.execute(SQL["seal"], {"batch_id": batch_id, "now": now})


def _named(db: Connection, pipeline: str, batch: str) -> Named:
    row = db.execute(SQL["find_batch"], {"pipeline": pipeline, "batch": batch}).fetchone()
    if row is None:
        known = [one[1] for one in db.execute(SQL["batches"], {"pipeline": pipeline}).fetchall()]
        raise UnknownBatch(pipeline, batch, known)
    return Named(*row)


def _refuse(db: Connection, found: Reconciliation, named: Named, tolerate: float) -> None:
    dead = _dead_letters(db, named, limit=NAMED, unaccepted=True)
    missing = [] if found.balances else _missing(db, named)
    refuse_to_close(found, tolerate=tolerate, dead=[one.key for one in dead], missing=missing)


def _missing(db: Connection, named: Named) -> list[str]:
    return [row[0] for row in db.execute(SQL["missing"], named.ids).fetchall()]


def _dead_letters(
    db: Connection, named: Named, *, limit: int = MOST_LISTED, unaccepted: bool = False
) -> list[DeadLetter]:
    rows = db.execute(SQL["dead_letters"], named.ids | {"limit": limit, "unaccepted": unaccepted}).fetchall()
    return [DeadLetter(*(*row, moment(moved_at))) for *row, moved_at in rows]


def _accept_tolerated(db: Connection, named: Named, said: dict[str, Any], now: int) -> None:
    by = by_tolerance(said["tolerance"])
    detail = encode_json({"reason": by, "was": "dead", "state": "dead"})
    db.execute(SQL["journal_tolerated"], named.ids | {"who": said["closed_by"], "now": now, "detail": detail})
    db.execute(SQL["accept_tolerated"], named.ids | {"accepted_by": by})


def _examine(db: Connection, pipeline: str, named: Named, *, is_whole: bool) -> Examined:
    listed = named.ids | {"limit": MOST_LISTED}
    return Examined(
        shape=read_shape(
            db.execute(SQL["shape"], {"pipeline": pipeline}).fetchone()[0],
            row=f"for the last plan of {pipeline} in hf_plan",
        ),
        holdfast=version(),
        documents_sha256=_hash(db, named),
        asides=db.execute(SQL["count_asides"], named.ids).fetchone()[0],
        cancelled=[row[0] for row in db.execute(SQL["cancelled_keys"], listed).fetchall()],
        missing=[] if is_whole else _missing(db, named)[:MOST_LISTED],
        workers=[row[0] for row in db.execute(SQL["workers_since"], listed | {"since": named.created_at}).fetchall()],
    )


def _hash(db: Connection, named: Named) -> str:
    hashed = DocumentsHash()
    start: str | None = ""
    while start is not None:
        page = db.execute(SQL["documents_by_key"], named.ids | {"start": start, "limit": PAGE}).fetchall()
        hashed.add(page)
        start = past(page[-1][0]) if len(page) == PAGE else None
    return hashed.hexdigest()
