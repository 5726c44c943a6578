"""Group commit: many moves together, and a bad one split off until it stands alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from holdfast.core.errors import StoreError
from holdfast.core.moves import Answer, Effect, Move, Refused, Tx

Together = Callable[[Sequence[Move]], list[Answer]]


class EffectFailed(Exception):
    """The effect of one move in a group failed, so the group was rolled back."""

    def __init__(self, place: int | None, error: BaseException) -> None:
        super().__init__(str(error))
        self.place = place
        self.error = error


def commit_in_groups(moves: Sequence[Move], together: Together) -> list[Answer]:
    """Commits moves together. A move whose effect fails is refused; all others commit."""
    answers: dict[int, Answer] = {}
    groups = [(0, len(moves))]
    while groups:
        start, stop = groups.pop()
        if start == stop:
            continue
        try:
            answers.update(enumerate(together(moves[start:stop]), start))
        except EffectFailed as failed:
            if stop - start == 1:
                answers[start] = Refused(failed.error)
            else:
                groups += reversed(_parted(start, stop, failed.place))
    return [answers[place] for place in range(len(moves))]


def _parted(start: int, stop: int, place: int | None) -> list[tuple[int, int]]:
    """Parts a group that failed: around its culprit if that is known, and always in halves, so that it ends soon."""
    if place is None:  # the database complained at the end, about something in the group
        middle = (start + stop) // 2
        return [(start, middle), (middle, stop)]
    culprit = start + place
    middle = (culprit + 1 + stop) // 2
    return [(start, culprit), (culprit, culprit + 1), (culprit + 1, middle), (middle, stop)]


class Telling(Tx, Protocol):
    """A transaction that remembers what the database under it complained of."""

    trouble: StoreError | None


def run_effect(effect: Effect, tx: Telling) -> None:
    """Runs one effect. What its transaction meets is this store's trouble; what another store meets is the effect's."""
    try:
        effect(tx)
    except StoreError as error:
        if error is tx.trouble:
            raise
        raise RuntimeError(f"an effect met the trouble of another store: {error}") from error


def run_effects(moves: Sequence[Move], run: Callable[[Move], None]) -> None:
    """Runs the effects of a group, and names the one that fails."""
    for place, move in enumerate(moves):
        if move.effect is None:
            continue
        try:
            run(move)
        except (StoreError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also one that would leave the program: it is that document's alone
            raise EffectFailed(place, error) from error
