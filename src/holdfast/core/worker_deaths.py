"""What is known about the end of a worker process, and what that counts against the documents that it held."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Charge = Literal["crash", "loss", "attempt", "nothing"]
"""What is counted against an orphan.

crash    its worker died, and there is evidence that a document caused it
loss     its worker is gone, and nothing says why
attempt  its step is overdue: the attempt that was counted at the claim stays counted
nothing  its worker is gone, but neither its body nor its effect was running
"""

Evidence = Literal["", "signal", "exit", "memory"]
"""What says that code in the worker ended it.

""      nothing does: it was killed from outside, or its machine is gone
signal  a fatal signal, such as SIGSEGV
exit    os._exit in a body or an effect, or an exit in native code
memory  the system killed it because memory ran out
"""


class WorkerDeath(Struct, frozen=True, omit_defaults=True):
    """What is known about the end of a worker process.

    `sign` describes the evidence for people. `running` has the ids of the documents whose body or effect was running;
    it is None or empty if nobody knows. `traceback` is what Python could write about it.
    """

    evidence: Evidence = ""
    sign: str = ""
    running: frozenset[int] | None = None
    traceback: str = ""

    def charge(self, document_id: int) -> Charge:
        """Return what is counted against a document that the worker held.

        Without a list of running documents, all are charged: else one that kills its worker before its body begins
        would do so without end.
        """
        if self.running and document_id not in self.running:
            return "nothing"
        return "crash" if self.evidence else "loss"


UNKNOWN_DEATH = WorkerDeath()
"""Nothing is known: the process was killed from outside, or its machine is gone."""
