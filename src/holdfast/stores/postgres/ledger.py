"""The ledger on PostgreSQL: what there is, counted. It changes nothing."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

from holdfast.core.codec import decode_json
from holdfast.core.model import (
    Balance,
    Batch,
    Plan,
    Survey,
    Worked,
    Worker,
)
from holdfast.core.pins import KnownPlan
from holdfast.core.plan import Shape
from holdfast.stores.postgres.arrays import numbers
from holdfast.stores.postgres.base import SQL, Base, moment, worker_of
from holdfast.stores.postgres.connection import Db
from holdfast.stores.protocol import Paces
from holdfast.stores.rows import (
    at_step,
    balance,
    known_plans,
    plan_of,
    read_shape,
    shapes_of,
    survey,
)


class Ledger(Base):
    """Tells what there is, and counts it."""

    def pipelines(self) -> list[str]:
        return [row[0] for row in self._all("pipelines")]

    def shape(self, pipeline: str) -> Shape | None:
        row = self._one("shape", pipeline=pipeline)
        return read_shape(row[0], row=f"for the last plan of {pipeline} in hf_plan") if row else None

    def plan(self, pipeline: str) -> Plan | None:
        named = self._one("pipeline", name=pipeline)
        row = self._one("present_plan", pipeline_id=named[0]) if named else None
        return plan_of(pipeline, named[0], row) if named and row else None

    def plans(self, pipeline: str, *, batch: str | None = None) -> list[KnownPlan]:
        def look(db: Db) -> tuple[dict[int, str], list[Any], list[Any]]:
            (pipeline_id,) = db.execute(SQL["pipeline"], {"name": pipeline}).fetchone() or (-1,)
            named = db.execute(SQL["expected"], {"pipeline": pipeline, "batch": batch}).fetchall()
            batch_id = None if batch is None else named[0][0] if named else -1
            asked = {"pipeline_id": pipeline_id, "batch_id": batch_id}
            names = {number: name for name, number in db.execute(SQL["steps"], asked).fetchall()}
            rows = db.execute(SQL["plans"], asked).fetchall()
            return names, rows, db.execute(SQL["gatherings"], asked).fetchall()

        names, rows, counts = self._db.reading_one_moment(look)
        times = {row[0]: None if row[3] is None else moment(row[3]) for row in rows}
        return known_plans(shapes_of(rows, names), times, counts)

    def shape_of(self, plan_id: int) -> Shape | None:
        row = self._one("plan", plan_id=plan_id)
        return read_shape(row[0], row=f"{plan_id} of hf_plan").called(decode_json(row[1])) if row else None

    def batches(self, pipeline: str) -> list[Batch]:
        def look(db: Db) -> tuple[list[Any], list[Any]]:
            batches = db.execute(SQL["batches"], {"pipeline": pipeline}).fetchall()
            return batches, db.execute(SQL["balance"], {"pipeline": pipeline, "batch_id": None}).fetchall()

        batches, counts = self._db.reading_one_moment(look)
        by_batch = defaultdict(list)
        for batch_id, *count in counts:
            by_batch[batch_id].append(count)
        return [
            Batch(
                pipeline,
                name,
                state,
                moment(created_at),
                balance(expected, gone, by_batch[batch_id]),
                at_step(by_batch[batch_id]),
            )
            for batch_id, name, state, created_at, expected, *gone in batches
        ]

    def balance(self, pipeline: str, batch: str | None = None) -> Balance:
        def look(db: Db) -> tuple[list[Any], list[Any]]:
            expected = db.execute(SQL["expected"], {"pipeline": pipeline, "batch": batch}).fetchall()
            batch_id = None if batch is None else expected[0][0] if expected else -1
            return expected, db.execute(SQL["balance"], {"pipeline": pipeline, "batch_id": batch_id}).fetchall()

        expected, counts = self._db.reading_one_moment(look)
        total, *gone = map(sum, zip((0, 0, 0, 0), *[row[1:] for row in expected], strict=True))
        return balance(total, gone, [count[1:] for count in counts])

    def next_due(self, plan: Plan, *, batch: str | None = None) -> timedelta | None:
        asked = {
            "pipeline_id": plan.pipeline_id,
            "step_ids": numbers([*plan.step_ids.values()]),
            "batch": batch,
            "now": self._now(),
        }
        ((wait,),) = self._all("next_due", **asked)
        return None if wait is None else timedelta() + wait

    def running(self, plan: Plan, *, batch: str | None = None) -> int:
        ((running,),) = self._all("running", pipeline_id=plan.pipeline_id, batch=batch)
        return int(running)

    def workers(self) -> list[tuple[Worker, datetime, bool]]:
        rows = self._all("workers", now=self._now())
        return [(worker_of(row), moment(row[7]), row[8]) for row in rows]

    def by_worker(self, *, since: datetime) -> list[Worked]:
        return [Worked(worker_of(row), *row[7:]) for row in self._all("by_worker", since=since)]

    def survey(self, pipeline: str) -> Survey:
        asked = {"pipeline": pipeline, "now": self._now()}

        def look(db: Db) -> Survey:
            counts = db.execute(SQL["survey"], asked).fetchall()
            dead = db.execute(SQL["dead_by_error"], asked).fetchall()
            ((oldest,),) = db.execute(SQL["oldest_due"], asked).fetchall()
            ((orphans,),) = db.execute(SQL["count_orphans"], asked).fetchall()
            return survey(pipeline, counts, dead, oldest, orphans)

        return self._db.reading_one_moment(look)

    def paces(self, pipeline: str) -> Paces:
        return {step: (documents, seconds) for step, documents, seconds in self._all("paces", pipeline=pipeline)}
