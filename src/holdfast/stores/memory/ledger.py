"""The ledger in memory: answers questions, and changes nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack

from holdfast.core.causes import Cause, Holder, Kind
from holdfast.core.codec import Kept
from holdfast.core.errors import UnknownDocument
from holdfast.core.model import OPEN_STATES, Aside, Balance, Batch, Entry, Output, Plan, Standing, State, Survey, Worker
from holdfast.core.orphans import GRACE, Orphan, last_progress, orphan_of
from holdfast.core.pins import KnownPlan
from holdfast.core.plan import Shape
from holdfast.core.retry import SUSPECT
from holdfast.stores.memory.base import Base
from holdfast.stores.memory.tables import BatchRow, DocumentRow
from holdfast.stores.protocol import Paces, Which
from holdfast.stores.rows import gathered
from holdfast.stores.which import as_regex, asked


class Ledger(Base):
    """Answers questions."""

    def pipelines(self) -> list[str]:
        with self._reading() as tables:
            return sorted(tables.pipelines, key=tables.pipelines.__getitem__)

    def shape(self, pipeline: str) -> Shape | None:
        with self._reading() as tables:
            plans = self._plans(tables.pipelines.get(pipeline))
            return plans[-1].shape if plans else None

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
            return tables.plans[plan_id].shape if plan_id in tables.plans else None

    def batches(self, pipeline: str) -> list[Batch]:
        with self._reading() as tables:
            pipeline_id = tables.pipelines.get(pipeline)
            batches = sorted((row for row in tables.batches.values() if row.pipeline_id == pipeline_id), key=_by_id)
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

    def standing(self, pipeline: str, batch: str, key: str) -> Standing:
        with self._reading() as tables:
            named = self._batch(tables.pipelines.get(pipeline), batch)
            document_id = tables.keys.get((named.id, key)) if named else None
            if document_id is None:
                raise UnknownDocument(f"batch {batch!r} of pipeline {pipeline!r} has no document {key!r}")
            return self._standing(tables.documents[document_id])

    def standings(self, pipeline: str, *, limit: int = 100, **which: Unpack[Which]) -> list[Standing]:
        found = self._meant(pipeline, which)
        return sorted(found, key=lambda one: (one.moved_at, one.id), reverse=True)[:limit]

    def select(self, pipeline: str, *, after: int = 0, limit: int = 2000, **which: Unpack[Which]) -> list[int]:
        return sorted(one.id for one in self._meant(pipeline, which) if one.id > after)[:limit]

    def count(self, pipeline: str, **which: Unpack[Which]) -> int:
        return len(self._meant(pipeline, which))

    def _meant(self, pipeline: str, which: Which) -> list[Standing]:
        """Gives the documents that are meant."""
        asking, now = asked(which), self.now()
        keys = as_regex(asking["keys"]) if "keys" in asking else None
        with self._reading() as tables:
            standings = [self._standing(row) for row in tables.documents.values()]
        wanted: dict[str, Callable[[Standing, Any], bool]] = {
            "batch": lambda one, batch: one.batch == batch,
            "key": lambda one, key: one.key == key,
            "keys": lambda one, _: keys is not None and keys.fullmatch(one.key) is not None,
            "state": lambda one, state: one.state == state,
            "step": lambda one, step: one.checkpoint.step == step,
            "error": lambda one, error: one.error == error,
            "text": lambda one, text: text.lower() in one.reason.lower(),
            "idle": lambda one, idle: one.moved_at < now - idle,
            "accepted": lambda one, accepted: bool(one.accepted_by) == accepted,
            "plan": lambda one, plan: one.plan_id == plan,
        }
        ours = [one for one in standings if one.pipeline == pipeline]
        return [one for one in ours if all(wanted[name](one, value) for name, value in asking.items())]

    def undecided(self, plan: Plan, gate: str, *, limit: int = 2000) -> dict[int, int]:
        now = self.now()
        with self._reading():
            here = [row for row in self._documents(plan) if row.step_id == plan.step_ids[gate]]
            late = [(row.due_at, row) for row in here if row.state == "paused" and row.due_at and row.due_at <= now]
        first = sorted(late, key=lambda one: (one[0], one[1].id))[:limit]
        return {row.id: row.moves for _, row in first}

    def find(self, key: str) -> list[Standing]:
        with self._reading() as tables:
            return [self._standing(row) for row in sorted(tables.documents.values(), key=_by_id) if row.key == key]

    def look(self, document_ids: Sequence[int]) -> list[Standing]:
        with self._reading() as tables:
            return [self._standing(tables.documents[one]) for one in sorted(document_ids) if one in tables.documents]

    def reuses(self, document_ids: Sequence[int]) -> dict[int, dict[str, int]]:
        with self._reading() as tables:
            rows = [tables.documents[one] for one in document_ids if one in tables.documents]
            return {
                row.id: {tables.steps[step_id].name: made for step_id, made in row.reuses.items()}
                for row in rows
                if row.reuses
            }

    def outputs(self, document_id: int) -> list[Output]:
        with self._reading() as tables:
            outputs = []
            for step_id, place in self._places(document_id):
                items, asides = tables.items[place], tables.asides[place]
                if items:
                    times = [item.kept_at for item in items.values()]
                    output = Output(tables.steps[step_id].name, len(items), len(asides), min(times), max(times))
                    outputs.append((min(times), step_id, output))
        return [output for _, _, output in sorted(outputs, key=lambda one: one[:2])]

    def items(self, document_id: int) -> Iterator[tuple[str, int, Kept]]:
        with self._reading() as tables:
            kept = [
                (tables.steps[step_id].name, position, item.value)
                for step_id, place in self._places(document_id)
                for position, item in sorted(tables.items[place].items())
            ]
        yield from kept

    def served(self, document_id: int) -> Iterator[tuple[str, int, Kept]]:
        with self._reading() as tables:
            row = tables.documents.get(document_id)
            serves = self._served(row) if row else None
            kept = [
                (tables.steps[step_id].name, position, item.value)
                for step_id, generation in sorted((serves or {}).items())
                for position, item in sorted(tables.items[document_id, generation, step_id].items())
            ]
        yield from kept

    def asides(self, document_id: int) -> list[tuple[str, Aside]]:
        with self._reading() as tables:
            return [
                (tables.steps[step_id].name, aside)
                for step_id, place in self._places(document_id)
                for _, aside in sorted(tables.asides[place].items())
            ]

    def _places(self, document_id: int) -> list[tuple[int, tuple[int, int, int]]]:
        """Says where the items are that serve a document's present generation, by step."""
        row = self._tables.documents.get(document_id)
        steps = sorted(self._tables.steps) if row else []
        return [(step_id, (document_id, row.generation_of(step_id), step_id)) for step_id in steps if row]

    def journal(self, document_id: int) -> list[Entry]:
        with self._reading() as tables:
            return list(tables.journals[document_id].values())

    def batch_journal(self, pipeline: str, batch: str) -> list[Entry]:
        with self._reading() as tables:
            named = self._batch(tables.pipelines.get(pipeline), batch)
            return list(tables.batch_journals[named.id].values()) if named else []

    def workers(self) -> list[tuple[Worker, datetime, bool]]:
        now = self.now()
        with self._reading() as tables:
            return [(row.worker, row.beat_at, row.is_stale(now)) for row in tables.workers.values() if not row.gone]

    def orphans(
        self, pipeline: str, *, grace: timedelta = GRACE, batch: str | None = None, gone: Sequence[int] = ()
    ) -> list[Orphan]:
        now = self.now()
        with self._reading() as tables:
            running = [row for row in self._of(pipeline, batch) if row.state == "running"]
            held = [(self._standing(row), row.fence, tables.workers[row.worker_id or 0]) for row in running]
        found = []
        for here, fence, worker in held:
            silent = worker.gone or worker.is_stale(now) or worker.worker.id in gone
            signs = [last_progress(here), here.deadline_at or now, worker.beat_at if silent else now]
            if any(sign < now - grace for sign in signs):
                found.append(orphan_of(here, fence, beat_at=worker.beat_at, silent=silent, now=now))
        return found

    def holder(self, document_id: int) -> Holder | None:
        now = self.now()
        with self._reading() as tables:
            row = tables.documents.get(document_id)
            return self._holder(row.worker_id, now) if row and row.worker_id else None

    def holders(self, pipeline: str) -> list[tuple[Holder, int]]:
        now = self.now()
        with self._reading():
            held = Counter(row.worker_id for row in self._of(pipeline) if row.worker_id)
            return [(self._holder(worker_id, now), count) for worker_id, count in sorted(held.items())]

    def _holder(self, worker_id: int, now: datetime) -> Holder:
        row = self._tables.workers[worker_id]
        return Holder(row.worker, row.beat_at, alive=not row.gone and not row.is_stale(now))

    def ahead(self, document_id: int) -> int:
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
                and (row.crashes >= SUSPECT) == (me.crashes >= SUSPECT)
            )

    def inside(self, pipeline: str, step: str) -> list[tuple[int, str]]:
        with self._reading():
            rows = [row for row in self._of(pipeline) if self._step_name(row) == step and self._is_inside(row)]
            return [(row.id, row.key) for row in rows]

    def causes(self, pipeline: str, *, batch: str | None = None) -> list[Cause]:
        now = self.now()
        with self._reading() as tables:
            kept: dict[tuple[Kind, State, int | None, str], list[DocumentRow]] = {}
            for row in self._of(pipeline, batch):
                if row.state != "done":
                    told = row.state == "dead" or (row.state == "waiting" and _is_later(row.due_at, now))
                    why = (self._kind(row, now), row.state, row.step_id, row.error if told else "")
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
            case "waiting":
                return "backoff" if _is_later(row.due_at, now) else "suspect" if row.crashes >= SUSPECT else "due"
            case "running":
                return self._kind_of_running(row, now)
            case "paused":
                return "person" if row.due_at is None else "until"
            case "dead":
                return "dead" if row.accepted_by is None else "accepted"
        return "cancelled"

    def _kind_of_running(self, row: DocumentRow, now: datetime) -> Kind:
        worker = self._tables.workers[row.worker_id or 0]
        if worker.gone or worker.is_stale(now):
            return "silent"
        if row.deadline_at is not None and row.deadline_at < now:
            return "overdue"
        others = any(self._is_inside(one) for one in self._tables.documents.values() if one.step_id == row.step_id)
        return "full step" if others and not self._is_inside(row) else "worked on"

    def _is_inside(self, row: DocumentRow) -> bool:
        """Answers whether a document was let into a step that only so many may be in, and still is there."""
        permits = self._tables.permits.get(row.step_id or 0)
        return row.state == "running" and permits is not None and permits.get(row.id) == row.fence

    def _of(self, pipeline: str, batch: str | None = None) -> list[DocumentRow]:
        """Gives the documents of a pipeline, or of one batch, the oldest first."""
        tables = self._tables
        pipeline_id = tables.pipelines.get(pipeline)
        named = None if batch is None else self._batch(pipeline_id, batch)
        if batch is not None and named is None:
            return []
        rows = sorted(tables.documents.values(), key=_by_id)
        return [row for row in rows if row.pipeline_id == pipeline_id and (not named or row.batch_id == named.id)]

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


def _is_later(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment > now


def _by_id(row: object) -> int:
    number: int = row.id  # type: ignore[attr-defined]
    return number
