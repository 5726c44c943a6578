"""What people do: decide about documents, and close batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from holdfast.core.batches import BatchReport, Closing, Reconciliation
from holdfast.core.model import (
    Plan,
)


class Decisions(Protocol):
    """Does to documents what somebody decided. Each is one line in the journal: who, why, before and after.

    A decision is about a slice of documents, a few thousand at most, and is one transaction. It answers the numbers of
    those that it changed, ascending. The others are left alone: they do not exist, were not in a state to which the
    decision applies, or belong to a closed batch. So a decision that was cut short, or made twice, is made again.
    `at` names the moves at which documents were seen: one that was decided or moved since is left alone, too.
    """

    def resume(
        self,
        plan: Plan,
        document_ids: Sequence[int],
        *,
        who: str,
        reason: str,
        answer: Any = None,
        at: Mapping[int, int] | None = None,
    ) -> list[int]:
        """Lets paused documents go on: past the gate if they are parked at one. `answer` is what bodies may ask for.

        Documents at steps that the plan lacks are left alone.
        """

    def reject(
        self, document_ids: Sequence[int], *, who: str, reason: str, at: Mapping[int, int] | None = None
    ) -> list[int]:
        """Makes paused documents dead letters."""

    def pause(self, document_ids: Sequence[int], *, who: str, reason: str, until: datetime | None = None) -> list[int]:
        """Puts waiting and running documents on hold until then, or until somebody resumes them. It costs no attempt.

        Workers that hold them cannot write any more.
        """

    def cancel(self, document_ids: Sequence[int], *, who: str, reason: str) -> list[int]:
        """Ends open documents for good. Workers that hold them cannot write any more."""

    def redrive(
        self,
        document_ids: Sequence[int],
        *,
        who: str,
        reason: str,
        every: timedelta = timedelta(0),
        after: timedelta = timedelta(0),
    ) -> list[int]:
        """Lets dead letters be tried again from their checkpoints: the first after a while, the next `every` so long.

        Over many slices, `after` is `every` times the number of those that were redriven before. Those whose items
        were cleaned up, and those at a step that the pipeline no longer has, are left alone: they can be rewound.
        """

    def accept(self, document_ids: Sequence[int], *, who: str, reason: str) -> list[int]:
        """Accepts dead letters by name: they stay dead, and no longer keep their batch from being closed."""

    def prioritise(self, document_ids: Sequence[int], *, priority: int, who: str, reason: str) -> list[int]:
        """Gives documents that are open or dead another priority: the highest is claimed first."""

    def rewind_to(
        self,
        plan: Plan,
        document_ids: Sequence[int],
        *,
        to: str,
        who: str,
        reason: str,
        parked: str = "",
        at: Mapping[int, int] | None = None,
    ) -> list[int]:
        """Sets documents back to a step, whatever their state and whoever holds them, as a new generation.

        What the steps before it kept is reused, all later work is done anew. Documents that did not do all of the
        steps before it are left alone, and so are those whose items were cleaned up, unless they go to the first step.
        With `parked` they are paused with that reason; else they wait. One that was paused for that reason before
        stays on the same hold: with its error, and until the same time.
        """


class Batches(Protocol):
    """Keeps documents together that belong together, and counts them."""

    def seal(self, pipeline: str, batch: str, *, who: str, reason: str = "") -> bool:
        """Closes a batch to new documents, or raises UnknownBatch. Answers False when it was sealed before."""

    def census(self, pipeline: str, batch: str | None = None) -> list[Reconciliation]:
        """Counts where the documents of one batch, or of each, are, in one query. Oldest batch first."""

    def missing(self, pipeline: str, batch: str) -> list[str]:
        """Names the documents that were taken in and are not there any more, though nobody cleaned them up.

        It walks the whole manifest: ask when the batch does not balance.
        """

    def report(self, pipeline: str, batch: str) -> BatchReport:
        """Gives the report that a closed batch left; of another, one of this moment. Raises UnknownBatch."""

    def close_batch(
        self, plan: Plan, batch: str, *, who: str, reason: str, tolerate: float = 0.0, closing: Plan | None = None
    ) -> Closing:
        """Closes a batch for good, files its report, and begins its closing steps; or raises CloseRefused.

        It has to be sealed, to balance, and to have nothing open; its dead letters have to be accepted by name, or to
        be no more than the share `tolerate` of what it expects, which accepts them. All of it is one transaction. A
        batch that is closed already answers the report it left.
        """
