"""Whether what is done was done as the pipeline is written now, once what was out of date has been redone.

Which edition a document went past a step in is seen from the moves themselves: whoever moved it had that edition.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.model import Plan
from holdfast.testing.simulation.books import Seen
from holdfast.testing.simulation.shapes import GATES, Edition


class Editions:
    """Remembers the editions that were deployed, and in which of them documents went past their steps."""

    def __init__(self) -> None:
        self._deployed: dict[int, Edition] = {}
        self._passed: dict[tuple[int, int, str], int] = {}

    def deployed(self, plan: Plan, edition: Edition) -> None:
        """Learns which edition a plan is."""
        self._deployed[plan.plan_id] = edition

    def moved(self, plan: Plan, was: Seen, now: Seen) -> None:
        """Learns that somebody with a plan moved a document."""
        if was.step is not None and was.step != now.step:
            self._passed[was.id, was.generation, was.step] = self._deployed[plan.plan_id].times(was.step)

    def out_of_date(self, plan: Plan, seen: Seen) -> Iterator[str]:
        """Says which steps of a document that is done were left out, or done as they are no longer written."""
        edition = self._deployed[plan.plan_id]
        for step in [one for one in edition.steps if one not in GATES]:
            generation = seen.reuses.get(plan.step_ids[step], seen.generation)
            passed = self._passed.get((seen.id, generation, step))
            if passed != edition.times(step):
                yield f"{seen.key} is done, and {step} of it as of edition {passed}, not {edition.times(step)}"
