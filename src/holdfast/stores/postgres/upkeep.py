"""Upkeep on PostgreSQL: puts right what time and crashes left behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.model import Plan, Standing
from holdfast.stores.parts import why_reclaimed
from holdfast.stores.postgres.arrays import numbers, sparse_numbers, texts
from holdfast.stores.postgres.base import MICROSECOND, SQL, Base, plain
from holdfast.stores.postgres.connection import Db
from holdfast.stores.postgres.ledger import standing
from holdfast.stores.protocol import Verdict

Orphan = dict[str, Any]


class Upkeep(Base):
    """Puts right what time and crashes left behind."""

    def reclaim(self, plan: Plan, *, who: str, verdict: Verdict, gone: Sequence[int] = ()) -> list[Standing]:
        now = self._now()
        asked = {"pipeline_id": plan.pipeline_id, "gone": numbers(gone), "now": now}

        def reclaim(db: Db) -> list[Standing]:
            orphans = [_judged(orphan, verdict) for orphan in db.execute(SQL["orphans"], asked).fetchall()]
            db.execute(SQL["reclaim"], _columns(orphans) | {"now": now})
            self._write_journal(db, [(one["id"], "reclaim", who, one["detail"]) for one in orphans], now)
            db.execute(SQL["bury_workers"], asked)
            ids = numbers([orphan["id"] for orphan in orphans])
            return [standing(row) for row in db.execute(SQL["standing_by_id"], {"ids": ids}).fetchall()]

        if not gone and not self._db.reading(lambda db: db.execute(SQL["orphans"], asked).fetchone()):
            return []  # the usual answer, without a transaction
        return self._db.writing(reclaim)

    def wake(self, plan: Plan) -> int:
        asked = {"pipeline_id": plan.pipeline_id, "gates": numbers(plan.gate_ids), "now": self._now()}
        if self._db.reading(lambda db: db.execute(SQL["sleeping"], asked).fetchone()) == (False,):
            return 0
        return self._db.writing(lambda db: db.execute(SQL["wake"], asked).rowcount)

    def suspects_due(self, plan: Plan, *, batch: str | None = None) -> bool:
        asked = {
            "pipeline_id": plan.pipeline_id,
            "step_ids": numbers([*plan.step_ids.values()]),
            "batch": batch,
            "now": self._now(),
        }
        return self._db.reading(lambda db: db.execute(SQL["suspects_due"], asked).fetchone()) == (True,)


def _judged(orphan: tuple[Any, ...], verdict: Verdict) -> Orphan:
    document_id, step, attempts, crashes, fence, holder, overdue = orphan
    if not overdue:  # the attempt that was counted at the claim turns out to be a crash
        attempts, crashes = attempts - 1, crashes + 1
    state, delay = verdict(step, attempts, crashes)
    error, reason = why_reclaimed(step, holder, overdue=overdue)
    return {
        "id": document_id,
        "fence": fence,
        "state": state,
        "delay": delay // MICROSECOND if state == "waiting" else None,
        "reason": reason,
        "error": error,
        "attempts": max(attempts, 0),
        "crashes": crashes,
        "detail": {"from": holder, "state": state, "reason": reason, "attempts": attempts, "crashes": crashes},
    }


def _columns(orphans: Sequence[Orphan]) -> dict[str, Any]:
    return {
        "ids": numbers([one["id"] for one in orphans]),
        "fences": numbers([one["fence"] for one in orphans]),
        "states": texts([one["state"] for one in orphans]),
        "delays": sparse_numbers([one["delay"] for one in orphans]),
        "reasons": texts([plain(one["reason"]) for one in orphans]),
        "errors": texts([one["error"] for one in orphans]),
        "attempts": numbers([one["attempts"] for one in orphans]),
        "crashes": numbers([one["crashes"] for one in orphans]),
    }
