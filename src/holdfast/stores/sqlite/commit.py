"""Commit on SQLite: the only way in which checkpoints move, and claims in the same transaction.

The statements of a group are made before the writer waits for the lock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from sqlite3 import IntegrityError
from typing import Any, Unpack

from holdfast.core.codec import Kept, encode_json
from holdfast.core.model import Plan, WorkerRecord
from holdfast.core.move_rules import refused_moves
from holdfast.core.moves import ACCEPTED, LOST, CommitResult, Move
from holdfast.stores.group_commit import EffectFailed, commit_allowed, run_effect
from holdfast.stores.json_fields import by_id, extents_by_id
from holdfast.stores.protocol import Exchanged, Scope
from holdfast.stores.sql.dialect import MICROSECOND
from holdfast.stores.sql.query_files import Statement, in_statements
from holdfast.stores.sql.row_codec import BIG, as_blob, blob_hash, cursor_before, item_rows
from holdfast.stores.sql.session import Row, Session
from holdfast.stores.sql.work import DUE, Work, claim_parameters
from holdfast.stores.sqlite.base import SqliteBase
from holdfast.stores.sqlite.dialect import SQL
from holdfast.stores.sqlite_guard import BEGIN, ROLLBACK, GuardedConnection


class Commit(SqliteBase, Work):
    """Moves checkpoints, with everything that is committed with them."""

    def commit(self, plan: Plan, moves: Sequence[Move]) -> list[CommitResult]:
        return commit_allowed(plan, moves, lambda group: self._together(plan, group))

    def exchange(
        self, plan: Plan, moves: Sequence[Move], worker: WorkerRecord, *, limit: int, **scope: Unpack[Scope]
    ) -> Exchanged:
        parameters = claim_parameters(plan, worker, scope, limit=limit)
        if refused_moves(plan, moves):
            return self.commit(plan, moves), self._claim(DUE, plan, parameters)
        statements = CommitStatements(plan, moves, self._now())
        try:
            with self._committing() as connection:
                held = self._write_moves(connection, plan, statements)
                rows = self._take(self._session(connection), DUE, plan, parameters)
        except EffectFailed:
            return self.commit(plan, moves), self._claim(DUE, plan, parameters)
        return answers(moves, held), self._claims(plan, rows)

    def _claim_rows(self, db: Session, kind: Sequence[str], parameters: dict[str, Any]) -> list[Row]:
        batch_id = _batch_id(db, parameters["pipeline_id"], parameters["batch"])
        step_ids = encode_json(parameters["step_ids"])  # once for both statements
        parameters = parameters | {"batch_id": batch_id, "step_ids": step_ids}
        rows = db.with_conditions("claimable", kind, **parameters)
        if rows:
            db.run("claim", **parameters, ids=[row[0] for row in rows])
        return rows

    def _together(self, plan: Plan, moves: Sequence[Move]) -> list[CommitResult]:
        statements = CommitStatements(plan, moves, self._now())
        with self._committing() as connection:
            held = self._write_moves(connection, plan, statements)
        return answers(moves, held)

    @contextmanager
    def _committing(self) -> Iterator[GuardedConnection]:
        try:
            with self._db.writing() as connection:
                yield connection
        except IntegrityError as error:  # a constraint that is only checked when the transaction ends
            raise EffectFailed(None, error) from error

    def _write_moves(self, db: GuardedConnection, plan: Plan, statements: CommitStatements) -> Sequence[Move]:
        """Write all that the moves bring. Return those whose documents were still held: nearly always all."""
        if self._move(db, statements) != len(statements.moves):
            db.execute(ROLLBACK)  # nothing else was written yet, and only the places before tell which are lost
            db.execute(BEGIN)
            statements = CommitStatements(plan, self._held(db, plan, statements.moves), statements.now)
            self._move(db, statements)
        for statement in statements.keeping:
            db.execute(*statement)
        self._run_effects(db, statements.moves)
        return statements.moves

    def _move(self, db: GuardedConnection, statements: CommitStatements) -> int:
        return sum(db.execute(*statement).rowcount for statement in statements.moving)

    def _held(self, db: GuardedConnection, plan: Plan, moves: Sequence[Move]) -> list[Move]:
        guards = encode_json([guard(move, plan.step_ids) for move in moves])
        return [moves[place] for (place,) in db.execute(SQL["matching_moves"], {"moves": guards}).fetchall()]

    def _run_effects(self, db: GuardedConnection, moves: Sequence[Move]) -> None:
        if not any(move.effect is not None for move in moves):
            return
        tx, running = self._tx(self._session(db)), self._db.running_effect

        def run(move: Move) -> None:
            running.move = move
            tx.batch = move.claim.batch
            run_effect(move, tx)
            if tx.store_error is not None and not db.in_transaction:  # the effect passed over an error of the database
                raise tx.store_error

        db.guard.run_effects(db, moves, run)


def answers(moves: Sequence[Move], held: Sequence[Move]) -> list[CommitResult]:
    """Return for each move whether it was made."""
    if len(held) == len(moves):
        return [ACCEPTED] * len(moves)
    accepted = set(map(id, held))
    return [ACCEPTED if id(move) in accepted else LOST for move in moves]


def _batch_id(db: Session, pipeline_id: int, batch: str | None) -> int | None:
    """Return the id of a batch, so that a claim of all batches reads none. No batch has the id -1."""
    if batch is None:
        return None
    row = db.first("lock_batch", pipeline_id=pipeline_id, name=batch)
    return row[0] if row else -1


HOUR = 3_600_000_000
"""In microseconds, as SQLite keeps times."""


MANY_ALIKE = 8
"""This many documents that go the same way get a statement of their own: it costs less than one for each."""


class CommitStatements:
    """The statements of a group: those that move checkpoints, and those that store what the steps made."""

    def __init__(self, plan: Plan, moves: Sequence[Move], now: int) -> None:
        self.moves = moves
        self.now = now
        self._step_ids = plan.step_ids
        self.moving = [*self._moving()]
        self.keeping = [*self._keeping()]

    def _moving(self) -> Iterator[Statement]:
        alike: dict[tuple[Any, ...], list[Move]] = defaultdict(list)
        single: list[Move] = []
        ending: list[Move] = []
        for move in self.moves:
            before, after = move.before, move.after
            if move.state != "running":
                ending.append(move)
            elif before.cursor is None and after.cursor is None and not move.asides and move.totals is None:
                alike[before.step, after.step, move.timeout, id(move.effects), id(move.extents)].append(move)
            else:
                single.append(move)
        for moves in alike.values():
            if len(moves) >= MANY_ALIKE:
                yield from self._moving_alike(moves)
            else:
                single += moves
        rows = [value for move in single for value in (*guard(move, self._step_ids), *self._target(move))]
        yield from in_statements(SQL["move"], (self.now,), rows, 13)
        yield from self._ending(ending)

    def _moving_alike(self, moves: Sequence[Move]) -> Iterator[Statement]:
        """Move documents that go the same way. Each needs a third of the parameters then."""
        guards: list[int] = []
        for move in moves:
            claim, before = move.claim, move.before
            guards += (claim.document_id, before.generation, claim.fence, before.moves)
        step_id, _, deadline, _, effects, extents, _ = self._target(moves[0])
        head = (self._step_ids[moves[0].before.step or ""], step_id, deadline, effects, extents, self.now)
        yield from in_statements(SQL["move_alike"], head, guards, 4)

    def _target(self, move: Move) -> tuple[Any, ...]:
        """Return where a move leads a document that stays with its worker."""
        step, cursor = move.after.step, move.after.cursor
        return (
            self._step_ids[step or ""],
            None if cursor is None else encode_json(cursor),
            None if move.timeout is None else self.now + move.timeout // MICROSECOND,
            move.is_progress,
            *self._by_steps(move),
        )

    def _ending(self, moves: Sequence[Move]) -> Iterator[Statement]:
        ends: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
        for move in moves:
            step = move.after.step
            undecided = move.state == "paused" and move.timeout is not None
            until = self.now + move.timeout // MICROSECOND if undecided and move.timeout else None
            end = None if step is None else self._step_ids[step], move.state, move.reason, move.code, until
            ends[end] += (*guard(move, self._step_ids), *self._by_steps(move))
        for end, guards in ends.items():
            yield from in_statements(SQL["move_and_release"], (*end, self.now), guards, 9)

    def _by_steps(self, move: Move) -> tuple[str | None, str | None, str | None]:
        """Return the new effects, extents and totals of a document, or None for those that stay."""
        effects, extents, totals = move.effects, move.extents, move.totals
        return (
            None if effects is None else by_id(effects, self._step_ids),
            None if extents is None else extents_by_id(extents, self._step_ids),
            None if totals is None else by_id(totals, self._step_ids),
        )

    def _keeping(self) -> Iterator[Statement]:
        rows: list[Any] = []
        for move in self.moves:
            document_id, generation = move.claim.document_id, move.after.generation
            for step, position, items, kept in item_rows(move.items) if move.items else ():
                place = (document_id, generation, self._step_ids[step], position)
                if isinstance(kept, str) and (items > 1 or len(kept) <= BIG):
                    rows += (*place, items, kept)
                else:
                    yield from self._keeping_apart(place, kept)
            if move.asides or move.mended:
                yield from self._keeping_failed_items(move)
            if move.state == "done" and generation:
                yield SQL["delete_old_items"], {"ids": f"[{document_id}]"}
                yield SQL["delete_old_failed_items"], {"ids": f"[{document_id}]"}
        yield from in_statements(SQL["insert_items"], (self.now,), rows, 6)

    def _keeping_apart(self, place: tuple[Any, ...], kept: Kept) -> Iterator[Statement]:
        if len(kept) <= BIG:
            yield SQL["insert_bytes_item"], (*place, kept, self.now)
            return
        address = blob_hash(kept)
        media, content = as_blob(kept)
        blob = {"hash": address, "media": media, "content": content, "now": self.now, "hour": HOUR}
        yield SQL["insert_blob"], blob
        yield SQL["insert_blob_item"], (*place, address, self.now)

    def _keeping_failed_items(self, move: Move) -> Iterator[Statement]:
        assert move.before.step is not None
        place = {
            "document_id": move.claim.document_id,
            "generation": move.after.generation,
            "step_id": self._step_ids[move.before.step],
        }
        for failed in move.asides:
            row = {"position": failed.position, "tries": failed.tries, "error": encode_json(failed.error)}
            yield SQL["insert_failed_item"], place | row | {"now": self.now}
        for position in move.mended:
            yield SQL["delete_failed_item"], place | {"position": position}


def guard(move: Move, step_ids: dict[str, int]) -> tuple[int, int, int, int, int | None, str | None]:
    """Return what has to match for a move to be made: document, generation, fence, moves, step and cursor."""
    claim, before = move.claim, move.before
    step_id = step_ids[before.step or ""]
    return claim.document_id, before.generation, claim.fence, before.moves, step_id, cursor_before(move)
