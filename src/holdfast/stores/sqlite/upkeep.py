"""Upkeep on SQLite: puts right what time and crashes left behind."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Any

from holdfast.core.codec import encode_json
from holdfast.core.model import Plan, Standing
from holdfast.stores.parts import why_reclaimed
from holdfast.stores.protocol import Verdict
from holdfast.stores.sqlite.base import MICROSECOND, SQL, Base
from holdfast.stores.sqlite.ledger import standing


class Upkeep(Base):
    """Puts right what time and crashes left behind."""

    def reclaim(self, plan: Plan, *, who: str, verdict: Verdict, gone: Sequence[int] = ()) -> list[Standing]:
        now = self._now()
        asked = {"pipeline_id": plan.pipeline_id, "gone": encode_json(list(gone)), "now": now}
        with self._db.reading() as db:
            if not gone and not db.execute(SQL["orphans"], asked).fetchone():
                return []  # the usual answer, without waiting for a turn to write
        with self._db.writing() as db:
            orphans = db.execute(SQL["orphans"], asked).fetchall()
            for orphan in orphans:
                self._reclaim(db, orphan, who=who, verdict=verdict, now=now)
            db.execute(SQL["bury_workers"], asked)
            rows = [db.execute(SQL["standing_by_id"], {"id": orphan[0]}).fetchone() for orphan in orphans]
        return [standing(row) for row in rows]

    def _reclaim(self, db: Connection, orphan: tuple[Any, ...], *, who: str, verdict: Verdict, now: int) -> None:
        document_id, step, attempts, crashes, fence, holder, overdue = orphan
        if not overdue:  # the attempt that was counted at the claim turns out to be a crash
            attempts, crashes = attempts - 1, crashes + 1
        state, delay = verdict(step, attempts, crashes)
        error, reason = why_reclaimed(step, holder, overdue=overdue)
        row = {
            "id": document_id,
            "fence": fence,
            "state": state,
            "due_at": now + delay // MICROSECOND if state == "waiting" else None,
            "at_once": state == "waiting" and not delay,
            "reason": reason,
            "error": error,
            "attempts": max(attempts, 0),
            "crashes": crashes,
        }
        db.execute(SQL["reclaim"], row)
        detail = {"from": holder, "state": state, "reason": reason, "attempts": attempts, "crashes": crashes}
        self._write_journal(db, document_id, "reclaim", who=who, now=now, detail=detail)

    def wake(self, plan: Plan) -> int:
        asked = {"pipeline_id": plan.pipeline_id, "gates": encode_json(plan.gate_ids), "now": self._now()}
        with self._db.reading() as db:
            if db.execute(SQL["sleeping"], asked).fetchone() == (0,):
                return 0
        with self._db.writing() as db:
            return db.execute(SQL["wake"], asked).rowcount

    def suspects_due(self, plan: Plan, *, batch: str | None = None) -> bool:
        with self._db.reading() as db:
            asked = {
                "pipeline_id": plan.pipeline_id,
                "step_ids": encode_json(list(plan.step_ids.values())),
                "batch_id": self._batch_id(db, plan.pipeline_id, batch),
                "now": self._now(),
            }
            return bool(db.execute(SQL["suspects_due"], asked).fetchone()[0])
