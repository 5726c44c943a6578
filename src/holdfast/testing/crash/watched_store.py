"""A store that counts its commit points and kills its own process at one of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.core.model import Checkpoint, Claim, NewDocument, Plan, SubmitResult, WrittenRows
from holdfast.core.moves import CommitResult, Effect, Move, Release, Tx
from holdfast.stores.protocol import Store, UndoRows
from holdfast.testing.crash.report import Point, Side, Verb

KillMoment = tuple[int, Side]
T = TypeVar("T")


class WatchedStore:
    """The store that workers use. Every call that makes something durable is a commit point."""

    def __init__(self, store: Store, *, kill_record: Path, kill_at: KillMoment | None = None) -> None:
        self._store = store
        self._kill_record = kill_record
        self._kill_at = kill_at
        self._number = 0
        self._checkpoints: dict[str, Checkpoint] = {}
        self.passed: list[Point] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def submit(self, plan: Plan, batch: str, documents: Sequence[NewDocument], **how: Any) -> SubmitResult:
        place = Point(self._next(), "before", "submit")
        self._pass(place)
        result = self._store.submit(plan, batch, documents, **how)
        self._pass(_after(place))
        return result

    def claim(self, plan: Plan, *who: Any, **how: Any) -> list[Claim]:
        return self._claimed(self._store.claim(plan, *who, **how))

    def _claimed(self, claims: list[Claim]) -> list[Claim]:
        if claims:  # a kill before a claim is like a kill after the last commit; an empty claim changes nothing
            self._checkpoints.update((claim.key, claim.checkpoint) for claim in claims)
            self._pass(self._at("claim", claims[0], "after"))
        return claims

    def commit(self, plan: Plan, moves: Sequence[Move]) -> list[CommitResult]:
        return self._through(moves, partial(self._store.commit, plan))

    def exchange(
        self, plan: Plan, moves: Sequence[Move], *who: Any, **how: Any
    ) -> tuple[list[CommitResult], list[Claim]]:
        answers, claims = self._through(moves, lambda watched: self._store.exchange(plan, watched, *who, **how))
        self._checkpoints.update((claim.key, claim.checkpoint) for claim in claims)
        return answers, claims

    def _through(self, moves: Sequence[Move], commit: Callable[[Sequence[Move]], T]) -> T:
        place = _of_move(self._next(), moves[0], undoes=any(_undoes(move) for move in moves))
        if self._is_due(place):
            last = replace(moves[-1], effect=partial(self._write_and_die, moves[-1].effect, place))
            moves = [*moves[:-1], last]
        else:
            self.passed.append(place)
        answer = commit(moves)
        self._checkpoints.update((move.claim.key, move.after) for move in moves)
        self._pass(_after(place))
        return answer

    def _write_and_die(self, effect: Effect | None, place: Point, tx: Tx) -> None:
        """Kill the process inside the transaction, when all rows of the moves are written and nothing is committed.

        COMMIT would be next. Where an `exchange` is one transaction, a claim of more documents comes in between.
        """
        try:
            if effect is not None:
                effect(tx)
        finally:
            self._die(place)

    def release(self, releases: Sequence[Release]) -> list[bool]:
        place = self._at("release", releases[0].claim)
        self._pass(place)
        held = self._store.release(releases)
        self._pass(_after(place))
        return held

    def rewind(self, plan: Plan, claim: Claim, *, to: str, **how: Any) -> bool:
        place = replace(self._at("rewind", claim), to=f"step {to!r}")
        self._pass(place)
        rewound = self._store.rewind(plan, claim, to=to, **how)
        self._pass(_after(place))
        return rewound

    def rewind_to(self, plan: Plan, document_ids: Sequence[int], *, to: str, **how: Any) -> list[int]:
        decide = partial(self._store.rewind_to, plan, document_ids, to=to, **how)
        return self._decided(replace(self._decision("rewind"), to=f"step {to!r}"), decide)

    def redrive(self, document_ids: Sequence[int], **how: Any) -> list[int]:
        return self._decided(self._decision("redrive"), partial(self._store.redrive, document_ids, **how))

    def withdraw(self, plan: Plan, document_ids: Sequence[int], *, undo: UndoRows, **how: Any) -> list[int]:
        place = self._decision("withdraw")
        if self._is_due(place):
            self._store.withdraw(plan, document_ids, undo=partial(self._undo_and_die, undo, place), **how)
        return self._decided(place, partial(self._store.withdraw, plan, document_ids, undo=undo, **how))

    def _undo_and_die(self, undo: UndoRows, place: Point, tx: Tx, written: Sequence[WrittenRows]) -> None:
        """Kill the process inside the transaction of a withdrawal, when the rows are removed."""
        try:
            undo(tx, written)
        finally:
            self._die(place)

    def _decision(self, verb: Verb) -> Point:
        return Point(self._next(), "before", verb)

    def _decided(self, place: Point, decide: Callable[[], T]) -> T:
        self._pass(place)
        answer = decide()
        self._pass(_after(place))
        return answer

    def _at(self, verb: Verb, claim: Claim, side: Side = "before") -> Point:
        at = self._checkpoints[claim.key]  # the claim itself has only the checkpoint at which it began
        return Point(self._next(), side, verb, claim.key, at.step or "", at.cursor)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _pass(self, point: Point) -> None:
        if self._is_due(point):
            self._die(point)
        self.passed.append(point)

    def _is_due(self, point: Point) -> bool:
        return self._kill_at == (point.number, point.side)

    def _die(self, point: Point) -> NoReturn:
        self._kill_record.write_bytes(msgspec.json.encode(point))
        os.kill(os.getpid(), signal.SIGKILL)
        while True:  # the signal may take a moment to arrive
            sleep(1)


def _after(point: Point) -> Point:
    return replace(point, side="after")


def _undoes(move: Move) -> bool:
    """Return True if a move is the first of a later generation that writes or removes rows in its step."""
    return move.effects is not None and move.after.generation > 0


def _of_move(number: int, move: Move, *, undoes: bool) -> Point:
    before, after = move.before, move.after
    to = after.cursor if after.step == before.step else f"step {after.step!r}" if after.step else "the end"
    return Point(number, "before", "commit", move.claim.key, before.step or "", before.cursor, to, undoes)
