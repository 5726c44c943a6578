"""The store protocol: what a database must do for holdfast, as verbs in ten roles.

- Intake declares pipelines and submits documents.
- Work lets workers claim documents, commit moves and give documents back.
- Circuits pauses steps for all workers while a service is away.
- OverviewReads, DocumentReads and WaitCauses read: what there is, what happened to a document, and why it waits.
- Maintenance repairs what crashes left behind. Cleanup deletes what is no longer needed.
- Decisions applies the decisions of people. Batches seals, counts and closes batches.

Every verb is one transaction. Every verb may raise StoreError: StoreGone if the database does not answer, StoreFull if
its disk is full, StoreReadOnly if it cannot be written, SchemaNewer if a newer holdfast has upgraded it meanwhile. The
verbs name only their other errors.

Clocks decide only whether a worker counts as alive. Fences decide who may write.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Protocol

from holdfast.core.moves import Tx
from holdfast.stores.protocol.circuits import Circuits
from holdfast.stores.protocol.decisions import Batches, Decisions
from holdfast.stores.protocol.maintenance import NO_DEATHS, Cleanup, Maintenance
from holdfast.stores.protocol.reads import DocumentReads, OverviewReads, WaitCauses
from holdfast.stores.protocol.values import (
    MAX_PER_TRANSACTION,
    ClaimChoice,
    Clock,
    DocumentFilter,
    Exchanged,
    ItemFilter,
    ItemPlace,
    OrphanCounts,
    OrphanDecision,
    OrphanVerdict,
    RenameEffect,
    RewindThen,
    Scope,
    StepTimes,
    Timeouts,
    UndoRows,
)
from holdfast.stores.protocol.work import Intake, Work

__all__ = [
    "MAX_PER_TRANSACTION",
    "NO_DEATHS",
    "Batches",
    "Circuits",
    "ClaimChoice",
    "Cleanup",
    "Clock",
    "Decisions",
    "DocumentFilter",
    "DocumentReads",
    "Exchanged",
    "Intake",
    "ItemFilter",
    "ItemPlace",
    "Maintenance",
    "OrphanCounts",
    "OrphanDecision",
    "OrphanVerdict",
    "OverviewReads",
    "RenameEffect",
    "RewindThen",
    "Scope",
    "StepTimes",
    "Store",
    "Timeouts",
    "UndoRows",
    "WaitCauses",
    "Work",
]


class Store(
    Intake,
    Work,
    Circuits,
    OverviewReads,
    DocumentReads,
    WaitCauses,
    Maintenance,
    Cleanup,
    Decisions,
    Batches,
    Protocol,
):
    """A database with all ten roles. `holdfast.open` returns one.

    Attributes:
        url: The URL that it was opened with, without a password.
        shared_folder: The beginning of the name of folders beside the database, for files that the workers of one user
            share. None: such files are in the temporary folder of the machine.
    """

    url: str
    shared_folder: Path | None

    def now(self) -> datetime:
        """Return the time of the store's clock.

        Returns:
            The time, in UTC.
        """

    def transaction(self) -> AbstractContextManager[Tx]:
        """Start a transaction for your own statements.

        It is committed at the end of the `with` block, and rolled back after any error.

        Returns:
            A context manager that yields the transaction.

        Example:
            with store.transaction() as tx:
                tx.execute("delete from vector where document = ?", ("a.pdf",))
        """

    def reading(self) -> AbstractContextManager[Tx]:
        """Start a transaction for your own statements that only read. It waits for no writer.

        All statements see the database as it was at one moment.

        Returns:
            A context manager that yields the transaction.

        Example:
            with store.reading() as tx:
                (count,) = tx.execute("select count(*) from vector").fetchone()
        """

    def disconnect(self) -> None:
        """Close all connections, for example before a fork. The next verb opens new ones."""

    def close(self) -> None:
        """Close files and connections. Verbs raise StoreGone afterwards."""
