"""What a store is: a handful of verbs in six roles.

Intake takes documents in. Work lets workers claim, commit and give back. Ledger answers questions. Upkeep puts right
what time and crashes left behind. Decisions does what people decided. Batches keeps the count. Every verb is one
transaction. Clocks decide liveness, fences decide safety.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol, TypedDict, Unpack

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
    Worker,
)
from holdfast.core.moves import Answer, Ending, Move, Tx
from holdfast.core.plan import Shape

Clock = Callable[[], datetime]
"""Gives the present moment, with a zone. Tests move it by hand."""

Verdict = Callable[[str, int, int], tuple[State, timedelta]]
"""Judges an orphan by (step, attempts, crashes): waiting or dead, and after how long."""

Timeouts = Mapping[str, timedelta]
"""How long a document may be in a step, for the steps that say so."""

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
        """Gives the worker up to `limit` due documents, by priority, then age. Counts an attempt for each."""

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
    """Answers questions. Never changes anything."""

    def pipelines(self) -> list[str]:
        """Names the pipelines that were declared."""

    def shape(self, pipeline: str) -> Shape | None:
        """Gives the shape that was declared last."""

    def shape_of(self, plan_id: int) -> Shape | None:
        """Gives the shape that documents of this plan are pinned to."""

    def batches(self, pipeline: str) -> list[Batch]:
        """Gives the batches of a pipeline with their balances, oldest first."""

    def balance(self, pipeline: str, batch: str | None = None) -> Balance:
        """Counts the documents of a batch, or of all, by state, in one query."""

    def next_due(self, plan: Plan, *, batch: str | None = None) -> timedelta | None:
        """Answers how long until a waiting document is due (nothing or less: now); None when none waits."""

    def running(self, plan: Plan, *, batch: str | None = None) -> int:
        """Counts the documents that workers hold."""

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

    def workers(self) -> list[tuple[Worker, datetime, bool]]:
        """Gives the workers that were not retired: with their last heartbeat, and whether it is stale."""


class Upkeep(Protocol):
    """Puts right what time and crashes left behind. Every worker repeats it."""

    def reclaim(self, plan: Plan, *, who: str, verdict: Verdict, gone: Sequence[int] = ()) -> list[Standing]:
        """Takes documents from workers that are stale or known to be gone, and from steps that are overdue."""

    def wake(self, plan: Plan) -> int:
        """Lets paused documents wait again whose time has come. Those at gates are left alone: somebody decides."""

    def suspects_due(self, plan: Plan, *, batch: str | None = None) -> bool:
        """Answers whether a suspect is due that `claim_suspect` would give."""


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
        """Lets paused documents go on: past the gate if they stand at one. `answer` is what their bodies may ask for.

        Documents at steps that the plan lacks are left alone.
        """

    def reject(
        self, document_ids: Sequence[int], *, who: str, reason: str, at: Mapping[int, int] | None = None
    ) -> list[int]:
        """Makes paused documents dead letters."""

    def pause(self, document_ids: Sequence[int], *, who: str, reason: str, until: datetime | None = None) -> list[int]:
        """Parks waiting and running documents until then, or until somebody resumes them. It costs no attempt.

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

        Over many slices, `after` is `every` times the number of those that were redriven before.
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
        With `parked` they are paused with that reason; else they wait.
        """


class Batches(Protocol):
    """Keeps documents together that belong together, and counts them."""

    def seal(self, pipeline: str, batch: str) -> None:
        """Closes a batch to new documents, or raises UnknownBatch."""


class Store(Intake, Work, Ledger, Upkeep, Decisions, Batches, Protocol):
    """All six roles, on one database."""

    url: str

    def now(self) -> datetime:
        """Gives the moment by the store's clock."""

    def transaction(self) -> AbstractContextManager[Tx]:
        """Gives a transaction for statements of your own: committed at the end of the block, undone by any error."""

    def rest(self) -> None:
        """Lets go of connections until they are needed again, as before a fork."""

    def close(self) -> None:
        """Lets go of files and connections."""
