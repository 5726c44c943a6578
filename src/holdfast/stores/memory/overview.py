"""Overview reads in memory: list and count what is in the store."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from holdfast.core.model import OPEN_STATES, Balance, Batch, Gauges, Plan, WorkerRecord, WorkerTotals
from holdfast.core.plan import KnownPlan, Shape
from holdfast.core.reasons import ENDED_BY_OTHERS
from holdfast.stores.batch_rules import gathered
from holdfast.stores.json_fields import names_or_ids
from holdfast.stores.memory.base import Base, by_id
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
            batches = sorted((row for row in tables.batches.values() if row.pipeline_id == pipeline_id), key=by_id)
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
            here = [row for row in tables.workers.values() if row.gone_at is None or row.gone_at >= since]
            counts = [(row, ended[row.worker.id, "done"], ended[row.worker.id, "dead"]) for row in here]
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
