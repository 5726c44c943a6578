"""Upkeep on SQLite: puts right what time and crashes left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from sqlite3 import Connection

from holdfast.core.codec import encode_json
from holdfast.core.decisions import AT_A_GATE
from holdfast.core.model import STATES, Plan, Standing
from holdfast.core.orphans import Orphan, Strategy
from holdfast.stores.deciding import Deciding
from holdfast.stores.protocol import TOGETHER, Paces, Verdict
from holdfast.stores.reclaiming import NOTHING, WOKEN, Held, Taken, judged, resolved, vouched
from holdfast.stores.sqlite.base import MICROSECOND, SQL, Base, micros
from holdfast.stores.sqlite.stories import standing


class Upkeep(Base):
    """Puts right what time and crashes left behind."""

    def reclaim(self, plan: Plan, *, who: str, verdict: Verdict, gone: Sequence[int] = ()) -> list[Standing]:
        now = self._now()
        asked = {"pipeline_id": plan.pipeline_id, "gone": encode_json(list(gone)), "now": now}
        with self._db.reading() as db:
            if not gone and not db.execute(SQL["orphans"], asked).fetchone():
                return []  # the usual answer, without waiting for a turn to write
        with self._db.writing() as db:
            orphans = [Held(*row) for row in db.execute(SQL["orphans"], asked)]
            taken = [self._take_away(db, judged(orphan, verdict), who, now) for orphan in orphans]
            db.execute(SQL["bury_workers"], asked)
        return taken

    def resolve_orphans(
        self, orphans: Sequence[Orphan], *, strategy: Strategy, who: str, reason: str
    ) -> list[Standing]:
        now = self._now()
        found = {orphan.standing.id: orphan for orphan in orphans}
        asked = {"orphans": encode_json(_marks([*found.values()]))}
        with self._db.writing() as db:
            still = [Held(*row) for row in db.execute(SQL["still_orphaned"], asked)]
            return [
                self._take_away(db, resolved(held, found[held.id], strategy=strategy, reason=reason), who, now)
                for held in still
            ]

    def _take_away(self, db: Connection, taken: Taken, who: str, now: int) -> Standing:
        """Takes an orphan from its worker. What that still writes will match nothing."""
        row = {
            "id": taken.id,
            "fence": taken.fence,
            "state": taken.state,
            "due_at": None if taken.delay is None else now + taken.delay // MICROSECOND,
            "at_once": taken.delay == NOTHING,
            "reason": taken.reason,
            "error": taken.error,
            "attempts": taken.attempts,
            "crashes": taken.crashes,
        }
        db.execute(SQL["reclaim"], row)
        self._write_journal(db, taken.id, "reclaim", who=who, now=now, detail=taken.detail)
        return standing(db.execute(SQL["standing_by_id"], {"id": taken.id}).fetchone())

    def wake(self, plan: Plan, *, who: str, limit: int = TOGETHER) -> int:
        asked = {"pipeline_id": plan.pipeline_id, "bodies": encode_json(plan.body_ids), "now": self._now()}
        with self._db.reading() as db:
            if db.execute(SQL["sleeping"], asked).fetchone() == (0,):
                return 0
        with self._db.writing() as db:
            woken = [row[0] for row in db.execute(SQL["wake"], asked | {"limit": limit}).fetchall()]
            line = {"ids": encode_json(woken), "now": asked["now"], "who": who, "detail": encode_json(WOKEN)}
            db.execute(SQL["journal_woken"], line)
        return len(woken)

    def set_time(self, plan: Plan, gate: str, *, within: timedelta, limit: int = TOGETHER) -> int:
        asked = {
            "pipeline_id": plan.pipeline_id,
            "step_id": plan.step_ids[gate],
            "reason": f"{AT_A_GATE}%",
            "within": within // MICROSECOND,
        }
        with self._db.reading() as db:
            if db.execute(SQL["timeless"], asked).fetchone() == (0,):
                return 0
        with self._db.writing() as db:
            return db.execute(SQL["set_time"], asked | {"limit": limit}).rowcount

    def vouch(self, at: Mapping[int, int], *, steps: Sequence[str], who: str) -> list[int]:
        now = self._now()
        asked = {"ids": encode_json([*at]), "states": encode_json(STATES)}
        with self._db.writing() as db:
            here = [Deciding(*row) for row in db.execute(SQL["deciding"], asked).fetchall()]
            still = [one.id for one in here if one.moves == at[one.id]]
            for document_id in still:
                self._write_journal(db, document_id, "verify", who=who, now=now, detail=vouched(steps))
        return still

    def suspects_due(self, plan: Plan, *, batch: str | None = None) -> bool:
        with self._db.reading() as db:
            asked = {
                "pipeline_id": plan.pipeline_id,
                "step_ids": encode_json(list(plan.step_ids.values())),
                "batch_id": self._batch_id(db, plan.pipeline_id, batch),
                "now": self._now(),
            }
            return bool(db.execute(SQL["suspects_due"], asked).fetchone()[0])

    def pace(self, plan: Plan, spent: Paces) -> None:
        rows = [(plan.step_ids[step], documents, seconds) for step, (documents, seconds) in spent.items()]
        with self._db.writing() as db:
            db.execute(SQL["pace"], {"spent": encode_json(rows)})


def _marks(orphans: Sequence[Orphan]) -> list[list[int | None]]:
    """Says which orphaning of each document is meant, and until when its silent worker was heard."""
    return [
        [
            orphan.standing.id,
            orphan.fence,
            orphan.standing.checkpoint.generation,
            orphan.standing.checkpoint.moves,
            None if orphan.alive else micros(orphan.since),
        ]
        for orphan in orphans
    ]
