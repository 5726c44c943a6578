"""Group commit: many moves in one transaction. If one fails, the group is split until the bad move is alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from holdfast.core import forked_copy
from holdfast.core.errors import BodyError, ItemDamaged, StoreError
from holdfast.core.forked_copy import end_forked_copy
from holdfast.core.model import Plan
from holdfast.core.move_rules import refused_moves
from holdfast.core.moves import CommitResult, Move, Refused, Tx, effect_name

CALLED_INSIDE_TRANSACTION = (
    "the store was called inside a transaction of the same thread: by an effect, or in a `with store.transaction()` "
    "block. Write through the tx that it gives: tx.execute for your own rows, tx.submit for a document of this or "
    "another pipeline"
)
IN_TRANSACTION = "the block of `with store.transaction()`"
IN_READING = "the block of `with store.reading()`"
"""How messages call user code that is not an effect."""
CommitGroup = Callable[[Sequence[Move]], list[CommitResult]]


class EffectFailed(Exception):
    """The effect of one move in a group failed, so the group was rolled back."""

    def __init__(self, place: int | None, error: BaseException) -> None:
        super().__init__(place, type(error).__name__)  # not its text: that is user code, which may raise
        self.place = place
        self.error = error


class EffectsDisturbed(EffectFailed):
    """An effect may have disturbed the others of its group, so the group was rolled back. Each has to run alone."""

    def __init__(self) -> None:
        super().__init__(None, BodyError("an effect changed the session in which the effects of others run"))


def commit_allowed(plan: Plan, moves: Sequence[Move], commit: CommitGroup) -> list[CommitResult]:
    """Commit the moves that the plan allows, and refuse the others. See `commit_in_groups`."""
    refused = refused_moves(plan, moves)
    if not refused:
        return commit_in_groups(moves, commit)
    rest = iter(commit_in_groups([move for place, move in enumerate(moves) if place not in refused], commit))
    return [Refused(refused[place]) if place in refused else next(rest) for place in range(len(moves))]


def commit_in_groups(moves: Sequence[Move], commit: CommitGroup) -> list[CommitResult]:
    """Commit moves together. A move whose effect fails is refused; all others are committed."""
    answers: dict[int, CommitResult] = {}
    groups = [(0, len(moves))]
    while groups:
        start, stop = groups.pop()
        if start == stop:
            continue
        try:
            answers.update(enumerate(commit(moves[start:stop]), start))
        except EffectFailed as failed:
            if stop - start == 1:
                answers[start] = Refused(failed.error)
            elif isinstance(failed, EffectsDisturbed):
                groups += [(place, place + 1) for place in reversed(range(start, stop))]
            else:
                groups += reversed(_split(start, stop, failed.place))
    return [answers[place] for place in range(len(moves))]


def _split(start: int, stop: int, place: int | None) -> list[tuple[int, int]]:
    """Split a group that failed: around the bad move if it is known, and always in halves, so that it ends soon."""
    if place is None:  # the database refused something in the group only at the end
        middle = (start + stop) // 2
        return [(start, middle), (middle, stop)]
    culprit = start + place
    middle = (culprit + 1 + stop) // 2
    return [(start, culprit), (culprit, culprit + 1), (culprit + 1, middle), (middle, stop)]


class EffectTx(Tx, Protocol):
    """A transaction that remembers the error of the database under it."""

    store_error: StoreError | None


def run_effect(move: Move, tx: EffectTx) -> None:
    """Run one effect. An error of its transaction is the store's; an error of another store is the effect's."""
    assert move.effect is not None
    forks = forked_copy.count
    try:
        move.effect(tx)
    except BaseException as error:  # re-raised; a copy of this process must not even roll back
        if forked_copy.count != forks:
            end_forked_copy(effect_name(move), error)
        is_own = not isinstance(error, StoreError) or isinstance(error, ItemDamaged)  # an item of its own document
        if is_own or error is tx.store_error:
            raise
        raise RuntimeError(f"an effect met the trouble of another store: {error}") from error
    if forked_copy.count != forks:
        end_forked_copy(effect_name(move))


def run_effects(moves: Sequence[Move], run: Callable[[Move], None], order: Sequence[int] | None = None) -> None:
    """Run the effects of a group. Raise EffectFailed, which names the move, if one fails.

    `order` has the places of the moves in the order in which their effects run.
    """
    for place in range(len(moves)) if order is None else order:
        move = moves[place]
        if move.effect is None:
            continue
        try:
            run(move)
        except ItemDamaged as error:
            raise EffectFailed(place, error) from error
        except (StoreError, KeyboardInterrupt):
            raise
        except BaseException as error:  # even SystemExit: only the document of this effect is affected
            raise EffectFailed(place, error) from error
