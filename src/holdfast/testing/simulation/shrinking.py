"""Makes a failing schedule small: fewer and smaller choices that still break a promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

MOST = 800
"""How many schedules are tried for it."""


def shrunk(choices: Sequence[int], fails: Callable[[list[int]], bool], *, most: int = MOST) -> list[int]:
    """Gives a smaller list of choices that fails, too. Past its end nothing unusual happens."""
    return _Shrinking(list(choices), fails, most).run()


class _Shrinking:
    def __init__(self, choices: list[int], fails: Callable[[list[int]], bool], most: int) -> None:
        self._best = choices
        self._fails = fails
        self._left = most

    def run(self) -> list[int]:
        self._shrink(self._zero)  # first what happened: most choices are that nothing did
        self._shrink(self._drop)
        return self._best

    def _shrink(self, smaller: Callable[[int], bool]) -> None:
        size = len(self._best)
        while size and self._left:
            if not smaller(size):
                size //= 2
            while self._best and not self._best[-1]:
                self._best.pop()

    def _drop(self, size: int) -> bool:
        return self._try_all(size, lambda best, at: best[:at] + best[at + size :])

    def _zero(self, size: int) -> bool:
        return self._try_all(size, lambda best, at: best[:at] + [0] * len(best[at : at + size]) + best[at + size :])

    def _try_all(self, size: int, smaller: Callable[[list[int], int], list[int]]) -> bool:
        """Tries it at every place, from the end on: what happens late often follows from what came before."""
        shrank = False
        for at in range(len(self._best) - size, -size, -size):
            candidate = smaller(self._best, max(at, 0))
            if candidate != self._best and self._left:
                self._left -= 1
                if self._fails(candidate):
                    self._best, shrank = candidate, True
        return shrank
