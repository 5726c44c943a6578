"""Circuits on SQL: steps that are paused while a service is away, and the one document that is tried there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Unpack

from holdfast.core.circuit import CircuitStatus
from holdfast.core.model import Claim, Failure, Plan, WorkerRecord
from holdfast.core.reasons import CIRCUIT_OPEN, SERVICE_FAILED
from holdfast.core.text_limits import MAX_REASON, shorten
from holdfast.stores.protocol import ClaimChoice, Scope
from holdfast.stores.sql.dialect import Rows, stored_name, without_nul
from holdfast.stores.sql.session import Row, Session
from holdfast.stores.sql.work import DOCUMENT, DUE, SUSPECT, Work, claim_parameters


class Circuits(Work):
    """Pause steps for all workers."""

    def circuits(self, pipeline: str) -> list[CircuitStatus]:
        return [self._circuit(row) for row in self._all("circuits", pipeline=pipeline)]

    def _circuit(self, row: Row) -> CircuitStatus:
        pipeline, step, opened_at, *why, probe_at, probe_in, closed_at, closed_by, close_reason = row
        opened, probe, closed = [
            None if at is None else self.dialect.moment(at) for at in (opened_at, probe_at, closed_at)
        ]
        wait = None if probe_in is None else self.dialect.duration(probe_in)
        is_open = opened is not None
        return CircuitStatus(*(pipeline, step, is_open, opened, *why, probe, wait, closed, closed_by, close_reason))

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
        row = {"step_id": plan.step_ids[step], "failures": failures, "wait": wait, "who": stored_name(who)}
        back = Rows(
            id=[claim.document_id for claim, _ in give_back],
            fence=[claim.fence for claim, _ in give_back],
            generation=[claim.checkpoint.generation for claim, _ in give_back],
            moves=[claim.checkpoint.moves for claim, _ in give_back],
            attempts=[attempts for _, attempts in give_back],
        )

        def open_(db: Session) -> bool:
            opened = db.all("open_circuit", **row, **_why(failure))
            if give_back:
                db.run("give_back_attempts", back=back)
            return bool(opened)

        return self._write(open_)

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
        step_id = plan.step_ids[step]
        place = {"pipeline_id": plan.pipeline_id, "step_id": step_id, "batch": scope.get("batch")}
        parameters = claim_parameters(plan, worker, scope, limit=1) | {"step_ids": [step_id]}

        def probe(db: Session) -> list[Row]:
            if not db.run("take_probe", step_id=step_id, wait=wait, longest=longest):
                return []
            kind = DOCUMENT if isinstance(which, int) else DUE if which == "due" else SUSPECT
            found = db.with_conditions("probe_candidate", kind, **place, document_id=which)
            rows = self._take(db, DOCUMENT, plan, parameters | {"document_id": found[0][0]}) if found else []
            document_id, fence = rows[0][:2] if rows else (None, None)
            db.run("set_probe", step_id=step_id, document_id=document_id, fence=fence)
            return rows

        rows = self._write(probe)
        return self._claims(plan, rows)[0] if rows else None

    def end_probe(
        self, plan: Plan, step: str, claim: Claim, *, wait: timedelta, failure: Failure | None = None
    ) -> bool:
        place = {"step_id": plan.step_ids[step], "document_id": claim.document_id, "fence": claim.fence, "wait": wait}
        why = _why(failure or Failure("", ""))
        return self._write(lambda db: db.run("end_probe", **place, **why, failed=int(failure is not None))) == 1

    def close_circuit(self, pipeline: str, step: str, *, who: str, reason: str) -> bool:
        row = {"pipeline": pipeline, "step": step, "who": stored_name(who), "reason": _stored_reason(reason)}
        return self._write(lambda db: db.run("close_circuit", **row)) == 1

    def hasten_probes(self, plan: Plan) -> int:
        if not any(one.is_open for one in self.circuits(plan.pipeline)):
            return 0  # the usual case, without a transaction that waits for others
        return self._write(lambda db: db.run("hasten_probes", step_ids=[*plan.step_ids.values()]))

    def works_for_others(self, plan: Plan, step: str, document_id: int) -> bool:
        place = {"step_id": plan.step_ids[step], "document_id": document_id}
        codes = {"circuit_open": CIRCUIT_OPEN, "service_failed": SERVICE_FAILED}
        return bool(self._value("works_for_others", **place, **codes))


def _why(failure: Failure) -> dict[str, Any]:
    return {
        "error": without_nul(failure.kind),
        "category": failure.category,
        "reason": _stored_reason(str(failure)),
    }


def _stored_reason(reason: str) -> str:
    return shorten(without_nul(reason), MAX_REASON)
