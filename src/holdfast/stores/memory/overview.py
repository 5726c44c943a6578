"""Overview reads in memory: list and count what is in the store, and why documents wait."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdfast.core.future_times import is_future
from holdfast.core.model import OPEN_STATES, Balance, Batch, Gauges, Plan, State, WorkerRecord, WorkerTotals
from holdfast.core.orphans import GRACE, Orphan, last_progress, orphan_of
from holdfast.core.plan import KnownPlan, Shape
from holdfast.core.reasons import ENDED_BY_OTHERS
from holdfast.core.wait_causes import Cause, Holder, Kind
from holdfast.stores.batch_rules import gathered
from holdfast.stores.json_fields import names_or_ids
from holdfast.stores.memory.base import Base, row_id
from holdfast.stores.memory.tables import BatchRow, DocumentRow
from holdfast.stores.protocol import StepTimes


class OverviewReads(Base):
    """List and count what is in the store."""

    def pipelines(self) -> list[str]:
        with self._reading() as tables:
            return sorted(tables.pipelines, key=tables.pipelines.__getitem__)

    def shape(self, pipeline: str) -> Shape | None:
        with self._reading() as tables:
            plans = self._plans(tables.pipelines.get(pipeline))
            return plans[-1].shape if plans else None

    def plan(self, pipeline: str) -> Plan | None:
        with self._reading() as tables:
            plans = [row for row in self._plans(tables.pipelines.get(pipeline)) if row.declared_at is not None]
            if not plans:
                return None
            last = plans[-1]
            step_ids = dict(zip(last.shape.names, last.step_ids, strict=True))
            removed = self._removed(last.pipeline_id, step_ids)
            return Plan(pipeline, last.pipeline_id, last.id, step_ids, last.shape.kinds, removed)

    def plans(self, pipeline: str, *, batch: str | None = None) -> list[KnownPlan]:
        with self._reading() as tables:
            plans = self._plans(tables.pipelines.get(pipeline))
            counts: dict[int, Counter[Any]] = defaultdict(Counter)
            for row in tables.documents.values():
                of = tables.batches[row.batch_id]
                if batch in (None, of.name):
                    settled = of.state == "closed" or row.cleaned_at is not None
                    counts[row.plan_id][row.state, self._step_name(row), settled] += 1
            return [
                KnownPlan(row.id, self._present_shape(row), row.declared_at, gathered(counts[row.id])) for row in plans
            ]

    def shape_of(self, plan_id: int, *, names: Mapping[int, str] | None = None) -> Shape | None:
        with self._reading() as tables:
            if plan_id not in tables.plans:
                return None
            row = tables.plans[plan_id]
            return self._present_shape(row) if names is None else row.shape.called(names_or_ids(row.step_ids, names))

    def batches(self, pipeline: str) -> list[Batch]:
        with self._reading() as tables:
            pipeline_id = tables.pipelines.get(pipeline)
            batches = sorted((row for row in tables.batches.values() if row.pipeline_id == pipeline_id), key=row_id)
            answers = []
            for batch in batches:
                rows = [row for row in tables.documents.values() if row.batch_id == batch.id]
                steps = Counter(step for row in rows if row.state in OPEN_STATES and (step := self._step_name(row)))
                balance = _balance([batch], rows)
                answers.append(Batch(pipeline, batch.name, batch.state, batch.created_at, balance, dict(steps)))
            return answers

    def balance(self, pipeline: str, batch: str | None = None) -> Balance:
        with self._reading() as tables:
            pipeline_id = tables.pipelines.get(pipeline)
            batches = {
                row.id: row
                for row in tables.batches.values()
                if row.pipeline_id == pipeline_id and batch in (None, row.name)
            }
            rows = [row for row in tables.documents.values() if row.batch_id in batches]
            return _balance(batches.values(), rows)

    def next_due(self, plan: Plan, *, batch: str | None = None, paused: Collection[str] = ()) -> timedelta | None:
        now = self.now()
        with self._reading():
            known = set(plan.claimable_ids(paused))
            waiting = [row for row in self._documents(plan, batch) if row.state == "waiting" and row.step_id in known]
            return min((row.due_at - now for row in waiting if row.due_at is not None), default=None)

    def running(self, plan: Plan, *, batch: str | None = None) -> int:
        with self._reading():
            return sum(row.state == "running" for row in self._documents(plan, batch))

    def workers(self) -> list[tuple[WorkerRecord, datetime, bool]]:
        now = self.now()
        with self._reading() as tables:
            return [
                (row.worker, row.heartbeat_at, row.is_stale(now)) for row in tables.workers.values() if not row.gone
            ]

    def worker_totals(self, *, since: datetime) -> list[WorkerTotals]:
        with self._reading() as tables:
            by_workers = (row for row in tables.documents.values() if row.code not in ENDED_BY_OTHERS)
            ended = Counter((row.worked_by, row.state) for row in by_workers)
            rows = [row for row in tables.workers.values() if row.gone_at is None or row.gone_at >= since]
            counts = [(row, ended[row.worker.id, "done"], ended[row.worker.id, "dead"]) for row in rows]
            return [WorkerTotals(row.worker, row.gone, done, dead) for row, done, dead in counts if done or dead]

    def gauges(self, pipeline: str) -> Gauges:
        now = self.now()
        with self._reading() as tables:
            pipeline_id = tables.pipelines.get(pipeline)
            rows = [row for row in tables.documents.values() if row.pipeline_id == pipeline_id]
            dead = [row for row in rows if row.state == "dead"]
            due = [now - row.due_at for row in rows if row.state == "waiting" and row.due_at and row.due_at <= now]
            return Gauges(
                pipeline,
                dict(Counter((row.state, self._step_name(row)) for row in rows)),
                dict(Counter((self._step_name(row) or "", row.error) for row in dead)),
                max(due, default=None),
                sum(self._is_orphan(row, now) for row in rows),
                tuple(
                    tables.steps[step_id].name
                    for step_id in sorted(tables.circuits)
                    if tables.circuits[step_id].opened_at and tables.steps[step_id].pipeline_id == pipeline_id
                ),
            )

    def _is_orphan(self, row: DocumentRow, now: datetime) -> bool:
        if row.worker_id is None:
            return False
        holder = self._tables.workers[row.worker_id]
        return holder.gone or holder.is_stale(now) or (row.deadline_at is not None and row.deadline_at < now)

    def step_times(self, pipeline: str) -> StepTimes:
        with self._reading() as tables:
            pipeline_id = tables.pipelines.get(pipeline)
            steps = [tables.steps[step_id] for step_id in sorted(tables.step_times)]
            return {step.name: tables.step_times[step.id] for step in steps if step.pipeline_id == pipeline_id}


def _balance(batches: Collection[BatchRow], rows: list[DocumentRow]) -> Balance:
    counts = Counter[str](row.state for row in rows)
    for batch in batches:
        counts.update(batch.gone)
    return Balance(sum(batch.expected for batch in batches), **counts)


class WaitCauses(Base):
    """Read why documents wait or do not move."""

    def orphans(
        self, pipeline: str, *, grace: timedelta = GRACE, batch: str | None = None, gone: Sequence[int] = ()
    ) -> list[Orphan]:
        now = self.now()
        with self._reading() as tables:
            running = [row for row in self._documents_of(pipeline, batch) if row.state == "running"]
            held = [(self._status(row), row.fence, tables.workers[row.worker_id or 0]) for row in running]
        found = []
        for rows, fence, worker in held:
            silent = worker.gone or worker.is_stale(now) or worker.worker.id in gone
            signs = [last_progress(rows), rows.deadline_at or now, worker.heartbeat_at if silent else now]
            if any(sign < now - grace for sign in signs):
                found.append(orphan_of(rows, fence, heartbeat_at=worker.heartbeat_at, silent=silent, now=now))
        return found

    def holder(self, document_id: int) -> Holder | None:
        now = self.now()
        with self._reading() as tables:
            row = tables.documents.get(document_id)
            return self._holder(row.worker_id, now) if row and row.worker_id else None

    def holders(self, pipeline: str) -> list[tuple[Holder, int]]:
        now = self.now()
        with self._reading():
            held = Counter(row.worker_id for row in self._documents_of(pipeline) if row.worker_id)
            return [(self._holder(worker_id, now), count) for worker_id, count in sorted(held.items())]

    def _holder(self, worker_id: int, now: datetime) -> Holder:
        row = self._tables.workers[worker_id]
        return Holder(row.worker, row.heartbeat_at, alive=not row.gone and not row.is_stale(now))

    def count_ahead(self, document_id: int) -> int:
        now = self.now()
        with self._reading() as tables:
            me = tables.documents.get(document_id)
            if me is None or me.state != "waiting" or me.due_at is None:
                return 0
            mine = (-me.priority, me.due_at, me.id)
            return sum(
                (-row.priority, row.due_at, row.id) < mine
                for row in tables.documents.values()
                if (row.pipeline_id, row.state) == (me.pipeline_id, "waiting")
                and row.due_at is not None
                and row.due_at <= now
                and row.is_suspect == me.is_suspect
            )

    def documents_in_step(self, pipeline: str, step: str) -> list[tuple[int, str]]:
        with self._reading():
            rows = [
                row for row in self._documents_of(pipeline) if self._step_name(row) == step and self._is_inside(row)
            ]
            return [(row.id, row.key) for row in rows]

    def wait_causes(self, pipeline: str, *, batch: str | None = None) -> list[Cause]:
        now = self.now()
        with self._reading() as tables:
            kept: dict[tuple[Kind, State, int | None, str], list[DocumentRow]] = {}
            for row in self._documents_of(pipeline, batch):
                if row.state != "done":
                    kind = self._kind(row, now)
                    has_error = row.state == "dead" or kind == "backoff"
                    why = (kind, row.state, row.step_id, row.error if has_error else "")
                    kept.setdefault(why, []).append(row)
            causes = [
                Cause(
                    kind,
                    state,
                    self._step_name(rows[0]),
                    error,
                    len(rows),
                    tables.batches[rows[0].batch_id].name,
                    rows[0].key,
                    rows[0].moved_at,
                )
                for (kind, state, _, error), rows in kept.items()
            ]
        return sorted(causes, key=lambda cause: -cause.documents)

    def _kind(self, row: DocumentRow, now: datetime) -> Kind:
        match row.state:
            case "waiting" if self._is_paused(row):
                return "circuit"
            case "waiting":
                return self._kind_of_waiting(row, now)
            case "running":
                return self._kind_of_running(row, now)
            case "paused":
                return "person" if row.due_at is None else "until"
            case "dead":
                return "dead" if row.accepted_by is None else "accepted"
        return "cancelled"

    def _kind_of_waiting(self, row: DocumentRow, now: datetime) -> Kind:
        if _is_later(row.due_at, now):
            return "clock" if is_future(row.waits_since, now) else "backoff"
        return "suspect" if row.is_suspect else "due"

    def _is_paused(self, row: DocumentRow) -> bool:
        """Return True if the circuit of a document's step is open."""
        circuit = self._tables.circuits.get(row.step_id or 0)
        return circuit is not None and circuit.opened_at is not None

    def _kind_of_running(self, row: DocumentRow, now: datetime) -> Kind:
        worker = self._tables.workers[row.worker_id or 0]
        if worker.gone or worker.is_stale(now):
            return "silent"
        if row.deadline_at is not None and row.deadline_at < now:
            return "overdue"
        others = any(self._is_inside(one) for one in self._tables.documents.values() if one.step_id == row.step_id)
        return "full step" if others and not self._is_inside(row) else "worked on"

    def _is_inside(self, row: DocumentRow) -> bool:
        """Return True if a document has a permit for its step, which has a limit."""
        permits = self._tables.permits.get(row.step_id or 0)
        return row.state == "running" and permits is not None and permits.get(row.id) == row.fence

    def _documents_of(self, pipeline: str, batch: str | None = None) -> list[DocumentRow]:
        """Return the documents of a pipeline, or of one batch, the oldest first."""
        tables = self._tables
        pipeline_id = tables.pipelines.get(pipeline)
        named = None if batch is None else self._batch(pipeline_id, batch)
        if batch is not None and named is None:
            return []
        rows = sorted(tables.documents.values(), key=row_id)
        return [row for row in rows if row.pipeline_id == pipeline_id and (not named or row.batch_id == named.id)]


def _is_later(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment > now
