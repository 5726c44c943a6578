"""The memory store: four roles on tables in memory."""

from __future__ import annotations

from holdfast.stores.memory.intake import Intake
from holdfast.stores.memory.ledger import Ledger
from holdfast.stores.memory.upkeep import Upkeep
from holdfast.stores.memory.work import Work


class MemoryStore(Intake, Work, Ledger, Upkeep):
    """A store in the memory of this process: for tests, trials and reading. It is gone when the process is.

    Effects write to a SQLite database in memory, and are taken back with the group they belong to.
    """
