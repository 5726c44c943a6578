"""What a store is: a handful of verbs in nine roles.

Intake takes documents in. Work lets workers claim, commit and give back. Ledger, Stories and Causes answer questions:
what there is, what became of it, and why. Upkeep puts right what time and crashes left behind, Cleanup makes room.
Decisions does what people decided. Batches keeps the count. Every verb is one transaction. Clocks decide liveness,
fences decide safety.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from holdfast.core.moves import Tx
from holdfast.stores.protocol.people import Batches, Decisions
from holdfast.stores.protocol.questions import Causes, Ledger, Stories
from holdfast.stores.protocol.upkeep import Cleanup, Upkeep
from holdfast.stores.protocol.values import (
    TOGETHER,
    Clock,
    Exchanged,
    Paces,
    RenameEffect,
    Scope,
    Timeouts,
    Verdict,
    Which,
)
from holdfast.stores.protocol.work import Intake, Work

__all__ = [
    "TOGETHER",
    "Batches",
    "Causes",
    "Cleanup",
    "Clock",
    "Decisions",
    "Exchanged",
    "Intake",
    "Ledger",
    "Paces",
    "RenameEffect",
    "Scope",
    "Store",
    "Stories",
    "Timeouts",
    "Upkeep",
    "Verdict",
    "Which",
    "Work",
]


class Store(Intake, Work, Ledger, Stories, Causes, Upkeep, Cleanup, Decisions, Batches, Protocol):
    """All nine roles, on one database."""

    url: str

    def now(self) -> datetime:
        """Gives the moment by the store's clock."""

    def transaction(self) -> AbstractContextManager[Tx]:
        """Gives a transaction for statements of your own: committed at the end of the block, undone by any error."""

    def reading(self) -> AbstractContextManager[Tx]:
        """Gives a transaction for statements of your own that only read, all of one moment. It waits for no writer."""

    def rest(self) -> None:
        """Lets go of connections until they are needed again, as before a fork."""

    def close(self) -> None:
        """Lets go of files and connections."""
