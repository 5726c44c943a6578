"""Intake on PostgreSQL: pipelines are declared, documents submitted, batches sealed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from uuid import uuid4

from holdfast.core.codec import decode_json, encode_json
from holdfast.core.model import NewDocument, Plan, Receipt, State
from holdfast.core.plan import (
    REORDERED,
    Crowd,
    Orders,
    Shape,
    lost,
    refuse_if_reordered,
    refuse_if_sent_back,
    refuse_if_stranded,
)
from holdfast.stores.parts import Judged, refuse_bad_batch, refuse_if_sealed, sort_out
from holdfast.stores.postgres.arrays import numbers, texts
from holdfast.stores.postgres.base import SQL, Base, columns_of
from holdfast.stores.postgres.connection import Db
from holdfast.stores.postgres.transaction import Tx
from holdfast.stores.protocol import RenameEffect
from holdfast.stores.renaming import Renaming, in_the_way, line_of, names_all, with_new_names


class Intake(Base):
    """Takes documents in."""

    def declare(self, shape: Shape) -> Plan:
        return self._db.writing(lambda db: self._declare(db, shape))

    def check(self, shape: Shape) -> None:
        def judge(db: Db) -> None:
            self._declare(db, shape)
            raise Judged

        with suppress(Judged):
            self._db.writing(judge)

    def _declare(self, db: Db, shape: Shape) -> Plan:
        now = self._now()
        ((pipeline_id,),) = db.execute(SQL["declare_pipeline"], {"name": shape.pipeline}).fetchall()
        for old, new in shape.renamed.items():
            names = {"pipeline_id": pipeline_id, "old": old, "new": new}
            if db.execute(SQL["rename_step"], names).rowcount:
                db.execute(SQL["rename_in_journal"], names)
        for name in shape.names:
            db.execute(SQL["declare_step"], {"pipeline_id": pipeline_id, "name": name})
        orders, pinned = _orders(db, pipeline_id), partial(_pinned, db, pipeline_id)
        refuse_if_sent_back(shape, orders, pinned)
        moved: dict[int, tuple[int, int, int]] = {}
        for old, new in shape.renamed.items():
            rows = db.execute(SQL["move_to_step"], {"pipeline_id": pipeline_id, "old": old, "new": new}).fetchall()
            moved |= {row[0]: row for row in rows}
        known: dict[str, int] = dict(db.execute(SQL["steps"], {"pipeline_id": pipeline_id}).fetchall())
        step_ids = {name: known[name] for name in shape.names}
        stranded = _stranded(db, pipeline_id, step_ids)
        if stranded.pop("", None):
            _park_lost(db, pipeline_id, shape, now)
        refuse_if_stranded(shape, stranded, orders)
        others = refuse_if_reordered(shape, orders, pinned)
        remembered = {
            "pipeline_id": pipeline_id,
            "digest": shape.mark([*step_ids.values()]),
            "shape": encode_json(shape),
            "step_ids": encode_json(list(step_ids.values())),
            "now": now,
        }
        ((plan_id,),) = db.execute(SQL["declare_plan"], remembered).fetchall()
        plan = Plan(shape.pipeline, pipeline_id, plan_id, step_ids, shape.gates)
        known_places = [one for one in moved.values() if one[1] not in others and one[2] in step_ids.values()]
        self._repin(db, plan, sorted(known_places))
        if others:
            _begin_dead_letters_anew(db, plan, others, now)
        return plan

    def submit(
        self, plan: Plan, batch: str, documents: Sequence[NewDocument], *, submission: int, part: int
    ) -> Receipt:
        refuse_bad_batch(batch)
        now = self._now()

        def submit(db: Db) -> Receipt:
            batch_id, state = self._open_batch(db, plan, batch)
            keys = texts([document.key for document in documents])
            known = {
                row[0]: row[1:] for row in db.execute(SQL["find_keys"], {"batch_id": batch_id, "keys": keys}).fetchall()
            }
            new, changed, unchanged = sort_out(documents, known, self._unchanged, submission=submission, part=part)
            refuse_if_sealed(plan.pipeline, batch, state, brought=len(new) + len(changed))
            place = {
                "pipeline_id": plan.pipeline_id,
                "batch_id": batch_id,
                "plan_id": plan.plan_id,
                "step_id": plan.first,
                "submission": submission,
                "part": part,
                "now": now,
            }
            if new:
                self._take_in(db, place, new)
            if changed:
                columns = columns_of(changed)
                db.execute(SQL["journal_changes"], place | columns)
                db.execute(SQL["change_documents"], place | columns)
            return Receipt(len(new), len(changed), unchanged)

        return self._db.writing(submit)

    def _open_batch(self, db: Db, plan: Plan, batch: str) -> tuple[int, str]:
        named = {"pipeline_id": plan.pipeline_id, "name": batch}
        db.execute(SQL["open_batch"], named | {"now": self._now()})
        ((batch_id, state),) = db.execute(SQL["batch"], named).fetchall()
        return int(batch_id), state

    def rename(
        self,
        pipeline: str,
        batch: str,
        documents: Mapping[str, NewDocument],
        *,
        who: str,
        reason: str,
        effect: RenameEffect | None = None,
    ) -> list[str]:
        now, renaming = self._now(), Renaming(documents)

        def rename(db: Db) -> list[str]:
            batch_id = _hold_batch(db, pipeline, batch)
            if batch_id is None:
                return []
            asked = {"batch_id": batch_id, "keys": texts(renaming.keys)}
            there = {key: (number, state) for key, number, state in db.execute(SQL["renaming"], asked).fetchall()}
            going = renaming.among(there)
            ids = {old: there[old][0] for old in going}
            _rename_in_manifest(db, batch_id, ids, going)
            lines = [line_of(old, one.key, there[old][1], reason=reason) for old, one in going.items()]
            told = [(number, "rename", who, line) for number, line in zip(ids.values(), lines, strict=True)]
            self._write_journal(db, told, now)
            leaving = numbers([ids[old] for old in in_the_way(going)])
            db.execute(SQL["leave_keys"], {"ids": leaving, "aside": uuid4().hex})
            db.execute(SQL["rename"], columns_of([*going.values()]) | {"ids": numbers([*ids.values()])})
            if effect:
                effect(Tx(db, self._db.name), [*going])
            return [*going]

        return self._db.writing(rename)


def _hold_batch(db: Db, pipeline: str, batch: str) -> int | None:
    """Holds a batch that is not closed: submits and renames take turns, so no key is given twice."""
    for batch_id, pipeline_id, *_ in db.execute(SQL["find_batch"], {"pipeline": pipeline, "batch": batch}).fetchall():
        ((_, state),) = db.execute(SQL["batch"], {"pipeline_id": pipeline_id, "name": batch}).fetchall()
        return None if state == "closed" else int(batch_id)
    return None


def _rename_in_manifest(db: Db, batch_id: int, ids: Mapping[str, int], going: Mapping[str, NewDocument]) -> None:
    asked = {"batch_id": batch_id, "ids": numbers([*ids.values()]), "keys": texts([*ids])}
    parts = [(*place, decode_json(keys)) for *place, keys in db.execute(SQL["manifest_of"], asked).fetchall()]
    if not names_all(parts, going):
        parts = [(*place, decode_json(keys)) for *place, keys in db.execute(SQL["manifest_naming"], asked).fetchall()]
    columns = {
        "submissions": numbers([submission for submission, _, _ in parts]),
        "parts": numbers([part for _, part, _ in parts]),
        "keys": texts([encode_json(with_new_names(keys, going)) for _, _, keys in parts]),
    }
    db.execute(SQL["rename_in_manifest"], columns | {"batch_id": batch_id})


def _stranded(db: Db, pipeline_id: int, step_ids: dict[str, int]) -> dict[str, Crowd]:
    known = {"pipeline_id": pipeline_id, "step_ids": numbers([*step_ids.values()])}
    return {name or "": (count, keys) for name, count, keys in db.execute(SQL["stranded"], known).fetchall()}


def _park_lost(db: Db, pipeline_id: int, shape: Shape, now: datetime | None) -> None:
    asked = {"pipeline_id": pipeline_id, "reason": lost(shape), "now": now}
    db.execute(SQL["journal_lost"], asked)
    db.execute(SQL["park_lost"], asked)


def _orders(db: Db, pipeline_id: int) -> Orders:
    orders: dict[int, list[str]] = {}
    for plan_id, step in db.execute(SQL["orders"], {"pipeline_id": pipeline_id}).fetchall():
        orders.setdefault(plan_id, []).append(step)
    return orders


def _pinned(db: Db, pipeline_id: int, plan_ids: Sequence[int], states: Sequence[State], step: str | None) -> Crowd:
    asked = {"plan_ids": numbers(plan_ids), "states": texts(states), "step": step}
    ((count, keys),) = db.execute(SQL["pinned"], asked | {"pipeline_id": pipeline_id}).fetchall()
    return count, keys


def _begin_dead_letters_anew(db: Db, plan: Plan, others: Sequence[int], now: datetime | None) -> None:
    asked = {
        "pipeline_id": plan.pipeline_id,
        "plan_id": plan.plan_id,
        "others": numbers(others),
        "step_id": plan.first,
        "first": next(iter(plan.step_ids)),
        "reason": REORDERED,
        "now": now,
    }
    db.execute(SQL["journal_dead_anew"], asked)
    db.execute(SQL["begin_dead_anew"], asked)
