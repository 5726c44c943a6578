"""Overview reads on SQL: what there is, counted. They change nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from holdfast.core.codec import decode_json
from holdfast.core.model import Balance, Batch, Gauges, Plan, WorkerRecord, WorkerTotals
from holdfast.core.plan import KnownPlan, Shape
from holdfast.core.reasons import ENDED_BY_OTHERS
from holdfast.stores.json_fields import names_or_ids
from holdfast.stores.protocol import StepTimes
from holdfast.stores.sql.base import Base
from holdfast.stores.sql.batch_counts import at_step, balance, gauges, known_plans
from holdfast.stores.sql.row_codec import plan_of, read_shape, shapes_of
from holdfast.stores.sql.session import Row, Session


class OverviewReads(Base):
    """Returns what there is, and counts it."""

    def pipelines(self) -> list[str]:
        return [row[0] for row in self._all("pipelines")]

    def shape(self, pipeline: str) -> Shape | None:
        row = self._first("current_shape", pipeline=pipeline)
        return read_shape(row[0], row=f"for the last plan of {pipeline} in hf_plan") if row else None

    def plan(self, pipeline: str) -> Plan | None:
        known = self._first("pipeline_id", name=pipeline)
        row = self._first("current_plan", pipeline_id=known[0]) if known else None
        if not known or not row:
            return None
        return plan_of(pipeline, known[0], row, dict(self._all("steps", pipeline_id=known[0])))

    def plans(self, pipeline: str, *, batch: str | None = None) -> list[KnownPlan]:
        def look(db: Session) -> tuple[dict[int, str], list[Row], list[Row]]:
            (pipeline_id,) = db.first("pipeline_id", name=pipeline) or (-1,)
            batch_id = _batch_id(db.all("expected_counts", pipeline=pipeline, batch=batch), batch)
            names = {step_id: name for name, step_id in db.all("steps", pipeline_id=pipeline_id)}
            rows = db.all("plans", pipeline_id=pipeline_id)
            return names, rows, db.all("documents_by_plan", pipeline_id=pipeline_id, batch_id=batch_id)

        names, rows, counts = self._read_snapshot(look)
        times = {row[0]: None if row[3] is None else self.dialect.moment(row[3]) for row in rows}
        return known_plans(shapes_of(rows, names), times, counts)

    def shape_of(self, plan_id: int, *, names: Mapping[int, str] | None = None) -> Shape | None:
        row = self._first("plan_shape", plan_id=plan_id)
        if row is None:
            return None
        shape, step_ids, current = row
        called = decode_json(current) if names is None else names_or_ids(decode_json(step_ids), names)
        return read_shape(shape, row=f"{plan_id} of hf_plan").called(called)

    def batches(self, pipeline: str) -> list[Batch]:
        def look(db: Session) -> tuple[list[Row], list[Row]]:
            return db.all("batches", pipeline=pipeline), db.all("balance", pipeline=pipeline, batch_id=None)

        batches, counts = self._read_snapshot(look)
        by_batch = defaultdict(list)
        for batch_id, state, step, documents in counts:
            by_batch[batch_id].append((state, step, documents))
        return [
            Batch(
                pipeline,
                name,
                state,
                self.dialect.moment(created_at),
                balance(expected, gone, by_batch[batch_id]),
                at_step(by_batch[batch_id]),
            )
            for batch_id, name, state, created_at, expected, *gone in batches
        ]

    def balance(self, pipeline: str, batch: str | None = None) -> Balance:
        def look(db: Session) -> tuple[list[Row], list[Row]]:
            expected = db.all("expected_counts", pipeline=pipeline, batch=batch)
            return expected, db.all("balance", pipeline=pipeline, batch_id=_batch_id(expected, batch))

        expected, counts = self._read_snapshot(look)
        total, *gone = map(sum, zip((0, 0, 0, 0), *[row[1:] for row in expected], strict=True))
        return balance(total, gone, [(state, step, documents) for _, state, step, documents in counts])

    def next_due(self, plan: Plan, *, batch: str | None = None, paused: Collection[str] = ()) -> timedelta | None:
        step_ids = plan.claimable_ids(paused)
        wait = self._value("next_due", pipeline_id=plan.pipeline_id, step_ids=step_ids, batch=batch)
        return None if wait is None else self.dialect.duration(wait)

    def running(self, plan: Plan, *, batch: str | None = None) -> int:
        return int(self._value("count_running", pipeline_id=plan.pipeline_id, batch=batch))

    def workers(self) -> list[tuple[WorkerRecord, datetime, bool]]:
        return [(self._worker(row), self.dialect.moment(row[7]), bool(row[8])) for row in self._all("workers")]

    def worker_totals(self, *, since: datetime) -> list[WorkerTotals]:
        rows = self._all("worker_totals", since=since, ended_by_others=[*ENDED_BY_OTHERS])
        return [WorkerTotals(self._worker(row), bool(row[7]), *row[8:]) for row in rows]

    def gauges(self, pipeline: str) -> Gauges:
        def look(db: Session) -> Gauges:
            counts = db.all("documents_by_state", pipeline=pipeline)
            dead = db.all("dead_letters_by_error", pipeline=pipeline)
            oldest = db.value("oldest_due", pipeline=pipeline)
            orphans = db.value("count_orphans", pipeline=pipeline)
            age = None if oldest is None else self.dialect.duration(oldest)
            paused = [row[0] for row in db.all("paused_steps", pipeline=pipeline)]
            return gauges(pipeline, counts, dead, age, orphans, paused=paused)

        return self._read_snapshot(look)

    def step_times(self, pipeline: str) -> StepTimes:
        rows = self._all("step_times", pipeline=pipeline)
        return {step: (documents, seconds) for step, documents, seconds in rows}


def _batch_id(expected: list[Row], batch: str | None) -> int | None:
    """Return the id of the batch that was named, from rows of expected_counts.sql. No batch has the id -1."""
    if batch is None:
        return None
    return int(expected[0][0]) if expected else -1
