"""Capsule import on SQLite: an empty file takes in one document, with all that another store knew of it."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import Any

from holdfast.core.capsule import Capsule, PackedEntry
from holdfast.core.codec import encode_json
from holdfast.core.errors import CapsuleError
from holdfast.core.extents import UNKNOWN
from holdfast.core.model import Checkpoint, Claim, Plan, State
from holdfast.core.moves import Move
from holdfast.stores.sql.base import open_batch, write_journal
from holdfast.stores.sql.dialect import MICROSECOND
from holdfast.stores.sql.session import Session
from holdfast.stores.sqlite.base import SqliteBase
from holdfast.stores.sqlite.commit import CommitStatements
from holdfast.stores.sqlite.dialect import micros

UNKNOWN_EXTENTS = encode_json({UNKNOWN: 1})
"""A capsule does not say what its steps recorded."""


class CapsuleImport(SqliteBase):
    """Import a document from a capsule. Only into an empty store, so that it replaces no other document."""

    def load(self, capsule: Capsule, *, who: str) -> int:
        """Make the document of a capsule the only one of this store, in one transaction.

        A document that was running waits: its worker did not come with it.

        Args:
            capsule: What another store knew of the document.
            who: The name for the journal.

        Returns:
            The id of the document.

        Raises:
            CapsuleError: The store is not empty.
        """

        def load(db: Session) -> int:
            if not db.value("is_empty"):
                raise CapsuleError(
                    f"{self.url} is not empty, and a capsule is loaded into an empty store: name a new file, such as "
                    "--store sqlite:///capsule.db"
                )
            plan = self._declare_capsule(db, capsule)
            document_id = self._import_document(db, plan, capsule)
            self._keep_all(db, plan, capsule, document_id)
            for entry in capsule.journal:
                db.run("import_journal", **_entry(document_id, entry))
            detail = {"reason": _origin(capsule), "was": capsule.document.state, "state": _state(capsule)}
            write_journal(db, [(document_id, "load", who, detail, "")])
            return document_id

        return self._write(load)

    def _declare_capsule(self, db: Session, capsule: Capsule) -> Plan:
        """Declare the pipeline, with all steps that the capsule mentions, also those that its plan lacks."""
        shape = capsule.plan
        db.run("add_pipeline", name=shape.pipeline)
        pipeline_id = int(db.value("lock_pipeline", name=shape.pipeline))
        for name in capsule.steps:
            db.run("declare_step", pipeline_id=pipeline_id, name=name)
        step_ids: dict[str, int] = dict(db.all("steps", pipeline_id=pipeline_id))
        plan_id = db.value(
            "declare_plan",
            pipeline_id=pipeline_id,
            digest=shape.digest(),
            shape=encode_json(shape),
            step_ids=encode_json([step_ids[name] for name in shape.names]),
            tick=MICROSECOND,
        )
        return Plan(shape.pipeline, pipeline_id, plan_id, step_ids)

    def _import_document(self, db: Session, plan: Plan, capsule: Capsule) -> int:
        packed = capsule.document
        batch_id, _ = open_batch(db, plan, packed.batch)
        db.run("add_expected", batch_id=batch_id, count=1)
        was_running = packed.state == "running"
        row: dict[str, Any] = {
            "pipeline_id": plan.pipeline_id,
            "batch_id": batch_id,
            "plan_id": plan.plan_id,
            "submission": int.from_bytes(os.urandom(8)) >> 2,
            "key": packed.key,
            "payload": encode_json(packed.payload),
            "fingerprint": packed.fingerprint,
            "priority": packed.priority,
            "state": _state(capsule),
            "generation": packed.generation,
            "step_id": None if packed.step is None else plan.step_ids[packed.step],
            "cursor": _json(packed.cursor),
            "moves": packed.moves,
            "attempts": max(packed.attempts - was_running, 0),  # an interruption is not an attempt
            "crashes": packed.crashes,
            "losses": packed.losses,
            "deferrals": packed.deferrals,
            "interruptions": packed.interruptions,
            "due_at": packed.submitted_at if was_running else packed.due_at,
            "claimed_at": packed.claimed_at,
            "reason": packed.reason,
            "code": packed.code,
            "error": packed.error,
            "accepted_by": packed.accepted_by or None,
            "reuses": _json({plan.step_ids[step]: made for step, made in packed.reuses.items()} or None),
            "extents": UNKNOWN_EXTENTS if packed.moves else None,
            "submitted_at": packed.submitted_at,
            "moved_at": packed.moved_at,
            "cleaned_at": packed.cleaned_at,
        }
        db.run("import_manifest", **row)
        return int(db.value("import_document", **row))

    def _keep_all(self, db: Session, plan: Plan, capsule: Capsule, document_id: int) -> None:
        """Store what steps kept, as commits do: large values as blobs, neighbours in one row."""
        kept = {output.step: (output.first_at, output.last_at) for output in capsule.outputs}
        for step in capsule.steps:
            first_at, last_at = kept.get(step, (capsule.document.moved_at,) * 2)
            items, asides = capsule.items_of(step), capsule.asides_of(step)
            at = Checkpoint(capsule.generation_of(step), step, None, 0)
            claim = Claim(document_id, 0, "", "", None, "", at, 0, 0, timedelta(0))
            self._keep_at(db, plan, Move(claim, at, at, items=items[:1]), first_at)
            self._keep_at(db, plan, Move(claim, at, at, items=items[1:], asides=asides), last_at)

    def _keep_at(self, db: Session, plan: Plan, move: Move, at: datetime) -> None:
        for statement in CommitStatements(plan, [move], micros(at)).keeping:
            db.connection.execute(*statement)


def _state(capsule: Capsule) -> State:
    return "waiting" if capsule.document.state == "running" else capsule.document.state


def _origin(capsule: Capsule) -> str:
    return f"from a capsule that holdfast {capsule.holdfast} packed at {capsule.packed_at:%Y-%m-%d %H:%M:%S %Z}"


def _entry(document_id: int, entry: PackedEntry) -> dict[str, Any]:
    return {
        "document_id": document_id,
        "at": entry.at,
        "verb": entry.verb,
        "who": entry.who,
        "generation": entry.generation,
        "step": entry.step,
        "cursor": _json(entry.cursor),
        "detail": _json(entry.detail),
        "code": entry.code,
        "times": entry.times,
        "last_at": entry.last_at,
    }


def _json(value: Any) -> str | None:
    return None if value is None else encode_json(value)
