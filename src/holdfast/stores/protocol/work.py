"""Documents are taken in, and one worker at a time advances each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol, Unpack

from holdfast.core.codec import Kept
from holdfast.core.integrity import Traces
from holdfast.core.model import (
    Claim,
    NewDocument,
    Plan,
    Receipt,
    Worker,
)
from holdfast.core.moves import Answer, Ending, Move
from holdfast.core.plan import Shape
from holdfast.stores.protocol.values import Exchanged, RenameEffect, Scope


class Intake(Protocol):
    """Takes documents in."""

    def declare(self, shape: Shape) -> Plan:
        """Makes the pipeline known. Raises PlanRefused when it cannot take over the documents of an earlier shape.

        That is when open documents stand at steps it lacks, or were begun with its steps in another order, or when
        `renamed` would send documents back. Dead letters of another order go back to the start, as a new generation.
        """

    def check(self, shape: Shape) -> None:
        """Judges a pipeline as `declare` does, with the same PlanRefused, and changes nothing."""

    def submit(
        self, plan: Plan, batch: str, documents: Sequence[NewDocument], *, submission: int, part: int
    ) -> Receipt:
        """Takes one slice of a submit in: new keys begin, changed fingerprints open a new generation, the rest stays.

        Raises DuplicateKey, and takes nothing of the slice in, when a key is named twice in it, or was named by an
        earlier part of this submission, which one thread sends. Repeating a part changes nothing.
        """

    def rename(
        self,
        pipeline: str,
        batch: str,
        documents: Mapping[str, NewDocument],
        *,
        who: str,
        reason: str,
        effect: RenameEffect | None = None,
    ) -> list[str]:
        """Lets documents go on under other keys, as when files were moved: by old key, the new one with its payload.

        Key, payload and fingerprint are replaced. All else stays, so nothing is done again; but one that is running is
        taken from its worker, which has the old payload, and waits: that costs nothing. Each is one line in the
        journal. Answers the old keys of those that were renamed, in the order given. Left alone are documents that are
        not there, those of a closed batch, and those whose new key another has and keeps, or gets by this call.

        `effect` is handed the transaction and those old keys: what is kept elsewhere by a key changes with it, and no
        worker meets the one without the other. It may be called again, where the transaction has to be.
        """


class Work(Protocol):
    """Lets one worker at a time advance a document."""

    def enlist(self, *, name: str, host: str, pid: int, born: str, lease: timedelta) -> Worker:
        """Makes a new incarnation of a worker known."""

    def beat(self, worker: Worker) -> bool:
        """Says that the worker lives. Answers False when it was given up meanwhile and must enlist anew."""

    def retire(self, worker: Worker) -> None:
        """Lets a worker leave: what it still holds waits again, and costs nothing."""

    def claim(self, plan: Plan, worker: Worker, *, limit: int, **scope: Unpack[Scope]) -> list[Claim]:
        """Gives the worker up to `limit` due documents, by priority, then age. Counts an attempt for each.

        A document that comes from another plan is pinned to this one if nothing behind it differs, otherwise to a plan
        that says what it is really done under: stale work stays stale.
        """

    def claim_suspect(self, plan: Plan, worker: Worker, **scope: Unpack[Scope]) -> list[Claim]:
        """Gives the worker one due document that crashed its workers before, to be worked on alone."""

    def claim_this(self, plan: Plan, worker: Worker, document_id: int) -> list[Claim]:
        """Gives the worker this one document if it waits, whether it is due or not, without a deadline."""

    def surrender(self, worker: Worker, *, keeping: Sequence[int]) -> int:
        """Lets go of what the worker holds by the books but not in hand, as after a lost answer to a claim."""

    def commit(self, plan: Plan, moves: Sequence[Move]) -> list[Answer]:
        """Makes the moves durable together and answers for each. The one door through which checkpoints move."""

    def exchange(
        self, plan: Plan, moves: Sequence[Move], worker: Worker, *, limit: int, **scope: Unpack[Scope]
    ) -> Exchanged:
        """Commits moves and claims more documents: in one transaction, where writers wait for each other."""

    def give_back(self, endings: Sequence[Ending]) -> list[bool]:
        """Ends claims without a move: failed, put off, interrupted, paused. Answers False for claims that were lost."""

    def rewind(self, plan: Plan, claim: Claim, *, to: str, who: str, reason: str) -> bool:
        """Sets a held document back to a step, as a new generation that reuses what earlier steps kept.

        Raises StoreError when the step is later than the one at which the document stands.
        """

    def lost(self, claims: Sequence[Claim]) -> list[int]:
        """Answers which of these documents are no longer the claimant's: ended, taken away, or begun anew by others."""

    def admit(self, plan: Plan, step: str, claims: Sequence[Claim], *, limit: int) -> list[bool]:
        """Answers which of these documents may enter a step that only `limit` documents may be in at once.

        A claim that was lost is not admitted, and takes no place.
        """

    def extent(self, document_id: int, generation: int, step_id: int) -> int:
        """Answers one past the last position that a step kept; 0 when it kept no items."""

    def traces(self, plan: Plan, claims: Sequence[Claim]) -> list[Traces]:
        """Finds what is kept for documents, whatever their checkpoints say: what those are compared with."""

    def read(
        self, document_id: int, generation: int, step_id: int, start: int, stop: int
    ) -> Sequence[tuple[int, Kept]]:
        """Gives the items of a step with start <= position < stop, in order."""
