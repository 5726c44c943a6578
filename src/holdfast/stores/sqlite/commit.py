"""Commit on SQLite: the only way in which checkpoints move, and claims in the same transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from sqlite3 import IntegrityError
from typing import Any, Unpack

from holdfast.core.codec import encode_json
from holdfast.core.model import Plan, WorkerRecord
from holdfast.core.move_rules import refused_moves
from holdfast.core.moves import ACCEPTED, LOST, CommitResult, Move
from holdfast.stores.group_commit import EffectFailed, commit_allowed, run_effect
from holdfast.stores.protocol import Exchanged, Scope
from holdfast.stores.sql.session import Row, Session
from holdfast.stores.sql.work import DUE, Work, claim_parameters
from holdfast.stores.sqlite.base import SqliteBase
from holdfast.stores.sqlite.commit_statements import CommitStatements, guard
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
