"""Overview reads on SQL: what there is, counted, and why documents wait. They change nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from holdfast.core.batches import Counted, Reconciliation
from holdfast.core.codec import decode_json
from holdfast.core.future_times import CLOCK_TOLERANCE
from holdfast.core.model import OPEN_STATES, Balance, Batch, Gauges, Plan, State, WorkerRecord, WorkerTotals
from holdfast.core.orphans import GRACE, Orphan, orphan_of
from holdfast.core.plan import KnownPlan, Shape
from holdfast.core.reasons import ENDED_BY_OTHERS
from holdfast.core.wait_causes import Cause, Holder
from holdfast.stores.batch_rules import gathered
from holdfast.stores.json_fields import names_or_ids
from holdfast.stores.protocol import StepTimes
from holdfast.stores.sql.base import Base
from holdfast.stores.sql.row_codec import document_status, plan_of, read_shape, shapes_of
from holdfast.stores.sql.session import Row, Session


class OverviewReads(Base):
    """List and count what is in the store."""

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


GONE = ("done", "dead", "cancelled")
"""The states of documents that are cleaned up, in the order of the columns gone_* of a batch."""


def reconciliations(
    pipeline: str, rows: Iterable[Sequence[Any]], moment: Callable[[Any], datetime]
) -> list[Reconciliation]:
    """Return where the documents of each batch are, from rows of batch_counts.sql."""
    return [_reconciliation(pipeline, list(of_batch), moment) for _, of_batch in groupby(rows, key=lambda row: row[0])]


def _reconciliation(pipeline: str, rows: Sequence[Sequence[Any]], moment: Callable[[Any], datetime]) -> Reconciliation:
    _, name, state, created_at, sealed_at, closed_at, expected, *gone = rows[0][:10]
    groups = [row[10:] for row in rows if row[10] is not None]
    counts = dict(zip(GONE, gone, strict=True)) | {"accepted": gone[1]}
    steps: dict[str, dict[str, int]] = {}
    for document_state, step, documents, accepted, orphaned, *_ in groups:
        for counted in (counts, steps.setdefault(step, {})) if step is not None else (counts,):
            for word, count in ((document_state, documents), ("accepted", accepted), ("orphaned", orphaned)):
                counted[word] = counted.get(word, 0) + count
    moved = [row[5] for row in groups if row[5] is not None]
    deadline_at, deadline_action, expired_at = rows[0][17:]
    return Reconciliation(
        pipeline=pipeline,
        batch=name,
        state=state,
        expected=expected,
        created_at=moment(created_at),
        sealed_at=None if sealed_at is None else moment(sealed_at),
        closed_at=None if closed_at is None else moment(closed_at),
        deadline_at=None if deadline_at is None else moment(deadline_at),
        deadline_action=deadline_action,
        expired_at=None if expired_at is None else moment(expired_at),
        moved_at=moment(max(moved)) if moved else None,
        gone=sum(gone),
        mark=sum(row[6] for row in groups),
        steps={step: Counted(**counted) for step, counted in sorted(steps.items())},
        **counts,
    )


def balance(expected: int, gone: Sequence[int], counts: Iterable[tuple[str, str | None, int]]) -> Balance:
    """Return the balance of counts by state and step, and of deleted documents: done, dead and cancelled."""
    by_state: dict[str, int] = defaultdict(int, zip(GONE, gone, strict=True))
    for state, _, count in counts:
        by_state[state] += count
    return Balance(expected, **by_state)


def at_step(counts: Iterable[tuple[str, str | None, int]]) -> dict[str, int]:
    """Return how many open documents are at each step."""
    by_step: dict[str, int] = defaultdict(int)
    for state, step, count in counts:
        if step is not None and state in OPEN_STATES:
            by_step[step] += count
    return dict(by_step)


def known_plans(
    shapes: Mapping[int, Shape], times: Mapping[int, datetime | None], counts: Iterable[tuple[Any, ...]]
) -> list[KnownPlan]:
    """Return plans with the documents pinned to them, from rows of (plan, state, step, settled, documents)."""
    by_plan: dict[int, dict[tuple[State, str | None, bool], int]] = defaultdict(dict)
    for plan_id, state, step, settled, documents in counts:
        by_plan[plan_id][state, step, bool(settled)] = documents
    return [KnownPlan(number, shape, times[number], gathered(by_plan[number])) for number, shape in shapes.items()]


def gauges(
    pipeline: str,
    counts: Iterable[Sequence[Any]],
    dead: Iterable[Sequence[Any]],
    oldest: timedelta | None,
    orphans: int,
    *,
    paused: Iterable[str],
) -> Gauges:
    """Return gauges from counts by state and step, and from dead letters by step and error."""
    documents = {(state, step): count for state, step, count in counts if count}
    died = {(step, error): count for step, error, count in dead}
    return Gauges(pipeline, documents, died, oldest, orphans, (*paused,))


class WaitCauses(Base):
    """Read why documents wait or do not move."""

    def orphans(
        self, pipeline: str, *, grace: timedelta = GRACE, batch: str | None = None, gone: Sequence[int] = ()
    ) -> list[Orphan]:
        rows = self._read(lambda db: db.named("orphans", pipeline=pipeline, batch=batch, grace=grace, gone=[*gone]))
        moment = self.dialect.moment
        return [
            orphan_of(
                document_status(row, moment),
                row["fence"],
                heartbeat_at=moment(row["beat_at"]),
                silent=bool(row["silent"]),
                now=moment(row["read_at"]),
            )
            for row in rows
        ]

    def holder(self, document_id: int) -> Holder | None:
        row = self._first("holder", document_id=document_id)
        return self._holder(row) if row else None

    def holders(self, pipeline: str) -> list[tuple[Holder, int]]:
        return [(self._holder(row), row[9]) for row in self._all("holders", pipeline=pipeline)]

    def _holder(self, row: Row) -> Holder:
        return Holder(self._worker(row), self.dialect.moment(row[7]), alive=bool(row[8]))

    def count_ahead(self, document_id: int) -> int:
        return int(self._value("count_ahead", document_id=document_id))

    def documents_in_step(self, pipeline: str, step: str) -> list[tuple[int, str]]:
        rows = self._all("documents_in_step", pipeline=pipeline, step=step)
        return [(document_id, key) for document_id, key in rows]

    def wait_causes(self, pipeline: str, *, batch: str | None = None) -> list[Cause]:
        rows = self._all("wait_causes", pipeline=pipeline, batch=batch, tolerance=CLOCK_TOLERANCE)
        return [Cause(*(*fields, self.dialect.moment(moved_at))) for *fields, moved_at in rows]
