"""Values that stores, engine and readers pass to each other. All are frozen; state is kept in the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from holdfast.core.codec import Kept, unkept
from holdfast.core.errors import CannotKeep
from holdfast.core.text_limits import MAX_NAME, MAX_REASON, MAX_TRACEBACK, shorten, too_long

State = Literal["waiting", "running", "paused", "done", "dead", "cancelled"]
STATES: tuple[State, ...] = ("waiting", "running", "paused", "done", "dead", "cancelled")
OPEN_STATES: tuple[State, ...] = ("waiting", "running", "paused")

StepKind = Literal["value", "stream", "over", "gate"]

WHOLE = -1
"""The position of a value that is not a list."""


LEAST = -(2**31)
"""The lowest priority that every database can store."""


class NewDocument(Struct, frozen=True):
    """A document to submit.

    Args:
        key: Its name within the batch. Two documents of one batch have different keys. At most 1,200 bytes.
        payload: Any JSON that bodies need. They read it as `doc.payload`.
        fingerprint: A text that changes when the content changes, such as a hash. A hash of the payload if empty. At
            most 1,200 bytes.
        priority: Documents with a higher number are claimed first.

    Raises:
        CannotKeep: The key or the fingerprint is too long or contains characters that no database stores, or the
            priority does not fit into 32 bits.

    Example:
        holdfast.NewDocument("a.pdf", {"path": "in/a.pdf"}, fingerprint=sha256_of("in/a.pdf"))
    """

    key: str
    payload: Any = None
    fingerprint: str = ""
    priority: int = 0

    def __post_init__(self) -> None:
        for text in (self.key, self.fingerprint):
            if why := unkept(text) or too_long(text):
                shown = shorten(self.key, MAX_NAME)
                raise CannotKeep(f"the document {shown!r} cannot be kept: its name or fingerprint {why}")
        if not LEAST <= self.priority <= -LEAST - 1:
            raise CannotKeep(f"the document {self.key!r} cannot be kept: its priority {self.priority} has over 32 bits")


class SubmitResult(Struct, frozen=True):
    """What a submit did.

    Attributes:
        new: How many documents were new.
        changed: How many were known and had another fingerprint. Each starts again as a new generation.
        unchanged: How many were known and left as they are.
    """

    new: int = 0
    changed: int = 0
    unchanged: int = 0

    def __add__(self, other: SubmitResult) -> SubmitResult:
        return SubmitResult(self.new + other.new, self.changed + other.changed, self.unchanged + other.unchanged)

    @property
    def total(self) -> int:
        """How many documents were submitted in all."""
        return self.new + self.changed + self.unchanged


Transition = tuple[str | None, str | None, str]
"""A change of step: from which step, to which, and the state of the document after it."""


class Plan(Struct, frozen=True):
    """A pipeline as a store knows it: the ids that it gave to the pipeline, its shape and its steps, in order.

    `kinds` are the kinds of the steps, in the same order. `removed` has the steps that the pipeline had once and has no
    more, with their ids. `transitions` has every move that is allowed, and the kind of the step in which it stays; None
    if it leaves the step. It is computed once, from the other fields.
    """

    pipeline: str
    pipeline_id: int
    plan_id: int
    step_ids: dict[str, int]
    kinds: tuple[StepKind, ...] = ()
    removed: dict[str, int] = {}
    transitions: dict[Transition, StepKind | None] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "transitions", _transitions([*zip(self.step_ids, self.kinds, strict=False)]))

    @property
    def gates(self) -> tuple[str, ...]:
        """The names of its gates, in order."""
        return tuple(step for step, kind in zip(self.step_ids, self.kinds, strict=False) if kind == "gate")

    @property
    def first(self) -> int:
        """The id of the first step."""
        return next(iter(self.step_ids.values()))

    @property
    def gate_ids(self) -> list[int]:
        """The ids of its gates."""
        return [self.step_ids[gate] for gate in self.gates]

    @property
    def body_ids(self) -> list[int]:
        """The ids of its steps that are not gates."""
        gates = self.gates
        return [number for step, number in self.step_ids.items() if step not in gates]

    @property
    def names(self) -> dict[int, str]:
        """The names of its steps, by id."""
        return {number: step for step, number in self.step_ids.items()}

    @property
    def all_names(self) -> dict[int, str]:
        """The names of all steps that the pipeline ever had, by id."""
        return self.names | {number: step for step, number in self.removed.items()}

    def claimable_ids(self, paused: Collection[str] = ()) -> list[int]:
        """Return the ids of the steps at which documents are claimed: all steps except those that are paused."""
        if not paused:
            return [*self.step_ids.values()]
        return [number for step, number in self.step_ids.items() if step not in paused]

    def before(self, step: str) -> list[str]:
        """Return the names of the steps before one."""
        names = list(self.step_ids)
        return names[: names.index(step)]


def _transitions(steps: Sequence[tuple[str, StepKind]]) -> dict[Transition, StepKind | None]:
    """Return the allowed moves: further inside a step, and to its one successor. A gate is passed by no move."""
    allowed: dict[Transition, StepKind | None] = {}
    for (step, kind), (successor, next_kind) in zip_longest(steps, steps[1:], fillvalue=(None, None)):
        if kind != "gate":
            allowed[step, successor, "done" if successor is None else "running"] = None
        if kind != "gate" and next_kind == "gate":
            allowed[step, successor, "paused"] = None
        if kind in ("stream", "over"):
            allowed[step, step, "running"] = kind
    return allowed


class Checkpoint(Struct, frozen=True, gc=False):
    """How far a document is. `step` is the next one to run, None after the last. `moves` counts its moves so far."""

    generation: int
    step: str | None
    cursor: Any
    moves: int


class Damage(Struct, frozen=True):
    """What is wrong with the row of a document, in words, and how much of it can be trusted.

    `trusted` is "earlier steps" if only the current step is damaged, "nothing" if all work must be redone.
    """

    what: str
    trusted: Literal["earlier steps", "nothing"] = "earlier steps"


class Claim(Struct, frozen=True):
    """The exclusive right to advance one document, which expires, and everything that a worker needs to do it.

    `damage` says what of the document's row cannot be read. Such a document is parked; no body is called for it.
    `losses`, `deferrals` and `interruptions` are counted since the last move, as attempts and crashes are;
    `deferred_for` is the time since the first deferral. `effects` has, by step, the generation whose effect wrote the
    rows that are there now, also for steps that were removed. It is None if nobody knows: the document was submitted to
    a holdfast that did not record it. `extents` has, by finished step, the number of positions of its items.
    `held_before` is True if a worker had the document before, since it began or was let past a gate. `totals` has, by
    step, how many items it said it will yield in all.
    """

    document_id: int
    fence: int
    batch: str
    key: str
    payload: Any
    fingerprint: str
    checkpoint: Checkpoint
    attempts: int
    crashes: int
    cursor_age: timedelta
    reuses: dict[str, int] | None = None
    damage: Damage | None = None
    losses: int = 0
    deferrals: int = 0
    deferred_for: timedelta = timedelta(0)
    interruptions: int = 0
    effects: dict[str, int] | None = None
    extents: Mapping[str, int] | None = None
    held_before: bool = False
    totals: Mapping[str, int] | None = None


class Item(Struct, frozen=True, gc=False):
    """One value that a step kept, and its position."""

    step: str
    position: int
    value: Kept


class FailedItem(Struct, frozen=True):
    """One item that failed in a step and was set aside with its error."""

    position: int
    tries: int
    error: Failure


class SetAsideItem(Struct, frozen=True):
    """One item that failed in a step over items and was set aside, and its document.

    Attributes:
        pipeline: The name of the pipeline.
        batch: The name of the batch.
        key: The key of the document.
        document_id: The id of the document.
        state: The state of the document. The item may still be tried by itself if the document is not done.
        step: The name of the step in which the item failed.
        position: The position of the item. The step over which this one works has it at the same position.
        tries: How often it was tried.
        error: The last error.
    """

    pipeline: str
    batch: str
    key: str
    document_id: int
    state: State
    step: str
    position: int
    tries: int
    error: Failure

    @property
    def id(self) -> str:
        """A text that names the item, for lists and logs: `march/a.pdf/read[3]`."""
        return f"{self.batch}/{self.key}/{self.step}[{self.position}]"


class Failure(Struct, frozen=True):
    """An error in the form in which stores keep it: its class, message and traceback. Long texts are cut.

    `recoverable` says whether it can go away by itself. None if nobody knows. `category` is the kind of problem (see
    holdfast.core.error_categories). Empty if it is not known.
    """

    kind: str
    message: str
    traceback: str = ""
    recoverable: bool | None = None
    category: str = ""

    def __post_init__(self) -> None:
        for name, limit in (("kind", MAX_NAME), ("message", MAX_REASON), ("traceback", MAX_TRACEBACK)):
            if len(text := getattr(self, name)) > limit:
                force_setattr(self, name, shorten(text, limit))

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" if self.message else self.kind


class WorkerRecord(Struct, frozen=True):
    """A registered worker. A process that is started again is another worker, with another id."""

    id: int
    name: str
    host: str
    pid: int
    born: str
    lease: timedelta
    registered_at: datetime | None = None


class Balance(Struct, frozen=True):
    """How many documents of a batch are in each state.

    No document is ever lost: expected = waiting + running + paused + done + dead + cancelled.

    Attributes:
        expected: How many documents were submitted.
        waiting: They wait for a worker, or for a retry.
        running: A worker holds them.
        paused: They wait for a person or a date.
        done: They have passed the last step.
        dead: They are dead letters: not tried again by themselves.
        cancelled: A person cancelled them.
    """

    expected: int
    waiting: int = 0
    running: int = 0
    paused: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0

    @property
    def found(self) -> int:
        """How many documents there are, in any state."""
        return self.waiting + self.running + self.paused + self.done + self.dead + self.cancelled

    @property
    def balances(self) -> bool:
        """True if all expected documents are there."""
        return self.expected == self.found

    @property
    def open(self) -> int:
        """How many documents have not ended: waiting, running or paused."""
        return self.waiting + self.running + self.paused


class Batch(Struct, frozen=True):
    """Documents that belong together."""

    pipeline: str
    name: str
    state: Literal["open", "sealed", "closed"]
    created_at: datetime
    balance: Balance
    at_step: dict[str, int]


class Gauges(Struct, frozen=True):
    """The numbers for the gauges of a pipeline, all of one moment."""

    pipeline: str
    documents: dict[tuple[State, str | None], int]
    """The number of documents, by state and step."""
    dead: dict[tuple[str, str], int]
    """The number of dead letters, by step and class of error."""
    oldest_due: timedelta | None
    """How long the longest waiting document has been due. None if none is due."""
    orphans: int
    """The number of documents whose worker is dead or silent, or whose step is overdue."""
    paused_steps: tuple[str, ...] = ()
    """The steps that are paused for all documents, because their circuits are open."""


class JournalEntry(Struct, frozen=True):
    """One entry of the journal: who did what to a document, and why.

    `code` is the reason for programs (see holdfast.core.reasons); it is empty if a person decided. A deferral that
    repeats is one entry: `at` is the first time, `last_at` the last one, and `times` counts them.
    """

    at: datetime
    verb: str
    who: str
    generation: int
    step: str | None
    cursor: Any
    detail: Any
    code: str = ""
    times: int = 1
    last_at: datetime | None = None


class Decision(Struct, frozen=True):
    """What a person decided about a paused document.

    Attributes:
        who: The person.
        reason: Why.
        answer: The answer to the question of a body that raised Pause, or any JSON that was given with the decision.
        at: When.
    """

    who: str
    reason: str
    answer: Any
    at: datetime


class Output(Struct, frozen=True):
    """What one step kept for a document: the number of items, the number set aside, and the times.

    `total` is how many items the step said it will yield in all (see `holdfast.total`). None if it did not say.
    """

    step: str
    items: int
    aside: int
    first_at: datetime | None
    last_at: datetime | None
    total: int | None = None


class ItemCounts(Struct, frozen=True):
    """How many items a step kept for some documents, and how many it set aside."""

    items: int = 0
    aside: int = 0


class DocumentStatus(Struct, frozen=True):
    """The status of one document: its state, its checkpoint, and why it is there.

    `reason` says why, for people; `code` says it for programs (see holdfast.core.reasons). `error` is the class of its
    last failure, and `recoverable` says whether that can go away by itself. `worked_by` is the last worker that held
    it. It is None before the first claim, after the document began again or was let past a gate, and when that worker
    was cleaned up. `losses`, `deferrals` and `interruptions` are counted since the last move, as attempts and crashes
    are. `waits_since` is when `due_at` was written. It is None if that is a moment that somebody gave.
    `items_total` is how many items its present step said it will yield in all. None if it did not say.
    """

    id: int
    pipeline: str
    batch: str
    key: str
    payload: Any
    fingerprint: str
    priority: int
    state: State
    checkpoint: Checkpoint
    attempts: int
    crashes: int
    reason: str
    holder: str
    submitted_at: datetime
    moved_at: datetime
    due_at: datetime | None
    error: str = ""
    accepted_by: str = ""
    claimed_at: datetime | None = None
    deadline_at: datetime | None = None
    cleaned_at: datetime | None = None
    plan_id: int = 0
    worked_by: str | None = None
    code: str = ""
    losses: int = 0
    deferrals: int = 0
    deferred_at: datetime | None = None
    interruptions: int = 0
    recoverable: bool | None = None
    waits_since: datetime | None = None
    items_total: int | None = None


class WrittenRows(Struct, frozen=True):
    """A document, and by step the generation whose effect wrote the rows that are there.

    `effects` is None if nobody knows: the document was submitted to a holdfast that did not record it. `reuses` has the
    generations whose output the document reuses.
    """

    document: DocumentStatus
    effects: dict[str, int] | None
    reuses: dict[str, int] | None


class WorkerTotals(Struct, frozen=True):
    """How many documents of all pipelines a worker finished: done, and dead letters."""

    worker: WorkerRecord
    gone: bool
    done: int
    dead: int
