"""Decisions of people in memory: about documents, and about items that were set aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.core.codec import encode_json
from holdfast.core.model import OPEN_STATES, STATES, Plan, State
from holdfast.core.reasons import ITEMS_REDRIVEN, ON_HOLD, REJECTED
from holdfast.core.text_limits import MAX_NAME, shorten
from holdfast.stores.item_redrive import REDRIVABLE, ItemRedrive, KeptInStep, Reopened
from holdfast.stores.json_fields import decode_or_text
from holdfast.stores.memory.base import Base, place_of
from holdfast.stores.memory.tables import NO_SETBACKS, DocumentRow
from holdfast.stores.protocol import RewindThen, UndoRows
from holdfast.stores.rewind_rules import Rewind, is_withdrawable, rows_that_stay, written_rows

WITHOUT_WORKER = {"worker_id": None, "due_at": None, "deadline_at": None}
LOOKED_AT: dict[str, Any] = {"deferrals": 0, "deferred_at": None, "interruptions": 0}
"""A person has looked at the document: it is counted from zero again how often it is put off and interrupted."""
NO_REASON: dict[str, Any] = {"reason": "", "code": "", "error": "", "recoverable": None}
WITHOUT_FAILURES: dict[str, Any] = {"attempts": 0, "crashes": 0, **NO_SETBACKS, **NO_REASON, "accepted_by": None}


class Decisions(Base):
    """Apply the decisions of people to documents."""

    def resume(
        self,
        plan: Plan,
        document_ids: Sequence[int],
        *,
        who: str,
        reason: str,
        code: str = "",
        answer: Any = None,
        at: Mapping[int, int] | None = None,
    ) -> list[int]:
        now = self.now()
        detail = {"reason": reason} if answer is None else {"reason": reason, "answer": answer}
        with self._writing():
            rows = self._decidable(document_ids, ["paused"], at)
            known = [
                row for row in rows if row.pipeline_id == plan.pipeline_id and row.step_id in plan.step_ids.values()
            ]
            self._repin(plan, [row for row in known if _passes_gate(plan, row)])
            for row in [self._tables.documents[row.id] for row in known]:
                self._record_decision(
                    row, self._resumed(plan, row, now), "resume", who=who, now=now, detail=detail, code=code
                )
            return [row.id for row in known]

    def _resumed(self, plan: Plan, row: DocumentRow, now: datetime) -> DocumentRow:
        """Resume a document at its step, or at the one after its gate. It is done if the gate was the last step."""
        if not _passes_gate(plan, row):
            return self._change(row, state="waiting", due_at=now, waits_since=now, **NO_REASON, **LOOKED_AT)
        step_ids = [*plan.step_ids.values()]
        later = step_ids[step_ids.index(row.step_id or 0) + 1 :]
        moved = {"cursor": None, "moves": row.moves + 1, **NO_REASON, "moved_at": now, "waits_since": now}
        if later:
            return self._change(
                row, state="waiting", step_id=later[0], due_at=now, worked_by=None, **moved, **LOOKED_AT
            )
        done = self._change(row, state="done", step_id=None, due_at=None, serves=None, **moved)
        self._drop_earlier_generations(done)
        return done

    def reject(
        self,
        document_ids: Sequence[int],
        *,
        who: str,
        reason: str,
        code: str = REJECTED,
        at: Mapping[int, int] | None = None,
    ) -> list[int]:
        now = self.now()
        with self._writing():
            rows = self._decidable(document_ids, ["paused"], at)
            for row in rows:
                dead = self._change(
                    row, state="dead", due_at=None, reason=reason, code=code, error="Rejected", recoverable=False
                )
                self._record_decision(row, dead, "reject", who=who, now=now, detail={"reason": reason}, code=code)
            return [row.id for row in rows]

    def pause(self, document_ids: Sequence[int], *, who: str, reason: str, until: datetime | None = None) -> list[int]:
        now = self.now()
        with self._writing():
            rows = self._decidable(document_ids, ["waiting", "running"])
            for row in rows:
                paused = self._change(
                    row,
                    state="paused",
                    worker_id=None,
                    worked_by=row.worker_id or row.worked_by,
                    due_at=until.astimezone(UTC) if until else None,
                    waits_since=None,
                    deadline_at=None,
                    fence=row.fence + 1,
                    moves=row.moves + 1,
                    attempts=max(row.attempts - (row.state == "running"), 0),
                    reason=reason,
                    code=ON_HOLD,
                    error="",
                    recoverable=None,
                )
                self._record_decision(row, paused, "pause", who=who, now=now, detail={"reason": reason}, code=ON_HOLD)
            return [row.id for row in rows]

    def cancel(self, document_ids: Sequence[int], *, who: str, reason: str, code: str = "") -> list[int]:
        now = self.now()
        with self._writing():
            rows = self._decidable(document_ids, OPEN_STATES)
            for row in rows:
                last = row.worker_id or row.worked_by
                why = {"reason": reason, "code": code, "error": "", "recoverable": None}
                ended = self._change(
                    row, state="cancelled", fence=row.fence + 1, worked_by=last, **why, **WITHOUT_WORKER
                )
                self._record_decision(row, ended, "cancel", who=who, now=now, detail={"reason": reason}, code=code)
            return [row.id for row in rows]

    def withdraw(
        self, plan: Plan, document_ids: Sequence[int], *, undo: UndoRows, who: str, reason: str, code: str = ""
    ) -> list[int]:
        now = self.now()
        with self._writing() as tables:
            ours = [row for row in self._decidable(document_ids, STATES) if row.pipeline_id == plan.pipeline_id]
            written = written_rows(
                plan, [self._status(row) for row in ours], [(row.effects, row.reuses) for row in ours]
            )
            going = [one for one in written if is_withdrawable(plan, one)]
            if going:
                with self._guarded_tx("an undo") as tx:
                    undo(tx, going)
            for row in [tables.documents[one.document.id] for one in going]:
                fields = {
                    "step_id": plan.first,
                    "plan_id": plan.plan_id,
                    "cursor": None,
                    "worked_by": row.worker_id or row.worked_by,
                    "fence": row.fence + 1,
                    "moves": row.moves + 1,
                    "accepted_by": None,
                    "effects": rows_that_stay(plan, row.effects),
                }
                why = {"reason": reason, "code": code, "error": "", "recoverable": None}
                ended = self._change(row, state="cancelled", **fields, **why, **WITHOUT_WORKER)
                self._record_decision(row, ended, "withdraw", who=who, now=now, detail={"reason": reason}, code=code)
            return [one.document.id for one in going]

    def redrive(
        self,
        document_ids: Sequence[int],
        *,
        who: str,
        reason: str,
        code: str = "",
        every: timedelta = timedelta(0),
        after: timedelta = timedelta(0),
    ) -> list[int]:
        now = self.now()
        with self._writing():
            dead = [row for row in self._decidable(document_ids, ["dead"]) if row.cleaned_at is None]
            rows = [row for row in dead if row.step_id in self._plans(row.pipeline_id)[-1].step_ids]
            for place, row in enumerate(rows):
                waiting = self._change(
                    row, state="waiting", due_at=now + after + place * every, waits_since=now, **WITHOUT_FAILURES
                )
                self._record_decision(row, waiting, "redrive", who=who, now=now, detail={"reason": reason}, code=code)
            return [row.id for row in rows]

    def accept(self, document_ids: Sequence[int], *, who: str, reason: str) -> list[int]:
        now = self.now()
        with self._writing():
            rows = [row for row in self._decidable(document_ids, ["dead"]) if row.accepted_by is None]
            for row in rows:
                accepted = self._change(row, accepted_by=shorten(who, MAX_NAME))
                self._record_decision(row, accepted, "accept", who=who, now=now, detail={"reason": reason})
            return [row.id for row in rows]

    def prioritise(self, document_ids: Sequence[int], *, priority: int, who: str, reason: str) -> list[int]:
        now = self.now()
        with self._writing():
            rows = [row for row in self._decidable(document_ids, [*OPEN_STATES, "dead"]) if row.priority != priority]
            for row in rows:
                changed = self._change(row, priority=priority)
                detail = {"reason": reason, "from": row.priority, "to": priority}
                self._record_decision(row, changed, "prioritise", who=who, now=now, detail=detail)
            return [row.id for row in rows]

    def rewind_to(
        self,
        plan: Plan,
        document_ids: Sequence[int],
        *,
        to: str,
        who: str,
        reason: str,
        code: str = "",
        then: RewindThen = "wait",
        at: Mapping[int, int] | None = None,
    ) -> list[int]:
        now = self.now()
        with self._writing():
            rewind = Rewind(plan, to, self._step_orders(plan.pipeline_id))
            rows = [row for row in self._decidable(document_ids, STATES, at) if row.pipeline_id == plan.pipeline_id]
            going = [row for row in rows if rewind.allows(place_of(row))]
            generations = self._next_generations(going)
            for row in going:
                after = _after_rewind(row, then, reason=reason, code=code, now=now)
                back = self._rewound(plan, row, rewind, to=to, after=after, generation=generations[row.id], now=now)
                place = {"from": self._step_name(row), "cursor": decode_or_text(row.cursor), "to": to}
                self._record_decision(
                    row, back, "rewind", who=who, now=now, detail={"reason": reason} | place, code=code
                )
            self._repin(plan, [self._tables.documents[row.id] for row in going])
            return [row.id for row in going]

    def _rewound(
        self,
        plan: Plan,
        row: DocumentRow,
        rewind: Rewind,
        *,
        to: str,
        after: dict[str, Any],
        generation: int,
        now: datetime,
    ) -> DocumentRow:
        """Set one document back, as a new generation."""
        return self._change(
            row,
            **WITHOUT_WORKER
            | WITHOUT_FAILURES
            | after
            | {
                "generation": generation,
                "fence": row.fence + 1,
                "moves": row.moves + 1,
                "worked_by": None,
                "plan_id": plan.plan_id if rewind.restarts else row.plan_id,
                "step_id": plan.step_ids[to],
                "cursor": None,
                "reuses": rewind.reuses(place_of(row)),
                "extents": rewind.extents(place_of(row)),
                "totals": None,
                "serves": self._served(row),
                "cleaned_at": None,
                "moved_at": now,
            },
        )

    def _decidable(
        self, document_ids: Sequence[int], states: Sequence[State], at: Mapping[int, int] | None = None
    ) -> list[DocumentRow]:
        """Return the documents that a decision changes: in these states, and in batches that are not closed."""
        tables = self._tables
        named = [tables.documents[number] for number in sorted({*document_ids}) if number in tables.documents]
        rows = [row for row in named if row.state in states and tables.batches[row.batch_id].state != "closed"]
        return [row for row in rows if at is None or at.get(row.id) == row.moves]

    def _record_decision(
        self,
        before: DocumentRow,
        after: DocumentRow,
        verb: str,
        *,
        who: str,
        now: datetime,
        detail: dict[str, Any],
        code: str = "",
    ) -> None:
        """Write the line of a decision, with the place of the document before it; of a rewind, after it."""
        place = after if verb == "rewind" else before
        states = {"was": before.state, "state": after.state}
        self._write_journal(place, verb, who=who, now=now, detail={**detail, **states}, code=code)

    def redrive_items(
        self, plan: Plan, items: Mapping[int, Sequence[int]], *, step: str, who: str, reason: str
    ) -> dict[int, list[int]]:
        now = self.now()
        with self._writing():
            shapes = {row.id: self._present_shape(row) for row in self._plans(plan.pipeline_id)}
            rules = ItemRedrive(plan, step, self._step_orders(plan.pipeline_id), shapes)
            ours = [row for row in self._decidable([*items], REDRIVABLE) if row.pipeline_id == plan.pipeline_id]
            allowed = [row for row in ours if rules.allows(place_of(row), row.state, row.code)]
            found = [(row, self._reopened(rules, row, items[row.id])) for row in allowed]
            going = [(row, one) for row, one in found if one is not None]
            generations = self._next_generations([row for row, _ in going])
            for row, reopened in going:
                after = {"state": "waiting", "due_at": now, "waits_since": now}
                generation = generations[row.id]
                back = self._rewound(plan, row, rules.rewind, to=step, after=after, generation=generation, now=now)
                place = {"from": self._step_name(row), "cursor": decode_or_text(row.cursor), "to": step}
                detail = {"reason": reason, **place, "items": reopened.items}
                self._record_decision(row, back, "rewind", who=who, now=now, detail=detail, code=ITEMS_REDRIVEN)
                self._reopen(rules.step_id, row, back, reopened)
            self._repin(plan, [self._tables.documents[row.id] for row, _ in going])
            return {row.id: reopened.items for row, reopened in going}

    def _reopened(self, rules: ItemRedrive, row: DocumentRow, positions: Sequence[int]) -> Reopened | None:
        tables, place = self._tables, place_of(row)
        rows = (row.id, place.generation_of(rules.step_id), rules.step_id)
        source = tables.items[row.id, place.generation_of(rules.source_id), rules.source_id]
        items = sum(position >= 0 for position in tables.items[rows])
        asides = {position: aside.tries for position, aside in tables.asides[rows].items()}
        kept = KeptInStep(items, max(source, default=-1) + 1, asides)
        return rules.reopened(place, decode_or_text(row.cursor), kept, positions)

    def _reopen(self, step_id: int, before: DocumentRow, row: DocumentRow, reopened: Reopened) -> None:
        """Put a rewound document inside a step, with what the step kept in the generation before."""
        tables = self._tables
        earlier, now = (row.id, before.generation_of(step_id), step_id), (row.id, row.generation, step_id)
        for position, item in tables.items[earlier].items():
            tables.items[now][position] = item
        for position in reopened.staying:
            tables.asides[now][position] = tables.asides[earlier][position]
        effects = row.effects | {step_id: row.generation} if step_id in row.effects else row.effects
        self._change(row, cursor=encode_json(reopened.cursor), extents=reopened.extents, effects=effects)


def _passes_gate(plan: Plan, row: DocumentRow) -> bool:
    return row.step_id in plan.gate_ids and row.code != ON_HOLD


def _after_rewind(row: DocumentRow, then: RewindThen, *, reason: str, code: str, now: datetime) -> dict[str, Any]:
    """Return the state of a document after a rewind, and why it is in it."""
    if then == "keep_hold" and row.state == "paused":
        hold = {"reason": row.reason, "code": row.code, "error": row.error, "due_at": row.due_at}
        return {"state": "paused", **hold}
    if then == "park":
        return {"state": "paused", "reason": reason, "code": code}
    return {"state": "waiting", "due_at": now, "waits_since": now}
