"""Marks of running documents, in memory that outlives the process if a file is behind it.

A mark is one number in a table: the id of a document whose body or effect runs now. The table is part of the note of
the worker, mapped into memory, so a mark costs no system call, and a killed process leaves its marks behind.
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Sequence

OOM_KILLS, TEXT_BEGINS, FAULTS_BEGIN, NOT_MARKED, COMMITTING = range(5)
"""Cells with a meaning of their own: the last count of out-of-memory kills; how long the note, and the note with the
text of faulthandler, were at the last heartbeat; how many running documents have no mark; how many documents are in the
present commit."""
BODIES = range(8, 1032)
"""Cells for bodies, one for each thread and task."""
COMMITS = range(1032, 2056)
"""Cells for the documents whose effects are committed."""
CELLS = COMMITS.stop
CELL = 8
"""Bytes in a cell."""

Cells = memoryview
"""A table of signed numbers of 64 bits."""


class RunningMarks:
    """Which documents run in this worker.

    `cells` is replaced when the worker gets a note. A thread writes only the cell that it took. `committing` and
    `committed` are called under the scheduler lock. `_free` is a thread-safe queue.
    """

    def __init__(self) -> None:
        self.cells: Cells = memoryview(bytearray(CELLS * CELL)).cast("q")
        self._free = deque(BODIES)
        self._threads: dict[int, int] = {}
        self._loop_thread = self._commit_thread = 0

    def take_cell(self) -> int:
        """Return a cell for a thread or a task. If none is left, all of them share one, which is never read."""
        try:
            return self._free.popleft()
        except IndexError:
            return NOT_MARKED

    def begin(self, cell: int, document_id: int) -> None:
        """Mark a document as running. Threads write their cell directly, which costs less."""
        if cell == NOT_MARKED:
            self.cells[NOT_MARKED] += 1
        else:
            self.cells[cell] = document_id

    def end(self, cell: int) -> None:
        """Remove the mark, and free the cell."""
        if cell == NOT_MARKED:
            self.cells[NOT_MARKED] -= 1
        else:
            self.cells[cell] = 0
            self._free.append(cell)

    def enter_thread(self) -> int:
        """Return the cell of this thread, which runs bodies from now on."""
        cell = self._threads[threading.get_ident()] = self.take_cell()
        return cell

    def leave_thread(self, cell: int) -> None:
        """Free the cell of this thread."""
        self._threads.pop(threading.get_ident(), None)
        if cell != NOT_MARKED:
            self.end(cell)

    def enter_loop_thread(self) -> None:
        """Remember that this thread runs async bodies."""
        self._loop_thread = threading.get_ident()

    def committing(self, document_ids: Sequence[int]) -> None:
        """Mark documents whose effects run now, in this thread."""
        self._commit_thread = threading.get_ident()
        kept = array("q", document_ids[: len(COMMITS)])
        self.cells[COMMITS.start : COMMITS.start + len(kept)] = memoryview(kept)
        self.cells[COMMITTING] = len(document_ids)

    def committed(self) -> None:
        """Remove the marks of the last commit."""
        self.cells[COMMITTING] = 0

    def detach(self) -> None:
        """Use a table in private memory from now on."""
        self.cells = memoryview(bytearray(CELLS * CELL)).cast("q")

    def of_this_thread(self) -> frozenset[int]:
        """Return the documents whose body or effect this thread runs."""
        me = threading.get_ident()
        if me == self._commit_thread and self.cells[COMMITTING]:
            return frozenset(self.cells[COMMITS.start : COMMITS.start + self.cells[COMMITTING]])
        if me == self._loop_thread:
            threads = {*self._threads.values()}
            return frozenset(self.cells[cell] for cell in BODIES if cell not in threads) - {0}
        return frozenset([self.cells[self._threads[me]]]) - {0} if me in self._threads else frozenset()


def running_documents(cells: Cells) -> frozenset[int] | None:
    """Return the documents that are marked in the table of a note. None if there were too many to mark."""
    if cells[NOT_MARKED] or not 0 <= cells[COMMITTING] <= len(COMMITS):
        return None
    committing = cells[COMMITS.start : COMMITS.start + cells[COMMITTING]]
    return frozenset([*cells[BODIES.start : BODIES.stop], *committing]) - {0}
