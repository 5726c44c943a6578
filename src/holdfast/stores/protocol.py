"""What a store is: a handful of verbs in nine roles.

Intake takes documents in. Work lets workers claim, commit and give back. Ledger, Stories and Causes answer questions:
what there is, what became of it, and why. Upkeep puts right what time and crashes left behind, Cleanup makes room.
Decisions does what people decided. Batches keeps the count. Every verb is one transaction. Clocks decide liveness,
fences decide safety.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol, TypedDict, Unpack

from holdfast.core.batches import NOTHING_YET, BatchReport, Cleaned, Closing, Reconciliation
from holdfast.core.causes import Cause, Holder
from holdfast.core.codec import Kept
from holdfast.core.integrity import Traces
from holdfast.core.model import (
    Aside,
    Balance,
    Batch,
    Claim,
    Entry,
    NewDocument,
    Output,
    Plan,
    Receipt,
    Standing,
    State,
    Survey,
    Worker,
)
from holdfast.core.moves import Answer, Ending, Move, Tx
from holdfast.core.orphans import GRACE, Orphan, Strategy
from holdfast.core.pins import KnownPlan
from holdfast.core.plan import Shape

Clock = Callable[[], datetime]
"""Gives the present moment, with a zone. Tests move it by hand."""

Verdict = Callable[[str, int, int], tuple[State, timedelta]]
"""Judges an orphan by (step, attempts, crashes): waiting, dead or paused, and after how long it is due."""

Timeouts = Mapping[str, timedelta]
"""How long a document may be in a step, for the steps that say so."""

Paces = Mapping[str, tuple[int, float]]
"""For each step: how many documents went past it, and how many seconds its bodies took for that."""

Exchanged = tuple[list[Answer], list[Claim]]
"""What came of the moves that were handed in, and the claims that were given for them."""


class Scope(TypedDict, total=False):
    """Which documents are claimed, and how long they may be in their steps. Without either: all, for ever."""

    batch: str | None
    timeouts: Timeouts


class Which(TypedDict, total=False):
    """Which documents of a pipeline are meant: those to which all of it applies. What is not said, or None, is open.

    batch     of this batch
    key       of this key; with * (anything) or ? (any one character) in it, of all keys like it
    state     in this state
    step      that stand at this step
    error     whose last failure was of this class
    text      with this in their reason, in capitals or not
    idle      that moved last longer ago than this
    accepted  dead letters that somebody accepted (True), or documents that nobody did (False)
    plan      pinned to the plan with this number
    """

    batch: str | None
    key: str | None
    state: State | None
    step: str | None
    error: str | None
    text: str | None
    idle: timedelta | None
    accepted: bool | None
    plan: int | None


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
        """Answers which of these documents may enter a step that only `limit` documents may be in at once."""

    def extent(self, document_id: int, generation: int, step_id: int) -> int:
        """Answers one past the last position that a step kept; 0 when it kept no items."""

    def traces(self, plan: Plan, claims: Sequence[Claim]) -> list[Traces]:
        """Finds what is kept for documents, whatever their checkpoints say: what those are compared with."""

    def read(
        self, document_id: int, generation: int, step_id: int, start: int, stop: int
    ) -> Sequence[tuple[int, Kept]]:
        """Gives the items of a step with start <= position < stop, in order."""


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


class Upkeep(Protocol):
    """Puts right what time and crashes left behind. Every worker repeats it."""

    def reclaim(self, plan: Plan, *, who: str, verdict: Verdict, gone: Sequence[int] = ()) -> list[Standing]:
        """Takes documents from workers that are stale or known to be gone, and from steps that are overdue."""

    def resolve_orphans(
        self, orphans: Sequence[Orphan], *, strategy: Strategy, who: str, reason: str
    ) -> list[Standing]:
        """Takes orphans that a scan found from their workers, each once. Answers those it took, the oldest first.

        One that was reclaimed or moved since, or whose silent worker was heard again, is left alone.
        """

    def wake(self, plan: Plan) -> int:
        """Lets paused documents wait again whose time has come. Those at gates are left alone: somebody decides."""

    def vouch(self, at: Mapping[int, int], *, steps: Sequence[str], who: str) -> list[int]:
        """Writes into the journal that the work of these steps was found to be there. Answers for which documents.

        `at` has the moves of each document as it was asked about: one that moved since is left alone, and so is one of
        a closed batch.
        """

    def suspects_due(self, plan: Plan, *, batch: str | None = None) -> bool:
        """Answers whether a suspect is due that `claim_suspect` would give."""

    def pace(self, plan: Plan, spent: Paces) -> None:
        """Adds to the history of steps what their bodies took since the last time. A lost answer adds nothing twice."""


class Cleanup(Protocol):
    """Deletes what nobody needs any more. Each call is one short transaction, and answers how to go on."""

    def cleanup_closed(
        self, pipeline: str, batch: str, *, who: str, limit: int, so_far: Cleaned = NOTHING_YET
    ) -> Cleaned:
        """Deletes documents of a closed batch whose closing steps are done, and counts them as gone meanwhile.

        At most about `limit` rows, but at least one document with all that it has. The batch's row, report and own
        journal stay. Other batches are left alone.
        """

    def cleanup_finished(
        self,
        pipeline: str,
        batch: str,
        *,
        who: str,
        older: timedelta,
        with_errors: bool,
        limit: int,
        so_far: Cleaned = NOTHING_YET,
    ) -> Cleaned:
        """Deletes what is kept for documents that ended long ago, in a batch that is not closed. Their rows stay.

        Those that are done, and never failed nor set an item aside; with errors also the others that are done, the
        cancelled, and dead letters that were accepted.
        """

    def count_closed(self, pipeline: str, batch: str) -> Cleaned:
        """Counts what `cleanup_closed` would delete, called again and again."""

    def count_finished(self, pipeline: str, batch: str, *, older: timedelta, with_errors: bool) -> Cleaned:
        """Counts what `cleanup_finished` would delete, called again and again."""

    def cleanup_blobs(self, *, limit: int, after: bytes = b"") -> tuple[int, bytes | None]:
        """Deletes big values that no item refers to, of a day ago or earlier. Answers how many, and where to go on."""

    def count_blobs(self) -> int:
        """Counts the big values that `cleanup_blobs` would delete now, called again and again."""

    def cleanup_workers(self, *, older: timedelta) -> int:
        """Forgets workers that are gone for longer, and hold nothing. Those silent for longer are given up first."""

    def count_workers(self, *, older: timedelta) -> int:
        """Counts the workers that `cleanup_workers` would forget."""


class Decisions(Protocol):
    """Does to documents what somebody decided. Each is one line in the journal: who, why, before and after.

    A decision is about a slice of documents, a few thousand at most, and is one transaction. It answers the numbers of
    those that it changed, ascending. The others are left alone: they do not exist, were not in a state to which the
    decision applies, or belong to a closed batch. So a decision that was cut short, or made twice, is made again.
    `at` names the moves at which documents were seen: one that was decided or moved since is left alone, too.
    """

    def resume(
        self,
        plan: Plan,
        document_ids: Sequence[int],
        *,
        who: str,
        reason: str,
        answer: Any = None,
        at: Mapping[int, int] | None = None,
    ) -> list[int]:
        """Lets paused documents go on: past the gate if they are parked at one. `answer` is what bodies may ask for.

        Documents at steps that the plan lacks are left alone.
        """

    def reject(
        self, document_ids: Sequence[int], *, who: str, reason: str, at: Mapping[int, int] | None = None
    ) -> list[int]:
        """Makes paused documents dead letters."""

    def pause(self, document_ids: Sequence[int], *, who: str, reason: str, until: datetime | None = None) -> list[int]:
        """Puts waiting and running documents on hold until then, or until somebody resumes them. It costs no attempt.

        Workers that hold them cannot write any more.
        """

    def cancel(self, document_ids: Sequence[int], *, who: str, reason: str) -> list[int]:
        """Ends open documents for good. Workers that hold them cannot write any more."""

    def redrive(
        self,
        document_ids: Sequence[int],
        *,
        who: str,
        reason: str,
        every: timedelta = timedelta(0),
        after: timedelta = timedelta(0),
    ) -> list[int]:
        """Lets dead letters be tried again from their checkpoints: the first after a while, the next `every` so long.

        Over many slices, `after` is `every` times the number of those that were redriven before. Those whose items
        were cleaned up, and those at a step that the pipeline no longer has, are left alone: they can be rewound.
        """

    def accept(self, document_ids: Sequence[int], *, who: str, reason: str) -> list[int]:
        """Accepts dead letters by name: they stay dead, and no longer keep their batch from being closed."""

    def prioritise(self, document_ids: Sequence[int], *, priority: int, who: str, reason: str) -> list[int]:
        """Gives documents that are open or dead another priority: the highest is claimed first."""

    def rewind_to(
        self,
        plan: Plan,
        document_ids: Sequence[int],
        *,
        to: str,
        who: str,
        reason: str,
        parked: str = "",
        at: Mapping[int, int] | None = None,
    ) -> list[int]:
        """Sets documents back to a step, whatever their state and whoever holds them, as a new generation.

        What the steps before it kept is reused, all later work is done anew. Documents that did not do all of the
        steps before it are left alone, and so are those whose items were cleaned up, unless they go to the first step.
        With `parked` they are paused with that reason; else they wait. One that was paused for that reason before
        stays on the same hold: with its error, and until the same time.
        """


class Batches(Protocol):
    """Keeps documents together that belong together, and counts them."""

    def seal(self, pipeline: str, batch: str, *, who: str, reason: str = "") -> bool:
        """Closes a batch to new documents, or raises UnknownBatch. Answers False when it was sealed before."""

    def census(self, pipeline: str, batch: str | None = None) -> list[Reconciliation]:
        """Counts where the documents of one batch, or of each, are, in one query. Oldest batch first."""

    def missing(self, pipeline: str, batch: str) -> list[str]:
        """Names the documents that were taken in and are not there any more, though nobody cleaned them up.

        It walks the whole manifest: ask when the batch does not balance.
        """

    def report(self, pipeline: str, batch: str) -> BatchReport:
        """Gives the report that a closed batch left; of another, one of this moment. Raises UnknownBatch."""

    def close_batch(
        self, plan: Plan, batch: str, *, who: str, reason: str, tolerate: float = 0.0, closing: Plan | None = None
    ) -> Closing:
        """Closes a batch for good, files its report, and begins its closing steps; or raises CloseRefused.

        It has to be sealed, to balance, and to have nothing open; its dead letters have to be accepted by name, or to
        be no more than the share `tolerate` of what it expects, which accepts them. All of it is one transaction. A
        batch that is closed already answers the report it left.
        """


class Store(Intake, Work, Ledger, Stories, Causes, Upkeep, Cleanup, Decisions, Batches, Protocol):
    """All nine roles, on one database."""

    url: str

    def now(self) -> datetime:
        """Gives the moment by the store's clock."""

    def transaction(self) -> AbstractContextManager[Tx]:
        """Gives a transaction for statements of your own: committed at the end of the block, undone by any error."""

    def rest(self) -> None:
        """Lets go of connections until they are needed again, as before a fork."""

    def close(self) -> None:
        """Lets go of files and connections."""
