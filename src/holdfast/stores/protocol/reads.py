"""The roles that read: what there is, what happened to documents, and why they wait. None of them changes anything."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol, Unpack

from holdfast.core.codec import Kept
from holdfast.core.model import (
    Balance,
    Batch,
    DocumentStatus,
    FailedItem,
    Gauges,
    ItemCounts,
    JournalEntry,
    Output,
    Plan,
    SetAsideItem,
    State,
    WorkerRecord,
    WorkerTotals,
)
from holdfast.core.orphans import GRACE, Orphan
from holdfast.core.plan import KnownPlan, Shape
from holdfast.core.wait_causes import Cause, Holder
from holdfast.stores.protocol.values import MAX_PER_TRANSACTION, DocumentFilter, ItemFilter, ItemPlace, StepTimes


class OverviewReads(Protocol):
    """Count and list what is in the store."""

    def pipelines(self) -> list[str]:
        """Return the names of all declared pipelines.

        Returns:
            The names, in the order in which they were first declared.
        """

    def shape(self, pipeline: str) -> Shape | None:
        """Return the shape that was declared last.

        Args:
            pipeline: The name of the pipeline.

        Returns:
            The shape, or None if the pipeline is unknown.
        """

    def plan(self, pipeline: str) -> Plan | None:
        """Return the plan that was declared last, without declaring it again.

        Args:
            pipeline: The name of the pipeline.

        Returns:
            The plan, or None if the pipeline is unknown.
        """

    def plans(self, pipeline: str, *, batch: str | None = None) -> list[KnownPlan]:
        """Return every plan to which documents may be pinned, with their counts by state and step.

        It reads every document, so do not call it often.

        Args:
            pipeline: The name of the pipeline.
            batch: Count only the documents of this batch.

        Returns:
            Combined plans that nobody declared first, then the others in the order in which they were declared.
        """

    def shape_of(self, plan_id: int, *, names: Mapping[int, str] | None = None) -> Shape | None:
        """Return the shape of a plan, with the current names of its steps.

        Args:
            plan_id: The id of the plan.
            names: Other names for the steps, by id, such as those of a worker that started before steps were renamed. A
                step that is not in it gets its id as its name.

        Returns:
            The shape, or None if there is no such plan.
        """

    def batches(self, pipeline: str) -> list[Batch]:
        """Return the batches of a pipeline with their counts.

        Args:
            pipeline: The name of the pipeline.

        Returns:
            The batches, the oldest first.
        """

    def balance(self, pipeline: str, batch: str | None = None) -> Balance:
        """Count documents by state, in one query.

        Args:
            pipeline: The name of the pipeline.
            batch: The name of one batch. All batches by default.

        Returns:
            The counts. All are 0 for an unknown pipeline or batch.
        """

    def next_due(self, plan: Plan, *, batch: str | None = None, paused: Collection[str] = ()) -> timedelta | None:
        """Return how long it takes until a waiting document is due.

        Args:
            plan: The plan of the pipeline.
            batch: Look only at this batch.
            paused: Leave out documents at these steps.

        Returns:
            The time; zero or negative if a document is due now. None if no document waits.
        """

    def running(self, plan: Plan, *, batch: str | None = None) -> int:
        """Count the documents that workers hold.

        Args:
            plan: The plan of the pipeline.
            batch: Count only the documents of this batch.

        Returns:
            Their number.
        """

    def workers(self) -> list[tuple[WorkerRecord, datetime, bool]]:
        """Return the workers that have not retired.

        Returns:
            Each worker with the time of its last heartbeat, and True if that is longer ago than its lease.
        """

    def worker_totals(self, *, since: datetime) -> list[WorkerTotals]:
        """Count the documents that each worker finished.

        It reads every document, so do not call it often.

        Args:
            since: Leave out workers that were gone before this time.

        Returns:
            The counts of each worker that finished a document.
        """

    def gauges(self, pipeline: str) -> Gauges:
        """Return the numbers for the gauges of a pipeline, all of one moment.

        It reads every document, so do not call it often.

        Args:
            pipeline: The name of the pipeline.

        Returns:
            The counts of documents, dead letters and orphans, and the longest wait.
        """

    def step_times(self, pipeline: str) -> StepTimes:
        """Return how long the bodies of each step took so far.

        Args:
            pipeline: The name of the pipeline.

        Returns:
            For each step that has a history: the number of documents, and the seconds in all.
        """


class DocumentReads(Protocol):
    """Read documents: where they are, what is kept for them, and what happened to them."""

    def document(self, pipeline: str, batch: str, key: str) -> DocumentStatus:
        """Return one document.

        Args:
            pipeline: The name of the pipeline.
            batch: The name of the batch.
            key: The key of the document.

        Returns:
            Its state, checkpoint and history.

        Raises:
            UnknownDocument: There is no such document.
        """

    def documents(self, pipeline: str, *, limit: int = 100, **which: Unpack[DocumentFilter]) -> list[DocumentStatus]:
        """Return the documents that match a filter.

        Args:
            pipeline: The name of the pipeline.
            limit: How many to return at most.
            **which: The filter. See DocumentFilter.

        Returns:
            The documents, the one that moved last first.
        """

    def select(
        self, pipeline: str, *, after: int = 0, limit: int = MAX_PER_TRANSACTION, **which: Unpack[DocumentFilter]
    ) -> list[int]:
        """Return the ids of the documents that match a filter, one slice at a time.

        Args:
            pipeline: The name of the pipeline.
            after: The last id of the slice before.
            limit: How many ids to return at most.
            **which: The filter. See DocumentFilter.

        Returns:
            The ids, in ascending order.
        """

    def count(self, pipeline: str, **which: Unpack[DocumentFilter]) -> int:
        """Count the documents that match a filter.

        Args:
            pipeline: The name of the pipeline.
            **which: The filter. See DocumentFilter.

        Returns:
            Their number.
        """

    def overdue_at_gate(self, plan: Plan, gate: str, *, limit: int = MAX_PER_TRANSACTION) -> dict[int, int]:
        """Find documents that wait at a gate and whose time for a decision is over.

        Args:
            plan: The plan of the pipeline.
            gate: The name of the gate.
            limit: How many to return at most.

        Returns:
            Their ids with their numbers of moves, to be passed as `at` to a decision.
        """

    def find(self, key: str) -> list[DocumentStatus]:
        """Find documents by key, in all pipelines and batches.

        Args:
            key: The key.

        Returns:
            The documents with this key.
        """

    def documents_by_id(self, document_ids: Sequence[int]) -> list[DocumentStatus]:
        """Return documents by their ids.

        Args:
            document_ids: The ids.

        Returns:
            The documents, by id. Those that do not exist are left out.
        """

    def documents_by_key(self, pipeline: str, batch: str, keys: Sequence[str]) -> list[DocumentStatus]:
        """Return the documents of a batch that have one of these keys.

        Args:
            pipeline: The name of the pipeline.
            batch: The name of the batch.
            keys: The keys, at most a few thousand.

        Returns:
            The documents, by id. Unknown keys are left out.
        """

    def count_items(self, pipeline: str, step: str) -> dict[State, ItemCounts]:
        """Count the items that a step kept and set aside, by the state of their documents.

        The items of the current generation count, or those of the one that it reuses. An item that was set aside counts
        too, unless it is the last one. It does one lookup for each document and reads no item.

        Args:
            pipeline: The name of the pipeline.
            step: The name of the step.

        Returns:
            The numbers of items by state. States without items are left out.
        """

    def count_retries(self, pipeline: str) -> dict[State, int]:
        """Count how often the documents of a pipeline were tried again, by the state of these documents.

        That is after a failure, after their worker was lost, and when they were redriven. Only the current generation
        of a document counts. Progress does not reset the number.

        Args:
            pipeline: The name of the pipeline.

        Returns:
            The number of retries by state. States without retries are left out.
        """

    def reuses(self, document_ids: Sequence[int]) -> dict[int, dict[str, int]]:
        """Return which generation's items the steps of rewound documents reuse.

        Args:
            document_ids: The ids of documents.

        Returns:
            For each document that reuses items: the names of the steps and the generations. Others are left out.
        """

    def outputs(self, document_id: int) -> list[Output]:
        """Return how many items each step kept for a document, and when.

        Args:
            document_id: The id of the document.

        Returns:
            The outputs, in the order in which they were kept.
        """

    def items(self, document_id: int) -> Iterator[tuple[str, int, Kept]]:
        """Iterate over all items of the document's current generation.

        Args:
            document_id: The id of the document.

        Returns:
            An iterator over (step, position, value), by step and position.
        """

    def served(self, document_id: int) -> Iterator[tuple[str, int, Kept]]:
        """Iterate over the items that readers should see: those of the last generation that was done.

        While a new generation is processed, the one before it is still served.

        Args:
            document_id: The id of the document.

        Returns:
            An iterator over (step, position, value). Empty if no generation was ever done.

        Raises:
            StoreError: Another generation was finished during the iteration. Start again.
        """

    def served_generation(self, document_id: int, step: str) -> int | None:
        """Return the generation of a step's items that readers should see: the last one that was done.

        Args:
            document_id: The id of the document.
            step: The name of the step, also of one that was removed.

        Returns:
            The generation. None if no generation was ever done, if the items were cleaned up, or if there is no such
            step or document.
        """

    def failed_items(self, document_id: int) -> list[tuple[str, FailedItem]]:
        """Return the items that were set aside.

        Args:
            document_id: The id of the document.

        Returns:
            The items, each with the name of the step in which it failed.
        """

    def set_aside_items(
        self,
        pipeline: str,
        *,
        after: ItemPlace | None = None,
        limit: int = MAX_PER_TRANSACTION,
        **which: Unpack[ItemFilter],
    ) -> list[SetAsideItem]:
        """Return the items of all documents that were set aside, one slice at a time.

        Those of the current generation count, or of the one that it reuses. Items of cancelled documents are left out.

        Args:
            pipeline: The name of the pipeline.
            after: The place of the last item of the slice before.
            limit: How many to return at most.
            **which: The filter. See ItemFilter.

        Returns:
            The items, by the id of their document, the name of their step, and their position.
        """

    def journal(self, document_id: int) -> list[JournalEntry]:
        """Return the journal of a document.

        Args:
            document_id: The id of the document.

        Returns:
            The entries, the oldest first.
        """

    def batch_journal(self, pipeline: str, batch: str) -> list[JournalEntry]:
        """Return the journal of a batch itself: who sealed it, closed it and cleaned it up.

        Args:
            pipeline: The name of the pipeline.
            batch: The name of the batch.

        Returns:
            The entries, the oldest first. Those of its documents are not among them.
        """


class WaitCauses(Protocol):
    """Read why documents wait or do not move."""

    def orphans(
        self, pipeline: str, *, grace: timedelta = GRACE, batch: str | None = None, gone: Sequence[int] = ()
    ) -> list[Orphan]:
        """Find running documents that no worker seems to advance.

        A document is an orphan if one of these is longer ago than the grace: the last heartbeat of its worker, if that
        is silent or among `gone`; the deadline of its step; its last move or claim, even if its worker is alive.

        Args:
            pipeline: The name of the pipeline.
            grace: How long ago.
            batch: Look only at this batch.
            gone: The ids of workers that are known to be dead.

        Returns:
            The orphans, the oldest document first.
        """

    def holder(self, document_id: int) -> Holder | None:
        """Return the worker that holds a document.

        Args:
            document_id: The id of the document.

        Returns:
            The worker, and whether it is alive. None if no worker holds the document.
        """

    def holders(self, pipeline: str) -> list[tuple[Holder, int]]:
        """Return the workers that hold documents of a pipeline.

        Args:
            pipeline: The name of the pipeline.

        Returns:
            Each worker with the number of its documents.
        """

    def count_ahead(self, document_id: int) -> int:
        """Count the due documents that are claimed before a waiting one, by priority, then age.

        Args:
            document_id: The id of the document.

        Returns:
            Their number. 0 if the document does not wait.
        """

    def documents_in_step(self, pipeline: str, step: str) -> list[tuple[int, str]]:
        """Return the documents that have a permit for a step with a limit.

        Args:
            pipeline: The name of the pipeline.
            step: The name of the step.

        Returns:
            Their ids and keys.
        """

    def wait_causes(self, pipeline: str, *, batch: str | None = None) -> list[Cause]:
        """Count the documents that are not done by the cause for which they wait, in one query.

        Args:
            pipeline: The name of the pipeline.
            batch: Count only the documents of this batch.

        Returns:
            The causes, the most frequent first.
        """
