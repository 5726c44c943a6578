"""Circuits in memory: steps that are paused while a service is away, and the one document that is tried there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack

from msgspec.structs import replace

from holdfast.core.circuit import CircuitStatus
from holdfast.core.model import Claim, Failure, Plan, WorkerRecord
from holdfast.core.reasons import CIRCUIT_OPEN, SERVICE_FAILED
from holdfast.core.text_limits import MAX_NAME, MAX_REASON, shorten
from holdfast.stores.memory.tables import CircuitRow, DocumentRow
from holdfast.stores.memory.work import Work
from holdfast.stores.protocol import ClaimChoice, Scope

FAILED = (("fail", SERVICE_FAILED), ("defer", CIRCUIT_OPEN))
"""The verbs and codes of journal lines that say that a service failed for a document."""


class Circuits(Work):
    """Pause steps for all workers."""

    def circuits(self, pipeline: str) -> list[CircuitStatus]:
        now = self.now()
        with self._reading() as tables:
            steps = {
                row.id: row.name for row in tables.steps.values() if self._pipeline_name(row.pipeline_id) == pipeline
            }
            rows = [tables.circuits[step_id] for step_id in sorted(tables.circuits) if step_id in steps]
            return [_status(pipeline, steps[row.step_id], row, now) for row in rows]

    def open_circuit(
        self,
        plan: Plan,
        step: str,
        failure: Failure,
        *,
        failures: int,
        wait: timedelta,
        who: str,
        give_back: Sequence[tuple[Claim, int]] = (),
    ) -> bool:
        now, step_id = self.now(), plan.step_ids[step]
        with self._writing() as tables:
            for claim, attempts in give_back:
                row = tables.documents.get(claim.document_id)
                if row is not None and _may_get_back(row, claim):
                    self._change(row, attempts=max(row.attempts - attempts, 0))
            before = tables.circuits.get(step_id) or CircuitRow(step_id)
            if before.opened_at is not None:
                return False
            opened = {"opened_at": now, "opened_by": shorten(who, MAX_NAME), "failures": failures, **_why(failure)}
            probe = {"probes": 0, "probe_at": now + wait, "probe": None}
            tables.circuits[step_id] = replace(before, **opened, **probe)
            return True

    def claim_probe(
        self,
        plan: Plan,
        worker: WorkerRecord,
        step: str,
        *,
        wait: timedelta,
        longest: timedelta,
        which: ClaimChoice = "due",
        **scope: Unpack[Scope],
    ) -> Claim | None:
        now, step_id = self.now(), plan.step_ids[step]
        with self._writing() as tables:
            row = tables.circuits.get(step_id)
            if row is None or row.probe_at is None or now < row.probe_at <= now + longest or self._is_probing(row):
                return None
            anywhere: Scope = {"batch": scope.get("batch")}
            due = [one for one in self._claimable(plan, which, anywhere, now) if one.step_id == step_id]
            due = [one for one in due if one.due_at is not None and one.due_at <= now]  # a named one may not be due
            due.sort(key=lambda one: (one.error != "", one.due_at, one.id))
            claims = self._claim(plan, worker, due[:1], timeouts=scope.get("timeouts", {}), now=now)
            claim = claims[0] if claims else None
            probe = None if claim is None else (claim.document_id, claim.fence)
            tables.circuits[step_id] = replace(row, probe=probe, probe_at=now if claim is None else now + wait)
            return claim

    def _is_probing(self, row: CircuitRow) -> bool:
        """Return True if a worker holds the document that was tried last."""
        if row.probe is None:
            return False
        document_id, fence = row.probe
        held: DocumentRow | None = self._tables.documents.get(document_id)
        return held is not None and (held.fence, held.state) == (fence, "running")

    def end_probe(
        self, plan: Plan, step: str, claim: Claim, *, wait: timedelta, failure: Failure | None = None
    ) -> bool:
        now, step_id = self.now(), plan.step_ids[step]
        with self._writing() as tables:
            row = tables.circuits.get(step_id)
            if row is None or row.opened_at is None or row.probe != (claim.document_id, claim.fence):
                return False
            failed = {} if failure is None else {"probes": row.probes + 1, **_why(failure)}
            tables.circuits[step_id] = replace(row, probe_at=now + wait, **failed)
            return True

    def close_circuit(self, pipeline: str, step: str, *, who: str, reason: str) -> bool:
        now = self.now()
        with self._writing() as tables:
            named = [row.id for row in tables.steps.values() if row.name == step]
            rows = [row for row in map(tables.circuits.get, named) if row is not None and row.opened_at is not None]
            for row in rows:
                if self._pipeline_name(tables.steps[row.step_id].pipeline_id) == pipeline:
                    closed = {"opened_at": None, "probe_at": None, "probe": None, "closed_at": now}
                    by = {"closed_by": shorten(who, MAX_NAME), "close_reason": shorten(reason, MAX_REASON)}
                    tables.circuits[row.step_id] = replace(row, **closed, **by)
                    return True
            return False

    def hasten_probes(self, plan: Plan) -> int:
        now = self.now()
        with self._writing() as tables:
            rows = [tables.circuits[step_id] for step_id in plan.step_ids.values() if step_id in tables.circuits]
            failed_at = [row for row in rows if row.opened_at is not None]
            for row in failed_at:
                tables.circuits[row.step_id] = replace(row, probe_at=now)
            return len(failed_at)

    def works_for_others(self, plan: Plan, step: str, document_id: int) -> bool:
        now = self.now()
        with self._reading() as tables:
            row, worked_at = tables.documents.get(document_id), tables.worked_at.get(plan.step_ids[step])
            if row is None or worked_at is None:
                return False
            lines = [line for line in tables.journals[document_id].values() if line.generation == row.generation]
            failed = [line for line in lines if (line.verb, line.code) in FAILED]
            times = [line.at if line.at >= row.moved_at else line.last_at for line in failed]
            failed_at = [at for at in times if at is not None and at >= row.moved_at]
            return bool(failed_at) and min(failed_at) < worked_at <= now

    def _pipeline_name(self, pipeline_id: int) -> str:
        return next(name for name, number in self._tables.pipelines.items() if number == pipeline_id)


def _may_get_back(row: DocumentRow, claim: Claim) -> bool:
    at = claim.checkpoint
    has_not_moved = (row.generation, row.moves) == (at.generation, at.moves)
    return row.state in ("waiting", "running") and (row.fence == claim.fence or has_not_moved)


def _why(failure: Failure) -> dict[str, Any]:
    return {"error": failure.kind, "category": failure.category, "reason": shorten(str(failure), MAX_REASON)}


def _status(pipeline: str, step: str, row: CircuitRow, now: datetime) -> CircuitStatus:
    return CircuitStatus(
        pipeline=pipeline,
        step=step,
        is_open=row.opened_at is not None,
        opened_at=row.opened_at,
        opened_by=row.opened_by,
        failures=row.failures,
        error=row.error,
        category=row.category,
        reason=row.reason,
        probes=row.probes,
        probe_at=row.probe_at,
        probe_in=None if row.probe_at is None else row.probe_at - now,
        closed_at=row.closed_at,
        closed_by=row.closed_by,
        close_reason=row.close_reason,
    )
