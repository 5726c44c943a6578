"""The roles that submit documents and let one worker at a time process each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol, Unpack

from holdfast.core.codec import Kept
from holdfast.core.integrity import KeptState, StepItems
from holdfast.core.model import (
    Claim,
    NewDocument,
    Plan,
    SubmitResult,
    WorkerRecord,
)
from holdfast.core.moves import CommitResult, Move, Release
from holdfast.core.plan import Shape
from holdfast.stores.protocol.values import ClaimChoice, Exchanged, RenameEffect, Scope


class Intake(Protocol):
    """Declare pipelines, and submit and rename documents."""

    def declare(self, shape: Shape) -> Plan:
        """Save the shape of a pipeline as its current plan.

        Dead letters that were made with the steps in another order go back to the first step, as a new generation.

        Args:
            shape: The shape, as `Pipeline.shape()` returns it.

        Returns:
            The plan, with the ids that the store gave to the pipeline and its steps.

        Raises:
            PlanRefused: Open documents are at steps that the shape does not have, or began with its steps in another
                order; or `renamed` would send documents back.
        """

    def check(self, shape: Shape) -> None:
        """Check whether `declare` would accept a shape. It changes nothing.

        Args:
            shape: The shape, as `Pipeline.shape()` returns it.

        Raises:
            PlanRefused: `declare` would raise it.
        """

    def submit(
        self, plan: Plan, batch: str, documents: Sequence[NewDocument], *, submission: int, part: int
    ) -> SubmitResult:
        """Submit one part of a submission. It is safe to repeat a part.

        A new key starts at the first step. A known key with another fingerprint starts again as a new generation. All
        other documents are left as they are. Two fingerprints `file:<size>:<time>:<hash>` with the same hash are the
        same content: in an open batch, the new one is saved, and nothing else changes.

        Args:
            plan: The plan of the pipeline.
            batch: The name of the batch. A new name makes a new batch.
            documents: The documents of this part.
            submission: A random number that all parts of one submission share.
            part: The number of this part: 0, 1, 2 ... One thread submits all parts, in this order.

        Returns:
            How many documents were new, changed and unchanged.

        Raises:
            DuplicateKey: A key is twice in this part, or was in an earlier part of this submission. Nothing of this
                part was submitted.
            BatchSealed: The batch is sealed or closed, and a document is new or changed.
            CannotKeep: A payload is not JSON, or the name of the batch cannot be stored.
        """

    def submit_on_connection(
        self, connection: Any, shape: Shape, batch: str, parts: Iterable[Sequence[NewDocument]]
    ) -> SubmitResult:
        """Submit documents in the transaction of a caller. They are there if the caller commits it.

        Nothing is committed or rolled back, but the pipeline is declared if it is not yet. An error takes back what was
        written in the transaction here, and leaves the rest of it as it was.

        Args:
            connection: A connection of the driver to the database of the store, or a Session or a Connection of
                SQLAlchemy on one. Its caller commits it.
            shape: The shape of the pipeline.
            batch: The name of the batch. A new name makes a new batch.
            parts: The documents, in parts of some hundreds.

        Returns:
            How many documents were new, changed and unchanged.

        Raises:
            DuplicateKey: A key was named twice.
            BatchSealed: The batch is sealed or closed, and a document is new or changed.
            PlanRefused: Open documents in the store cannot go on with this shape.
            CannotKeep: A payload is not JSON, or the name of the batch cannot be stored.
            HoldfastError: The connection is to another database, or has no transaction that its caller could commit.
            StoreError: The store is in no database that others can connect to.
        """

    def rename(
        self,
        pipeline: str,
        batch: str,
        documents: Mapping[str, NewDocument],
        *,
        who: str,
        reason: str,
        code: str = "",
        effect: RenameEffect | None = None,
    ) -> list[str]:
        """Give documents new keys, payloads and fingerprints, for example after files were moved.

        Everything else stays, so no work is repeated. Each gets a journal entry. A running document is taken from its
        worker, which has the old payload, and waits; that costs no attempt. Left as they are: documents that do not
        exist, those of a closed batch, and those whose new key belongs to another document or is given twice.

        Args:
            pipeline: The name of the pipeline.
            batch: The name of the batch.
            documents: The new keys and payloads, by old key.
            who: Who renames them.
            reason: Why.
            code: The reason for programs. Empty for the decision of a person.
            effect: Renames rows of other tables in the same transaction, so that no worker sees one without the other.
                It may be called again if the transaction has to be repeated.

        Returns:
            The old keys of the documents that were renamed, in the given order.
        """


class Work(Protocol):
    """Let one worker at a time process a document."""

    def register_worker(self, *, name: str, host: str, pid: int, born: str, lease: timedelta) -> WorkerRecord:
        """Register a new worker.

        Args:
            name: Its name in the journal.
            host: The machine, as `process_identity.this_host()` returns it.
            pid: Its process id.
            born: When its process started, so that a later process with the same id is not taken for it.
            lease: How long it may send no heartbeat before others take its documents.

        Returns:
            The record of the worker, with its id.
        """

    def heartbeat(self, worker: WorkerRecord) -> bool:
        """Record that a worker is alive.

        Args:
            worker: The worker.

        Returns:
            False if others took it for dead meanwhile. Then it must register again.
        """

    def retire_worker(self, worker: WorkerRecord) -> None:
        """Record that a worker has ended. Documents that it still holds wait again; that costs no attempt.

        Args:
            worker: The worker.
        """

    def claim(
        self,
        plan: Plan,
        worker: WorkerRecord,
        *,
        limit: int,
        which: ClaimChoice = "due",
        **scope: Unpack[Scope],
    ) -> list[Claim]:
        """Claim documents, by priority, then age. An attempt is counted for each.

        A document of another plan is pinned to this one if its finished steps are the same in both. Otherwise it is
        pinned to a combined plan, so that stale work is still found.

        Args:
            plan: The plan of the pipeline.
            worker: The worker.
            limit: How many to claim at most. A suspect is claimed and processed alone.
            which: `due` documents; a `suspect`, which is due and crashed its workers before; or the id of one
                document, which is claimed if it waits, even if it is not due.
            **scope: The batch, and the timeouts of the steps.

        Returns:
            The claims. Empty if there is nothing to claim, or if the worker was taken for dead.
        """

    def release_unknown(self, worker: WorkerRecord, *, keeping: Sequence[int]) -> int:
        """Release documents that are assigned to a worker and that it does not know of, after a lost reply.

        Args:
            worker: The worker.
            keeping: The ids of the documents that it knows of.

        Returns:
            How many were released. That costs no attempt.
        """

    def commit(self, plan: Plan, moves: Sequence[Move]) -> list[CommitResult]:
        """Commit moves together. Only this verb and `exchange` move checkpoints forward.

        Args:
            plan: The plan of the pipeline.
            moves: The moves, at most one for each document.

        Returns:
            For each move: Accepted; Lost if another worker holds the document, or if the document is not where the
            move starts; Refused with the error if the effect failed, or with MoveRefused if the move is neither to the
            next step nor further inside its step. Nothing of a lost or refused move is written.
        """

    def exchange(
        self, plan: Plan, moves: Sequence[Move], worker: WorkerRecord, *, limit: int, **scope: Unpack[Scope]
    ) -> Exchanged:
        """Commit moves and claim more documents: in one transaction if the database has a single writer.

        Args:
            plan: The plan of the pipeline.
            moves: The moves, as for `commit`.
            worker: The worker that claims.
            limit: How many documents to claim at most.
            **scope: The batch, and the timeouts of the steps.

        Returns:
            The results of the moves, and the claims.
        """

    def release(self, releases: Sequence[Release]) -> list[bool]:
        """Give documents back without a move: failed, put off, interrupted or paused.

        Args:
            releases: The releases.

        Returns:
            For each: False if the claim was lost. Then nothing was written.
        """

    def rewind(self, plan: Plan, claim: Claim, *, to: str, who: str, reason: str, code: str = "") -> bool:
        """Rewind a claimed document to a step, as a new generation that reuses the output of the steps before it.

        Args:
            plan: The plan of the pipeline.
            claim: The claim on the document.
            to: The name of the step.
            who: The name for the journal.
            reason: Why, for people.
            code: Why, for programs.

        Returns:
            False if the claim was lost. Then nothing was written.

        Raises:
            StoreError: The step comes after the one at which the document is.
        """

    def lost_claims(self, claims: Sequence[Claim]) -> list[int]:
        """Return which claims were lost: the document ended, was taken away, or was changed by others.

        Args:
            claims: The claims.

        Returns:
            The ids of the documents whose claims were lost.
        """

    def admit(self, plan: Plan, step: str, claims: Sequence[Claim], *, limit: int) -> list[bool]:
        """Give documents permits for a step that only a limited number of documents may be in.

        Args:
            plan: The plan of the pipeline.
            step: The name of the step.
            claims: The claims on the documents.
            limit: How many documents may be in the step at the same time, over all workers.

        Returns:
            For each claim: True if its document has a permit. A lost claim gets none, and counts for nothing.
        """

    def next_position(self, document_id: int, generation: int, step_id: int) -> int:
        """Return one more than the last position that a step kept.

        Args:
            document_id: The id of the document.
            generation: The generation.
            step_id: The id of the step.

        Returns:
            The position; 0 if the step kept no items.
        """

    def kept_state(self, plan: Plan, claims: Sequence[Claim]) -> list[KeptState]:
        """Return what is kept for documents, so that their checkpoints can be compared with it.

        Args:
            plan: The plan of the pipeline.
            claims: The claims on the documents.

        Returns:
            For each claim: the latest generation that kept anything, the extent of the current step, the plan, and
            what each step kept. The last is None for a document with very many items: see `count_kept`.
        """

    def count_kept(self, plan: Plan, claim: Claim) -> Mapping[str, StepItems]:
        """Count what each step of a document kept, however many items there are.

        Args:
            plan: The plan of the pipeline.
            claim: The claim on the document.

        Returns:
            The counts by step, each of the generation that the document uses. Steps that kept nothing are left out.
        """

    def read(
        self, document_id: int, generation: int, step_id: int, start: int, stop: int
    ) -> Sequence[tuple[int, Kept]]:
        """Return items of a step.

        Args:
            document_id: The id of the document.
            generation: The generation.
            step_id: The id of the step.
            start: The first position.
            stop: The position after the last.

        Returns:
            The positions and values with start <= position < stop, in order. A value that is not a list is at -1.
        """
