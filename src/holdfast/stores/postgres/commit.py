"""Commit on PostgreSQL: the only way in which checkpoints move.

A group of moves that only store items is one statement: one round trip, one sync. A group with effects, or with
anything rarer than items, is a transaction of several statements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from time import monotonic
from typing import Any, Unpack

from psycopg import DataError, IntegrityError
from psycopg.errors import ProgramLimitExceeded, RaiseException, StatementTooComplex

from holdfast.core.codec import encode_json
from holdfast.core.errors import BodyError, StoreReadOnly
from holdfast.core.model import Plan, WorkerRecord
from holdfast.core.moves import ACCEPTED, LOST, CommitResult, Move, effect_name, transaction_ended
from holdfast.stores.group_commit import EffectFailed, EffectsDisturbed, commit_allowed, run_effect, run_effects
from holdfast.stores.json_fields import by_id, extents_by_id
from holdfast.stores.postgres.base import PostgresBase
from holdfast.stores.postgres.connection import CommitRefused, Db
from holdfast.stores.postgres.dialect import bytes_, numbers, sparse_numbers, texts
from holdfast.stores.postgres.error_mapping import Collided, ConnectionLost
from holdfast.stores.postgres.session_state import session_differs
from holdfast.stores.postgres.transaction_guard import (
    GUARDED,
    GuardGone,
    is_broken,
    own_savepoint,
    refuse_broken_transaction,
)
from holdfast.stores.protocol import Exchanged, Scope
from holdfast.stores.sql.dialect import MICROSECOND, without_nul
from holdfast.stores.sql.row_codec import BIG, ItemRow, as_blob, blob_hash, cursor_before, item_rows
from holdfast.stores.sql.session import Row, Session
from holdfast.stores.sql.work import Work

HOUR = timedelta(hours=1)

REFUSALS = (IntegrityError, DataError, RaiseException, ProgramLimitExceeded, StatementTooComplex)
"""Errors about something in a group, perhaps raised only when the transaction ends: one move is the cause."""


class Commit(PostgresBase, Work):
    """Moves checkpoints, with everything that is committed with them."""

    def commit(self, plan: Plan, moves: Sequence[Move]) -> list[CommitResult]:
        return _once_per_document(
            moves, lambda once: commit_allowed(plan, once, lambda group: self._together(plan, group))
        )

    def exchange(
        self, plan: Plan, moves: Sequence[Move], worker: WorkerRecord, *, limit: int, **scope: Unpack[Scope]
    ) -> Exchanged:
        return self.commit(plan, moves), self.claim(plan, worker, limit=limit, **scope)

    def _claim_rows(self, db: Session, kind: Sequence[str], parameters: dict[str, Any]) -> list[Row]:
        return db.with_conditions("claim", kind, **parameters)

    def _together(self, plan: Plan, moves: Sequence[Move]) -> list[CommitResult]:
        try:
            only_items = not _are_more_than_items(moves)
            lost = (
                self._commit_in_one_statement(plan, moves) if only_items else self._commit_in_transaction(plan, moves)
            )
        except REFUSALS as error:
            raise EffectFailed(None, error) from error
        if not lost:
            return [ACCEPTED] * len(moves)
        return [LOST if move.claim.document_id in lost else ACCEPTED for move in moves]

    def _commit_in_one_statement(self, plan: Plan, moves: Sequence[Move]) -> set[int]:
        """Commit with one statement. If its answer is lost, ask which moves were made, and send the others."""
        made: set[int] = set()

        def attempt() -> set[int]:
            rest = [move for move in moves if move.claim.document_id not in made] if made else moves
            try:
                return self._db.once(lambda db: self._move(db, plan, rest))
            except ConnectionLost:
                made.update(self._moved(rest))
                raise

        return self._db.again(attempt)

    def _commit_in_transaction(self, plan: Plan, moves: Sequence[Move]) -> set[int]:
        running = EffectProgress()

        def commit(db: Db) -> set[int]:
            running.place, running.ran = None, False
            lost = self._move(db, plan, moves)
            self._keep_more_than_items(db, plan, [move for move in moves if move.claim.document_id not in lost])
            self._run_effects(db, moves, lost, running)
            return lost

        effects = [move for move in moves if move.effect is not None]
        if not effects:
            return self._db.writing(commit)
        try:
            return self._db.writing(commit, GUARDED)
        except GuardGone as error:  # it is not known which effect did it, unless there is only one
            raise EffectFailed(None, transaction_ended(effect_name(effects[0]))) from error
        except CommitRefused as error:
            raise EffectFailed(None, error.__cause__ or error) from error
        except (Collided, ConnectionLost) as error:  # again and again
            if not running.ran:
                raise
            self._db.reading(lambda db: db.execute("select 1"))  # raises StoreGone if the database is away
            raise EffectFailed(running.place, error.__cause__ or error) from error
        finally:
            self._db.replace_changed_session()

    def _move(self, db: Db, plan: Plan, moves: Sequence[Move]) -> set[int]:
        """Move the checkpoints that still match and store their items. Return the documents that did not match."""
        if len(moves) == 1 and (one := _single_move(plan, moves[0])) is not None:
            return (
                set()
                if db.execute(self.dialect.queries["move_one"], one | {"now": self._now()}).fetchone()
                else {one["id"]}
            )
        asked = (
            _places(moves)
            | _places_before(plan, moves)
            | _moves(plan, moves)
            | _items(plan, moves)
            | {"now": self._now()}
        )
        return {row[0] for row in db.execute(self.dialect.queries["move"], asked).fetchall()}

    def _moved(self, moves: Sequence[Move]) -> set[int]:
        """Return the documents whose moves were made, once that is as durable as the server commits anything."""
        made = self._db.settling(
            lambda db: db.execute(self.dialect.queries["moved_documents"], _places(moves)).fetchall()
        )
        return {row[0] for row in made}

    def _keep_more_than_items(self, db: Db, plan: Plan, moves: Sequence[Move]) -> None:
        now = self._now()
        blobs: dict[bytes, tuple[str, bytes]] = {}
        failed: list[dict[str, Any]] = []
        mended: list[dict[str, Any]] = []
        done: list[int] = []
        for move in moves:
            document_id, generation = move.claim.document_id, move.after.generation
            blobs |= {blob_hash(item.value): as_blob(item.value) for item in move.items if len(item.value) > BIG}
            if move.asides or move.mended:
                assert move.before.step is not None
                place = {"document_id": document_id, "generation": generation}
                place["step_id"] = plan.step_ids[move.before.step]
                failed += [
                    {
                        **place,
                        "position": item.position,
                        "tries": item.tries,
                        "error": encode_json(item.error),
                        "now": now,
                    }
                    for item in move.asides
                ]
                mended += [{**place, "position": position} for position in move.mended]
            if _ends_a_later_generation(move):
                done.append(document_id)
        # Always in the order of their hashes: otherwise two groups with the same blobs would wait for each other.
        rows = [(address, *blobs[address]) for address in sorted(blobs)]
        self._each(db, "insert_blob", [_blob_row(*row) | {"now": now} for row in rows])
        self._each(db, "insert_failed_item", failed)
        self._each(db, "delete_failed_item", mended)
        if done:
            db.execute(self.dialect.queries["delete_old_items"], {"ids": numbers(done)})
            db.execute(self.dialect.queries["delete_old_failed_items"], {"ids": numbers(done)})

    def _each(self, db: Db, query: str, rows: Sequence[Any]) -> None:
        if rows:
            db.cursor().executemany(self.dialect.queries[query], rows)

    def _run_effects(self, db: Db, moves: Sequence[Move], lost: set[int], running: EffectProgress) -> None:
        tx, limit = self._tx(self._session(db)), self._db.idle_limit
        places = {id(move): place for place, move in enumerate(moves)}
        had_savepoints = db.has_savepoints

        def run(move: Move) -> None:
            if move.effect is None or move.claim.document_id in lost:
                return
            tx.batch = move.claim.batch
            running.place, running.ran = places[id(move)], True
            try:
                with own_savepoint(db):
                    run_effect(move, tx)
                    if is_broken(db):
                        refuse_broken_transaction(db, self._db.name, effect_name(move))
                if monotonic() - tx.answered_at > limit / 10:
                    tx.execute("select 1")  # the server counts again, or has ended the transaction
            except Exception as error:  # user code: an effect may raise anything
                if db.closed and tx.idle >= limit:
                    raise _idle_too_long(tx.idle, limit) from error
                if db.closed and not isinstance(error, ConnectionLost):  # whatever the effect made of the error
                    raise ConnectionLost(f"{self._db.name} does not answer any more: {error}") from error
                if db.refused or db.went_idle:
                    refuse_broken_transaction(db, self._db.name, effect_name(move))
                if isinstance(error, StoreReadOnly):  # it could be written before
                    raise BodyError(f"an effect made its transaction read-only: {error}") from error
                raise

        with self._db.effects_running(db):
            run_effects(moves, run, order=_by_batch(moves))
        running.place = None
        is_disturbed = session_differs(db) or db.has_savepoints != had_savepoints
        if is_disturbed and sum(move.effect is not None for move in moves) > 1:
            raise EffectsDisturbed


class EffectProgress:
    """The effect of a group that is running, and whether one has run."""

    place: int | None = None
    ran = False


def _by_batch(moves: Sequence[Move]) -> Sequence[int]:
    """Return the order in which effects run: batch by batch.

    tx.submit locks the batch that it submits to, by default one with the name of the document's own batch. Workers that
    lock batches in the same order do not wait for each other in a circle.
    """
    return sorted(range(len(moves)), key=lambda place: moves[place].claim.batch)


def _once_per_document(
    moves: Sequence[Move], commit: Callable[[Sequence[Move]], list[CommitResult]]
) -> list[CommitResult]:
    """Commit each document once. A document that is named twice moves by the first move that still matches."""
    if len({move.claim.document_id for move in moves}) == len(moves):
        return commit(moves)
    answers: list[CommitResult] = [LOST] * len(moves)
    rest = list(range(len(moves)))
    while rest:
        first = {moves[place].claim.document_id: place for place in reversed(rest)}
        group = sorted(first.values())
        for place, answer in zip(group, commit([moves[place] for place in group]), strict=True):
            answers[place] = answer
        again = (place for place in rest if place not in group)
        rest = [place for place in again if answers[first[moves[place].claim.document_id]] != ACCEPTED]
    return answers


def _are_more_than_items(moves: Sequence[Move]) -> bool:
    """Return True if one statement is not enough for them."""
    return (
        any(move.effect is not None or move.asides or move.mended for move in moves)
        or any(move.after.generation and _ends_a_later_generation(move) for move in moves)
        or max([len(item.value) for move in moves for item in move.items], default=0) > BIG
    )


def _ends_a_later_generation(move: Move) -> bool:
    return move.after.generation > 0 and move.state == "done"


def _places(moves: Sequence[Move]) -> dict[str, Any]:
    """Return where the moves start: what has to match."""
    return {
        "ids": numbers([move.claim.document_id for move in moves]),
        "generations": numbers([move.before.generation for move in moves]),
        "fences": numbers([move.claim.fence for move in moves]),
        "moves": numbers([move.before.moves for move in moves]),
    }


def _places_before(plan: Plan, moves: Sequence[Move]) -> dict[str, Any]:
    """Return the steps and the cursors where the moves start. They have to match too."""
    return {
        "before_ids": numbers([plan.step_ids[move.before.step or ""] for move in moves]),
        "cursors_before": texts([cursor_before(move) for move in moves]),
    }


def _moves(plan: Plan, moves: Sequence[Move]) -> dict[str, Any]:
    """Return where the moves lead. A move without a state goes on running."""
    step_ids: dict[Any, int | None] = {**plan.step_ids, None: None}
    states = texts([None if move.state == "running" else move.state for move in moves])
    return {
        "step_ids": numbers([step_ids[move.after.step] for move in moves]),
        "cursors": texts([None if move.after.cursor is None else encode_json(move.after.cursor) for move in moves]),
        "timeouts": sparse_numbers(
            [None if move.timeout is None or move.state == "done" else move.timeout // MICROSECOND for move in moves]
        ),
        "stalled": sparse_numbers([None if move.is_progress else 1 for move in moves]),
        "states": states,
        "reasons": None if states is None else texts([without_nul(move.reason) for move in moves]),
        "codes": None if states is None else texts([move.code for move in moves]),
        "effects": texts([None if move.effects is None else by_id(move.effects, step_ids) for move in moves]),
        "extents": texts(
            [None if move.extents is None else extents_by_id(move.extents, plan.step_ids) for move in moves]
        ),
        "totals": texts([None if move.totals is None else by_id(move.totals, step_ids) for move in moves]),
    }


def _single_move(plan: Plan, move: Move) -> dict[str, Any] | None:
    """Return the parameters of a move that needs no arrays; None if it needs some."""
    rows = item_rows(move.items)
    if move.state != "running" or not move.is_progress or len(rows) > 1 or move.after.step is None:
        return None
    row = rows[0] if rows else ItemRow(move.after.step, 0, 1, "")
    if isinstance(row.value, bytes) or len(row.value) > BIG:
        return None
    return {
        "id": move.claim.document_id,
        "generation": move.before.generation,
        "fence": move.claim.fence,
        "moves": move.before.moves,
        "before_id": plan.step_ids[move.before.step or ""],
        "cursor_before": cursor_before(move),
        "step_id": plan.step_ids[move.after.step],
        "cursor": None if move.after.cursor is None else encode_json(move.after.cursor),
        "timeout": None if move.timeout is None else move.timeout // MICROSECOND,
        "item_step_id": plan.step_ids[row.step],
        "position": row.position,
        "items": row.items,
        "value": row.value if rows else None,
        "effects": None if move.effects is None else by_id(move.effects, plan.step_ids),
        "extents": None if move.extents is None else extents_by_id(move.extents, plan.step_ids),
        "totals": None if move.totals is None else by_id(move.totals, plan.step_ids),
    }


def _items(plan: Plan, moves: Sequence[Move]) -> dict[str, Any]:
    """Return the items of the moves."""
    step_ids = plan.step_ids
    kept = [(move.claim.document_id, row) for move in moves if move.items for row in item_rows(move.items)]
    rows = [row for _, row in kept]
    return {
        "item_ids": numbers([document_id for document_id, _ in kept]),
        "item_step_ids": numbers([step_ids[row.step] for row in rows]),
        "positions": numbers([row.position for row in rows]),
        "items": numbers([row.items for row in rows]),
        **_values(rows),
    }


def _values(rows: Sequence[ItemRow]) -> dict[str, Any]:
    values: list[Any] = [row.value for row in rows]
    if set(map(type, values)) <= {str} and max(map(len, values), default=0) <= BIG:
        return {"values": texts(values), "datas": None, "blob_hashes": None}
    big = [row.items == 1 and len(row.value) > BIG for row in rows]
    small = [None if is_big else value for value, is_big in zip(values, big, strict=True)]
    hashes = [blob_hash(value) if is_big else None for value, is_big in zip(values, big, strict=True)]
    return {
        "values": texts([value if isinstance(value, str) else None for value in small]),
        "datas": bytes_([value if isinstance(value, bytes) else None for value in small]),
        "blob_hashes": bytes_(hashes),
    }


def _blob_row(address: bytes, media: str, content: bytes) -> dict[str, Any]:
    return {"hash": address, "media": media, "content": content, "hour": HOUR}


def _idle_too_long(idle: float, limit: float) -> BodyError:
    return BodyError(
        f"the effect took {idle:.1f} s, and PostgreSQL ended its transaction, which may be idle for {limit:g} s "
        "at most (idle_in_transaction_session_timeout). Effects must be short: do what takes long in the body of the "
        "step, and let the effect only write"
    )
