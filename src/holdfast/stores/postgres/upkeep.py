"""Upkeep on PostgreSQL: puts right what time and crashes left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdfast.core.decisions import AT_A_GATE
from holdfast.core.model import STATES, Plan, Standing
from holdfast.core.orphans import Orphan, Strategy
from holdfast.stores.deciding import Deciding
from holdfast.stores.postgres.arrays import numbers, sparse_numbers, texts
from holdfast.stores.postgres.base import MICROSECOND, SQL, Base, plain
from holdfast.stores.postgres.connection import Db
from holdfast.stores.postgres.stories import standing
from holdfast.stores.protocol import TOGETHER, Paces, Verdict
from holdfast.stores.reclaiming import WOKEN, Held, Taken, judged, resolved, vouched


class Upkeep(Base):
    """Puts right what time and crashes left behind."""

    def reclaim(self, plan: Plan, *, who: str, verdict: Verdict, gone: Sequence[int] = ()) -> list[Standing]:
        now = self._now()
        asked = {"pipeline_id": plan.pipeline_id, "gone": numbers(gone), "now": now}

        def reclaim(db: Db) -> list[Standing]:
            orphans = [Held(*row) for row in db.execute(SQL["orphans"], asked).fetchall()]
            taken = self._take_away(db, [judged(orphan, verdict) for orphan in orphans], who, now)
            db.execute(SQL["bury_workers"], asked)
            return taken

        if not gone and not self._db.reading(lambda db: db.execute(SQL["orphans"], asked).fetchone()):
            return []  # the usual answer, without a transaction
        return self._db.writing(reclaim)

    def resolve_orphans(
        self, orphans: Sequence[Orphan], *, strategy: Strategy, who: str, reason: str
    ) -> list[Standing]:
        now = self._now()
        found = {orphan.standing.id: orphan for orphan in orphans}

        def resolve(db: Db) -> list[Standing]:
            still = [Held(*row) for row in db.execute(SQL["still_orphaned"], _marks([*found.values()])).fetchall()]
            taken = [resolved(held, found[held.id], strategy=strategy, reason=reason) for held in still]
            return self._take_away(db, taken, who, now)

        return self._db.writing(resolve)

    def _take_away(self, db: Db, taken: Sequence[Taken], who: str, now: datetime | None) -> list[Standing]:
        """Takes orphans from their workers. What those still write will match nothing."""
        db.execute(SQL["reclaim"], _columns(taken) | {"now": now})
        self._write_journal(db, [(one.id, "reclaim", who, one.detail) for one in taken], now)
        ids = numbers([one.id for one in taken])
        return [standing(row) for row in db.execute(SQL["standing_by_id"], {"ids": ids}).fetchall()]

    def wake(self, plan: Plan, *, who: str, limit: int = TOGETHER) -> int:
        now = self._now()
        asked = {"pipeline_id": plan.pipeline_id, "bodies": numbers(plan.body_ids), "now": now}

        def wake(db: Db) -> int:
            woken = [row[0] for row in db.execute(SQL["wake"], asked | {"limit": limit}).fetchall()]
            self._write_journal(db, [(document_id, "wake", who, WOKEN) for document_id in woken], now)
            return len(woken)

        if self._db.reading(lambda db: db.execute(SQL["sleeping"], asked).fetchone()) == (False,):
            return 0
        return self._db.writing(wake)

    def set_time(self, plan: Plan, gate: str, *, within: timedelta, limit: int = TOGETHER) -> int:
        asked = {
            "pipeline_id": plan.pipeline_id,
            "step_id": plan.step_ids[gate],
            "reason": f"{AT_A_GATE}%",
            "within": within,
        }
        if self._db.reading(lambda db: db.execute(SQL["timeless"], asked).fetchone()) == (False,):
            return 0
        return self._db.writing(lambda db: db.execute(SQL["set_time"], asked | {"limit": limit}).rowcount)

    def vouch(self, at: Mapping[int, int], *, steps: Sequence[str], who: str) -> list[int]:
        now, asked = self._now(), {"ids": numbers([*at]), "states": texts(STATES)}

        def vouch(db: Db) -> list[int]:
            db.execute(SQL["hold_batches"], asked)
            here = [Deciding(*row) for row in db.execute(SQL["deciding"], asked).fetchall()]
            still = [one.id for one in here if one.moves == at[one.id]]
            self._write_journal(db, [(document_id, "verify", who, vouched(steps)) for document_id in still], now)
            return still

        return self._db.writing(vouch)

    def suspects_due(self, plan: Plan, *, batch: str | None = None) -> bool:
        asked = {
            "pipeline_id": plan.pipeline_id,
            "step_ids": numbers([*plan.step_ids.values()]),
            "batch": batch,
            "now": self._now(),
        }
        return self._db.reading(lambda db: db.execute(SQL["suspects_due"], asked).fetchone()) == (True,)

    def pace(self, plan: Plan, spent: Paces) -> None:
        columns = {
            "step_ids": [plan.step_ids[step] for step in spent],
            "documents": [documents for documents, _ in spent.values()],
            "seconds": [seconds for _, seconds in spent.values()],
        }
        self._db.writing(lambda db: db.execute(SQL["pace"], columns))


def _marks(orphans: Sequence[Orphan]) -> dict[str, Any]:
    """Says which orphaning of each document is meant, and until when its silent worker was heard."""
    return {
        "ids": numbers([orphan.standing.id for orphan in orphans]),
        "fences": numbers([orphan.fence for orphan in orphans]),
        "generations": numbers([orphan.standing.checkpoint.generation for orphan in orphans]),
        "moves": numbers([orphan.standing.checkpoint.moves for orphan in orphans]),
        "heard": texts([None if orphan.alive else orphan.since.isoformat() for orphan in orphans]),
    }


def _columns(taken: Sequence[Taken]) -> dict[str, Any]:
    return {
        "ids": numbers([one.id for one in taken]),
        "fences": numbers([one.fence for one in taken]),
        "states": texts([one.state for one in taken]),
        "delays": sparse_numbers([None if one.delay is None else one.delay // MICROSECOND for one in taken]),
        "reasons": texts([plain(one.reason) for one in taken]),
        "errors": texts([one.error for one in taken]),
        "attempts": numbers([one.attempts for one in taken]),
        "crashes": numbers([one.crashes for one in taken]),
    }
