"""Capsules on SQLite: an empty file takes in one document, with all that was known of it elsewhere."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from sqlite3 import Connection
from typing import Any

from holdfast.core.capsule import Capsule, PackedEntry
from holdfast.core.codec import encode_json
from holdfast.core.errors import CapsuleError
from holdfast.core.model import Checkpoint, Claim, Plan, State
from holdfast.core.moves import Move
from holdfast.stores.sqlite.base import SQL, Base, micros
from holdfast.stores.sqlite.changes import Changes


class Capsules(Base):
    """Takes in what was packed elsewhere. Only an empty store does: a document is never laid over another."""

    def load(self, capsule: Capsule, *, who: str) -> int:
        """Makes the document of a capsule this store's only one, in one transaction. Answers its number.

        A document that was running waits: its worker did not come along. Raises CapsuleError unless the store is empty.
        """
        with self._db.writing() as db:
            if not db.execute(SQL["is_empty"]).fetchone()[0]:
                raise CapsuleError(
                    f"{self.url} is not empty, and a capsule is loaded into an empty store: name a new file, such as "
                    "--store sqlite:///capsule.db"
                )
            plan = self._know(db, capsule)
            document_id = self._load_document(db, plan, capsule)
            self._keep_all(db, plan, capsule, document_id)
            db.executemany(SQL["load_journal"], [_line(document_id, line) for line in capsule.journal])
            detail = {"reason": _origin(capsule), "was": capsule.document.state, "state": _state(capsule)}
            self._write_journal(db, document_id, "load", who=who, now=self._now(), detail=detail)
        return document_id

    def _know(self, db: Connection, capsule: Capsule) -> Plan:
        """Makes the pipeline known, with all steps that the capsule speaks of, also those that its plan lacks."""
        shape = capsule.plan
        db.execute(SQL["declare_pipeline"], {"name": shape.pipeline})
        (pipeline_id,) = db.execute("select id from hf_pipeline where name = ?", (shape.pipeline,)).fetchone()
        for name in capsule.steps:
            db.execute(SQL["declare_step"], {"pipeline_id": pipeline_id, "name": name})
        step_ids = dict(db.execute(SQL["steps"], {"pipeline_id": pipeline_id}).fetchall())
        remembered = {
            "pipeline_id": pipeline_id,
            "digest": shape.digest(),
            "shape": encode_json(shape),
            "step_ids": encode_json([step_ids[name] for name in shape.names]),
            "now": self._now(),
        }
        (plan_id,) = db.execute(SQL["declare_plan"], remembered).fetchone()
        return Plan(shape.pipeline, pipeline_id, plan_id, step_ids)

    def _load_document(self, db: Connection, plan: Plan, capsule: Capsule) -> int:
        one = capsule.document
        named = {"pipeline_id": plan.pipeline_id, "name": one.batch}
        db.execute(SQL["open_batch"], named | {"now": self._now()})
        batch_id, _ = db.execute(SQL["batch"], named).fetchone()
        db.execute(SQL["expect"], {"batch_id": batch_id, "count": 1})
        was_running = one.state == "running"
        row: dict[str, Any] = {
            "pipeline_id": plan.pipeline_id,
            "batch_id": batch_id,
            "plan_id": plan.plan_id,
            "submission": int.from_bytes(os.urandom(8)) >> 2,
            "key": one.key,
            "payload": encode_json(one.payload),
            "fingerprint": one.fingerprint,
            "priority": one.priority,
            "state": _state(capsule),
            "generation": one.generation,
            "step_id": None if one.step is None else plan.step_ids[one.step],
            "cursor": _json(one.cursor),
            "moves": one.moves,
            "attempts": max(one.attempts - was_running, 0),  # an interruption is not an attempt
            "crashes": one.crashes,
            "due_at": micros(one.submitted_at) if was_running else _micros(one.due_at),
            "claimed_at": _micros(one.claimed_at),
            "reason": one.reason,
            "error": one.error,
            "accepted_by": one.accepted_by or None,
            "reuses": _json({plan.step_ids[step]: made for step, made in one.reuses.items()} or None),
            "submitted_at": micros(one.submitted_at),
            "moved_at": micros(one.moved_at),
            "cleaned_at": _micros(one.cleaned_at),
        }
        db.execute(SQL["load_manifest"], row)
        return int(db.execute(SQL["load_document"], row).fetchone()[0])

    def _keep_all(self, db: Connection, plan: Plan, capsule: Capsule, document_id: int) -> None:
        """Keeps what steps kept, as commits would: big values as blobs, neighbours in one row."""
        kept = {one.step: (one.first_at, one.last_at) for one in capsule.outputs}
        for step in capsule.steps:
            first_at, last_at = kept.get(step, (capsule.document.moved_at,) * 2)
            items, asides = capsule.items_of(step), capsule.asides_of(step)
            at = Checkpoint(capsule.generation_of(step), step, None, 0)
            claim = Claim(document_id, 0, "", "", None, "", at, 0, 0, timedelta(0))
            self._keep_at(db, plan, Move(claim, at, at, items=items[:1]), first_at)
            self._keep_at(db, plan, Move(claim, at, at, items=items[1:], asides=asides), last_at)

    def _keep_at(self, db: Connection, plan: Plan, move: Move, at: datetime) -> None:
        for statement in Changes(plan, [move], micros(at)).keeping:
            db.execute(*statement)


def _state(capsule: Capsule) -> State:
    return "waiting" if capsule.document.state == "running" else capsule.document.state


def _origin(capsule: Capsule) -> str:
    return f"from a capsule that holdfast {capsule.holdfast} packed at {capsule.packed_at:%Y-%m-%d %H:%M:%S %Z}"


def _line(document_id: int, line: PackedEntry) -> tuple[Any, ...]:
    place = (line.generation, line.step, _json(line.cursor), _json(line.detail))
    return document_id, micros(line.at), line.verb, line.who, *place


def _json(value: Any) -> str | None:
    return None if value is None else encode_json(value)


def _micros(at: datetime | None) -> int | None:
    return None if at is None else micros(at)
