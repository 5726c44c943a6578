"""Decisions on PostgreSQL: what people say about documents, in the journal with name and reason."""

from __future__ import annotations

import msgspec

from holdfast.core.model import Plan
from holdfast.core.plan import Shape
from holdfast.stores.postgres.arrays import numbers
from holdfast.stores.postgres.base import SQL, Base, plain
from holdfast.stores.postgres.connection import Db
from holdfast.stores.postgres.ledger import standing


class Decisions(Base):
    """Does to documents what a person decided."""

    def resume(self, plan: Plan, document_id: int, *, who: str, reason: str) -> bool:
        now = self._now()
        asked = {"id": document_id, "now": now}

        def resume(db: Db) -> bool:
            db.execute(SQL["hold_document"], asked)
            row = db.execute(SQL["standing_by_id"], {"ids": numbers([document_id])}).fetchone()
            if row is None or row[7] != "paused":
                return False
            here, names = standing(row), list(plan.step_ids)
            self._write_journal(db, [(document_id, "resume", who, {"reason": reason})], now)
            place = names.index(here.checkpoint.step or "") + _is_gate(db, plan, here.checkpoint.step)
            if place == len(names):
                db.execute(SQL["finish_past_gate"], asked)
                db.execute(SQL["drop_items"], {"document_id": document_id})
            else:
                db.execute(SQL["resume"], asked | {"step_id": plan.step_ids[names[place]]})
            return True

        return self._db.writing(resume)

    def reject(self, document_id: int, *, who: str, reason: str) -> bool:
        return self._decide("reject", document_id, who=who, reason=reason)

    def cancel(self, document_id: int, *, who: str, reason: str) -> bool:
        return self._decide("cancel", document_id, who=who, reason=reason)

    def redrive(self, document_id: int, *, who: str, reason: str) -> bool:
        return self._decide("redrive", document_id, who=who, reason=reason)

    def _decide(self, verb: str, document_id: int, *, who: str, reason: str) -> bool:
        now = self._now()

        def decide(db: Db) -> bool:
            if db.execute(SQL[verb], {"id": document_id, "reason": plain(reason), "now": now}).rowcount != 1:
                return False
            self._write_journal(db, [(document_id, verb, who, {"reason": reason})], now)
            return True

        return self._db.writing(decide)


def _is_gate(db: Db, plan: Plan, step: str | None) -> bool:
    ((shape,),) = db.execute(SQL["plan"], {"plan_id": plan.plan_id}).fetchall()
    return any(one.kind == "gate" and one.name == step for one in msgspec.json.decode(shape, type=Shape).steps)
