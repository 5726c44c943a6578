"""The memory store: nine roles on tables in memory."""

from __future__ import annotations

from holdfast.stores.memory.batches import Batches
from holdfast.stores.memory.causes import Causes
from holdfast.stores.memory.cleanup import Cleanup
from holdfast.stores.memory.decisions import Decisions
from holdfast.stores.memory.intake import Intake
from holdfast.stores.memory.ledger import Ledger
from holdfast.stores.memory.stories import Stories
from holdfast.stores.memory.upkeep import Upkeep
from holdfast.stores.memory.work import Work


class MemoryStore(Intake, Work, Ledger, Stories, Causes, Upkeep, Cleanup, Decisions, Batches):
    """A store in the memory of this process: for tests, trials and reading. It is gone when the process is.

    Effects write to a SQLite database in memory, and are taken back with the group they belong to.
    """
