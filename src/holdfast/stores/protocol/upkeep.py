"""What keeps a store in order: after crashes, and when there is too much in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from holdfast.core.batches import NOTHING_YET, Cleaned
from holdfast.core.model import (
    Plan,
    Standing,
)
from holdfast.core.orphans import Orphan, Strategy
from holdfast.stores.protocol.values import TOGETHER, Paces, Verdict


class Upkeep(Protocol):
    """Puts right what time and crashes left behind. Every worker repeats it."""

    def reclaim(self, plan: Plan, *, who: str, verdict: Verdict, gone: Sequence[int] = ()) -> list[Standing]:
        """Takes documents from workers that are stale or known to be gone, and from steps that are overdue."""

    def resolve_orphans(
        self, orphans: Sequence[Orphan], *, strategy: Strategy, who: str, reason: str
    ) -> list[Standing]:
        """Takes orphans that a scan found from their workers, each once. Answers those it took, the oldest first.

        One that was reclaimed or moved since, or whose silent worker was heard again, is left alone.
        """

    def wake(self, plan: Plan, *, who: str, limit: int = TOGETHER) -> int:
        """Lets paused documents wait again whose time has come, with a line in the journal. Answers how many.

        So many at once, the longest overdue first: again and again until it answers 0. Those at gates are left alone:
        somebody decides. So are those at steps that the plan lacks, which may be gates, unless they are on hold.
        """

    def set_time(self, plan: Plan, gate: str, *, within: timedelta, limit: int = TOGETHER) -> int:
        """Says until when documents at a gate are to be decided that were parked when it had no such time.

        It is `within` after they were parked. Answers how many there were, so many at once: again and again until it
        answers 0. Those that have a time keep it.
        """

    def vouch(self, at: Mapping[int, int], *, steps: Sequence[str], who: str) -> list[int]:
        """Writes into the journal that the work of these steps was found to be there. Answers for which documents.

        `at` has the moves of each document as it was asked about: one that moved since is left alone, and so is one of
        a closed batch.
        """

    def suspects_due(self, plan: Plan, *, batch: str | None = None) -> bool:
        """Answers whether a suspect is due that `claim_suspect` would give."""

    def pace(self, plan: Plan, spent: Paces) -> None:
        """Adds to the history of steps what their bodies took since the last time. A lost answer adds nothing twice."""


class Cleanup(Protocol):
    """Deletes what nobody needs any more. Each call is one short transaction, and answers how to go on."""

    def cleanup_closed(
        self, pipeline: str, batch: str, *, who: str, limit: int, so_far: Cleaned = NOTHING_YET
    ) -> Cleaned:
        """Deletes documents of a closed batch whose closing steps are done, and counts them as gone meanwhile.

        At most about `limit` rows, but at least one document with all that it has. The batch's row, report and own
        journal stay. Other batches are left alone.
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
        """Deletes what is kept for documents that ended long ago, in a batch that is not closed. Their rows stay.

        Those that are done, and never failed nor set an item aside; with errors also the others that are done, the
        cancelled, and dead letters that were accepted.
        """

    def count_closed(self, pipeline: str, batch: str) -> Cleaned:
        """Counts what `cleanup_closed` would delete, called again and again."""

    def count_finished(self, pipeline: str, batch: str, *, older: timedelta, with_errors: bool) -> Cleaned:
        """Counts what `cleanup_finished` would delete, called again and again."""

    def cleanup_blobs(self, *, limit: int, after: bytes = b"") -> tuple[int, bytes | None]:
        """Deletes big values that no item refers to, of a day ago or earlier. Answers how many, and where to go on."""

    def count_blobs(self) -> int:
        """Counts the big values that `cleanup_blobs` would delete now, called again and again."""

    def cleanup_workers(self, *, older: timedelta) -> int:
        """Forgets workers that are gone for longer, and hold nothing. Those silent for longer are given up first."""

    def count_workers(self, *, older: timedelta) -> int:
        """Counts the workers that `cleanup_workers` would forget."""
