"""What a group of moves writes: all its statements, made before anybody waits for the lock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.core.codec import Kept, encode_json
from holdfast.core.model import Plan
from holdfast.core.moves import Move
from holdfast.stores.queries import Statement, in_statements
from holdfast.stores.rows import BIG, as_blob, blob_hash, item_rows
from holdfast.stores.sqlite.base import MICROSECOND, SQL


class Changes:
    """The statements of a group: those that move checkpoints, and those that keep what the steps made."""

    def __init__(self, plan: Plan, moves: Sequence[Move], now: int) -> None:
        self.moves = moves
        self.now = now
        self._step_ids = plan.step_ids
        self.moving = [*self._moving()]
        self.keeping = [*self._keeping()]

    def _moving(self) -> Iterator[Statement]:
        going: list[Any] = []
        ending: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
        for move in self.moves:
            after = move.after
            step_id = None if after.step is None else self._step_ids[after.step]
            cursor = None if after.cursor is None else encode_json(after.cursor)
            if move.state == "running":
                deadline = None if move.timeout is None else self.now + move.timeout // MICROSECOND
                going += (*guard(move), step_id, cursor, deadline, move.is_progress)
            else:
                undecided = move.state == "paused" and move.timeout is not None
                until = self.now + move.timeout // MICROSECOND if undecided and move.timeout else None
                ending[step_id, cursor, move.state, move.reason, until] += guard(move)
        yield from in_statements(SQL["move"], (self.now,), going, 8)
        for end, guards in ending.items():
            yield from in_statements(SQL["move_and_end"], (*end, self.now), guards, 4)

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
                yield from self._keeping_asides(move)
            if move.state == "done" and generation:
                yield SQL["drop_items"], {"document_id": document_id}
                yield SQL["drop_asides"], {"document_id": document_id}
        yield from in_statements(SQL["keep_items"], (self.now,), rows, 6)

    def _keeping_apart(self, place: tuple[Any, ...], kept: Kept) -> Iterator[Statement]:
        if len(kept) <= BIG:
            yield SQL["keep_bytes"], (*place, kept, self.now)
            return
        address = blob_hash(kept)
        yield SQL["keep_blob"], (address, *as_blob(kept), self.now)
        yield SQL["keep_big"], (*place, address, self.now)

    def _keeping_asides(self, move: Move) -> Iterator[Statement]:
        assert move.before.step is not None
        place = (move.claim.document_id, move.after.generation, self._step_ids[move.before.step])
        for aside in move.asides:
            yield SQL["set_aside"], (*place, aside.position, aside.tries, encode_json(aside.error), self.now)
        for position in move.mended:
            yield SQL["mend"], (*place, position)


def guard(move: Move) -> tuple[int, int, int, int]:
    """Gives what has to match for a move to be made: the document, its generation, the claim, the place."""
    before = move.before
    return move.claim.document_id, before.generation, move.claim.fence, before.moves
