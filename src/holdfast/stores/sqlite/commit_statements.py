"""The statements of a group commit, made before the writer waits for the lock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.core.codec import Kept, encode_json
from holdfast.core.model import Plan
from holdfast.core.moves import Move
from holdfast.stores.json_fields import by_id, extents_by_id
from holdfast.stores.sql.dialect import MICROSECOND
from holdfast.stores.sql.query_files import Statement, in_statements
from holdfast.stores.sql.row_codec import BIG, as_blob, blob_hash, cursor_before, item_rows
from holdfast.stores.sqlite.dialect import SQL

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
            elif before.cursor is None and after.cursor is None and not move.asides:
                alike[before.step, after.step, move.timeout, id(move.effects), id(move.extents)].append(move)
            else:
                single.append(move)
        for moves in alike.values():
            if len(moves) >= MANY_ALIKE:
                yield from self._moving_alike(moves)
            else:
                single += moves
        rows = [value for move in single for value in (*guard(move, self._step_ids), *self._target(move))]
        yield from in_statements(SQL["move"], (self.now,), rows, 12)
        yield from self._ending(ending)

    def _moving_alike(self, moves: Sequence[Move]) -> Iterator[Statement]:
        """Move documents that go the same way. Each needs a third of the parameters then."""
        guards: list[int] = []
        for move in moves:
            claim, before = move.claim, move.before
            guards += (claim.document_id, before.generation, claim.fence, before.moves)
        step_id, _, deadline, _, effects, extents = self._target(moves[0])
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
            yield from in_statements(SQL["move_and_release"], (*end, self.now), guards, 8)

    def _by_steps(self, move: Move) -> tuple[str | None, str | None]:
        """Return the new effects and extents of a document, or None for those that stay."""
        effects, extents = move.effects, move.extents
        return (
            None if effects is None else by_id(effects, self._step_ids),
            None if extents is None else extents_by_id(extents, self._step_ids),
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
