"""Future times in memory: what was written by a clock that was ahead is counted, and put right."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec.structs import replace

from holdfast.core.future_times import FutureTimes, is_future
from holdfast.core.model import Plan
from holdfast.core.reasons import CLOCK_SET_BACK
from holdfast.stores.memory.base import Base
from holdfast.stores.memory.tables import DocumentRow, WorkerRow
from holdfast.stores.protocol import MAX_PER_TRANSACTION, Timeouts
from holdfast.stores.reclaim_rules import restarted_detail

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
        here = [row for row in self._of_pipeline(pipeline_id) if _is_due_too_late(row, now)]
        waiting = [row for row in here if row.state == "waiting"]
        paused = [row for row in here if row.state == "paused"]
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
