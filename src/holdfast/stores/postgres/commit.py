"""Commit on PostgreSQL: the one door through which checkpoints move.

A group of moves that only keep items is one statement: one round trip, one sync. A group with effects, or with the
rarer things that are committed beside items, is a transaction of several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from psycopg import DataError, IntegrityError
from psycopg.errors import ProgramLimitExceeded, RaiseException, StatementTooComplex
from psycopg.pq import TransactionStatus

from holdfast.core.codec import encode_json
from holdfast.core.errors import BodyError
from holdfast.core.model import Plan
from holdfast.core.moves import ACCEPTED, LOST, Answer, Move
from holdfast.stores.groups import EffectFailed, commit_in_groups, run_effect, run_effects
from holdfast.stores.postgres.arrays import bytes_, numbers, sparse_numbers, texts
from holdfast.stores.postgres.base import MICROSECOND, SQL, Base, plain
from holdfast.stores.postgres.complaints import ConnectionLost
from holdfast.stores.postgres.connection import Db
from holdfast.stores.postgres.transaction import Tx
from holdfast.stores.rows import BIG, ItemRow, as_blob, blob_hash, item_rows

REFUSALS = (IntegrityError, DataError, RaiseException, ProgramLimitExceeded, StatementTooComplex)
"""What the database says about something in a group, perhaps only when the transaction ends: one move is to blame."""


class Commit(Base):
    """Moves checkpoints, with everything that is committed with them."""

    def commit(self, plan: Plan, moves: Sequence[Move]) -> list[Answer]:
        return _one_by_document(moves, lambda once: commit_in_groups(once, lambda group: self._together(plan, group)))

    def _together(self, plan: Plan, moves: Sequence[Move]) -> list[Answer]:
        try:
            only_items = not _are_more_than_items(moves)
            lost = self._at_once(plan, moves) if only_items else self._in_a_transaction(plan, moves)
        except REFUSALS as error:
            raise EffectFailed(None, error) from error
        if not lost:
            return [ACCEPTED] * len(moves)
        return [LOST if move.claim.document_id in lost else ACCEPTED for move in moves]

    def _at_once(self, plan: Plan, moves: Sequence[Move]) -> set[int]:
        """Commits with one statement. When its answer is lost, asks which moves were made, and sends the others."""
        made: set[int] = set()

        def attempt() -> set[int]:
            rest = [move for move in moves if move.claim.document_id not in made] if made else moves
            try:
                return self._db.once(lambda db: self._move(db, plan, rest))
            except ConnectionLost:
                made.update(self._moved(rest))
                raise

        return self._db.again(attempt)

    def _in_a_transaction(self, plan: Plan, moves: Sequence[Move]) -> set[int]:
        def commit(db: Db) -> set[int]:
            lost = self._move(db, plan, moves)
            self._keep_more_than_items(db, plan, [move for move in moves if move.claim.document_id not in lost])
            self._run_effects(db, moves, lost)
            return lost

        return self._db.writing(commit)

    def _move(self, db: Db, plan: Plan, moves: Sequence[Move]) -> set[int]:
        """Moves the checkpoints that still match and keeps their items. Answers the documents that did not match."""
        if len(moves) == 1 and (one := _as_one(plan, moves[0])) is not None:
            return set() if db.execute(SQL["move_one"], one | {"now": self._now()}).fetchone() else {one["id"]}
        asked = _places(moves) | _moves(plan, moves) | _items(plan, moves) | {"now": self._now()}
        return {row[0] for row in db.execute(SQL["move"], asked).fetchall()}

    def _moved(self, moves: Sequence[Move]) -> set[int]:
        return {row[0] for row in self._db.reading(lambda db: db.execute(SQL["moved"], _places(moves)).fetchall())}

    def _keep_more_than_items(self, db: Db, plan: Plan, moves: Sequence[Move]) -> None:
        now = self._now()
        blobs: dict[bytes, tuple[str, bytes]] = {}
        asides: list[tuple[Any, ...]] = []
        mended: list[tuple[Any, ...]] = []
        done: list[int] = []
        for move in moves:
            document_id, generation = move.claim.document_id, move.after.generation
            blobs |= {blob_hash(item.value): as_blob(item.value) for item in move.items if len(item.value) > BIG}
            if move.asides or move.mended:
                assert move.before.step is not None
                place = (document_id, generation, plan.step_ids[move.before.step])
                asides += [(*place, one.position, one.tries, encode_json(one.error), now) for one in move.asides]
                mended += [(*place, position) for position in move.mended]
            if _ends_a_later_generation(move):
                done.append(document_id)
        # Always in the order of their hashes: two groups that keep the same blobs would else wait for each other.
        _each(db, "keep_blob", [(address, *blobs[address], now) for address in sorted(blobs)])
        _each(db, "set_aside", asides)
        _each(db, "mend", mended)
        if done:
            db.execute(SQL["drop_items"], {"ids": numbers(done)})
            db.execute(SQL["drop_asides"], {"ids": numbers(done)})

    def _run_effects(self, db: Db, moves: Sequence[Move], lost: set[int]) -> None:
        tx, limit = Tx(db, self._db.name), self._db.idle_limit

        def run(move: Move) -> None:
            if move.effect is None or move.claim.document_id in lost:
                return
            try:
                run_effect(move.effect, tx)
                _refuse_a_broken_transaction(db, self._db.name)
                if monotonic() - tx.heard_at > limit / 10:
                    tx.execute("select 1")  # the server counts anew, or turns out to have ended the transaction
            except Exception as error:
                if db.closed and tx.idle >= limit:
                    raise _not_waited_for(tx.idle, limit) from error
                if db.closed and not isinstance(error, ConnectionLost):  # whatever the effect makes of it
                    raise ConnectionLost(f"{self._db.name} does not answer any more: {error}") from error
                raise

        run_effects(moves, run)


def _one_by_document(moves: Sequence[Move], commit: Callable[[Sequence[Move]], list[Answer]]) -> list[Answer]:
    """Commits each document once. One that was named twice moves by the first move that still matches."""
    if len({move.claim.document_id for move in moves}) == len(moves):
        return commit(moves)
    answers: list[Answer] = [LOST] * len(moves)
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
    """Whether one statement is not enough for them."""
    return (
        any(move.effect is not None or move.asides or move.mended for move in moves)
        or any(move.after.generation and _ends_a_later_generation(move) for move in moves)
        or max([len(item.value) for move in moves for item in move.items], default=0) > BIG
    )


def _ends_a_later_generation(move: Move) -> bool:
    return move.after.generation > 0 and move.state == "done"


def _places(moves: Sequence[Move]) -> dict[str, Any]:
    """Where the moves start: the columns of the guard."""
    return {
        "ids": numbers([move.claim.document_id for move in moves]),
        "generations": numbers([move.before.generation for move in moves]),
        "fences": numbers([move.claim.fence for move in moves]),
        "moves": numbers([move.before.moves for move in moves]),
    }


def _moves(plan: Plan, moves: Sequence[Move]) -> dict[str, Any]:
    """Where the moves lead. A move without a state of its own goes on running."""
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
        "reasons": None if states is None else texts([plain(move.reason) for move in moves]),
    }


def _as_one(plan: Plan, move: Move) -> dict[str, Any] | None:
    """Gives the parameters of a move that needs no arrays, if it is one."""
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
        "step_id": plan.step_ids[move.after.step],
        "cursor": None if move.after.cursor is None else encode_json(move.after.cursor),
        "timeout": None if move.timeout is None else move.timeout // MICROSECOND,
        "item_step_id": plan.step_ids[row.step],
        "position": row.position,
        "items": row.items,
        "value": row.value if rows else None,
    }


def _items(plan: Plan, moves: Sequence[Move]) -> dict[str, Any]:
    """What the moves keep."""
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


def _each(db: Db, query: str, rows: Sequence[Any]) -> None:
    if rows:
        db.cursor().executemany(SQL[query], rows)


def _refuse_a_broken_transaction(db: Db, name: str) -> None:
    """Looks after each effect: PostgreSQL would answer a commit of a failed transaction politely, with a rollback."""
    status = db.pgconn.transaction_status
    if db.closed:
        raise ConnectionLost(f"{name} does not answer any more")
    if status == TransactionStatus.INERROR:
        raise BodyError("an effect passed over an error of the database; PostgreSQL keeps nothing after one")
    if status != TransactionStatus.INTRANS:
        raise BodyError("an effect ended the transaction it was given; it must leave commit and rollback alone")


def _not_waited_for(idle: float, limit: float) -> BodyError:
    return BodyError(
        f"the effect took {idle:.1f} s, and PostgreSQL ended its transaction, which may be idle for {limit:g} s "
        "at most (idle_in_transaction_session_timeout). Effects must be short: do what takes long in the body of the "
        "step, and let the effect only write"
    )
