"""Intake on SQLite: pipelines are declared, documents submitted, batches sealed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from sqlite3 import Connection
from uuid import uuid4

from holdfast.core.codec import checked_json, decode_json, encode_json
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
from holdfast.stores.protocol import RenameEffect
from holdfast.stores.renaming import Renaming, in_the_way, line_of, names_all, with_new_names
from holdfast.stores.sqlite.base import SQL, Base, rows_of
from holdfast.stores.sqlite.connection import Tx


class Intake(Base):
    """Takes documents in."""

    def declare(self, shape: Shape) -> Plan:
        with self._db.writing() as db:
            return self._declare(db, shape)

    def check(self, shape: Shape) -> None:
        with suppress(Judged), self._db.writing() as db:
            self._declare(db, shape)
            raise Judged

    def _declare(self, db: Connection, shape: Shape) -> Plan:
        now = self._now()
        db.execute(SQL["declare_pipeline"], {"name": shape.pipeline})
        (pipeline_id,) = db.execute("select id from hf_pipeline where name = ?", (shape.pipeline,)).fetchone()
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
        known = dict(db.execute(SQL["steps"], {"pipeline_id": pipeline_id}).fetchall())
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
        (plan_id,) = db.execute(SQL["declare_plan"], remembered).fetchone()
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
        with self._db.writing() as db:
            batch_id, state = self._open_batch(db, plan, batch)
            keys = encode_json([document.key for document in documents])
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
                "now": self._now(),
            }
            if new:
                self._take_in(db, place, new)
            if changed:
                rows = rows_of(changed)
                db.execute(SQL["journal_changes"], {"batch_id": batch_id, "now": place["now"], "documents": rows})
                db.execute(SQL["change_documents"], place | {"documents": rows})
        return Receipt(len(new), len(changed), unchanged)

    def _open_batch(self, db: Connection, plan: Plan, batch: str) -> tuple[int, str]:
        named = {"pipeline_id": plan.pipeline_id, "name": batch}
        db.execute(SQL["open_batch"], named | {"now": self._now()})
        batch_id, state = db.execute(SQL["batch"], named).fetchone()
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
        with self._db.writing() as db:
            named = db.execute(SQL["find_batch"], {"pipeline": pipeline, "batch": batch}).fetchone()
            if named is None or named[2] == "closed":
                return []
            asked = {"batch_id": named[0], "keys": encode_json(renaming.keys)}
            there = {key: (number, state) for key, number, state in db.execute(SQL["renaming"], asked).fetchall()}
            going = renaming.among(there)
            _rename_in_manifest(db, named[0], {old: there[old][0] for old in going}, going)
            for old, one in going.items():
                number, state = there[old]
                detail = line_of(old, one.key, state, reason=reason)
                self._write_journal(db, number, "rename", who=who, now=now, detail=detail)
            leaving = encode_json([there[old][0] for old in in_the_way(going)])
            db.execute(SQL["leave_keys"], {"ids": leaving, "aside": uuid4().hex})
            db.execute(SQL["rename"], {"documents": _renamed(there, going)})
            if effect:
                effect(Tx(db, self.url), [*going])
        return [*going]


def _renamed(there: Mapping[str, tuple[int, State]], going: Mapping[str, NewDocument]) -> str:
    rows = [
        (there[old][0], one.key, checked_json(one.payload, f"the payload of {one.key!r}"), one.fingerprint)
        for old, one in going.items()
    ]
    return encode_json(rows)


def _rename_in_manifest(
    db: Connection, batch_id: int, ids: Mapping[str, int], going: Mapping[str, NewDocument]
) -> None:
    asked = {"batch_id": batch_id, "ids": encode_json([*ids.values()]), "keys": encode_json([*ids])}
    parts = [(*place, decode_json(keys)) for *place, keys in db.execute(SQL["manifest_of"], asked).fetchall()]
    if not names_all(parts, going):
        parts = [(*place, decode_json(keys)) for *place, keys in db.execute(SQL["manifest_naming"], asked).fetchall()]
    rows = [
        {"batch_id": batch_id, "submission": submission, "part": part, "keys": encode_json(with_new_names(keys, going))}
        for submission, part, keys in parts
    ]
    db.executemany(SQL["rename_in_manifest"], rows)


def _stranded(db: Connection, pipeline_id: int, step_ids: dict[str, int]) -> dict[str, Crowd]:
    known = {"pipeline_id": pipeline_id, "step_ids": encode_json(list(step_ids.values()))}
    return {
        name or "": (count, decode_json(keys)) for name, count, keys in db.execute(SQL["stranded"], known).fetchall()
    }


def _park_lost(db: Connection, pipeline_id: int, shape: Shape, now: int) -> None:
    asked = {"pipeline_id": pipeline_id, "reason": lost(shape), "now": now}
    db.execute(SQL["journal_lost"], asked)
    db.execute(SQL["park_lost"], asked)


def _orders(db: Connection, pipeline_id: int) -> Orders:
    orders: dict[int, list[str]] = {}
    for plan_id, step in db.execute(SQL["orders"], {"pipeline_id": pipeline_id}).fetchall():
        orders.setdefault(plan_id, []).append(step)
    return orders


def _pinned(
    db: Connection, pipeline_id: int, plan_ids: Sequence[int], states: Sequence[State], step: str | None
) -> Crowd:
    asked = {"plan_ids": encode_json(list(plan_ids)), "states": encode_json(list(states)), "step": step}
    count, keys = db.execute(SQL["pinned"], asked | {"pipeline_id": pipeline_id}).fetchone()
    return count, decode_json(keys)


def _begin_dead_letters_anew(db: Connection, plan: Plan, others: Sequence[int], now: int) -> None:
    asked = {
        "pipeline_id": plan.pipeline_id,
        "plan_id": plan.plan_id,
        "others": encode_json(list(others)),
        "step_id": plan.first,
        "first": next(iter(plan.step_ids)),
        "reason": REORDERED,
        "now": now,
    }
    db.execute(SQL["journal_dead_anew"], asked)
    db.execute(SQL["begin_dead_anew"], asked)
