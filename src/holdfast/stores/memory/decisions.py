"""Decisions in memory: what people say about documents, in the journal with name and reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.core.model import ON_HOLD, OPEN_STATES, STATES, Plan, State
from holdfast.stores.memory.base import Base, place_of
from holdfast.stores.memory.tables import DocumentRow
from holdfast.stores.rewinds import Rewinding
from holdfast.stores.rows import told

TAKEN_AWAY = {"worker_id": None, "due_at": None, "deadline_at": None}
FORGIVEN = {"attempts": 0, "crashes": 0, "reason": "", "error": "", "accepted_by": None}


class Decisions(Base):
    """Does to documents what somebody decided."""

    def resume(
        self,
        plan: Plan,
        document_ids: Sequence[int],
        *,
        who: str,
        reason: str,
        answer: Any = None,
        at: Mapping[int, int] | None = None,
    ) -> list[int]:
        now = self.now()
        detail = {"reason": reason} if answer is None else {"reason": reason, "answer": answer}
        with self._writing():
            here = self._deciding(document_ids, ["paused"], at)
            known = [
                row for row in here if row.pipeline_id == plan.pipeline_id and row.step_id in plan.step_ids.values()
            ]
            self._repin(plan, [row for row in known if _passes_gate(plan, row)])
            for row in [self._tables.documents[row.id] for row in known]:
                self._decided(row, self._go_on(plan, row, now), "resume", who=who, now=now, detail=detail)
            return [row.id for row in known]

    def _go_on(self, plan: Plan, row: DocumentRow, now: datetime) -> DocumentRow:
        """Lets a document wait at its step, or at the one after its gate; it is done when the gate was the last."""
        if not _passes_gate(plan, row):
            return self._change(row, state="waiting", due_at=now, reason="", error="")
        step_ids = [*plan.step_ids.values()]
        later = step_ids[step_ids.index(row.step_id or 0) + 1 :]
        moved = {"cursor": None, "moves": row.moves + 1, "reason": "", "error": "", "moved_at": now}
        if later:
            return self._change(row, state="waiting", step_id=later[0], due_at=now, **moved)
        done = self._change(row, state="done", step_id=None, due_at=None, serves=None, **moved)
        self._drop_earlier_generations(done)
        return done

    def reject(
        self, document_ids: Sequence[int], *, who: str, reason: str, at: Mapping[int, int] | None = None
    ) -> list[int]:
        now = self.now()
        with self._writing():
            here = self._deciding(document_ids, ["paused"], at)
            for row in here:
                dead = self._change(row, state="dead", due_at=None, reason=reason, error="Rejected")
                self._decided(row, dead, "reject", who=who, now=now, detail={"reason": reason})
            return [row.id for row in here]

    def pause(self, document_ids: Sequence[int], *, who: str, reason: str, until: datetime | None = None) -> list[int]:
        now = self.now()
        with self._writing():
            here = self._deciding(document_ids, ["waiting", "running"])
            for row in here:
                paused = self._change(
                    row,
                    state="paused",
                    worker_id=None,
                    worked_by=row.worker_id or row.worked_by,
                    due_at=until.astimezone(UTC) if until else None,
                    deadline_at=None,
                    fence=row.fence + 1,
                    moves=row.moves + 1,
                    attempts=max(row.attempts - (row.state == "running"), 0),
                    reason=reason,
                    error=ON_HOLD,
                )
                self._decided(row, paused, "pause", who=who, now=now, detail={"reason": reason})
            return [row.id for row in here]

    def cancel(self, document_ids: Sequence[int], *, who: str, reason: str) -> list[int]:
        now = self.now()
        with self._writing():
            here = self._deciding(document_ids, OPEN_STATES)
            for row in here:
                last = row.worker_id or row.worked_by
                ended = self._change(
                    row, state="cancelled", fence=row.fence + 1, reason=reason, error="", worked_by=last, **TAKEN_AWAY
                )
                self._decided(row, ended, "cancel", who=who, now=now, detail={"reason": reason})
            return [row.id for row in here]

    def redrive(
        self,
        document_ids: Sequence[int],
        *,
        who: str,
        reason: str,
        every: timedelta = timedelta(0),
        after: timedelta = timedelta(0),
    ) -> list[int]:
        now = self.now()
        with self._writing():
            dead = [row for row in self._deciding(document_ids, ["dead"]) if row.cleaned_at is None]
            here = [row for row in dead if row.step_id in self._plans(row.pipeline_id)[-1].step_ids]
            for place, row in enumerate(here):
                waiting = self._change(row, state="waiting", due_at=now + after + place * every, **FORGIVEN)
                self._decided(row, waiting, "redrive", who=who, now=now, detail={"reason": reason})
            return [row.id for row in here]

    def accept(self, document_ids: Sequence[int], *, who: str, reason: str) -> list[int]:
        now = self.now()
        with self._writing():
            here = [row for row in self._deciding(document_ids, ["dead"]) if row.accepted_by is None]
            for row in here:
                accepted = self._change(row, accepted_by=who)
                self._decided(row, accepted, "accept", who=who, now=now, detail={"reason": reason})
            return [row.id for row in here]

    def prioritise(self, document_ids: Sequence[int], *, priority: int, who: str, reason: str) -> list[int]:
        now = self.now()
        with self._writing():
            here = [row for row in self._deciding(document_ids, [*OPEN_STATES, "dead"]) if row.priority != priority]
            for row in here:
                changed = self._change(row, priority=priority)
                detail = {"reason": reason, "from": row.priority, "to": priority}
                self._decided(row, changed, "prioritise", who=who, now=now, detail=detail)
            return [row.id for row in here]

    def rewind_to(
        self,
        plan: Plan,
        document_ids: Sequence[int],
        *,
        to: str,
        who: str,
        reason: str,
        parked: str = "",
        at: Mapping[int, int] | None = None,
    ) -> list[int]:
        now = self.now()
        with self._writing():
            rewinding = Rewinding(plan, to, self._step_orders(plan.pipeline_id))
            here = [row for row in self._deciding(document_ids, STATES, at) if row.pipeline_id == plan.pipeline_id]
            going = [row for row in here if rewinding.may_take(place_of(row))]
            generations = self._next_generations(going)
            for row in going:
                back = self._set_back(
                    plan, row, rewinding, to=to, parked=parked, generation=generations[row.id], now=now
                )
                place = {"from": self._step_name(row), "cursor": told(row.cursor), "to": to}
                self._decided(row, back, "rewind", who=who, now=now, detail={"reason": reason} | place)
            self._repin(plan, [self._tables.documents[row.id] for row in going])
            return [row.id for row in going]

    def _set_back(
        self,
        plan: Plan,
        row: DocumentRow,
        rewinding: Rewinding,
        *,
        to: str,
        parked: str,
        generation: int,
        now: datetime,
    ) -> DocumentRow:
        """Sets one document back, as a new generation."""
        standing: dict[str, Any] = (
            {"state": "paused", "reason": parked} if parked else {"state": "waiting", "due_at": now}
        )
        if parked and row.state == "paused" and row.reason in ("", parked):  # the same hold: its mark and end stay
            standing |= {"error": row.error, "due_at": row.due_at}
        return self._change(
            row,
            **TAKEN_AWAY
            | FORGIVEN
            | standing
            | {
                "generation": generation,
                "fence": row.fence + 1,
                "moves": row.moves + 1,
                "worked_by": None,
                "plan_id": plan.plan_id if rewinding.begins_anew else row.plan_id,
                "step_id": plan.step_ids[to],
                "cursor": None,
                "reuses": rewinding.reuses(place_of(row)),
                "serves": self._served(row),
                "cleaned_at": None,
                "moved_at": now,
            },
        )

    def _deciding(
        self, document_ids: Sequence[int], states: Sequence[State], at: Mapping[int, int] | None = None
    ) -> list[DocumentRow]:
        """Gives the documents that a decision is about: in these states, of batches that are not closed."""
        tables = self._tables
        named = [tables.documents[number] for number in sorted({*document_ids}) if number in tables.documents]
        here = [row for row in named if row.state in states and tables.batches[row.batch_id].state != "closed"]
        return [row for row in here if at is None or at.get(row.id) == row.moves]

    def _decided(
        self, was: DocumentRow, now_is: DocumentRow, verb: str, *, who: str, now: datetime, detail: dict[str, Any]
    ) -> None:
        """Writes the line of a decision, beside the place that it was about; of a rewind, where it led."""
        beside = now_is if verb == "rewind" else was
        said = {**detail, "was": was.state, "state": now_is.state}
        self._write_journal(beside, verb, who=who, now=now, detail=said)


def _passes_gate(plan: Plan, row: DocumentRow) -> bool:
    return row.step_id in plan.gate_ids and row.error != ON_HOLD
