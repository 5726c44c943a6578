"""The stopwatch: how long bodies take, by step. An ETA is made of it, and nobody has to listen for that."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from holdfast.core.moves import Move
from holdfast.engine.runners import BODIES, Result
from holdfast.stores.protocol import Paces


class Stopwatch:
    """Adds up what bodies took and how many documents got past each step, since it was last read."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._passed: Counter[str] = Counter()

    def heard(self, results: Sequence[Result]) -> None:
        """Counts calls that came back, well or badly. Reading and verifying is not the step's work."""
        seconds = self._seconds
        for _, event, took in results:
            if type(event.call) in BODIES:
                seconds[event.call.step] += took

    def committed(self, moves: Sequence[Move]) -> None:
        """Counts the documents that got past their steps."""
        self._passed.update([move.before.step for move in moves if move.after.step != move.before.step])  # type: ignore[misc]

    def read(self) -> Paces:
        """Gives what was added up, and begins anew."""
        paces = {step: (self._passed[step], seconds) for step, seconds in self._seconds.items()}
        paces |= {step: (passed, 0.0) for step, passed in self._passed.items() if step not in paces}
        self._seconds.clear()
        self._passed.clear()
        return paces
