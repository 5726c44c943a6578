"""Intake on SQL: pipelines are declared, documents submitted and renamed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from holdfast.core.codec import decode_json, encode_json
from holdfast.core.model import NewDocument, Plan, State, SubmitResult
from holdfast.core.plan import (
    CountAndKeys,
    Orders,
    Shape,
    refuse_if_reordered,
    refuse_if_sent_back,
    refuse_if_stranded,
    refuse_long_names,
    unknown_step,
)
from holdfast.core.reasons import DAMAGED, REORDERED, sentence
from holdfast.stores.protocol import RenameEffect
from holdfast.stores.rename_rules import Parts, Renames, keys_to_free, names_all, rename_detail, with_new_keys
from holdfast.stores.sql.base import Base, document_rows, insert_documents, open_batch, write_journal
from holdfast.stores.sql.dialect import MICROSECOND, Rows
from holdfast.stores.sql.row_codec import removed_steps
from holdfast.stores.sql.session import Row, Session
from holdfast.stores.submission import (
    CheckDone,
    UnchangedDocuments,
    classify,
    new_submission,
    refuse_bad_batch,
    refuse_if_sealed,
)


class Intake(Base):
    """Declare pipelines and submit documents."""

    def declare(self, shape: Shape) -> Plan:
        return self._write(lambda db: self._declare(db, shape))

    def check(self, shape: Shape) -> None:
        def judge(db: Session) -> None:
            self._declare(db, shape)
            raise CheckDone

        with suppress(CheckDone):
            self._write(judge)

    def _declare(self, db: Session, shape: Shape) -> Plan:
        refuse_long_names(shape)
        db.run("add_pipeline", name=shape.pipeline)
        pipeline_id = int(db.value("lock_pipeline", name=shape.pipeline))
        for old, new in shape.renamed.items():
            names = {"pipeline_id": pipeline_id, "old": old, "new": new}
            if db.run("rename_step", **names):
                db.run("rename_step_in_journal", **names)
        for name in shape.names:
            db.run("declare_step", pipeline_id=pipeline_id, name=name)
        orders, pinned = _orders(db, pipeline_id), partial(_pinned, db, pipeline_id)
        refuse_if_sent_back(shape, orders, pinned)
        moved: dict[int, Row] = {}
        for old, new in shape.renamed.items():
            moved |= {row[0]: row for row in db.all("move_to_step", pipeline_id=pipeline_id, old=old, new=new)}
        known: dict[str, int] = dict(db.all("steps", pipeline_id=pipeline_id))
        step_ids = {name: known[name] for name in shape.names}
        stranded = _stranded(db, pipeline_id, step_ids)
        if stranded.pop("", None):
            cause = {"pipeline_id": pipeline_id, "reason": unknown_step(shape), "code": DAMAGED}
            db.run("journal_unknown_steps", **cause)
            db.run("pause_unknown_steps", **cause)
        refuse_if_stranded(shape, stranded, orders)
        others = refuse_if_reordered(shape, orders, pinned)
        plan_id = db.value(
            "declare_plan",
            pipeline_id=pipeline_id,
            digest=shape.mark([*step_ids.values()]),
            shape=encode_json(shape),
            step_ids=encode_json([*step_ids.values()]),
            tick=MICROSECOND,
        )
        plan = Plan(shape.pipeline, pipeline_id, plan_id, step_ids, shape.kinds, removed_steps(known, step_ids))
        known_places = [row for row in moved.values() if row[1] not in others and row[2] in step_ids.values()]
        self._repin(db, plan, [(row[0], row[1], row[2]) for row in sorted(known_places)])
        if others:
            _restart_dead_letters(db, plan, others)
        return plan

    def submit(
        self, plan: Plan, batch: str, documents: Sequence[NewDocument], *, submission: int, part: int
    ) -> SubmitResult:
        def submit(db: Session) -> SubmitResult:
            return self._submit(db, plan, batch, documents, submission=submission, part=part, unchanged=self._unchanged)

        return self._write(submit)

    def _submit(
        self,
        db: Session,
        plan: Plan,
        batch: str,
        documents: Sequence[NewDocument],
        *,
        submission: int,
        part: int,
        unchanged: UnchangedDocuments,
    ) -> SubmitResult:
        refuse_bad_batch(batch)
        batch_id, state = open_batch(db, plan, batch)
        keys = [document.key for document in documents]
        known = {row[0]: row[1:] for row in db.all("known_documents", batch_id=batch_id, keys=keys)}
        new, changed, touched, same = classify(documents, known, unchanged, submission=submission, part=part)
        refuse_if_sealed(plan.pipeline, batch, state, brought=len(new) + len(changed))
        place = {
            "pipeline_id": plan.pipeline_id,
            "batch_id": batch_id,
            "plan_id": plan.plan_id,
            "step_id": plan.first,
            "submission": submission,
            "part": part,
        }
        if new:
            insert_documents(db, place, new)
        if changed:
            rows = document_rows(changed)
            db.run("journal_changed_documents", batch_id=batch_id, documents=rows)
            db.run("restart_changed_documents", **place, documents=rows)
        if touched and state == "open":  # the report of a sealed batch has a hash over its fingerprints
            ids, fingerprints = zip(*touched, strict=True)
            db.run("refresh_fingerprints", documents=Rows(id=[*ids], fingerprint=[*fingerprints]))
        return SubmitResult(len(new), len(changed), same)

    def _submit_within(self, db: Session, shape: Shape, batch: str, document: NewDocument) -> SubmitResult:
        refuse_bad_batch(batch)
        plan = self._chained_plan(db, shape)
        number = {"submission": new_submission(), "part": 0}
        return self._submit(db, plan, batch, [document], **number, unchanged=UnchangedDocuments())

    def submit_on_connection(
        self, connection: Any, shape: Shape, batch: str, parts: Iterable[Sequence[NewDocument]]
    ) -> SubmitResult:
        refuse_bad_batch(batch)
        submission, unchanged, result = new_submission(), UnchangedDocuments(), SubmitResult()
        self._declare_before_joining(connection, shape)
        with self._joined(connection) as db:
            plan = self._chained_plan(db, shape)
            for part, documents in enumerate(parts):
                number = {"submission": submission, "part": part}
                result += self._submit(db, plan, batch, documents, **number, unchanged=unchanged)
        return result

    def _declare_before_joining(self, connection: Any, shape: Shape) -> None:
        """Declare a pipeline before its documents are submitted on the connection of a caller, where that is possible.

        On SQLite it is not: the caller may hold the lock of the database already.
        """

    def _chained_plan(self, db: Session, shape: Shape) -> Plan:
        """Return the plan of a shape. Declare it within the transaction if no earlier transaction has."""
        name = encode_json(shape)
        plan = self._chained.get(name)
        if plan is not None:
            numbers = {"plan_id": plan.plan_id, "pipeline_id": plan.pipeline_id}
            if db.all("is_plan", **numbers, pipeline=shape.pipeline, digest=shape.mark([*plan.step_ids.values()])):
                return plan
        plan = self._chained[name] = self._declare(db, shape)
        return plan

    def rename(
        self,
        pipeline: str,
        batch: str,
        documents: Mapping[str, NewDocument],
        *,
        who: str,
        reason: str,
        code: str = "",
        effect: RenameEffect | None = None,
    ) -> list[str]:
        renames = Renames(documents)

        def rename(db: Session) -> list[str]:
            batch_id = _lock_batch(db, pipeline, batch)
            if batch_id is None:
                return []
            rows = db.all("lock_documents_by_key", batch_id=batch_id, keys=renames.keys)
            there = {key: (document_id, state) for key, document_id, state in rows}
            going = renames.possible(there)
            ids = {old: there[old][0] for old in going}
            _rename_in_manifest(db, batch_id, ids, going)
            details = [rename_detail(old, new.key, there[old][1], reason=reason) for old, new in going.items()]
            lines = zip(ids.values(), details, strict=True)
            write_journal(db, [(document_id, "rename", who, detail, code) for document_id, detail in lines])
            db.run("free_keys", ids=[ids[old] for old in keys_to_free(going)], aside=uuid4().hex)
            db.run("rename", documents=Rows(id=[*ids.values()], **document_rows([*going.values()]).columns))
            if effect:
                with self._guarded_tx(db, "the effect of a rename") as tx:
                    effect(tx, [*going])
            return [*going]

        return self._write(rename)


def _lock_batch(db: Session, pipeline: str, batch: str) -> int | None:
    """Lock a batch that is not closed: submits and renames take turns, so that no key is given twice."""
    row = db.first("find_batch", pipeline=pipeline, batch=batch)
    if row is None:
        return None
    ((batch_id, state),) = db.all("lock_batch", pipeline_id=row[1], name=batch)
    return None if state == "closed" else int(batch_id)


def _rename_in_manifest(db: Session, batch_id: int, ids: Mapping[str, int], going: Mapping[str, NewDocument]) -> None:
    parts = _parts(db.all("manifest_parts_of_documents", batch_id=batch_id, ids=[*ids.values()]))
    if not names_all(parts, going):
        parts = _parts(db.all("manifest_parts_with_keys", batch_id=batch_id, keys=[*ids]))
    rows = Rows(
        submission=[submission for submission, _, _ in parts],
        part=[part for _, part, _ in parts],
        keys=[encode_json(with_new_keys(keys, going)) for _, _, keys in parts],
    )
    db.run("update_manifest", batch_id=batch_id, parts=rows)


def _parts(rows: Sequence[Row]) -> Parts:
    return [(submission, part, decode_json(keys)) for submission, part, keys in rows]


def _stranded(db: Session, pipeline_id: int, step_ids: Mapping[str, int]) -> dict[str, CountAndKeys]:
    rows = db.all("stranded_documents", pipeline_id=pipeline_id, step_ids=[*step_ids.values()])
    return {name or "": (count, decode_json(keys)) for name, count, keys in rows}


def _orders(db: Session, pipeline_id: int) -> Orders:
    orders: dict[int, list[str]] = {}
    for plan_id, step in db.all("plan_orders", pipeline_id=pipeline_id):
        orders.setdefault(plan_id, []).append(step)
    return orders


def _pinned(
    db: Session, pipeline_id: int, plan_ids: Sequence[int], states: Sequence[State], step: str | None
) -> CountAndKeys:
    ((count, keys),) = db.all(
        "count_pinned", pipeline_id=pipeline_id, plan_ids=[*plan_ids], states=[*states], step=step
    )
    return count, decode_json(keys)


def _restart_dead_letters(db: Session, plan: Plan, others: Sequence[int]) -> None:
    place = {"pipeline_id": plan.pipeline_id, "others": [*others]}
    first = next(iter(plan.step_ids))
    db.run("journal_restarted_dead_letters", **place, first=first, reason=sentence(REORDERED), code=REORDERED)
    db.run("restart_dead_letters", **place, plan_id=plan.plan_id, step_id=plan.first)
