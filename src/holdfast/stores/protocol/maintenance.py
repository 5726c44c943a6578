"""The roles that keep a store in order: after crashes, and when it has grown."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from holdfast.core.batches import NOTHING_YET, Cleaned
from holdfast.core.future_times import FutureTimes
from holdfast.core.model import (
    DocumentStatus,
    Plan,
)
from holdfast.core.orphans import Orphan, Strategy
from holdfast.core.worker_deaths import WorkerDeath
from holdfast.stores.protocol.values import MAX_PER_TRANSACTION, OrphanDecision, StepTimes, Timeouts

NO_DEATHS: Mapping[int, WorkerDeath] = {}
"""Nothing is known about the end of any worker."""


class Maintenance(Protocol):
    """Repair what crashes and the passing of time leave behind. Every worker does it from time to time."""

    def reclaim(
        self,
        plan: Plan,
        *,
        who: str,
        decide: OrphanDecision,
        gone: Sequence[int] = (),
        deaths: Mapping[int, WorkerDeath] = NO_DEATHS,
    ) -> list[DocumentStatus]:
        """Take documents from dead workers, and from steps whose deadline has passed.

        A dead worker counts as a crash of its documents only if something says that one of them caused it. Else it is
        a loss. What is known is kept with the record of the worker, for the documents of other pipelines.

        Args:
            plan: The plan of the pipeline.
            who: The name for the journal.
            decide: Decides about each document by its step and counts.
            gone: The ids of workers that are known to be dead. Others count as dead when their lease is over.
            deaths: What is known about the end of workers, by id.

        Returns:
            The documents, as they are now.
        """

    def resolve_orphans(
        self,
        orphans: Sequence[Orphan],
        *,
        strategy: Strategy,
        who: str,
        reason: str,
        deaths: Mapping[int, WorkerDeath] = NO_DEATHS,
    ) -> list[DocumentStatus]:
        """Take orphans that a scan found from their workers.

        An orphan that was reclaimed or moved since the scan, or whose silent worker sent a heartbeat since, is left as
        it is.

        Args:
            orphans: The orphans that the scan found.
            strategy: Requeue them, make them dead letters, or pause them for a person.
            who: Who decided.
            reason: Why.
            deaths: What is known about the end of workers, by id.

        Returns:
            The documents that were taken, each once, the oldest first.
        """

    def wake(self, plan: Plan, *, who: str, limit: int = MAX_PER_TRANSACTION) -> int:
        """Resume paused documents whose time is over. Each gets a journal entry. Call it until it returns 0.

        Documents that wait at a gate are left as they are, because a decision is needed. So are documents at steps
        that the plan does not have, because these may be gates, unless the documents are on hold.

        Args:
            plan: The plan of the pipeline.
            who: The name for the journal.
            limit: How many documents to resume at most. Those that are overdue for the longest time come first.

        Returns:
            How many documents were resumed.
        """

    def set_gate_deadline(self, plan: Plan, gate: str, *, within: timedelta, limit: int = MAX_PER_TRANSACTION) -> int:
        """Set the deadline of documents that were parked at a gate when it had none. Call it until it returns 0.

        Documents that have a deadline keep it.

        Args:
            plan: The plan of the pipeline.
            gate: The name of the gate.
            within: How long people have to decide, counted from the moment at which a document was parked.
            limit: How many documents to change at most.

        Returns:
            How many documents got a deadline.
        """

    def future_times(self, pipeline: str) -> FutureTimes:
        """Count what was written by a clock that was ahead, and that was set back since.

        A time of writing is never in the future, unless the clock was set back. Times that are ahead by less than a
        minute do not count.

        Args:
            pipeline: The name of the pipeline.

        Returns:
            The counts for the documents and steps of the pipeline, and for all workers.
        """

    def reset_future_times(
        self, plan: Plan, *, who: str, timeouts: Timeouts, limit: int = MAX_PER_TRANSACTION
    ) -> FutureTimes:
        """Put right what `future_times` counts. Call it until it returns fewer waiting documents than `limit`.

        A document that was put off waits again for as long as was meant, counted from now, and gets a journal entry.
        Moments that somebody gave, such as the end of a pause, stay as they are. A running document has at most the
        timeout of its step left, and a worker one lease. Nobody knows any more when the steps worked last.

        Args:
            plan: The plan of the pipeline.
            who: The name for the journal.
            timeouts: How long a document may be in the steps that have a timeout.
            limit: How many waiting and paused documents to change at most.

        Returns:
            How much was put right.
        """

    def record_verified(self, at: Mapping[int, int], *, steps: Sequence[str], who: str) -> list[int]:
        """Write to the journal that the work of these steps was checked and is there.

        Args:
            at: The ids of the documents, with the number of moves that each had when it was checked. Documents that
                moved since, and those of a closed batch, are left as they are.
            steps: The names of the steps.
            who: The name for the journal.

        Returns:
            The ids of the documents that got an entry.
        """

    def suspects_due(self, plan: Plan, *, batch: str | None = None, paused: Collection[str] = ()) -> bool:
        """Check whether a suspect can be claimed now.

        Args:
            plan: The plan of the pipeline.
            batch: Check only this batch.
            paused: Leave out documents at these steps.

        Returns:
            True if a suspect is due.
        """

    def begin_scan(self, plan: Plan, *, every: timedelta) -> bool:
        """Decide which worker scans a pipeline: one of all, once in each interval.

        Args:
            plan: The plan of the pipeline.
            every: The interval.

        Returns:
            True for the caller that has to scan now. Others get False until the interval is over.
        """

    def add_step_times(self, plan: Plan, spent: StepTimes, *, worked: Mapping[str, datetime] | None = None) -> None:
        """Add to the history of steps how long their bodies took. A call that is repeated adds nothing twice.

        Args:
            plan: The plan of the pipeline.
            spent: The documents and seconds of each step since the last call.
            worked: When the body began with which a document passed each step last, by the clock of the store. For a
                step that is not named: just now.
        """

    def record_rows_left(self, plan: Plan, step: str) -> bool:
        """Record that the effect of a step left rows of an earlier generation behind, so that people are told once.

        Args:
            plan: The plan of the pipeline.
            step: The name of the step. It may be one that was removed.

        Returns:
            True the first time, for each step of a store.
        """


class Cleanup(Protocol):
    """Delete what is no longer needed. Each call is one short transaction."""

    def cleanup_closed(
        self, pipeline: str, batch: str, *, who: str, limit: int, so_far: Cleaned = NOTHING_YET
    ) -> Cleaned:
        """Delete documents of a closed batch whose closing steps have ended.

        Deleted documents are still counted, as gone. The row, the report and the journal of the batch itself stay.
        Nothing is deleted of a batch that is not closed.

        Args:
            pipeline: The name of the pipeline.
            batch: The name of the batch.
            who: The name for the journal.
            limit: About how many rows to delete; at least one document with all that it has.
            so_far: The result of the call before.

        Returns:
            What was deleted in all calls. Call it again until `goes_on_at` is None.
        """

    def cleanup_finished(
        self,
        pipeline: str,
        batch: str,
        *,
        who: str,
        older: timedelta,
        with_errors: bool,
        limit: int,
        so_far: Cleaned = NOTHING_YET,
    ) -> Cleaned:
        """Delete the items of documents that ended long ago, in a batch that is not closed. Their rows stay.

        Args:
            pipeline: The name of the pipeline.
            batch: The name of the batch.
            who: The name for the journal.
            older: How long ago a document must have ended.
            with_errors: False: only documents that are done, never failed and set no item aside. True: also all other
                done documents, cancelled ones, and accepted dead letters.
            limit: About how many rows to delete; at least one document with all that it has.
            so_far: The result of the call before.

        Returns:
            What was deleted in all calls. Call it again until `goes_on_at` is None.
        """

    def count_closed(self, pipeline: str, batch: str) -> Cleaned:
        """Count what all calls of `cleanup_closed` would delete.

        Args:
            pipeline: The name of the pipeline.
            batch: The name of the batch.

        Returns:
            The counts.
        """

    def count_finished(self, pipeline: str, batch: str, *, older: timedelta, with_errors: bool) -> Cleaned:
        """Count what all calls of `cleanup_finished` would delete.

        Args:
            pipeline: The name of the pipeline.
            batch: The name of the batch.
            older: How long ago a document must have ended.
            with_errors: As for `cleanup_finished`.

        Returns:
            The counts.
        """

    def cleanup_blobs(self, *, limit: int, after: bytes = b"") -> tuple[int, bytes | None]:
        """Delete big values that no item refers to and that are at least a day old.

        Args:
            limit: How many values to look at.
            after: Where to go on: the second result of the call before.

        Returns:
            How many were deleted, and where to go on; None if all were looked at.
        """

    def count_blobs(self) -> int:
        """Count the big values that all calls of `cleanup_blobs` would delete now.

        Returns:
            Their number.
        """

    def cleanup_workers(self, *, older: timedelta) -> int:
        """Delete the records of dead workers that hold no document. Mark long-silent workers as dead.

        Args:
            older: How long a worker must have been dead, or silent beyond its lease.

        Returns:
            How many records were deleted.
        """

    def count_workers(self, *, older: timedelta) -> int:
        """Count the worker records that `cleanup_workers` would delete.

        Args:
            older: How long a worker must have been dead.

        Returns:
            Their number.
        """
