"""Group commit: many moves together, and a bad one split off until it stands alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.core.errors import StoreError
from holdfast.core.moves import Answer, Move, Refused

Together = Callable[[Sequence[Move]], list[Answer]]


class EffectFailed(Exception):
    """The effect of one move in a group failed, so the group was rolled back."""

    def __init__(self, place: int | None, error: BaseException) -> None:
        super().__init__(str(error))
        self.place = place
        self.error = error


def commit_in_groups(moves: Sequence[Move], together: Together) -> list[Answer]:
    """Commits moves together. A move whose effect fails is refused; all others commit."""
    if not moves:
        return []
    try:
        return together(moves)
    except EffectFailed as failed:
        if len(moves) == 1:
            return [Refused(failed.error)]
        place = failed.place
    if place is None:  # the database complained at the end, about something in the group
        half = len(moves) // 2
        return commit_in_groups(moves[:half], together) + commit_in_groups(moves[half:], together)
    before = commit_in_groups(moves[:place], together)
    culprit = commit_in_groups(moves[place : place + 1], together)
    return before + culprit + commit_in_groups(moves[place + 1 :], together)


def run_effects(moves: Sequence[Move], run: Callable[[Move], None]) -> None:
    """Runs the effects of a group, and names the one that fails."""
    for place, move in enumerate(moves):
        if move.effect is None:
            continue
        try:
            run(move)
        except StoreError:
            raise
        except Exception as error:
            raise EffectFailed(place, error) from error
