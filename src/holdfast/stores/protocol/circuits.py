"""The role that pauses steps while a service is away."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, Unpack

from holdfast.core.circuit import CircuitStatus
from holdfast.core.model import Claim, Failure, Plan, WorkerRecord
from holdfast.stores.protocol.values import ClaimChoice, Scope


class Circuits(Protocol):
    """Pause steps for all workers, and let one worker at a time try whether they work again."""

    def circuits(self, pipeline: str) -> list[CircuitStatus]:
        """Return the circuits of a pipeline that are open, or were open once.

        Args:
            pipeline: The name of the pipeline.

        Returns:
            The circuits, in the order in which the steps were first declared.
        """

    def open_circuit(
        self,
        plan: Plan,
        step: str,
        failure: Failure,
        *,
        failures: int,
        wait: timedelta,
        who: str,
        give_back: Sequence[tuple[Claim, int]] = (),
    ) -> bool:
        """Open the circuit of a step, and give documents back the attempts that the outage cost them.

        Args:
            plan: The plan of the pipeline.
            step: The name of the step.
            failure: The last error.
            failures: How many calls had failed in a row.
            wait: How long after now the first document may be tried.
            who: The worker that opens it.
            give_back: The last claims on documents that failed, and how many attempts each gets back. A document that
                was claimed again and moved since, or has ended, gets none.

        Returns:
            True if this call opened it. False if it was open; attempts are given back in both cases.
        """

    def claim_probe(
        self,
        plan: Plan,
        worker: WorkerRecord,
        step: str,
        *,
        wait: timedelta,
        longest: timedelta,
        which: ClaimChoice = "due",
        **scope: Unpack[Scope],
    ) -> Claim | None:
        """Claim one document at a paused step, to try whether the step works again. One worker at a time gets one.

        A document is claimed only if the time for it has come, and if no worker holds the document that was tried last.
        If that worker died, its document is reclaimed first, as always. Documents that did not fail yet come first,
        then those that were tried longest ago, whatever their priorities: a document that always fails must not be
        tried each time.

        Args:
            plan: The plan of the pipeline.
            worker: The worker.
            step: The name of the step.
            wait: How long after now the next document may be tried, if this worker dies.
            longest: The longest wait between two tries. A time that is further away is wrong: a clock was set back.
            which: A `due` document; a `suspect`; or the id of one document, which is claimed if it is due.
            **scope: The batch, and the timeouts of the steps.

        Returns:
            The claim. None if it is not the time, the circuit is closed, or no document is due at the step.
        """

    def end_probe(
        self, plan: Plan, step: str, claim: Claim, *, wait: timedelta, failure: Failure | None = None
    ) -> bool:
        """Record that a document was tried, and that the step stays paused.

        Args:
            plan: The plan of the pipeline.
            step: The name of the step.
            claim: The claim of the document that was tried.
            wait: How long after now the next one may be tried.
            failure: The error, if the service is still away. None if the document says nothing about the service.

        Returns:
            False if the circuit is closed, or another document is being tried.
        """

    def close_circuit(self, pipeline: str, step: str, *, who: str, reason: str) -> bool:
        """Close the circuit of a step: workers call the step again.

        Args:
            pipeline: The name of the pipeline.
            step: The name of the step.
            who: Who closes it.
            reason: Why.

        Returns:
            False if it was not open.
        """

    def hasten_probes(self, plan: Plan) -> int:
        """Let the next document of every open circuit be tried now. A worker that starts may have the right settings.

        Args:
            plan: The plan of the pipeline.

        Returns:
            How many circuits are open.
        """

    def works_for_others(self, plan: Plan, step: str, document_id: int) -> bool:
        """Check whether a step worked for other documents since a document first failed there because of its service.

        Args:
            plan: The plan of the pipeline.
            step: The name of the step.
            document_id: The id of the document.

        Returns:
            True if any document passed the step with a body that began after that. False if the document did not fail
            there before.
        """
