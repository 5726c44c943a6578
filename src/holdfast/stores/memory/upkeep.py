"""Upkeep in memory: puts right what time and crashes left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from holdfast.core.decisions import AT_A_GATE
from holdfast.core.model import ON_HOLD, Plan, Standing
from holdfast.core.orphans import Orphan, Strategy
from holdfast.core.retry import SUSPECT
from holdfast.stores.memory.base import Base
from holdfast.stores.memory.tables import DocumentRow
from holdfast.stores.protocol import TOGETHER, Paces, Verdict
from holdfast.stores.reclaiming import WOKEN, Held, Taken, judged, resolved, vouched


class Upkeep(Base):
    """Puts right what time and crashes left behind."""

    def reclaim(self, plan: Plan, *, who: str, verdict: Verdict, gone: Sequence[int] = ()) -> list[Standing]:
        now = self.now()
        with self._writing() as tables:
            silent = {row.worker.id for row in tables.workers.values() if row.gone or row.is_stale(now)} | {*gone}
            running = [row for row in self._documents(plan) if row.state == "running"]
            orphans = [row for row in running if row.worker_id in silent or _is_overdue(row, now)]
            if orphans or gone:
                self._bury(silent, now)
            held = [(row, self._held_now(row, overdue=row.worker_id not in silent)) for row in orphans]
            return [self._take_away(row, judged(now_held, verdict), who, now) for row, now_held in held]

    def resolve_orphans(
        self, orphans: Sequence[Orphan], *, strategy: Strategy, who: str, reason: str
    ) -> list[Standing]:
        now = self.now()
        with self._writing():
            still = [(orphan, row) for orphan in _in_order(orphans) if (row := self._still_orphaned(orphan))]
            return [
                self._take_away(row, resolved(self._held_now(row), orphan, strategy=strategy, reason=reason), who, now)
                for orphan, row in still
            ]

    def _still_orphaned(self, orphan: Orphan) -> DocumentRow | None:
        """Gives the document while it is where it was found, and its worker, if silent, was not heard since."""
        row = self._tables.documents.get(orphan.standing.id)
        at = orphan.standing.checkpoint
        if row is None or row.state != "running":
            return None
        if (row.fence, row.generation, row.moves) != (orphan.fence, at.generation, at.moves):
            return None
        heard_again = self._tables.workers[row.worker_id or 0].beat_at != orphan.since
        return None if not orphan.alive and heard_again else row

    def _bury(self, silent: set[int], now: datetime) -> None:
        """Workers that are silent, or known to be gone, will not be listened to again."""
        workers = self._tables.workers
        for worker_id in silent & workers.keys():
            if not workers[worker_id].gone:
                workers[worker_id] = replace(workers[worker_id], gone_at=now)

    def _held_now(self, row: DocumentRow, *, overdue: bool = False) -> Held:
        holder = self._tables.workers[row.worker_id or 0].worker.name
        return Held(row.id, self._step_name(row) or "", row.attempts, row.crashes, row.fence, holder, overdue)

    def _take_away(self, row: DocumentRow, taken: Taken, who: str, now: datetime) -> Standing:
        """Takes an orphan from its worker. What that still writes will match nothing."""
        changed = self._change(
            row,
            state=taken.state,
            worker_id=None,
            worked_by=row.worker_id,
            due_at=None if taken.delay is None else row.due_after(taken.delay, now),
            deadline_at=None,
            fence=row.fence + 1,
            reason=taken.reason,
            error=taken.error,
            attempts=taken.attempts,
            crashes=taken.crashes,
            moves=row.moves + (taken.state == "paused"),
        )
        self._write_journal(changed, "reclaim", who=who, now=now, detail=taken.detail)
        return self._standing(changed)

    def wake(self, plan: Plan, *, who: str, limit: int = TOGETHER) -> int:
        now = self.now()
        with self._writing():
            paused = [row for row in self._documents(plan) if row.state == "paused"]
            asleep = [row for row in paused if row.step_id in plan.body_ids or row.error == ON_HOLD]
            due = [(row.due_at, row.id, row) for row in asleep if row.due_at is not None and row.due_at <= now]
            rested = [row for *_, row in sorted(due, key=lambda one: one[:2])[:limit]]
            for row in rested:
                woken = self._change(row, state="waiting", reason="", error="")
                self._write_journal(woken, "wake", who=who, now=now, detail=WOKEN)
            return len(rested)

    def set_time(self, plan: Plan, gate: str, *, within: timedelta, limit: int = TOGETHER) -> int:
        with self._writing():
            here = [row for row in self._documents(plan) if row.step_id == plan.step_ids[gate] and row.due_at is None]
            asked = [row for row in here if row.state == "paused" and row.error != ON_HOLD]
            timeless = [row for row in asked if row.reason.startswith(AT_A_GATE)][:limit]
            for row in timeless:
                self._change(row, due_at=max(row.moved_at, row.claimed_at or row.moved_at) + within)
            return len(timeless)

    def vouch(self, at: Mapping[int, int], *, steps: Sequence[str], who: str) -> list[int]:
        now = self.now()
        with self._writing() as tables:
            named = [tables.documents[number] for number in sorted(at) if number in tables.documents]
            still = [row for row in named if row.moves == at[row.id] and tables.batches[row.batch_id].state != "closed"]
            for row in still:
                self._write_journal(row, "verify", who=who, now=now, detail=vouched(steps))
            return [row.id for row in still]

    def suspects_due(self, plan: Plan, *, batch: str | None = None) -> bool:
        now = self.now()
        with self._reading():
            return any(row.crashes >= SUSPECT for row in self._due(plan, batch, now))

    def pace(self, plan: Plan, spent: Paces) -> None:
        with self._writing() as tables:
            for step, (documents, seconds) in spent.items():
                step_id = plan.step_ids[step]
                before = tables.paces.get(step_id, (0, 0.0))
                tables.paces[step_id] = (before[0] + documents, before[1] + seconds)


def _is_overdue(row: DocumentRow, now: datetime) -> bool:
    return row.deadline_at is not None and row.deadline_at < now


def _in_order(orphans: Sequence[Orphan]) -> list[Orphan]:
    """The oldest first, each once."""
    return [orphan for _, orphan in sorted({orphan.standing.id: orphan for orphan in orphans}.items())]
