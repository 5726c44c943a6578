"""Decisions on SQL: what people decide about documents, with their names and reasons in the journal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdfast.core.codec import decode_json, encode_json
from holdfast.core.model import OPEN_STATES, STATES, Plan, State
from holdfast.core.reasons import ITEMS_REDRIVEN, ON_HOLD, REJECTED
from holdfast.stores.item_redrive import REDRIVABLE, ItemRedrive
from holdfast.stores.json_fields import numbers_or_none
from holdfast.stores.protocol import RewindThen, UndoRows
from holdfast.stores.rewind_rules import Rewind, is_withdrawable, rows_that_stay, written_rows
from holdfast.stores.sql.base import Base
from holdfast.stores.sql.decision_rules import (
    DecisionRow,
    ReopenedDocument,
    RewindGroup,
    decision_detail,
    ids_of,
    passed_gates,
    reopened_documents,
    reopened_rows,
    rewind_groups,
    rewound_extents,
    rewound_places,
    staying_items,
    steps_after_gates,
)
from holdfast.stores.sql.dialect import Rows, stored_name, stored_reason
from holdfast.stores.sql.row_codec import orders_of, shapes_of
from holdfast.stores.sql.session import Session

Choose = Callable[[Session], list[int]]
"""Locks documents, and returns the ids of those that a decision changes."""


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
        def resume(db: Session) -> list[int]:
            documents = _locked(db, document_ids, ["paused"], at)
            going = steps_after_gates(plan, documents)
            self._repin(db, plan, passed_gates(plan, documents))
            for step_id, ids in going.items():
                detail = decision_detail(reason, "waiting" if step_id else "done", answer)
                db.run("journal_decisions", ids=ids, verb="resume", who=stored_name(who), detail=detail, code=code)
                if step_id:
                    db.run("resume", ids=ids, step_id=step_id)
                else:
                    db.run("finish_after_gate", ids=ids)
                    db.run("delete_old_items", ids=ids)
                    db.run("delete_old_failed_items", ids=ids)
            return sorted(document_id for ids in going.values() for document_id in ids)

        return self._write(resume)

    def reject(
        self,
        document_ids: Sequence[int],
        *,
        who: str,
        reason: str,
        code: str = REJECTED,
        at: Mapping[int, int] | None = None,
    ) -> list[int]:
        choose = _in_states(document_ids, ["paused"], at)
        return self._decide("reject", choose, "dead", who=who, reason=reason, code=code)

    def pause(self, document_ids: Sequence[int], *, who: str, reason: str, until: datetime | None = None) -> list[int]:
        choose = _in_states(document_ids, ["waiting", "running"])
        return self._decide("pause", choose, "paused", who=who, reason=reason, code=ON_HOLD, until=until)

    def cancel(self, document_ids: Sequence[int], *, who: str, reason: str, code: str = "") -> list[int]:
        choose = _in_states(document_ids, OPEN_STATES)
        return self._decide("cancel", choose, "cancelled", who=who, reason=reason, code=code)

    def withdraw(
        self, plan: Plan, document_ids: Sequence[int], *, undo: UndoRows, who: str, reason: str, code: str = ""
    ) -> list[int]:
        def withdraw(db: Session) -> list[int]:
            documents = _locked(db, document_ids, STATES)
            ours = [document.id for document in documents if document.pipeline_id == plan.pipeline_id]
            numbers = {row[0]: [*map(numbers_or_none, row[1:])] for row in db.all("written_rows", ids=ours)}
            written = written_rows(plan, db.documents("documents_by_id", ids=ours), [*numbers.values()])
            going = [one for one in written if is_withdrawable(plan, one)]
            if ids := [one.document.id for one in going]:
                with self._guarded_tx(db, "an undo") as tx:
                    undo(tx, going)
                name, detail = stored_name(who), decision_detail(reason, "cancelled")
                db.run("journal_decisions", ids=ids, verb="withdraw", who=name, detail=detail, code=code)
                staying = [encode_json(rows_that_stay(plan, numbers[number][0])) for number in ids]
                place = {"step_id": plan.first, "plan_id": plan.plan_id}
                why = {"reason": stored_reason(reason), "code": code}
                db.run("withdraw", withdrawn=Rows(id=ids, effects=staying), **place, **why)
            return ids

        return self._write(withdraw)

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
        def redrive(db: Session) -> list[int]:
            dead = [document for document in _locked(db, document_ids, ["dead"]) if not document.cleaned]
            steps = {document.pipeline_id: _current_steps(db, document.pipeline_id) for document in dead}
            ids = [document.id for document in dead if document.step_id in steps[document.pipeline_id]]
            if ids:
                detail = decision_detail(reason, "waiting")
                db.run("journal_decisions", ids=ids, verb="redrive", who=stored_name(who), detail=detail, code=code)
                db.run("redrive", dead=Rows(id=ids, nth=range(len(ids))), every=every, after=after)
            return ids

        return self._write(redrive)

    def redrive_items(
        self, plan: Plan, items: Mapping[int, Sequence[int]], *, step: str, who: str, reason: str
    ) -> dict[int, list[int]]:
        decision = {"reason": stored_reason(reason), "code": ITEMS_REDRIVEN, "who": stored_name(who), "to": step}

        def redrive(db: Session) -> dict[int, list[int]]:
            documents = _locked(db, [*items], REDRIVABLE)
            ours = [document for document in documents if document.pipeline_id == plan.pipeline_id]
            plans, steps = db.all("plans", pipeline_id=plan.pipeline_id), db.all("steps", pipeline_id=plan.pipeline_id)
            names = {number: name for name, number in steps}
            rules = ItemRedrive(plan, step, orders_of(plans), shapes_of(plans, names))
            allowed = [one for one in ours if rules.allows(one.place, one.state, one.code)]
            reopened = reopened_documents(db, rules, allowed, items)
            going = rewind_groups(rules.rewind, [one for one in allowed if one.id in reopened], [*names])
            self._rewind_into_step(db, rules.step_id, going, decision, reopened)
            self._repin(db, plan, rewound_places(going, rules.step_id))
            return {document_id: one.items for document_id, one in sorted(reopened.items())}

        return self._write(redrive)

    def _rewind_into_step(
        self,
        db: Session,
        step_id: int,
        groups: Sequence[RewindGroup],
        decision: dict[str, Any],
        reopened: Mapping[int, ReopenedDocument],
    ) -> None:
        """Rewind documents to a step, as new generations that begin with what the step kept."""
        why = {name: decision[name] for name in ("reason", "code")}
        for ids, reuses, serves, _ in groups:
            rows = Rows(id=ids, items=[encode_json(reopened[document_id].items) for document_id in ids])
            db.run("journal_redriven_items", redriven=rows, **decision)
            place = {"step_id": step_id, "plan_id": None, "reuses": reuses, "serves": serves}
            db.run("rewind_to", ids=ids, then="wait", **why, **place)
        if groups:
            ids = sorted(reopened)
            begun = [reopened[document_id].generation for document_id in ids]
            db.run("copy_items", documents=Rows(id=ids, generation=begun), step_id=step_id)
            db.run("copy_failed_items", items=staying_items(reopened), step_id=step_id)
            db.run("reopen_items", documents=reopened_rows(reopened), step_id=step_id)

    def accept(self, document_ids: Sequence[int], *, who: str, reason: str) -> list[int]:
        def unaccepted(db: Session) -> list[int]:
            dead = [document.id for document in _locked(db, document_ids, ["dead"])]
            return [row[0] for row in db.all("unaccepted", ids=dead)]

        return self._decide("accept", unaccepted, "dead", who=who, reason=reason)

    def prioritise(self, document_ids: Sequence[int], *, priority: int, who: str, reason: str) -> list[int]:
        def prioritise(db: Session) -> list[int]:
            groups: dict[tuple[State, int], list[int]] = defaultdict(list)
            for document in _locked(db, document_ids, [*OPEN_STATES, "dead"]):
                if document.priority != priority:
                    groups[document.state, document.priority].append(document.id)
            for (state, before), ids in groups.items():
                detail = decision_detail(reason, state, more={"from": before, "to": priority})
                db.run("journal_decisions", ids=ids, verb="prioritise", who=stored_name(who), detail=detail, code="")
                db.run("prioritise", ids=ids, priority=priority)
            return sorted(document_id for ids in groups.values() for document_id in ids)

        return self._write(prioritise)

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
        step_id = plan.step_ids[to]
        decision = {"reason": stored_reason(reason), "code": code, "then": then}

        def rewind_documents(db: Session) -> list[int]:
            rewind = Rewind(plan, to, orders_of(db.all("plans", pipeline_id=plan.pipeline_id)))
            documents = _locked(db, document_ids, STATES, at)
            ours = [document for document in documents if document.pipeline_id == plan.pipeline_id]
            steps = db.all("steps", pipeline_id=plan.pipeline_id)
            going = rewind_groups(rewind, ours, [number for _, number in steps])
            pin = plan.plan_id if rewind.restarts else None
            for ids, reuses, serves, _ in going:
                db.run("journal_rewinds", ids=ids, **decision, who=stored_name(who), to=to)
                place = {"step_id": step_id, "plan_id": pin, "reuses": reuses, "serves": serves}
                db.run("rewind_to", ids=ids, **decision, **place)
            if not rewind.restarts:
                gone_back = {document_id for group in going for document_id in group.ids}
                rewound = [document for document in ours if document.id in gone_back]
                db.run("set_extents", documents=rewound_extents(rewind, rewound))
                self._repin(db, plan, rewound_places(going, step_id))
            return ids_of(going)

        return self._write(rewind_documents)

    def _decide(
        self, verb: str, choose: Choose, state: State, *, who: str, reason: str, code: str = "", **more: Any
    ) -> list[int]:
        def decide(db: Session) -> list[int]:
            if ids := choose(db):
                name, detail = stored_name(who), decision_detail(reason, state)
                db.run("journal_decisions", ids=ids, verb=verb, who=name, detail=detail, code=code)
                db.run(verb, ids=ids, who=name, reason=stored_reason(reason), code=code, **more)
            return ids

        return self._write(decide)


def _in_states(ids: Sequence[int], states: Sequence[State], at: Mapping[int, int] | None = None) -> Choose:
    return lambda db: [document.id for document in _locked(db, ids, states, at)]


def _current_steps(db: Session, pipeline_id: int) -> list[int]:
    """Return the steps at which documents can go on: one that waited at another would keep workers from starting."""
    ((_, _, step_ids),) = db.all("current_plan", pipeline_id=pipeline_id)
    steps: list[int] = decode_json(step_ids)
    return steps


def _locked(
    db: Session, ids: Sequence[int], states: Sequence[State], at: Mapping[int, int] | None = None
) -> list[DecisionRow]:
    """Lock documents until the decision is made, and return those in these states, at these moves."""
    db.run_if_present("lock_pipelines", ids=[*ids])
    db.run_if_present("lock_batches", ids=[*ids])
    documents = [DecisionRow(*row) for row in db.all("lock_documents", ids=[*ids], states=[*states])]
    return [document for document in documents if at is None or at.get(document.id) == document.moves]
