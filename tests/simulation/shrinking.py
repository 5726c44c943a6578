"""Make a failing schedule smaller: fewer and lower choices that still violate an invariant."""

from __future__ import annotations

from collections.abc import Callable, Sequence

MAX_TRIES = 800
"""How many smaller schedules are tried."""


def shrink(choices: Sequence[int], fails: Callable[[list[int]], bool], *, max_tries: int = MAX_TRIES) -> list[int]:
    """Return a smaller list of choices that fails too. Past its end every choice is 0."""
    return _Shrinking(list(choices), fails, max_tries).run()


class _Shrinking:
    def __init__(self, choices: list[int], fails: Callable[[list[int]], bool], max_tries: int) -> None:
        self._best = choices
        self._fails = fails
        self._left = max_tries

    def run(self) -> list[int]:
        self._shrink(self._zero)  # first, because most choices can be 0, which means that nothing unusual happens
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
        """Try it at every position, from the end on, because late choices often follow from earlier ones."""
        shrank = False
        for at in range(len(self._best) - size, -size, -size):
            candidate = smaller(self._best, max(at, 0))
            if candidate != self._best and self._left:
                self._left -= 1
                if self._fails(candidate):
                    self._best, shrank = candidate, True
        return shrank
