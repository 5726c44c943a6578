"""Maintenance in memory: repair what crashes left behind, and what a clock wrote that was ahead."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from holdfast.core.future_times import FutureTimes, is_future
from holdfast.core.model import DocumentStatus, JournalEntry, Plan
from holdfast.core.orphans import Orphan, Strategy
from holdfast.core.reasons import AT_GATE, CLOCK_SET_BACK, ON_HOLD
from holdfast.core.worker_deaths import WorkerDeath
from holdfast.stores.memory.base import Base
from holdfast.stores.memory.tables import DocumentRow, WorkerRow
from holdfast.stores.protocol import MAX_PER_TRANSACTION, NO_DEATHS, OrphanDecision, StepTimes, Timeouts
from holdfast.stores.reclaim_rules import (
    HeldDocument,
    ReclaimedDocument,
    reclaimed_by_decision,
    reclaimed_by_strategy,
    restarted_detail,
    verified_detail,
    woken_detail,
)

NONE = timedelta(0)


class ClockCorrection(Base):
    """Count times of writing that are in the future, and put right what follows from them."""

    def future_times(self, pipeline: str) -> FutureTimes:
        now = self.now()
        with self._reading() as tables:
            pipeline_id = tables.pipelines.get(pipeline)
            waits, running = self._future_waits(pipeline_id, now), self._future_running(pipeline_id, now)
            workers, steps = self._future_heartbeats(now), self._future_step_times(pipeline_id, now)
            times = [
                *[row.waits_since for row in waits],
                *[_last_written(row) for row in running],
                *[row.heartbeat_at for row in workers],
                *steps.values(),
            ]
            ahead = max((at - now for at in times if at is not None), default=NONE)
            return FutureTimes(len(waits), len(running), len(workers), len(steps), ahead)

    def reset_future_times(
        self, plan: Plan, *, who: str, timeouts: Timeouts, limit: int = MAX_PER_TRANSACTION
    ) -> FutureTimes:
        now, pipeline_id = self.now(), plan.pipeline_id
        spans = {plan.step_ids[step]: span for step, span in timeouts.items()}
        with self._writing() as tables:
            waits, running = self._future_waits(pipeline_id, now)[:limit], self._future_running(pipeline_id, now)
            ahead = max((self._restart_wait(row, who, now) for row in waits), default=NONE)
            for row in running:
                span = spans.get(row.step_id or 0)
                latest = row.deadline_at if span is None else now + span
                deadline = None if row.deadline_at is None or latest is None else min(row.deadline_at, latest)
                self._change(row, **_past_times(row, now), deadline_at=deadline)
            workers, steps = self._future_heartbeats(now), self._future_step_times(pipeline_id, now)
            for worker in workers:
                tables.workers[worker.worker.id] = replace(worker, heartbeat_at=now)
            for step_id in steps:
                del tables.worked_at[step_id]
            return FutureTimes(len(waits), len(running), len(workers), len(steps), ahead)

    def _restart_wait(self, row: DocumentRow, who: str, now: datetime) -> timedelta:
        """Let the wait of a document start again, as long as it was meant. Return by how much the clock was ahead."""
        assert row.due_at is not None
        assert row.waits_since is not None
        wait, ahead = max(row.due_at - row.waits_since, NONE), row.waits_since - now
        times = _past_times(row, now) | {"submitted_at": min(row.submitted_at, now)}
        restarted = self._change(row, **times, due_at=now + wait, waits_since=now)
        detail = restarted_detail(ahead)
        self._write_journal(restarted, "restart_wait", who=who, now=now, detail=detail, code=CLOCK_SET_BACK)
        return ahead

    def _future_waits(self, pipeline_id: int | None, now: datetime) -> list[DocumentRow]:
        """Return documents that are due too late: waiting ones by priority and due time, then paused ones."""
        rows = [row for row in self._of_pipeline(pipeline_id) if _is_due_too_late(row, now)]
        waiting = [row for row in rows if row.state == "waiting"]
        paused = [row for row in rows if row.state == "paused"]
        return [*sorted(waiting, key=_place_in_queue), *sorted(paused, key=lambda row: (row.due_at, row.id))]

    def _future_running(self, pipeline_id: int | None, now: datetime) -> list[DocumentRow]:
        running = [row for row in self._of_pipeline(pipeline_id) if row.state == "running"]
        return [row for row in running if is_future(_last_written(row), now)]

    def _future_heartbeats(self, now: datetime) -> list[WorkerRow]:
        return [row for row in self._tables.workers.values() if not row.gone and is_future(row.heartbeat_at, now)]

    def _future_step_times(self, pipeline_id: int | None, now: datetime) -> dict[int, datetime]:
        times = {step_id: at for step_id, at in self._tables.worked_at.items() if is_future(at, now)}
        steps = self._tables.steps
        return {step_id: at for step_id, at in times.items() if steps[step_id].pipeline_id == pipeline_id}

    def _of_pipeline(self, pipeline_id: int | None) -> Iterable[DocumentRow]:
        return [row for row in self._tables.documents.values() if row.pipeline_id == pipeline_id]


def _is_due_too_late(row: DocumentRow, now: datetime) -> bool:
    return row.due_at is not None and row.due_at > now and is_future(row.waits_since, now)


def _last_written(row: DocumentRow) -> datetime:
    return max(row.moved_at, row.claimed_at or row.moved_at)


def _past_times(row: DocumentRow, now: datetime) -> dict[str, datetime | None]:
    """Return the times at which something happened to a document, none of them in the future."""
    times = {"moved_at": row.moved_at, "claimed_at": row.claimed_at, "deferred_at": row.deferred_at}
    return {name: None if at is None else min(at, now) for name, at in times.items()}


def _place_in_queue(row: DocumentRow) -> tuple[int, datetime | None, int]:
    return -row.priority, row.due_at, row.id


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
            rows = [row for row in self._documents(plan) if row.step_id == plan.step_ids[gate] and row.due_at is None]
            timeless = [row for row in rows if row.state == "paused" and row.code == AT_GATE][:limit]
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
