"""Decisions on PostgreSQL: what people say about documents, in the journal with name and reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdfast.core.codec import decode_json
from holdfast.core.model import OPEN_STATES, STATES, Plan, State
from holdfast.stores.deciding import Deciding, after_gates, all_ids, at_gates, decisive, going_back, to_be_pinned
from holdfast.stores.postgres.arrays import numbers, texts
from holdfast.stores.postgres.base import SQL, Base, plain
from holdfast.stores.postgres.connection import Db
from holdfast.stores.rewinds import Rewinding, orders_of

Choose = Callable[[Db], list[int]]


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
        now = self._now()

        def resume(db: Db) -> list[int]:
            here = _deciding(db, document_ids, ["paused"], at)
            going = after_gates(plan, here)
            self._repin(db, plan, at_gates(plan, here))
            for step_id, ids in going.items():
                detail = decisive(reason, "waiting" if step_id else "done", answer)
                asked = {"ids": numbers(ids), "step_id": step_id, "now": now}
                lines = {"verb": "resume", "who": plain(who), "detail": detail}
                db.execute(SQL["write_decisions"], asked | lines)
                db.execute(SQL["resume" if step_id else "finish_past_gate"], asked)
                if not step_id:
                    db.execute(SQL["drop_items"], asked)
                    db.execute(SQL["drop_asides"], asked)
            return sorted(number for ids in going.values() for number in ids)

        return self._db.writing(resume)

    def reject(
        self, document_ids: Sequence[int], *, who: str, reason: str, at: Mapping[int, int] | None = None
    ) -> list[int]:
        return self._decide("reject", _those(document_ids, ["paused"], at), "dead", who=who, reason=reason)

    def pause(self, document_ids: Sequence[int], *, who: str, reason: str, until: datetime | None = None) -> list[int]:
        those = _those(document_ids, ["waiting", "running"])
        return self._decide("pause", those, "paused", who=who, reason=reason, until=until)

    def cancel(self, document_ids: Sequence[int], *, who: str, reason: str) -> list[int]:
        return self._decide("cancel", _those(document_ids, OPEN_STATES), "cancelled", who=who, reason=reason)

    def redrive(
        self,
        document_ids: Sequence[int],
        *,
        who: str,
        reason: str,
        every: timedelta = timedelta(0),
        after: timedelta = timedelta(0),
    ) -> list[int]:
        def kept(db: Db) -> list[int]:
            dead = [one for one in _deciding(db, document_ids, ["dead"]) if not one.cleaned]
            present = {one.pipeline_id: _present_steps(db, one.pipeline_id) for one in dead}
            return [one.id for one in dead if one.step_id in present[one.pipeline_id]]

        return self._decide("redrive", kept, "waiting", who=who, reason=reason, every=every, after=after)

    def accept(self, document_ids: Sequence[int], *, who: str, reason: str) -> list[int]:
        def not_accepted(db: Db) -> list[int]:
            dead = numbers([one.id for one in _deciding(db, document_ids, ["dead"])])
            return [row[0] for row in db.execute(SQL["not_accepted"], {"ids": dead}).fetchall()]

        return self._decide("accept", not_accepted, "dead", who=who, reason=reason)

    def prioritise(self, document_ids: Sequence[int], *, priority: int, who: str, reason: str) -> list[int]:
        now = self._now()

        def prioritise(db: Db) -> list[int]:
            groups: dict[tuple[State, int], list[int]] = defaultdict(list)
            for one in _deciding(db, document_ids, [*OPEN_STATES, "dead"]):
                if one.priority != priority:
                    groups[one.state, one.priority].append(one.id)
            for (state, before), some in groups.items():
                asked = {"ids": numbers(some), "priority": priority, "now": now}
                detail = decisive(reason, state, more={"from": before, "to": priority})
                lines = {"verb": "prioritise", "who": plain(who), "detail": detail}
                db.execute(SQL["write_decisions"], asked | lines)
                db.execute(SQL["prioritise"], asked)
            return sorted(number for some in groups.values() for number in some)

        return self._db.writing(prioritise)

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
        now = self._now()

        def rewind(db: Db) -> list[int]:
            plans = db.execute(SQL["plans"], {"pipeline_id": plan.pipeline_id}).fetchall()
            rewinding = Rewinding(plan, to, orders_of(plans))
            here = [one for one in _deciding(db, document_ids, STATES, at) if one.pipeline_id == plan.pipeline_id]
            steps = db.execute(SQL["steps"], {"pipeline_id": plan.pipeline_id}).fetchall()
            going = going_back(rewinding, here, [step_id for _, step_id in steps])
            asked = {
                "who": plain(who),
                "reason": plain(reason),
                "to": to,
                "parked": plain(parked),
                "state": "paused" if parked else "waiting",
                "step_id": plan.step_ids[to],
                "plan_id": plan.plan_id if rewinding.begins_anew else None,
                "now": now,
            }
            for ids, reuses, serves, _ in going:
                group = asked | {"ids": numbers(ids), "reuses": reuses, "serves": serves}
                db.execute(SQL["write_rewinds"], group)
                db.execute(SQL["rewind_to"], group)
            if not rewinding.begins_anew:
                self._repin(db, plan, to_be_pinned(going, plan.step_ids[to]))
            return all_ids(going)

        return self._db.writing(rewind)

    def _decide(self, verb: str, those: Choose, state: State, *, who: str, reason: str, **more: Any) -> list[int]:
        now = self._now()

        def decide(db: Db) -> list[int]:
            if ids := those(db):
                said = {"verb": verb, "who": plain(who), "reason": plain(reason), "now": now}
                asked = said | {"ids": numbers(ids)}
                db.execute(SQL["write_decisions"], asked | {"detail": decisive(reason, state)})
                db.execute(SQL[verb], asked | more)
            return ids

        return self._db.writing(decide)


def _those(ids: Sequence[int], states: Sequence[State], at: Mapping[int, int] | None = None) -> Choose:
    return lambda db: [one.id for one in _deciding(db, ids, states, at)]


def _present_steps(db: Db, pipeline_id: int) -> list[int]:
    """The steps at which documents can go on: one that waited at another would keep every worker from starting."""
    ((_, _, step_ids),) = db.execute(SQL["present_plan"], {"pipeline_id": pipeline_id}).fetchall()
    steps: list[int] = decode_json(step_ids)
    return steps


def _deciding(
    db: Db, ids: Sequence[int], states: Sequence[State], at: Mapping[int, int] | None = None
) -> list[Deciding]:
    asked = {"ids": numbers([*ids]), "states": texts(states)}
    db.execute(SQL["hold_pipelines"], asked)
    db.execute(SQL["hold_batches"], asked)
    here = [Deciding(*row) for row in db.execute(SQL["deciding"], asked).fetchall()]
    return [one for one in here if at is None or at.get(one.id) == one.moves]
