"""Commit on SQLite: the one door through which checkpoints move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from sqlite3 import Connection, IntegrityError

from holdfast.core.codec import encode_json
from holdfast.core.errors import BodyError
from holdfast.core.model import Plan
from holdfast.core.moves import ACCEPTED, LOST, Answer, Move
from holdfast.stores.groups import EffectFailed, commit_in_groups, run_effect, run_effects
from holdfast.stores.sqlite.base import SQL, Base
from holdfast.stores.sqlite.changes import Changes, guard
from holdfast.stores.sqlite.connection import Tx


class Commit(Base):
    """Moves checkpoints, with everything that is committed with them."""

    def commit(self, plan: Plan, moves: Sequence[Move]) -> list[Answer]:
        return commit_in_groups(moves, lambda group: self._together(plan, group))

    def _together(self, plan: Plan, moves: Sequence[Move]) -> list[Answer]:
        changes = Changes(plan, moves, self._now())
        with self._committing() as db:
            held = self._write(db, plan, changes)
        return answers(moves, held)

    @contextmanager
    def _committing(self) -> Iterator[Connection]:
        try:
            with self._db.writing() as db:
                yield db
        except IntegrityError as error:  # a constraint that is only looked at when the transaction ends
            raise EffectFailed(None, error) from error

    def _write(self, db: Connection, plan: Plan, changes: Changes) -> Sequence[Move]:
        """Writes all that the moves bring. Gives those whose documents were still held: nearly always all."""
        if self._move(db, changes) != len(changes.moves):
            db.execute("rollback")  # nothing else was written yet, and only where each stood tells which are lost
            db.execute("begin immediate")
            changes = Changes(plan, self._held(db, changes.moves), changes.now)
            self._move(db, changes)
        for statement in changes.keeping:
            db.execute(*statement)
        self._run_effects(db, changes.moves)
        return changes.moves

    def _move(self, db: Connection, changes: Changes) -> int:
        return sum(db.execute(*statement).rowcount for statement in changes.moving)

    def _held(self, db: Connection, moves: Sequence[Move]) -> list[Move]:
        asked = encode_json([guard(move) for move in moves])
        return [moves[place] for (place,) in db.execute(SQL["held"], {"moves": asked}).fetchall()]

    def _run_effects(self, db: Connection, moves: Sequence[Move]) -> None:
        tx = Tx(db, self.url)

        def run(move: Move) -> None:
            assert move.effect is not None
            run_effect(move.effect, tx)
            if not db.in_transaction:
                raise BodyError("an effect ended the transaction it was given; it must leave commit and rollback alone")

        run_effects(moves, run)


def answers(moves: Sequence[Move], held: Sequence[Move]) -> list[Answer]:
    """Answers for each move whether it was made."""
    if len(held) == len(moves):
        return [ACCEPTED] * len(moves)
    accepted = set(map(id, held))
    return [ACCEPTED if id(move) in accepted else LOST for move in moves]
