"""What can be asked of a store: what there is, what became of it, and why. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Protocol, Unpack

from holdfast.core.causes import Cause, Holder
from holdfast.core.codec import Kept
from holdfast.core.model import (
    Aside,
    Balance,
    Batch,
    Entry,
    Output,
    Plan,
    Standing,
    Survey,
    Worked,
    Worker,
)
from holdfast.core.orphans import GRACE, Orphan
from holdfast.core.pins import KnownPlan
from holdfast.core.plan import Shape
from holdfast.stores.protocol.values import Paces, Which


class Ledger(Protocol):
    """Tells what there is, and counts it. Never changes anything."""

    def pipelines(self) -> list[str]:
        """Names the pipelines that were declared."""

    def shape(self, pipeline: str) -> Shape | None:
        """Gives the shape that was declared last."""

    def plan(self, pipeline: str) -> Plan | None:
        """Gives the plan that was declared last, without declaring it again."""

    def plans(self, pipeline: str, *, batch: str | None = None) -> list[KnownPlan]:
        """Gives every plan that documents may be pinned to, with how many are, of a batch or of all, by state and step.

        It looks at every document: ask now and then. First come those that nobody declared, then as they were declared.
        """

    def shape_of(self, plan_id: int) -> Shape | None:
        """Gives the shape that documents of this plan are pinned to, with its steps under their present names."""

    def batches(self, pipeline: str) -> list[Batch]:
        """Gives the batches of a pipeline with their balances, oldest first."""

    def balance(self, pipeline: str, batch: str | None = None) -> Balance:
        """Counts the documents of a batch, or of all, by state, in one query."""

    def next_due(self, plan: Plan, *, batch: str | None = None) -> timedelta | None:
        """Answers how long until a waiting document is due (nothing or less: now); None when none waits."""

    def running(self, plan: Plan, *, batch: str | None = None) -> int:
        """Counts the documents that workers hold."""

    def workers(self) -> list[tuple[Worker, datetime, bool]]:
        """Gives the workers that were not retired: with their last heartbeat, and whether it is stale."""

    def by_worker(self, *, since: datetime) -> list[Worked]:
        """Counts what workers brought to an end, of those that did not leave and those that are gone since then.

        Workers that ended nothing are left out. It looks at every document: ask now and then.
        """

    def survey(self, pipeline: str) -> Survey:
        """Counts what gauges show of a pipeline, at one moment. It looks at every document: ask now and then."""

    def paces(self, pipeline: str) -> Paces:
        """Tells how long the bodies of each step took so far, for the steps that have a history."""


class Stories(Protocol):
    """Tells of documents: where they stand, what is kept for them, what happened. Never changes anything."""

    def standing(self, pipeline: str, batch: str, key: str) -> Standing:
        """Tells where one document stands, or raises UnknownDocument."""

    def standings(self, pipeline: str, *, limit: int = 100, **which: Unpack[Which]) -> list[Standing]:
        """Tells where documents stand, the last moved first."""

    def select(self, pipeline: str, *, after: int = 0, limit: int = 2000, **which: Unpack[Which]) -> list[int]:
        """Gives the numbers of documents, ascending, beginning after one: slice after slice for a decision."""

    def count(self, pipeline: str, **which: Unpack[Which]) -> int:
        """Counts documents, as before a decision about them."""

    def undecided(self, plan: Plan, gate: str, *, limit: int = 2000) -> dict[int, int]:
        """Finds documents at a gate whose time to be decided is over, with their moves: what `at` of a decision is."""

    def find(self, key: str) -> list[Standing]:
        """Finds documents by key, in all pipelines and batches."""

    def look(self, document_ids: Sequence[int]) -> list[Standing]:
        """Tells where these documents stand, by their numbers; those that are not there are left out."""

    def reuses(self, document_ids: Sequence[int]) -> dict[int, dict[str, int]]:
        """Tells, of documents that were rewound, which generation's items serve which step. Others are left out."""

    def outputs(self, document_id: int) -> list[Output]:
        """Tells what each step kept for a document."""

    def items(self, document_id: int) -> Iterator[tuple[str, int, Kept]]:
        """Walks all that is kept for a document's present generation, by step and position."""

    def served(self, document_id: int) -> Iterator[tuple[str, int, Kept]]:
        """Walks what readers should see: the last generation that was complete, also while a new one is under way.

        Nothing when none ever was. Raises StoreError when a new one was completed during the walk: walk again.
        """

    def asides(self, document_id: int) -> list[tuple[str, Aside]]:
        """Gives the items that were set aside, with the step that could not do them."""

    def journal(self, document_id: int) -> list[Entry]:
        """Gives a document's journal, oldest first."""

    def batch_journal(self, pipeline: str, batch: str) -> list[Entry]:
        """Gives a batch's own journal, oldest first: who sealed, closed and cleaned it up. None of its documents'."""


class Causes(Protocol):
    """Tells why documents are where they are. Never changes anything."""

    def orphans(
        self, pipeline: str, *, grace: timedelta = GRACE, batch: str | None = None, gone: Sequence[int] = ()
    ) -> list[Orphan]:
        """Finds running documents whose last sign of life is longer ago than the grace, the oldest first.

        Signs of life are the heartbeat of a worker that is silent, or among `gone`; the deadline of the step; and the
        last move or claim, though the worker lives.
        """

    def holder(self, document_id: int) -> Holder | None:
        """Tells who holds a document, and whether that worker lives. None when nobody does."""

    def holders(self, pipeline: str) -> list[tuple[Holder, int]]:
        """Tells which workers hold documents of a pipeline, and how many."""

    def ahead(self, document_id: int) -> int:
        """Counts the due documents that are claimed before a waiting one: by priority, then age."""

    def inside(self, pipeline: str, step: str) -> list[tuple[int, str]]:
        """Gives number and key of the documents that were let into a step that only so many may be in."""

    def causes(self, pipeline: str, *, batch: str | None = None) -> list[Cause]:
        """Counts the documents that are not done by what keeps them, the most first. One query."""
