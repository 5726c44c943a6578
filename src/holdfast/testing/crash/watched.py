"""A store that counts its commit points, and at one of them kills the process it is in."""

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

from holdfast.core.model import Checkpoint, Claim, NewDocument, Plan, Receipt
from holdfast.core.moves import Answer, Effect, Ending, Move, Tx
from holdfast.stores.protocol import Store
from holdfast.testing.crash.report import Point, Side, Verb

Moment = tuple[int, Side]
T = TypeVar("T")


class Watched:
    """A store as workers see it. Whatever makes something durable is a commit point."""

    def __init__(self, store: Store, *, last_words: Path, kill_at: Moment | None = None) -> None:
        self._store = store
        self._last_words = last_words
        self._kill_at = kill_at
        self._number = 0
        self._stands: dict[str, Checkpoint] = {}
        self.passed: list[Point] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def submit(self, plan: Plan, batch: str, documents: Sequence[NewDocument], **how: Any) -> Receipt:
        place = Point(self._next(), "before", "submit")
        self._pass(place)
        receipt = self._store.submit(plan, batch, documents, **how)
        self._pass(_after(place))
        return receipt

    def claim(self, plan: Plan, *who: Any, **how: Any) -> list[Claim]:
        return self._claimed(self._store.claim(plan, *who, **how))

    def claim_suspect(self, plan: Plan, *who: Any, **how: Any) -> list[Claim]:
        return self._claimed(self._store.claim_suspect(plan, *who, **how))

    def _claimed(self, claims: list[Claim]) -> list[Claim]:
        if claims:  # before a claim nothing has happened since the last commit; one in vain changes nothing
            self._stands.update((claim.key, claim.checkpoint) for claim in claims)
            self._pass(self._at("claim", claims[0], "after"))
        return claims

    def commit(self, plan: Plan, moves: Sequence[Move]) -> list[Answer]:
        return self._through(moves, partial(self._store.commit, plan))

    def exchange(self, plan: Plan, moves: Sequence[Move], *who: Any, **how: Any) -> tuple[list[Answer], list[Claim]]:
        answers, claims = self._through(moves, lambda watched: self._store.exchange(plan, watched, *who, **how))
        self._stands.update((claim.key, claim.checkpoint) for claim in claims)
        return answers, claims

    def _through(self, moves: Sequence[Move], commit: Callable[[Sequence[Move]], T]) -> T:
        place = _of_move(self._next(), moves[0])
        if self._is_due(place):
            last = replace(moves[-1], effect=partial(self._write_and_die, moves[-1].effect, place))
            moves = [*moves[:-1], last]
        else:
            self.passed.append(place)
        answer = commit(moves)
        self._stands.update((move.claim.key, move.after) for move in moves)
        self._pass(_after(place))
        return answer

    def _write_and_die(self, effect: Effect | None, place: Point, tx: Tx) -> None:
        """Dies inside the transaction, when all that the moves write is written and nothing is committed.

        COMMIT is the next word; where an `exchange` is one transaction, a claim of more documents comes between.
        """
        try:
            if effect is not None:
                effect(tx)
        finally:
            self._die(place)

    def give_back(self, endings: Sequence[Ending]) -> list[bool]:
        place = self._at("give_back", endings[0].claim)
        self._pass(place)
        held = self._store.give_back(endings)
        self._pass(_after(place))
        return held

    def rewind(self, plan: Plan, claim: Claim, *, to: str, **how: Any) -> bool:
        place = replace(self._at("rewind", claim), to=f"step {to!r}")
        self._pass(place)
        rewound = self._store.rewind(plan, claim, to=to, **how)
        self._pass(_after(place))
        return rewound

    def _at(self, verb: Verb, claim: Claim, side: Side = "before") -> Point:
        at = self._stands[claim.key]  # a claim remembers only where it began
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
        self._last_words.write_bytes(msgspec.json.encode(point))
        os.kill(os.getpid(), signal.SIGKILL)
        while True:  # the signal may take a moment to arrive
            sleep(1)


def _after(point: Point) -> Point:
    return replace(point, side="after")


def _of_move(number: int, move: Move) -> Point:
    before, after = move.before, move.after
    to = after.cursor if after.step == before.step else f"step {after.step!r}" if after.step else "the end"
    return Point(number, "before", "commit", move.claim.key, before.step or "", before.cursor, to)
