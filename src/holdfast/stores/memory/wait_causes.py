"""Wait causes in memory: why documents wait or do not move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from holdfast.core.future_times import is_future
from holdfast.core.model import State
from holdfast.core.orphans import GRACE, Orphan, last_progress, orphan_of
from holdfast.core.wait_causes import Cause, Holder, Kind
from holdfast.stores.memory.base import Base, by_id
from holdfast.stores.memory.tables import DocumentRow


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
        for here, fence, worker in held:
            silent = worker.gone or worker.is_stale(now) or worker.worker.id in gone
            signs = [last_progress(here), here.deadline_at or now, worker.heartbeat_at if silent else now]
            if any(sign < now - grace for sign in signs):
                found.append(orphan_of(here, fence, heartbeat_at=worker.heartbeat_at, silent=silent, now=now))
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
        rows = sorted(tables.documents.values(), key=by_id)
        return [row for row in rows if row.pipeline_id == pipeline_id and (not named or row.batch_id == named.id)]


def _is_later(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment > now
