"""Choices: everything that chance decides in a schedule, as a list of small numbers.

The list is the schedule: played again it gives the same events, and one that fails is shrunk by making the list
shorter and its numbers smaller. 0 is always the choice by which nothing unusual happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random


class Choices:
    """Draws from a seed, or plays a list again; past the end of a list, nothing unusual happens."""

    __slots__ = ("_limit", "_play", "_random", "taken")

    def __init__(self, seed: int = 0, *, play: Sequence[int] | None = None) -> None:
        self.taken: list[int] = []
        self._play = play
        self._limit = 0 if play is None else len(play)
        self._random = Random(seed).random  # noqa: S311 - a schedule has to come again

    @property
    def are_over(self) -> bool:
        """Whether a list that is played is at its end."""
        return self._play is not None and len(self.taken) > self._limit

    def one_of(self, count: int) -> int:
        """Chooses a number below `count`."""
        if self._play is None:
            chosen = int(self._random() * count)
        else:
            place = len(self.taken)
            chosen = min(self._play[place], count - 1) if place < self._limit else 0
        self.taken.append(chosen)
        return chosen

    def which(self, *chances: float) -> int:
        """Chooses which unusual thing happens, from 1 on, by how likely each is; 0 is none."""
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
