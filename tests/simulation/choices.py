"""Choices: every random decision of a schedule, as a list of small numbers.

The list is the schedule. Replaying it repeats the same events. A failing schedule is made smaller by shortening the
list and lowering its numbers. 0 always means that nothing unusual happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random


class Choices:
    """Draws from a seed, or replays a list. Past the end of a list every choice is 0."""

    __slots__ = ("_limit", "_play", "_random", "taken")

    def __init__(self, seed: int = 0, *, play: Sequence[int] | None = None) -> None:
        self.taken: list[int] = []
        self._play = play
        self._limit = 0 if play is None else len(play)
        self._random = Random(seed).random

    @property
    def are_exhausted(self) -> bool:
        """True if a replayed list is at its end."""
        return self._play is not None and len(self.taken) > self._limit

    def one_of(self, count: int) -> int:
        """Choose a number below `count`."""
        if self._play is None:
            chosen = int(self._random() * count)
        else:
            place = len(self.taken)
            chosen = min(self._play[place], count - 1) if place < self._limit else 0
        self.taken.append(chosen)
        return chosen

    def event(self, *chances: float) -> int:
        """Choose which unusual event happens, by probability: 1 is the first, 0 is none."""
        if self._play is not None:
            return self.one_of(len(chances) + 1)
        drawn, chosen = self._random(), 0
        for number, chance in enumerate(chances, 1):
            drawn -= chance
            if drawn < 0:
                chosen = number
                break
        self.taken.append(chosen)
        return chosen
