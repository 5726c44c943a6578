"""The recovery phase: after the last fault every document must come to its end, with the result of an undisturbed run.

People do only what workers cannot do: they decide about parked documents, redrive dead letters, and rewind stale
documents. Documents that sleep, wait or lost their worker must continue by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.core.codec import decode_json
from tests.simulation.bodies import PARKING
from tests.simulation.observed_state import ObservedDocument
from tests.simulation.pipelines import GATES, OVER

if TYPE_CHECKING:
    from tests.simulation.schedule import Schedule

MAX_OPERATOR_ROUNDS = 12
"""How often parked and dead documents are resumed and redriven."""
MAX_REDO_ROUNDS = 4
"""How often stale documents are rewound."""


class RecoveryPhase:
    """The end of a schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._invariants = schedule.invariants
        self._operator_rounds = 0
        self._redo_rounds = 0

    def is_over(self) -> bool:
        """Return True if every document is at its end. If none can make progress, do what a person would do."""
        if self._invariants.violation:
            return True
        self._schedule.restore_needed_steps()
        if not self._invariants.all_settled:
            self._schedule.ensure_a_worker_runs()
            return False
        if self._operator_rounds < MAX_OPERATOR_ROUNDS and any(
            self._needs_operator(document) for document in self._invariants.documents
        ):
            self._let_continue()
            return False
        if self._redo_rounds < MAX_REDO_ROUNDS and self._schedule.redo():
            self._redo_rounds += 1
            self._stop_earlier_versions()
            return False
        return True

    def _needs_operator(self, document: ObservedDocument) -> bool:
        if document.state == "paused":
            return self._is_parked_for_operator(document)
        return document.state == "dead" and not (self._operator_rounds and self._schedule.is_incurable(document))

    def _is_parked_for_operator(self, document: ObservedDocument) -> bool:
        """Return True if a document is parked for a person. A sleeping document has to wake by itself."""
        return (
            document.on_hold
            or document.at_gate
            or self._schedule.bodies.behaviours[document.key, document.version].kind in PARKING
        )

    def _let_continue(self) -> None:
        """Resume parked documents and redrive dead letters."""
        self._operator_rounds += 1
        schedule = self._schedule
        parked = [
            document.id
            for document in self._invariants.documents
            if document.state == "paused" and self._is_parked_for_operator(document)
        ]
        dead = [document.id for document in self._invariants.documents if document.state == "dead"]
        with schedule.as_operator():
            schedule.store.resume(schedule.plan, parked, who="operator", reason="it is right")
            schedule.store.redrive(dead, who="operator", reason="once more")

    def _stop_earlier_versions(self) -> None:
        """Stop workers of earlier versions. Their results would be stale at once."""
        for process in self._schedule.machine.processes:
            if process not in self._schedule.up_to_date:
                self._schedule.budgets[process].stop("another version is deployed")

    def check_results(self) -> None:
        """Check that every document ended as its behaviour allows, and kept what an undisturbed run keeps."""
        if self._invariants.violation:
            return
        for key in self._invariants.acknowledged - {document.key for document in self._invariants.documents}:
            self._invariants.fail(f"{key} was submitted, and is not there")
        for document in self._invariants.documents:
            if document.state != "cancelled" and not (
                document.state == "dead" and self._schedule.is_incurable(document)
            ):
                for wrong in self._violations_of(document):
                    self._invariants.fail(wrong)

    def _violations_of(self, document: ObservedDocument) -> Iterator[str]:
        if document.state != "done":
            yield f"after the recovery {document.key} is {document.state}: {document}"
            return
        yield from self._invariants.version_checks.out_of_date(self._schedule.plan, document)
        for step in [step for step in self._schedule.steps if step in ("pages", *OVER, "total")]:
            yield from self._item_violations(document, step)
        for step in [step for step in self._schedule.steps if step not in GATES]:
            yield from self._row_violations(document, step)

    def _row_violations(self, document: ObservedDocument, step: str) -> Iterator[str]:
        schedule = self._schedule
        at = schedule.expected_places(document.key, document.version, step, document.pages)
        expected = [(place, f"{document.key} {document.version}") for place in at]
        if (rows := schedule.observed.rows(document.key, step)) != expected:
            yield f"{document.key} is done, and {step} has the rows {rows} of it, not {expected}"

    def _item_violations(self, document: ObservedDocument, step: str) -> Iterator[str]:
        schedule, number = self._schedule, self._schedule.plan.step_ids[step]
        kept = schedule.store.read(document.id, document.reuses.get(number, document.generation), number, -1, 1000)
        at = schedule.expected_places(document.key, document.version, step, document.pages)
        made = [[document.key, document.version, step, place] for place in at]
        if [decode_json(str(value)) for _, value in kept] != made:
            yield f"{document.key} is done, and {step} kept {kept} for it, not {made}"
        for generation in {*range(document.generation)} - {document.reuses.get(number)}:
            if schedule.store.read(document.id, generation, number, -1, 1000):
                yield f"{document.key} is done, and {step} of its generation {generation} is still there"
