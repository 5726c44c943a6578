"""Decisions on SQLite: what people say about documents, in the journal with name and reason."""

from __future__ import annotations

from sqlite3 import Connection

import msgspec

from holdfast.core.model import Plan
from holdfast.core.plan import Shape
from holdfast.stores.sqlite.base import SQL, Base
from holdfast.stores.sqlite.ledger import standing


class Decisions(Base):
    """Does to documents what a person decided."""

    def resume(self, plan: Plan, document_id: int, *, who: str, reason: str) -> bool:
        with self._db.writing() as db:
            row = db.execute(SQL["standing_by_id"], {"id": document_id}).fetchone()
            if row is None or row[7] != "paused":
                return False
            here, names = standing(row), list(plan.step_ids)
            self._write_journal(db, document_id, "resume", who=who, now=self._now(), detail={"reason": reason})
            place = names.index(here.checkpoint.step or "") + _is_gate(db, plan, here.checkpoint.step)
            asked = {"id": document_id, "now": self._now()}
            if place == len(names):
                finished = db.execute(SQL["finish_past_gate"], asked).rowcount == 1
                db.execute(SQL["drop_items"], {"document_id": document_id})
                return finished
            return db.execute(SQL["resume"], asked | {"step_id": plan.step_ids[names[place]]}).rowcount == 1

    def reject(self, document_id: int, *, who: str, reason: str) -> bool:
        return self._decide("reject", document_id, who=who, reason=reason)

    def cancel(self, document_id: int, *, who: str, reason: str) -> bool:
        return self._decide("cancel", document_id, who=who, reason=reason)

    def redrive(self, document_id: int, *, who: str, reason: str) -> bool:
        return self._decide("redrive", document_id, who=who, reason=reason)

    def _decide(self, verb: str, document_id: int, *, who: str, reason: str) -> bool:
        now = self._now()
        with self._db.writing() as db:
            if db.execute(SQL[verb], {"id": document_id, "reason": reason, "now": now}).rowcount != 1:
                return False
            self._write_journal(db, document_id, verb, who=who, now=now, detail={"reason": reason})
            return True


def _is_gate(db: Connection, plan: Plan, step: str | None) -> bool:
    (shape,) = db.execute(SQL["plan"], {"plan_id": plan.plan_id}).fetchone()
    return any(one.kind == "gate" and one.name == step for one in msgspec.json.decode(shape, type=Shape).steps)
