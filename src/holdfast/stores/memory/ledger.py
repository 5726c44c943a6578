"""The ledger in memory: what there is, counted. It changes nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from holdfast.core.model import OPEN_STATES, Balance, Batch, Plan, Survey, Worked, Worker
from holdfast.core.pins import KnownPlan
from holdfast.core.plan import Shape
from holdfast.stores.memory.base import Base, by_id
from holdfast.stores.memory.tables import BatchRow, DocumentRow
from holdfast.stores.protocol import Paces
from holdfast.stores.rows import gathered


class Ledger(Base):
    """Tells what there is, and counts it."""

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
            return Plan(pipeline, last.pipeline_id, last.id, step_ids, last.shape.gates)

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

    def shape_of(self, plan_id: int) -> Shape | None:
        with self._reading() as tables:
            return self._present_shape(tables.plans[plan_id]) if plan_id in tables.plans else None

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

    def next_due(self, plan: Plan, *, batch: str | None = None) -> timedelta | None:
        now = self.now()
        with self._reading():
            known = set(plan.step_ids.values())
            waiting = [row for row in self._documents(plan, batch) if row.state == "waiting" and row.step_id in known]
            return min((row.due_at - now for row in waiting if row.due_at is not None), default=None)

    def running(self, plan: Plan, *, batch: str | None = None) -> int:
        with self._reading():
            return sum(row.state == "running" for row in self._documents(plan, batch))

    def workers(self) -> list[tuple[Worker, datetime, bool]]:
        now = self.now()
        with self._reading() as tables:
            return [(row.worker, row.beat_at, row.is_stale(now)) for row in tables.workers.values() if not row.gone]

    def by_worker(self, *, since: datetime) -> list[Worked]:
        with self._reading() as tables:
            by_workers = (row for row in tables.documents.values() if row.error != "Rejected")
            ended = Counter((row.worked_by, row.state) for row in by_workers)
            here = [row for row in tables.workers.values() if row.gone_at is None or row.gone_at >= since]
            counts = [(row, ended[row.worker.id, "done"], ended[row.worker.id, "dead"]) for row in here]
            return [Worked(row.worker, row.gone, done, dead) for row, done, dead in counts if done or dead]

    def survey(self, pipeline: str) -> Survey:
        now = self.now()
        with self._reading() as tables:
            pipeline_id = tables.pipelines.get(pipeline)
            rows = [row for row in tables.documents.values() if row.pipeline_id == pipeline_id]
            dead = [row for row in rows if row.state == "dead"]
            due = [now - row.due_at for row in rows if row.state == "waiting" and row.due_at and row.due_at <= now]
            return Survey(
                pipeline,
                dict(Counter((row.state, self._step_name(row)) for row in rows)),
                dict(Counter((self._step_name(row) or "", row.error) for row in dead)),
                max(due, default=None),
                sum(self._is_orphan(row, now) for row in rows),
            )

    def _is_orphan(self, row: DocumentRow, now: datetime) -> bool:
        if row.worker_id is None:
            return False
        holder = self._tables.workers[row.worker_id]
        return holder.gone or holder.is_stale(now) or (row.deadline_at is not None and row.deadline_at < now)

    def paces(self, pipeline: str) -> Paces:
        with self._reading() as tables:
            pipeline_id = tables.pipelines.get(pipeline)
            steps = [tables.steps[step_id] for step_id in sorted(tables.paces)]
            return {step.name: tables.paces[step.id] for step in steps if step.pipeline_id == pipeline_id}


def _balance(batches: Collection[BatchRow], rows: list[DocumentRow]) -> Balance:
    counts = Counter[str](row.state for row in rows)
    for batch in batches:
        counts.update(batch.gone)
    return Balance(sum(batch.expected for batch in batches), **counts)
