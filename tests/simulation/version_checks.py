"""Check that finished documents were processed by the present version, after stale ones were rewound.

The version in which a document passed a step is known from the moves: it is the version of the worker that moved it.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.model import Plan
from tests.simulation.observed_state import ObservedDocument
from tests.simulation.pipelines import GATES, PipelineVersion


class VersionChecks:
    """Remembers the deployed versions, and the revision in which documents passed each step."""

    def __init__(self) -> None:
        self._deployed: dict[int, PipelineVersion] = {}
        self._passed: dict[tuple[int, int, str], int] = {}

    def on_deploy(self, plan: Plan, pipeline_version: PipelineVersion) -> None:
        """Remember the version of a plan."""
        self._deployed[plan.plan_id] = pipeline_version

    def on_move(self, plan: Plan, was: ObservedDocument, now: ObservedDocument) -> None:
        """Remember that a worker with this plan moved a document."""
        if was.step is not None and was.step != now.step:
            self._passed[was.id, was.generation, was.step] = self._deployed[plan.plan_id].revision(was.step)

    def out_of_date(self, plan: Plan, document: ObservedDocument) -> Iterator[str]:
        """Yield the steps of a finished document that were skipped, or done in an old revision."""
        pipeline_version = self._deployed[plan.plan_id]
        for step in [step for step in pipeline_version.steps if step not in GATES]:
            generation = document.reuses.get(plan.step_ids[step], document.generation)
            passed = self._passed.get((document.id, generation, step))
            if passed != pipeline_version.revision(step):
                revision = pipeline_version.revision(step)
                yield f"{document.key} is done, and {step} was done in revision {passed}, not {revision}"
