"""Maintenance in memory: repair what crashes and the passing of time leave behind."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from holdfast.core.model import DocumentStatus, JournalEntry, Plan
from holdfast.core.orphans import Orphan, Strategy
from holdfast.core.reasons import AT_GATE, ON_HOLD
from holdfast.core.worker_deaths import WorkerDeath
from holdfast.stores.memory.future_times import ClockCorrection
from holdfast.stores.memory.tables import DocumentRow
from holdfast.stores.protocol import MAX_PER_TRANSACTION, NO_DEATHS, OrphanDecision, StepTimes
from holdfast.stores.reclaim_rules import (
    HeldDocument,
    ReclaimedDocument,
    reclaimed_by_decision,
    reclaimed_by_strategy,
    verified_detail,
    woken_detail,
)


class Maintenance(ClockCorrection):
    """Repair what crashes and the passing of time leave behind."""

    def reclaim(
        self,
        plan: Plan,
        *,
        who: str,
        decide: OrphanDecision,
        gone: Sequence[int] = (),
        deaths: Mapping[int, WorkerDeath] = NO_DEATHS,
    ) -> list[DocumentStatus]:
        now = self.now()
        with self._writing() as tables:
            silent = {row.worker.id for row in tables.workers.values() if row.gone or row.is_stale(now)} | {*gone}
            running = [row for row in self._documents(plan) if row.state == "running"]
            orphans = [row for row in running if row.worker_id in silent or _is_overdue(row, now)]
            if orphans or gone:
                self._mark_dead(silent, now)
                self._record_deaths(deaths)
            held = [(row, self._as_held(row, deaths, overdue=row.worker_id not in silent)) for row in orphans]
            return [
                self._take_from_worker(row, reclaimed_by_decision(now_held, decide, self._entries), who, now)
                for row, now_held in held
            ]

    def _entries(self, document_id: int) -> list[JournalEntry]:
        return list(self._tables.journals[document_id].values())

    def resolve_orphans(
        self,
        orphans: Sequence[Orphan],
        *,
        strategy: Strategy,
        who: str,
        reason: str,
        deaths: Mapping[int, WorkerDeath] = NO_DEATHS,
    ) -> list[DocumentStatus]:
        now = self.now()
        with self._writing():
            still = [(orphan, row) for orphan in _in_order(orphans) if (row := self._still_orphaned(orphan))]
            return [
                self._take_from_worker(
                    row,
                    reclaimed_by_strategy(self._as_held(row, deaths), orphan, strategy=strategy, reason=reason),
                    who,
                    now,
                )
                for orphan, row in still
            ]

    def _still_orphaned(self, orphan: Orphan) -> DocumentRow | None:
        """Return the row of an orphan. None if it moved since the scan, or its silent worker sent a heartbeat."""
        row = self._tables.documents.get(orphan.document.id)
        at = orphan.document.checkpoint
        if row is None or row.state != "running":
            return None
        if (row.fence, row.generation, row.moves) != (orphan.fence, at.generation, at.moves):
            return None
        heard_again = self._tables.workers[row.worker_id or 0].heartbeat_at != orphan.since
        return None if not orphan.alive and heard_again else row

    def _mark_dead(self, silent: set[int], now: datetime) -> None:
        """Mark silent workers as dead. Their heartbeats are refused from now on."""
        workers = self._tables.workers
        for worker_id in silent & workers.keys():
            if not workers[worker_id].gone:
                workers[worker_id] = replace(workers[worker_id], gone_at=now)

    def _record_deaths(self, deaths: Mapping[int, WorkerDeath]) -> None:
        workers = self._tables.workers
        for worker_id in deaths.keys() & workers.keys():
            workers[worker_id] = replace(workers[worker_id], death=deaths[worker_id])

    def _as_held(self, row: DocumentRow, deaths: Mapping[int, WorkerDeath], *, overdue: bool = False) -> HeldDocument:
        worker_id = row.worker_id or 0
        holder = self._tables.workers[worker_id]
        return HeldDocument(
            row.id,
            self._step_name(row) or "",
            row.attempts,
            row.crashes,
            row.losses,
            row.fence,
            overdue,
            worker_id,
            holder.worker.name,
            holder.worker.host,
            holder.heartbeat_at,
            deaths.get(worker_id, holder.death),
        )

    def _take_from_worker(self, row: DocumentRow, taken: ReclaimedDocument, who: str, now: datetime) -> DocumentStatus:
        """Take an orphan from its worker. Its new fence refuses what that worker still writes."""
        changed = self._change(
            row,
            state=taken.state,
            worker_id=None,
            worked_by=row.worker_id,
            due_at=None if taken.delay is None else row.due_after(taken.delay, now),
            waits_since=now,
            deadline_at=None,
            fence=row.fence + 1,
            reason=taken.reason,
            code=taken.code,
            error=taken.error,
            attempts=taken.attempts,
            crashes=taken.crashes,
            losses=taken.losses,
            recoverable=taken.recoverable,
            moves=row.moves + (taken.state == "paused"),
        )
        self._write_journal(changed, "reclaim", who=who, now=now, detail=taken.detail, code=taken.code)
        return self._status(changed)

    def wake(self, plan: Plan, *, who: str, limit: int = MAX_PER_TRANSACTION) -> int:
        now = self.now()
        with self._writing():
            paused = [row for row in self._documents(plan) if row.state == "paused"]
            asleep = [row for row in paused if row.step_id in plan.body_ids or row.code == ON_HOLD]
            due = [(row.due_at, row.id, row) for row in asleep if row.due_at is not None and row.due_at <= now]
            rested = [row for *_, row in sorted(due, key=lambda one: one[:2])[:limit]]
            for row in rested:
                woken = self._change(
                    row, state="waiting", waits_since=now, reason="", code="", error="", recoverable=None
                )
                self._write_journal(woken, "wake", who=who, now=now, detail=woken_detail())
            return len(rested)

    def set_gate_deadline(self, plan: Plan, gate: str, *, within: timedelta, limit: int = MAX_PER_TRANSACTION) -> int:
        with self._writing():
            here = [row for row in self._documents(plan) if row.step_id == plan.step_ids[gate] and row.due_at is None]
            timeless = [row for row in here if row.state == "paused" and row.code == AT_GATE][:limit]
            for row in timeless:
                since = max(row.moved_at, row.claimed_at or row.moved_at)
                self._change(row, due_at=since + within, waits_since=since)
            return len(timeless)

    def record_verified(self, at: Mapping[int, int], *, steps: Sequence[str], who: str) -> list[int]:
        now = self.now()
        with self._writing() as tables:
            named = [tables.documents[number] for number in sorted(at) if number in tables.documents]
            still = [row for row in named if row.moves == at[row.id] and tables.batches[row.batch_id].state != "closed"]
            for row in still:
                self._write_journal(row, "verify", who=who, now=now, detail=verified_detail(steps))
            return [row.id for row in still]

    def suspects_due(self, plan: Plan, *, batch: str | None = None, paused: Collection[str] = ()) -> bool:
        now = self.now()
        with self._reading():
            return any(row.is_suspect for row in self._due(plan, batch, now, paused))

    def begin_scan(self, plan: Plan, *, every: timedelta) -> bool:
        now = self.now()
        with self._writing() as tables:
            last = tables.scans.get(plan.pipeline_id)
            if last is not None and last <= now < last + every:
                return False
            tables.scans[plan.pipeline_id] = now
            return True

    def add_step_times(self, plan: Plan, spent: StepTimes, *, worked: Mapping[str, datetime] | None = None) -> None:
        now = self.now()
        with self._writing() as tables:
            for step, (documents, seconds) in spent.items():
                step_id = plan.step_ids[step]
                before = tables.step_times.get(step_id, (0, 0.0))
                tables.step_times[step_id] = (before[0] + documents, before[1] + seconds)
                if documents:
                    tables.worked_at[step_id] = (worked or {}).get(step, now)

    def record_rows_left(self, plan: Plan, step: str) -> bool:
        with self._writing() as tables:
            row = tables.steps[(plan.step_ids | plan.removed)[step]]
            tables.steps[row.id] = replace(row, rows_left=True)
            return not row.rows_left


def _is_overdue(row: DocumentRow, now: datetime) -> bool:
    return row.deadline_at is not None and row.deadline_at < now


def _in_order(orphans: Sequence[Orphan]) -> list[Orphan]:
    """Return the orphans, the oldest first, each once."""
    return [orphan for _, orphan in sorted({orphan.document.id: orphan for orphan in orphans}.items())]
