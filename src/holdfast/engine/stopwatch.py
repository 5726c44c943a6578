"""The stopwatch: how long bodies take, by step. An ETA is made of it, and nobody has to listen for that.

What bodies took for a document is told together with the document: when it got past the step, or was let go. Otherwise
the time of many that have just begun would be taken for the time of the first that is through.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from holdfast.core.moves import Move
from holdfast.engine.bodies import Desk
from holdfast.engine.runners import BODIES, Result
from holdfast.stores.protocol import Paces


class Stopwatch:
    """Adds up what bodies took and how many documents got past each step, since it was last read."""

    def __init__(self) -> None:
        self._under_way: defaultdict[Desk, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._passed: Counter[str] = Counter()

    def heard(self, results: Sequence[Result]) -> None:
        """Counts calls that came back, well or badly. Reading and verifying is not the step's work."""
        under_way = self._under_way
        for desk, event, took in results:
            if type(event.call) in BODIES:
                under_way[desk][event.call.step] += took

    def committed(self, desk: Desk, move: Move) -> None:
        """Counts a document that got past its step."""
        if move.after.step != move.before.step:
            self._passed[move.before.step] += 1  # type: ignore[index]
            self.let_go(desk)

    def let_go(self, desk: Desk) -> None:
        """Counts what was done for a document, also when it is not through: whoever goes on with it has less to do."""
        for step, took in self._under_way.pop(desk, {}).items():
            self._seconds[step] += took

    def read(self) -> Paces:
        """Gives what was added up, and begins anew."""
        paces = {step: (self._passed[step], seconds) for step, seconds in self._seconds.items()}
        paces |= {step: (passed, 0.0) for step, passed in self._passed.items() if step not in paces}
        self._seconds.clear()
        self._passed.clear()
        return paces
