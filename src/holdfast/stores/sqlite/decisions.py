"""Decisions on SQLite: what people say about documents, in the journal with name and reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from sqlite3 import Connection
from typing import Any

from holdfast.core.codec import decode_json, encode_json
from holdfast.core.model import OPEN_STATES, STATES, Plan, State
from holdfast.stores.deciding import Deciding, after_gates, all_ids, at_gates, decisive, going_back, to_be_pinned
from holdfast.stores.rewinds import Rewinding, orders_of
from holdfast.stores.sqlite.base import MICROSECOND, SQL, Base, micros


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
        with self._db.writing() as db:
            here = _deciding(db, document_ids, ["paused"], at)
            going = after_gates(plan, here)
            self._repin(db, plan, at_gates(plan, here))
            for step_id, ids in going.items():
                detail = decisive(reason, "waiting" if step_id else "done", answer)
                asked = {"ids": encode_json(ids), "step_id": step_id, "now": now}
                db.execute(SQL["write_decisions"], asked | {"verb": "resume", "who": who, "detail": detail})
                db.execute(SQL["resume" if step_id else "finish_past_gate"], asked)
                if not step_id:
                    _drop_earlier_generations(db, ids)
        return sorted(number for ids in going.values() for number in ids)

    def reject(
        self, document_ids: Sequence[int], *, who: str, reason: str, at: Mapping[int, int] | None = None
    ) -> list[int]:
        with self._db.writing() as db:
            ids = [one.id for one in _deciding(db, document_ids, ["paused"], at)]
            self._decide(db, "reject", ids, "dead", who=who, reason=reason)
        return ids

    def pause(self, document_ids: Sequence[int], *, who: str, reason: str, until: datetime | None = None) -> list[int]:
        with self._db.writing() as db:
            ids = [one.id for one in _deciding(db, document_ids, ["waiting", "running"])]
            self._decide(db, "pause", ids, "paused", who=who, reason=reason, until=micros(until) if until else None)
        return ids

    def cancel(self, document_ids: Sequence[int], *, who: str, reason: str) -> list[int]:
        with self._db.writing() as db:
            ids = [one.id for one in _deciding(db, document_ids, OPEN_STATES)]
            self._decide(db, "cancel", ids, "cancelled", who=who, reason=reason)
        return ids

    def redrive(
        self,
        document_ids: Sequence[int],
        *,
        who: str,
        reason: str,
        every: timedelta = timedelta(0),
        after: timedelta = timedelta(0),
    ) -> list[int]:
        rate = {"every": every // MICROSECOND, "after": after // MICROSECOND}
        with self._db.writing() as db:
            dead = [one for one in _deciding(db, document_ids, ["dead"]) if not one.cleaned]
            present = {one.pipeline_id: _present_steps(db, one.pipeline_id) for one in dead}
            ids = [one.id for one in dead if one.step_id in present[one.pipeline_id]]
            self._decide(db, "redrive", ids, "waiting", who=who, reason=reason, **rate)
        return ids

    def accept(self, document_ids: Sequence[int], *, who: str, reason: str) -> list[int]:
        with self._db.writing() as db:
            dead = [one.id for one in _deciding(db, document_ids, ["dead"])]
            ids = [row[0] for row in db.execute(SQL["not_accepted"], {"ids": encode_json(dead)}).fetchall()]
            self._decide(db, "accept", ids, "dead", who=who, reason=reason)
        return ids

    def prioritise(self, document_ids: Sequence[int], *, priority: int, who: str, reason: str) -> list[int]:
        now = self._now()
        with self._db.writing() as db:
            groups: dict[tuple[State, int], list[int]] = defaultdict(list)
            for one in _deciding(db, document_ids, [*OPEN_STATES, "dead"]):
                if one.priority != priority:
                    groups[one.state, one.priority].append(one.id)
            for (state, before), some in groups.items():
                asked = {"ids": encode_json(some), "priority": priority, "now": now}
                detail = decisive(reason, state, more={"from": before, "to": priority})
                db.execute(SQL["write_decisions"], asked | {"verb": "prioritise", "who": who, "detail": detail})
                db.execute(SQL["prioritise"], asked)
        return sorted(number for some in groups.values() for number in some)

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
        with self._db.writing() as db:
            plans = db.execute(SQL["plans"], {"pipeline_id": plan.pipeline_id}).fetchall()
            rewinding = Rewinding(plan, to, orders_of(plans))
            here = [one for one in _deciding(db, document_ids, STATES, at) if one.pipeline_id == plan.pipeline_id]
            steps = db.execute(SQL["steps"], {"pipeline_id": plan.pipeline_id}).fetchall()
            going = going_back(rewinding, here, [step_id for _, step_id in steps])
            asked = {
                "who": who,
                "reason": reason,
                "to": to,
                "parked": parked,
                "state": "paused" if parked else "waiting",
                "due_at": None if parked else now,
                "step_id": plan.step_ids[to],
                "plan_id": plan.plan_id if rewinding.begins_anew else None,
                "now": now,
            }
            for ids, reuses, serves, _ in going:
                group = asked | {"ids": encode_json(ids), "reuses": reuses, "serves": serves}
                db.execute(SQL["write_rewinds"], group)
                db.execute(SQL["rewind_to"], group)
            if not rewinding.begins_anew:
                self._repin(db, plan, to_be_pinned(going, plan.step_ids[to]))
        return all_ids(going)

    def _decide(
        self, db: Connection, verb: str, ids: list[int], state: State, *, who: str, reason: str, **more: Any
    ) -> None:
        if ids:
            asked = {"ids": encode_json(ids), "verb": verb, "who": who, "reason": reason, "now": self._now()}
            db.execute(SQL["write_decisions"], asked | {"detail": decisive(reason, state)})
            db.execute(SQL[verb], asked | more)


def _present_steps(db: Connection, pipeline_id: int) -> list[int]:
    """The steps at which documents can go on: one that waited at another would keep every worker from starting."""
    _, _, step_ids = db.execute(SQL["present_plan"], {"pipeline_id": pipeline_id}).fetchone()
    steps: list[int] = decode_json(step_ids)
    return steps


def _deciding(
    db: Connection, ids: Sequence[int], states: Sequence[State], at: Mapping[int, int] | None = None
) -> list[Deciding]:
    asked = {"ids": encode_json([*ids]), "states": encode_json([*states])}
    here = [Deciding(*row) for row in db.execute(SQL["deciding"], asked).fetchall()]
    return [one for one in here if at is None or at.get(one.id) == one.moves]


def _drop_earlier_generations(db: Connection, ids: Sequence[int]) -> None:
    db.executemany(SQL["drop_items"], [{"document_id": number} for number in ids])
    db.executemany(SQL["drop_asides"], [{"document_id": number} for number in ids])
