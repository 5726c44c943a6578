"""Decisions in memory: what people say about documents, in the journal with name and reason."""

from __future__ import annotations

from datetime import datetime

from holdfast.core.model import OPEN_STATES, Plan
from holdfast.stores.memory.base import Base
from holdfast.stores.memory.tables import DocumentRow


class Decisions(Base):
    """Does to documents what a person decided."""

    def resume(self, plan: Plan, document_id: int, *, who: str, reason: str) -> bool:
        now = self.now()
        with self._writing():
            row = self._tables.documents.get(document_id)
            if row is None or row.state != "paused":
                return False
            self._write_journal(row, "resume", who=who, now=now, detail={"reason": reason})
            if self._stands_at_a_gate(plan, row):
                self._pass_gate(plan, row, now)
            else:
                self._change(row, state="waiting", due_at=now, reason="")
            return True

    def _stands_at_a_gate(self, plan: Plan, row: DocumentRow) -> bool:
        shape = self._tables.plans[plan.plan_id].shape
        return any(step.kind == "gate" and step.name == self._step_name(row) for step in shape.steps)

    def _pass_gate(self, plan: Plan, row: DocumentRow, now: datetime) -> None:
        """Moves a document to the step after its gate; it is done when the gate was the last."""
        step_ids = [*plan.step_ids.values()]
        later = step_ids[step_ids.index(row.step_id or 0) + 1 :]
        moved = {"cursor": None, "moves": row.moves + 1, "reason": "", "moved_at": now}
        if later:
            self._change(row, state="waiting", step_id=later[0], due_at=now, **moved)
        else:
            done = self._change(row, state="done", step_id=None, due_at=None, **moved)
            self._drop_earlier_generations(done)

    def reject(self, document_id: int, *, who: str, reason: str) -> bool:
        now = self.now()
        with self._writing() as tables:
            row = tables.documents.get(document_id)
            if row is None or row.state != "paused":
                return False
            dead = self._change(row, state="dead", due_at=None, reason=reason)
            self._write_journal(dead, "reject", who=who, now=now, detail={"reason": reason})
            return True

    def cancel(self, document_id: int, *, who: str, reason: str) -> bool:
        now = self.now()
        with self._writing() as tables:
            row = tables.documents.get(document_id)
            if row is None or row.state not in OPEN_STATES:
                return False
            ended = {"worker_id": None, "due_at": None, "deadline_at": None, "fence": row.fence + 1}
            cancelled = self._change(row, state="cancelled", reason=reason, **ended)
            self._write_journal(cancelled, "cancel", who=who, now=now, detail={"reason": reason})
            return True

    def redrive(self, document_id: int, *, who: str, reason: str) -> bool:
        now = self.now()
        with self._writing() as tables:
            row = tables.documents.get(document_id)
            if row is None or row.state != "dead" or row.cleaned_at is not None:
                return False
            waiting = self._change(row, state="waiting", due_at=now, attempts=0, crashes=0, reason="")
            self._write_journal(waiting, "redrive", who=who, now=now, detail={"reason": reason})
            return True
