"""The memory store: ten roles on tables in memory."""

from __future__ import annotations

from holdfast.stores.memory.batches import Batches
from holdfast.stores.memory.circuits import Circuits
from holdfast.stores.memory.cleanup import Cleanup
from holdfast.stores.memory.decisions import Decisions
from holdfast.stores.memory.documents import DocumentReads
from holdfast.stores.memory.intake import Intake
from holdfast.stores.memory.maintenance import Maintenance
from holdfast.stores.memory.overview import OverviewReads, WaitCauses


class MemoryStore(Intake, Circuits, OverviewReads, DocumentReads, WaitCauses, Maintenance, Cleanup, Decisions, Batches):
    """A store in the memory of this process, for tests and trials. It is gone when the process ends.

    Effects write to a SQLite database in memory. They are rolled back together with the moves they belong to.
    """
