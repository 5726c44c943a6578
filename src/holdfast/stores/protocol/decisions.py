"""The roles for people: decide about documents, and close batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from holdfast.core.batches import (
    DEFAULT_DEADLINE_ACTION,
    BatchReport,
    Closing,
    DeadlineAction,
    ExpiredBatch,
    Reconciliation,
)
from holdfast.core.model import (
    Plan,
)
from holdfast.core.reasons import REJECTED
from holdfast.stores.protocol.values import MAX_PER_TRANSACTION, RewindThen, UndoRows


class Decisions(Protocol):
    """Apply the decisions of people to documents. Each writes one journal entry: who, why, state before and after.

    A decision is about at most a few thousand documents, and is one transaction. It returns the ids of the documents
    that it changed, in ascending order. It leaves other documents as they are: those that do not exist, are in a state
    to which the decision does not apply, or belong to a closed batch. So it is safe to repeat a decision that was
    interrupted.

    `reason` is for people. `code` is the same for programs (see holdfast.core.reasons); it is empty for the decision of
    a person.
    """

    def resume(
        self,
        plan: Plan,
        document_ids: Sequence[int],
        *,
        who: str,
        reason: str,
        code: str = "",
        answer: Any = None,
        at: Mapping[int, int] | None = None,
    ) -> list[int]:
        """Resume paused documents. Documents that wait at a gate go on to the step after it.

        Documents at steps that the plan does not have are left as they are.

        Args:
            plan: The plan of the pipeline.
            document_ids: The documents.
            who: Who decided.
            reason: Why.
            code: The reason for programs. Empty for the decision of a person.
            answer: Any JSON for the body that paused the document. It reads it with `doc.decision()`.
            at: The number of moves that each document had when it was seen. Documents that moved since are left as
                they are.

        Returns:
            The ids of the documents that were resumed.
        """

    def reject(
        self,
        document_ids: Sequence[int],
        *,
        who: str,
        reason: str,
        code: str = REJECTED,
        at: Mapping[int, int] | None = None,
    ) -> list[int]:
        """Make paused documents dead letters.

        Args:
            document_ids: The documents.
            who: Who decided.
            reason: Why.
            code: The reason for programs.
            at: The number of moves that each document had when it was seen. Documents that moved since are left as
                they are.

        Returns:
            The ids of the documents that were rejected.
        """

    def pause(self, document_ids: Sequence[int], *, who: str, reason: str, until: datetime | None = None) -> list[int]:
        """Put waiting and running documents on hold. That costs no attempt.

        Workers that hold them can no longer write.

        Args:
            document_ids: The documents.
            who: Who decided.
            reason: Why.
            until: When they go on by themselves. Without it a person must resume them.

        Returns:
            The ids of the documents that were paused.
        """

    def cancel(self, document_ids: Sequence[int], *, who: str, reason: str, code: str = "") -> list[int]:
        """Cancel waiting, running and paused documents. Workers that hold them can no longer write.

        Args:
            document_ids: The documents.
            who: Who decided.
            reason: Why.
            code: The reason for programs. Empty for the decision of a person.

        Returns:
            The ids of the documents that were cancelled.
        """

    def withdraw(
        self, plan: Plan, document_ids: Sequence[int], *, undo: UndoRows, who: str, reason: str, code: str = ""
    ) -> list[int]:
        """Cancel documents, whatever their state, and remove what their effects wrote, in the same transaction.

        Workers that hold them can no longer write. The documents stand at the first step afterwards: they can only
        begin again, because their rows are gone. A document that was cancelled before is changed only if it still has
        rows.

        Args:
            plan: The plan of the pipeline.
            document_ids: The documents.
            undo: Removes the rows. It is called once, with the documents that are withdrawn, and only if there are
                some. It may be called again if the transaction has to be repeated. If it raises, nothing is changed.
            who: Who decided.
            reason: Why.
            code: The reason for programs. Empty for the decision of a person.

        Returns:
            The ids of the documents that were withdrawn. Afterwards no rows of steps of the plan are recorded for
            them; rows of removed steps stay recorded.
        """

    def redrive(
        self,
        document_ids: Sequence[int],
        *,
        who: str,
        reason: str,
        code: str = "",
        every: timedelta = timedelta(0),
        after: timedelta = timedelta(0),
    ) -> list[int]:
        """Try dead letters again from their checkpoints.

        Dead letters whose items were cleaned up, or whose step the pipeline no longer has, are left as they are:
        rewind them instead.

        Args:
            document_ids: The documents.
            who: Who decided.
            reason: Why.
            code: The reason for programs. Empty for the decision of a person.
            every: The time between two documents, so that they do not all start at the same moment.
            after: The time until the first document. For several calls: `every` times the number of documents that
                earlier calls have redriven.

        Returns:
            The ids of the documents that wait now.
        """

    def redrive_items(
        self, plan: Plan, items: Mapping[int, Sequence[int]], *, step: str, who: str, reason: str
    ) -> dict[int, list[int]]:
        """Let items that were set aside in a step over items be tried again, as a new generation.

        The new generation begins inside the step, with everything that the step kept: only these items are tried, and
        the other ones stay as they are. Later steps are done again, because their input changes. What a finished
        document kept is served until it is done again. Rows that the effect of the step wrote stay, and count as rows
        of the new generation.

        Left as they are: items that are not set aside now; documents that are cancelled, or paused for another reason
        than a gate or a question; documents whose items were cleaned up; and documents that were done with another
        version of the step, with other settings, or in another order of steps: rewind those to the step.

        Args:
            plan: The plan of the pipeline.
            items: The positions of the items, by the id of their document.
            step: The name of the step.
            who: Who decided.
            reason: Why.

        Returns:
            The positions of the items that will be tried again, by document.
        """

    def accept(self, document_ids: Sequence[int], *, who: str, reason: str) -> list[int]:
        """Accept dead letters. They stay dead, but their batch can be closed.

        Args:
            document_ids: The documents.
            who: Who decided.
            reason: Why.

        Returns:
            The ids of the dead letters that were accepted.
        """

    def prioritise(self, document_ids: Sequence[int], *, priority: int, who: str, reason: str) -> list[int]:
        """Change the priority of open documents and dead letters.

        Args:
            document_ids: The documents.
            priority: The new priority. Documents with a higher number are claimed first.
            who: Who decided.
            reason: Why.

        Returns:
            The ids of the documents whose priority changed.
        """

    def rewind_to(
        self,
        plan: Plan,
        document_ids: Sequence[int],
        *,
        to: str,
        who: str,
        reason: str,
        code: str = "",
        then: RewindThen = "wait",
        at: Mapping[int, int] | None = None,
    ) -> list[int]:
        """Rewind documents to a step, as a new generation, whatever their state, and also if a worker holds them.

        The output of the steps before it is reused. The step and all later ones are done again. Left as they are:
        documents that have not done all steps before it, and documents whose items were cleaned up, unless they go to
        the first step.

        Args:
            plan: The plan of the pipeline.
            document_ids: The documents.
            to: The name of the step.
            who: Who decided.
            reason: Why.
            code: The reason for programs. Empty for the decision of a person.
            then: "wait" lets the documents wait for a worker. "park" pauses them for this reason. "keep_hold" leaves
                those that are paused on their hold, with its reason and its end; the others wait.
            at: The number of moves that each document had when it was seen. Documents that moved since are left as
                they are.

        Returns:
            The ids of the documents that were rewound.
        """


class Batches(Protocol):
    """Seal, count and close batches."""

    def seal(self, pipeline: str, batch: str, *, who: str, reason: str = "", expect: int | None = None) -> bool:
        """Seal a batch: it accepts no new documents.

        Args:
            pipeline: The name of the pipeline.
            batch: The name of the batch.
            who: Who seals it.
            reason: Why.
            expect: How many documents the batch must have, if you know it from elsewhere: a list, a header, a sender.

        Returns:
            True if it was open, False if it was already sealed or closed.

        Raises:
            UnknownBatch: There is no such batch.
            SealRefused: The batch does not have the number of documents that `expect` declares. Nothing was changed.
        """

    def set_deadline(
        self,
        pipeline: str,
        batch: str,
        *,
        at: datetime | None,
        action: DeadlineAction = DEFAULT_DEADLINE_ACTION,
        who: str,
        reason: str = "",
    ) -> bool:
        """Set the deadline of a batch, or remove it. A new deadline replaces an earlier one.

        When it has passed, workers and `close` seal the batch, if it is open, and end the documents that are still
        open. So a batch can be closed although some documents never end.

        Args:
            pipeline: The name of the pipeline.
            batch: The name of the batch.
            at: The deadline, with a time zone. None removes it.
            action: "fail" makes open documents dead letters, "cancel" cancels them.
            who: Who decided.
            reason: Why.

        Returns:
            False if the batch is closed: then it is left as it is.

        Raises:
            UnknownBatch: There is no such batch.
        """

    def expire_batch(self, plan: Plan, *, who: str, limit: int = MAX_PER_TRANSACTION) -> ExpiredBatch | None:
        """End documents of a batch whose deadline has passed. Call it until it returns None.

        Workers that hold these documents can no longer write. Each document gets a journal entry with the code
        `batch_deadline`. When none is left, the batch gets one too, and documents that a person opens later are left
        alone.

        Args:
            plan: The plan of the pipeline.
            who: The name for the journal.
            limit: How many documents to end at most.

        Returns:
            The batch, and the documents that this call has ended. None if no deadline has passed.
        """

    def batch_counts(self, pipeline: str, batch: str | None = None) -> list[Reconciliation]:
        """Count the documents of batches by state and step, in one query.

        Args:
            pipeline: The name of the pipeline.
            batch: The name of one batch. All batches by default.

        Returns:
            The counts of each batch, the oldest batch first.
        """

    def missing(self, pipeline: str, batch: str) -> list[str]:
        """Return the documents that were submitted and are no longer there, although nobody cleaned them up.

        It reads the whole list of submitted keys. Call it only if the batch does not balance.

        Args:
            pipeline: The name of the pipeline.
            batch: The name of the batch.

        Returns:
            Their keys.

        Raises:
            UnknownBatch: There is no such batch.
        """

    def report(self, pipeline: str, batch: str) -> BatchReport:
        """Return the report of a batch.

        Args:
            pipeline: The name of the pipeline.
            batch: The name of the batch.

        Returns:
            The report that was filed when the batch was closed; of an open batch, a report of this moment.

        Raises:
            UnknownBatch: There is no such batch.
        """

    def close_batch(
        self, plan: Plan, batch: str, *, who: str, reason: str, tolerate: float = 0.0, closing: Plan | None = None
    ) -> Closing:
        """Close a batch, file its report, and submit the document of its closing steps, in one transaction.

        The batch must be sealed, all its documents must be there, and none may be open. Its dead letters must be
        accepted, or be no more than `tolerate` allows: then they are accepted now.

        Args:
            plan: The plan of the pipeline.
            batch: The name of the batch.
            who: Who closes it.
            reason: Why.
            tolerate: The share of the expected documents that may be dead letters which nobody accepted.
            closing: The plan of the closing steps, if there are any.

        Returns:
            The report. If the batch is already closed: the report of that time, with `is_new` False.

        Raises:
            UnknownBatch: There is no such batch.
            CloseRefused: The batch cannot be closed yet.
        """
